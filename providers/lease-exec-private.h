/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * lease-exec-private.h: what lease-exec*.c and the lease itself share.
 *
 * References to an exec: the lease's while it is shown, the provider's until it is complete, and
 * those of callers; each holds the lease too, but for what the lease shows, which it lets go of at
 * its own end.
 */
#ifndef PROVIDERS_LEASE_EXEC_PRIVATE_H
#define PROVIDERS_LEASE_EXEC_PRIVATE_H

#include "pool/spool.h"
#include "providers/lease-exec.h"
#include "providers/lease-table.h"

struct lease_exec {
	unsigned refs;
	struct lease *lease;
	uint32_t number;
	uint64_t serial;
	struct command command;
	struct operation *op; /* the provider's; NULL once it has ended */
	struct exec_stream {
		struct spool *spool;
		struct spool_listener listener;
	} streams[LEASE_EXEC_STREAM_COUNT];
	enum lease_exec_state state;
	struct command_result result; /* without out and err */
	double started_at, ended_at;
	uint64_t ended_order;
	bool provider_done; /* result is there */
	bool complete;      /* and both outputs are finished */
	bool fed;           /* its input has been ended */
	bool shown;
	struct lease_run *run; /* of lease_run(), until it is complete; NULL: none */
	UT_hash_handle hh;
	struct lease_exec *prev, *next;
	struct lease_exec *prev_open, *next_open; /* lease_table::open_execs */
};

/* Runs it in the lease's sandbox, with the environment of its spec. */
int lease_provider_run(struct lease *lease, const struct command_run *run,
	struct operation **ret_op, struct error *err);

/* lease_run() hears of its end; or, forget, never. */
void lease_run_end(struct lease_run *run);
void lease_run_forget(struct lease_run *run);
/* The result with the first max_output bytes of each stream: told at once when they are in memory,
 * else later. The result is the callee's as command_ended_fn says. */
void lease_exec_read_result(struct lease_exec *exec, command_ended_fn *done, void *data);

#endif
