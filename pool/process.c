/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/procfs.h"
#include "base/strbuf.h"

enum { STAT_STARTTIME = 22 }; /* as proc(5) numbers it */

uint64_t process_starttime(pid_t pid)
{
	CLEANUP(strbuf_fini) struct strbuf stat = STRBUF_INIT;
	const char *field;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (read_text(path, &stat) < 0)
		return 0;
	field = procfs_stat_field(stat.data, STAT_STARTTIME);
	return field ? strtoull(field, NULL, 10) : 0;
}

int process_kill(pid_t pid, uint64_t starttime, uint64_t deadline_ms)
{
	CLEANUP(closep) int fd = pidfd_open(pid, 0);
	struct pollfd end = {.fd = fd, .events = POLLIN};

	if (fd < 0)
		return errno == ESRCH ? 0 : -errno;
	if (process_starttime(pid) != starttime) /* looked at after the pidfd was opened: no race */
		return 0;
	if (pidfd_send_signal(fd, SIGKILL, NULL, 0) < 0 && errno != ESRCH)
		return -errno;
	return poll(&end, 1, (int)deadline_ms) == 1 ? 0 : -ETIMEDOUT;
}

static void reap_work(void *data)
{
	const pid_t *group = data;
	siginfo_t info;

	while (waitid(P_PGID, (id_t)*group, &info, WEXITED) == 0)
		;
}

void process_discard_group(struct loop *loop, pid_t group)
{
	pid_t *kept = malloc(sizeof(*kept));

	(void)kill(-group, SIGKILL);
	if (!kept)
		return;
	*kept = group;
	if (loop_work(loop, reap_work, free, kept, NULL) < 0)
		free(kept);
}
