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

/* Bytes that were given on. */
struct relay_shown {
	uint64_t out, err;
};

struct relay_options {
	const char *path; /* of the command's directory */
	bool input;       /* pass standard input; else the command has none */
	bool output;      /* show both streams as they come; else only wait for the end */
};

/* Of relay_run(): standard output or error is closed, as for a writer that gets SIGPIPE. */
enum { RELAY_CLOSED = 1 };

/*
 * Passes bytes both ways, and INT, TERM, HUP and QUIT to all of the command's processes, until it
 * has ended; then appends its CommandResult. RELAY_CLOSED: the command was sent PIPE, and goes its
 * own way. Blocks those signals for good.
 */
int relay_run(const struct relay_options *options, struct relay_shown *ret_shown,
	struct strbuf *out, struct error *err);

#endif
