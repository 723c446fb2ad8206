/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/exec-input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "pool/pipe.h"

static void tell_ready(struct exec_input *in)
{
	if (!in->wanted)
		return;
	in->wanted = false;
	in->ready(in->data);
}

void exec_input_close(struct exec_input *in)
{
	loop_watch_stop(take_ptr(&in->watch));
	closep(&in->fd);
	in->fd = -1;
	free(take_ptr(&in->bytes));
	tell_ready(in);
}

/* EPIPE is fine: a command need not read its input. False: it takes no more now. */
static bool write_rest(struct exec_input *in)
{
	while (in->bytes && in->at < in->size) {
		ssize_t n = write(in->fd, in->bytes + in->at, in->size - in->at);

		if (n < 0 && errno == EAGAIN)
			return false;
		if (n < 0) {
			exec_input_close(in);
			return false;
		}
		in->at += (size_t)n;
	}
	free(take_ptr(&in->bytes));
	if (!in->stays)
		exec_input_close(in);
	return in->stays;
}

static void handle_writable(void *data, unsigned events)
{
	struct exec_input *in = data;

	(void)events;
	if (!write_rest(in))
		return;
	loop_watch_events(in->watch, 0);
	tell_ready(in);
}

static int begin(struct exec_input *in, const struct exec_input_options *options, struct error *err)
{
	in->stays = options->stays;
	in->ready = options->ready;
	in->data = options->data;
	if (options->bytes) {
		in->bytes = malloc(options->size ? options->size : 1);
		if (!in->bytes)
			return error_set(err, ENOMEM, "no memory for a command's input");
		memcpy(in->bytes, options->bytes, options->size);
		in->size = options->size;
	}
	(void)write_rest(in);
	if (in->fd < 0)
		return 0;
	return loop_watch_start(options->loop, in->fd, in->bytes ? LOOP_WRITABLE : 0,
		handle_writable, in, &in->watch, err);
}

static int open_null(int *ret_fd, struct error *err)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return error_errno(err, errno, "cannot open /dev/null");
	*ret_fd = fd;
	return 0;
}

int exec_input_open(struct exec_input *in, const struct exec_input_options *options, int *ret_fd,
	struct error *err)
{
	int fds[2];
	int r;

	if (!options->bytes && !options->stays)
		return open_null(ret_fd, err);
	r = command_pipe_open(options->uid, options->gid, PIPE_WRITER, fds, err);
	if (r < 0)
		return r;
	in->fd = fds[1];
	r = begin(in, options, err);
	if (r < 0) {
		(void)close(fds[0]);
		exec_input_close(in);
		return r;
	}
	*ret_fd = fds[0];
	return 0;
}

static ssize_t would_block(struct exec_input *in)
{
	in->wanted = true;
	loop_watch_events(in->watch, LOOP_WRITABLE);
	return -EAGAIN;
}

ssize_t exec_input_feed(struct exec_input *in, const void *bytes, size_t size)
{
	ssize_t n;
	int code;

	if (in->fd < 0 || !in->stays)
		return -EPIPE;
	if (in->bytes)
		return would_block(in);
	n = write(in->fd, bytes, size);
	if (n >= 0)
		return n;
	code = errno;
	if (code == EAGAIN)
		return would_block(in);
	exec_input_close(in);
	return -code;
}

void exec_input_end(struct exec_input *in)
{
	in->stays = false;
	if (in->fd >= 0 && !in->bytes)
		exec_input_close(in);
}
