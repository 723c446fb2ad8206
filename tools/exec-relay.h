/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * exec-relay.h: stands between this program's descriptors and a command's files in exec/, so that
 * the command seems to run here. Threads: none.
 */
#ifndef TOOLS_EXEC_RELAY_H
#define TOOLS_EXEC_RELAY_H

#include <stdbool.h>
#include <stdint.h>

struct error;
struct strbuf;
struct terminal;

struct relay_options {
	const char *path; /* of the command's directory */
	struct terminal
		*terminal; /* the command has one, and is to have this one's keys; or NULL */
	bool input;        /* pass standard input; else the command has none */
	bool output;       /* show both streams as they come; else only wait for the end */
};

struct relay_result {
	uint64_t out, err; /* bytes that were given on */
	int failed;        /* errno: nobody took the output (EPIPE), so the command was ended */
	bool left; /* nobody took the rest of the output of a command that was told to end */
};

/* Before the command is started: signals are then for it, not for this program, for good. */
void relay_catch_signals(const struct terminal *terminal);

/*
 * Passes bytes both ways, and signals to all of the command's processes, until it has ended; then
 * appends its CommandResult. Whatever goes wrong, no command is left running.
 */
int relay_run(const struct relay_options *options, struct relay_result *ret_result,
	struct strbuf *out, struct error *err);

#endif
