/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/exec-output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "pool/bubble.h"
#include "pool/exec.h"

static int open_null(const struct exec_options *options, int *ret_fd, struct error *err)
{
	*ret_fd = fcntl(bubble_null_fd(options->bubble), F_DUPFD_CLOEXEC, 0);
	return *ret_fd < 0 ? error_errno(err, errno, "cannot open /dev/null for a command") : 0;
}

int exec_output_open(struct exec_output *output, const struct exec_options *options,
	struct spool *spool, int *ret_fd, struct error *err)
{
	int r;

	if (!spool)
		return open_null(options, ret_fd, err);
	r = spool_open_pipe(spool, options->uid, options->gid, ret_fd, err);
	if (r == 0)
		output->spool = spool_ref(spool);
	return r;
}

void exec_output_open_silent(struct exec_output *output, struct spool *spool)
{
	output->spool = spool ? spool_ref(spool) : NULL;
}

int exec_output_watch(struct exec_output *output, struct error *err)
{
	if (!output->spool)
		return 0;
	spool_listen(output->spool, &output->listener);
	return spool_pipe_closed(output->spool) ? 0 : spool_start(output->spool, err);
}

bool exec_output_closed(const struct exec_output *output)
{
	return !output->spool || spool_pipe_closed(output->spool);
}

void exec_output_read(const struct exec_output *output)
{
	if (output->spool)
		spool_read_now(output->spool);
}

void exec_output_say(const struct exec_output *output, const char *line)
{
	if (!output->spool)
		return;
	spool_read_now(output->spool);
	spool_put(output->spool, line, strlen(line));
	spool_put(output->spool, "\n", 1);
}

void exec_output_finish(const struct exec_output *output)
{
	if (output->spool)
		spool_finish(output->spool);
}

void exec_output_forget(struct exec_output *output)
{
	if (!output->spool)
		return;
	spool_ignore(&output->listener);
	spool_finish(output->spool);
	spool_close_pipe(output->spool);
	spool_unref(take_ptr(&output->spool));
}
