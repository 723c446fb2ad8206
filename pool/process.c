/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/cleanup.h"

/* The name in parentheses may hold blanks and parentheses: fields are counted from the last one. */
static uint64_t field_22(const char *stat)
{
	const char *at = strrchr(stat, ')');

	for (unsigned field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

uint64_t process_starttime(pid_t pid)
{
	CLEANUP(closep) int fd = -1;
	char path[64], text[1024];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	return field_22(text);
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
