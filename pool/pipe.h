/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pipe.h: a pipe between us and a command. Threads: any.
 */
#ifndef POOL_PIPE_H
#define POOL_PIPE_H

#include <sys/types.h>

struct error;

enum {
	PIPE_READER = 0,
	PIPE_WRITER = 1,
};

/* Our end, one of the above, is non-blocking, and the other is not. Both belong to uid and gid, so
 * that /dev/stdin and /dev/stdout can be opened inside. */
int command_pipe_open(uid_t uid, gid_t gid, int ours, int ret_fds[2], struct error *err);

#endif
