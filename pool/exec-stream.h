/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * exec-stream.h: the daemon's ends of a command's three pipes. For exec.c alone. Threads: loop.
 */
#ifndef POOL_EXEC_STREAM_H
#define POOL_EXEC_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop.h"

struct error;
struct strbuf;

struct exec_stream_options {
	struct loop *loop;
	uid_t uid; /* owner of the pipes */
	gid_t gid;
	uint64_t keep;    /* bytes of an output that are kept */
	uint64_t *budget; /* bytes that all outputs which share it may still keep */
	int null_fd;      /* /dev/null, to write; borrowed */
	loop_fn *changed; /* something was read, or the output was closed */
	void *data;
};

/* What the command reads. */
struct exec_input {
	int fd; /* -1: closed */
	struct loop_watch *watch;
	char *bytes;
	size_t size, at;
};

/* Bytes are copied; NULL: the command's end is /dev/null. *ret_fd is the command's end. */
int exec_input_open(struct exec_input *in, const struct exec_stream_options *options,
	const char *bytes, size_t size, int *ret_fd, struct error *err);
/* Harmless twice, and on a zeroed one whose fd is -1. */
void exec_input_close(struct exec_input *in);

/* What the command writes: the head goes to `into`, the rest is counted. */
struct exec_output {
	int fd; /* -1: closed by all writers */
	struct loop_watch *watch;
	struct strbuf *into; /* NULL after exec_output_finish() */
	uint64_t keep, total;
	uint64_t *budget;
	uint64_t kept; /* bytes of the budget that it uses */
	uint64_t late; /* bytes that came after exec_output_finish() */
	int null_fd;
	loop_fn *changed;
	void *data;
};

/* Nothing is read before exec_output_watch(). */
int exec_output_open(struct exec_output *out, const struct exec_stream_options *options,
	struct strbuf *into, int *ret_fd, struct error *err);
int exec_output_watch(struct exec_output *out, struct loop *loop, struct error *err);
void exec_output_close(struct exec_output *out);
bool exec_output_closed(const struct exec_output *out);
/* Lets its writer wait, or go on. */
void exec_output_pause(struct exec_output *out, bool pause);
/* Reads what is there now, within reason: a writer may be faster than we. Does not run changed().
 */
void exec_output_read(struct exec_output *out);
/* Reads what is in the pipe at this moment; whatever comes later is counted and dropped. */
void exec_output_finish(struct exec_output *out);

#endif
