/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * exec-tty.h: a command's terminal: a pty whose master only the daemon has. For exec.c alone.
 *
 * What the command writes goes on into a pipe, as if it had been written there. The pty is of the
 * host's devpts, so that nothing inside can reach it but by the command's own descriptors; it has
 * no name inside (ttyname(3) fails), but is the controlling terminal, /dev/tty. Threads: loop.
 */
#ifndef POOL_EXEC_TTY_H
#define POOL_EXEC_TTY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop.h"

struct error;
struct exec_tty;

struct exec_tty_options {
	struct loop *loop;
	uint16_t rows, cols;
	uid_t uid; /* whose it is */
	gid_t gid;
	int output_fd;  /* the pipe's writing end; a copy is made */
	loop_fn *ready; /* after a feed that gave -EAGAIN: try again, or it was closed */
	void *data;
};

/* fds are the command's three descriptors, all its end of the pty; the caller's, on failure too. */
int exec_tty_open(const struct exec_tty_options *options, struct exec_tty **ret_tty, int fds[3],
	struct error *err);
/* Passes on what its processes have written so far, at most 64 KiB: the reader of the pipe need not
 * have kept up. Whoever waits to feed it is told when nobody has the other end any more. Accepts
 * NULL. */
void exec_tty_drain(struct exec_tty *tty);
/* Hangs up. Tells nobody. Accepts NULL. */
void exec_tty_close(struct exec_tty *tty);
/* As exec_feed(). */
ssize_t exec_tty_feed(struct exec_tty *tty, const void *bytes, size_t size);
/* As if somebody had typed ^D. */
void exec_tty_feed_end(struct exec_tty *tty);
int exec_tty_resize(struct exec_tty *tty, uint16_t rows, uint16_t cols, struct error *err);

#endif
