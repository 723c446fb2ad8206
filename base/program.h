/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * program.h: starts a program without copying this process, which may be large. It begins with no
 * signal blocked. Threads: any.
 */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

#include <stddef.h>
#include <sys/types.h>

enum spawn_flag {
	SPAWN_SESSION = 1,        /* a session of its own */
	SPAWN_GROUP = 2,          /* a process group of its own */
	SPAWN_DEFAULT_SIGNALS = 4 /* also those that this process ignores */
};

struct spawn_fd {
	int from, to;
};

struct spawn {
	const char *program; /* without a slash: looked for in PATH */
	char *const *argv, *const *environment;
	const struct spawn_fd *fds; /* one after another: no `from` may be an earlier `to` */
	size_t fd_count;
	int close_from; /* nothing is open from this number on; 0: what is not close-on-exec is */
	unsigned flags;
};

/* -errno: it was not started. */
int spawn_program(const struct spawn *spawn, pid_t *ret_pid);

#endif
