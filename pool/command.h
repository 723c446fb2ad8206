/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * command.h: what to run in a sandbox, and what came of it. Plain data; every pointer is owned by
 * the struct. Threads: any; a value belongs to one thread at a time.
 */
#ifndef POOL_COMMAND_H
#define POOL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/reason.h"
#include "base/strbuf.h"

struct error;
struct spool;

struct command {
	char *script;      /* shell text, NUL-terminated; NULL: argv is used */
	char **argv;       /* NULL-terminated, run without a shell; NULL: script is used */
	char *cwd;         /* NULL: /workspace; a relative one is under /workspace */
	char **env;        /* "NAME=value", NULL-terminated, added to the sandbox's own; of a name
			 that stands twice the last counts; NULL: none */
	char *stdin_data;  /* NULL: standard input is /dev/null */
	size_t stdin_size; /* bytes */
	bool stdin_pipe;   /* more input follows, while it runs (exec/N/stdin) */
	/* a terminal of this size is all three descriptors: what it shows is stdout, and stdin_pipe
	 * is set; 0: none */
	uint16_t tty_rows, tty_cols;
	uint64_t timeout_ms;      /* 0: none */
	uint64_t idle_timeout_ms; /* ended after so long without output; 0: never */
	uint64_t max_output;      /* bytes of each stream kept for the reply */
};

#define COMMAND_INIT ((struct command){0})
void command_fini(struct command *command);
/* Copies everything. -ENOMEM. */
int command_copy(struct command *ret_to, const struct command *from, struct error *err);

struct command_result {
	bool started;          /* false: start_error says why; returncode is 126 or 127 */
	int returncode;        /* exit status, or -signal */
	int signal;            /* 0: it exited */
	bool timed_out;        /* reason tells timeout from idle_timeout; returncode is -9 */
	bool has_returncode;   /* false when the sandbox was lost first */
	bool infra_failure;    /* the sandbox failed, not the command */
	enum reason reason;    /* REASON_NONE on a plain end */
	char detail[160];      /* a sentence that says more than the reason; "" when none does */
	char start_error[256]; /* "" when it started */
	/* the first max_output bytes of each stream; not filled by who runs it, but from its
	 * spools */
	struct strbuf out, err;
	uint64_t out_bytes, err_bytes; /* all that was written; the same */
	uint32_t exec_id;              /* counts up within the lease, from 1 */
	double started_at;             /* Unix seconds */
	double duration_sec;
	struct rusage rusage; /* of the leader and the children it waited for */
};

/*
 * The end of a command. r 0: the result tells; the callee may take it over by copying it and
 * calling command_result_init() on the original, else it is freed after the call. r < 0: result is
 * NULL, err says why.
 */
typedef void command_ended_fn(
	void *data, int r, struct command_result *result, const struct error *err);

/* A command to be run now, and who hears of it. */
struct command_run {
	const struct command *command; /* borrowed for the call */
	uint32_t number;               /* becomes exec_id */
	/* Where its output goes, referenced while it is needed; NULL: nowhere. What its end leaves
	 * to be read is there when they are finished (spool_finished()), at that end or later. */
	struct spool *out, *err;
	/* Runs once, later, with r 0. What there is of the command is not to be used any more. */
	command_ended_fn *ended;
	/* After a feed that gave -EAGAIN: try again. May be NULL. */
	void (*can_feed)(void *data);
	void *data;
};

void command_result_init(struct command_result *result);
void command_result_fini(struct command_result *result);

#endif
