/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * exec-result.h: what is told of a command's end. For exec.c alone. Threads: any.
 */
#ifndef POOL_EXEC_RESULT_H
#define POOL_EXEC_RESULT_H

#include <stdbool.h>

#include "base/reason.h"

struct bubble_exec_end;
struct command_result;

/* It never ran; within bubble_exec_hooks::ended(), while the step's name is valid. */
void exec_result_set_start_failure(struct command_result *result, const struct bubble_exec_end *end,
	const char *cwd, const char *program);
/* It ran. done: its leader was reaped; else it could not be killed, and counts as if it had been.
 */
void exec_result_set_end(
	struct command_result *result, const struct bubble_exec_end *end, bool done);
/* After the end: why it was killed, and whether something of it may live on. */
void exec_result_set_kill(struct command_result *result, enum reason why, bool incomplete);
/* What became of it will never be known. */
void exec_result_set_loss(struct command_result *result, bool started, enum reason reason);

#endif
