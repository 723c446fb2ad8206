/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * exec-output.h: a command's side of one of its two spools. For exec.c alone. Threads: loop.
 */
#ifndef POOL_EXEC_OUTPUT_H
#define POOL_EXEC_OUTPUT_H

#include <stdbool.h>

#include "pool/spool.h"

struct error;
struct exec_options;

struct exec_output {
	struct spool *spool; /* NULL: what it writes goes nowhere */
	struct spool_listener listener;
};

/* *ret_fd is the command's end. The listener is the caller's to fill, before it watches. */
int exec_output_open(struct exec_output *output, const struct exec_options *options,
	struct spool *spool, int *ret_fd, struct error *err);
/* Nothing but what is said comes to it. The same. */
void exec_output_open_silent(struct exec_output *output, struct spool *spool);
int exec_output_watch(struct exec_output *output, struct error *err);
bool exec_output_closed(const struct exec_output *output);
/* Reads what is there now, if that is little. Tells nobody. */
void exec_output_read(const struct exec_output *output);
/* A line of our own. */
void exec_output_say(const struct exec_output *output, const char *line);
/* The command has ended: whatever comes from now on is late. */
void exec_output_finish(const struct exec_output *output);
/* The same, and nobody reads it any more. Harmless twice. */
void exec_output_forget(struct exec_output *output);

#endif
