/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "base/strbuf.h"
#include "pool/cgroup.h"

enum {
	PASSES_MAX =
		4,   /* a child whose fork was ending when all was frozen shows in the next one */
	BATCH = 128, /* descriptors at a time */
};

struct pids {
	pid_t *at; /* ascending */
	size_t count;
};

static void pids_fini(struct pids *pids)
{
	free(pids->at);
}

static int compare(const void *a, const void *b)
{
	pid_t left = *(const pid_t *)a, right = *(const pid_t *)b;

	return (left > right) - (left < right);
}

static bool has(const struct pids *pids, pid_t pid)
{
	return pids->count > 0 &&
	       bsearch(&pid, pids->at, pids->count, sizeof(*pids->at), compare) != NULL;
}

/* A line a process. */
static int parse(const struct strbuf *text, struct pids *ret_pids)
{
	const char *at = text->data;
	struct pids pids = {.at = calloc(text->size / 2 + 1, sizeof(*pids.at))};
	char *end;

	if (!pids.at)
		return -ENOMEM;
	for (pid_t pid; (pid = (pid_t)strtol(at, &end, 10)), end != at; at = end)
		if (pid > 0) /* 0: in no namespace of ours */
			pids.at[pids.count++] = pid;
	qsort(pids.at, pids.count, sizeof(*pids.at), compare);
	*ret_pids = pids;
	return 0;
}

static int read_pids(int dir_fd, struct pids *ret_pids)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	CLEANUP(closep) int fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : read_all(fd, &text);

	return r < 0 ? r : parse(&text, ret_pids);
}

/* Who is still in the cgroup after its descriptor was opened is the one that the descriptor means,
 * whoever had the number before. */
static int signal_batch(int dir_fd, const pid_t *targets, size_t count, int signal)
{
	CLEANUP(pids_fini) struct pids now = {0};
	int fds[BATCH];
	int r;

	for (size_t i = 0; i < count; i++)
		fds[i] = pidfd_open(targets[i], 0);
	r = read_pids(dir_fd, &now);
	for (size_t i = 0; i < count; i++) {
		if (r == 0 && fds[i] >= 0 && has(&now, targets[i]))
			(void)pidfd_send_signal(fds[i], signal, NULL, 0);
		closep(&fds[i]);
	}
	return r;
}

static int signal_all(int dir_fd, const struct pids *targets, int signal)
{
	int r = 0;

	for (size_t at = 0; at < targets->count && r == 0; at += BATCH) {
		size_t left = targets->count - at;

		r = signal_batch(dir_fd, targets->at + at, left < BATCH ? left : BATCH, signal);
	}
	return r;
}

/* Whoever is there now, without those who were there before. */
static int read_new(
	int dir_fd, const struct pids *before, struct pids *ret_now, struct pids *ret_new)
{
	int r = read_pids(dir_fd, ret_now);

	if (r < 0)
		return r;
	ret_new->at = calloc(ret_now->count + 1, sizeof(*ret_new->at));
	if (!ret_new->at)
		return -ENOMEM;
	for (size_t i = 0; i < ret_now->count; i++)
		if (!has(before, ret_now->at[i]))
			ret_new->at[ret_new->count++] = ret_now->at[i];
	return 0;
}

/* Each gets it once. */
static int signal_frozen(int dir_fd, int signal)
{
	CLEANUP(pids_fini) struct pids before = {0};
	int r = 0;

	for (unsigned pass = 0; pass < PASSES_MAX && r == 0; pass++) {
		CLEANUP(pids_fini) struct pids newcomers = {0};
		struct pids now = {0};

		r = read_new(dir_fd, &before, &now, &newcomers);
		pids_fini(&before);
		before = now;
		if (r < 0 || newcomers.count == 0)
			return r;
		r = signal_all(dir_fd, &newcomers, signal);
	}
	return r;
}

int command_cgroup_signal(struct command_cgroup *cgroup, int signal, struct error *err)
{
	int dir_fd = command_cgroup_fd(cgroup);
	int r = cgroup_write_at(dir_fd, "cgroup.freeze", "1"), thawed;

	if (r < 0)
		return error_errno(err, -r, "cannot freeze a command's cgroup");
	r = signal_frozen(dir_fd, signal);
	thawed = cgroup_write_at(dir_fd, "cgroup.freeze", "0");
	if (r == 0)
		r = thawed;
	return r < 0 ? error_errno(err, -r, "cannot signal a command's cgroup") : 0;
}
