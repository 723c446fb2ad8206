/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tools/probe.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/program.h"
#include "base/strbuf.h"

struct probe {
	char *mountpoint;
	pid_t pid; /* 0: it has been reaped */
	int pidfd;
	struct loop_watch *watch;
	probe_done_fn *done;
	void *data;
};

static void reap(struct probe *probe, int *ret_status)
{
	while (waitpid(probe->pid, ret_status, 0) < 0 && errno == EINTR)
		;
	probe->pid = 0;
}

static void handle_exit(void *data, unsigned events)
{
	struct probe *probe = data;
	struct error why = ERROR_NONE;
	int status = 0, r = 0;

	(void)events;
	loop_watch_stop(take_ptr(&probe->watch));
	reap(probe, &status);
	if (!WIFEXITED(status))
		r = error_set(&why, EIO, "trying the mount at '%s' was ended by signal %d",
			probe->mountpoint, WTERMSIG(status));
	else if (WEXITSTATUS(status) != 0)
		r = error_errno(&why, WEXITSTATUS(status), "the mount at '%s' does not answer",
			probe->mountpoint);
	probe->done(probe->data, r, &why);
}

static int spawn(const char *mountpoint, pid_t *ret_pid)
{
	static char name[] = "dressagefs";
	CLEANUP(strbuf_fini) struct strbuf option = STRBUF_INIT;
	char *words[] = {name, NULL, NULL}, *environment[] = {NULL};
	const struct spawn how = {
		.program = "/proc/self/exe", .argv = words, .environment = environment};

	strbuf_addf(&option, "--probe=%s", mountpoint);
	if (strbuf_failed(&option))
		return -ENOMEM;
	words[1] = option.data;
	return spawn_program(&how, ret_pid);
}

int probe_start(struct loop *loop, const char *mountpoint, probe_done_fn *done, void *data,
	struct probe **ret_probe, struct error *err)
{
	struct probe *probe = calloc(1, sizeof(*probe));
	int r;

	if (!probe)
		return error_set(err, ENOMEM, "no memory to try the mount");
	*probe = (struct probe){
		.mountpoint = strdup(mountpoint), .pidfd = -1, .done = done, .data = data};
	r = probe->mountpoint ? spawn(mountpoint, &probe->pid) : -ENOMEM;
	if (r == 0) {
		probe->pidfd = pidfd_open(probe->pid, 0);
		r = probe->pidfd < 0 ? -errno : 0;
	}
	if (r < 0)
		r = error_errno(err, -r, "cannot try the mount");
	else
		r = loop_watch_start(
			loop, probe->pidfd, LOOP_READABLE, handle_exit, probe, &probe->watch, err);
	if (r < 0) {
		probe_destroy(probe);
		return r;
	}
	*ret_probe = probe;
	return 0;
}

void probe_destroy(struct probe *probe)
{
	int status;

	if (!probe)
		return;
	loop_watch_stop(probe->watch);
	if (probe->pid > 0) {
		(void)kill(probe->pid, SIGKILL);
		reap(probe, &status);
	}
	closep(&probe->pidfd);
	free(probe->mountpoint);
	free(probe);
}

int probe_mount(const char *mountpoint)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;
	struct stat st;

	strbuf_addf(&path, "%s/status.json", mountpoint);
	return stat(path.data, &st) == 0 ? 0 : errno;
}
