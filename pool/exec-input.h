/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * exec-input.h: the daemon's end of what a command reads. For exec.c alone. Threads: loop.
 */
#ifndef POOL_EXEC_INPUT_H
#define POOL_EXEC_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop.h"

struct error;

/* What the command reads. */
struct exec_input {
	int fd; /* -1: closed */
	struct loop_watch *watch;
	char *bytes; /* still to be written; NULL: none */
	size_t size, at;
	bool stays;     /* open behind these bytes: it is fed */
	bool wanted;    /* somebody wants to feed it, and could not */
	loop_fn *ready; /* they can now, or it was closed */
	void *data;
};

struct exec_input_options {
	struct loop *loop;
	uid_t uid; /* owner of the pipe */
	gid_t gid;
	const char *bytes; /* copied; NULL: none */
	size_t size;
	bool stays; /* without it and bytes, the command's end is /dev/null */
	loop_fn *ready;
	void *data;
};

/* *ret_fd is the command's end. */
int exec_input_open(struct exec_input *in, const struct exec_input_options *options, int *ret_fd,
	struct error *err);
/* As exec_feed() and exec_feed_end(). */
ssize_t exec_input_feed(struct exec_input *in, const void *bytes, size_t size);
void exec_input_end(struct exec_input *in);
/* Harmless twice, and on a zeroed one whose fd is -1. Who waits to feed it is told. */
void exec_input_close(struct exec_input *in);

#endif
