/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * lease-table.h: private to lease*.c: the table, its leases, and the creations under way.
 *
 * A lease is made when its sandbox has come, and shown (in the tree) from then on until its end.
 * References: the table's while it is shown, the provider's until its sandbox is gone, the
 * creation's until its waiters have been answered, and those of callers. lease_set_state() is the
 * only writer of a lease's state.
 */
#ifndef PROVIDERS_LEASE_TABLE_H
#define PROVIDERS_LEASE_TABLE_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "base/error.h"
#include "base/loop.h"
#include "base/operation.h"
#include "pool/journal.h"
#include "providers/lease-name.h"
#include "providers/lease-released.h"
#include "providers/lease.h"
#include "providers/sandbox-provider.h"

struct lease {
	unsigned refs;
	struct lease_table *table;
	uint64_t serial;
	char id[128];
	char name[LEASE_NAME_MAX + 1];
	struct sandbox_spec spec;
	char *spec_text;      /* as the journal has it */
	char sandbox_id[256]; /* as the sandbox said, and the two below; they outlive it */
	unsigned slot;
	uint32_t generation;
	uint16_t port;
	enum lease_state state;
	enum reason reason;
	char why[256]; /* the sentence behind the reason; "" when the word says all */
	double created_at, changed_at;
	double deadline;                    /* Unix seconds; 0: none */
	uint64_t deadline_ms;               /* the same on lease_clock_ms()'s clock */
	enum reason deadline_reason;        /* what it ends for then */
	unsigned holders;                   /* of its hold */
	struct sandbox *box;                /* NULL once given back */
	struct lease_exec *execs;           /* that show, in order of their numbers */
	unsigned execs_ended;               /* of those */
	uint32_t last_exec;                 /* the last number */
	struct spool_account *account;      /* of their output */
	struct strbuf logs[SLOT_LOG_COUNT]; /* once the sandbox is given back; zeroed: none */
	bool shown;
	bool reusable; /* its sandbox is gone */
	struct loop_timer
		*timer;    /* while it is shown: of the deadline, then of LEASE_KEEP_EXPIRED_MS */
	uint64_t alarm_ms; /* when that is due, on the same clock */
	UT_hash_handle by_trajectory, by_serial;
	struct lease *prev, *next;
};

/* Somebody who waits for a creation. */
struct lease_waiter {
	struct operation op;
	struct lease_table *table;
	struct lease_creation *creation; /* NULL: cancelled, to be told so */
	uint64_t wait_ms, asked_ms;
	bool exclusive;           /* mkdir: wants a lease of its own making */
	bool first;               /* it began the creation */
	struct loop_timer *timer; /* always there: of its wait, then of its cancelling */
	lease_acquired_fn *done;
	void *data;
	struct lease_waiter *prev, *next;
};

/* One trajectory's lease in the making, however many ask for it. */
struct lease_creation {
	struct lease_table *table;
	char *trajectory;
	struct sandbox_spec spec; /* the lease's, once it is made */
	struct operation *op;     /* the provider's; NULL once it has answered */
	bool in_line;             /* it was asked to wait */
	struct lease *lease;      /* made, its row not committed yet */
	struct lease_waiter *waiters;
	UT_hash_handle hh;
};

/* An outcome that was known at once and is told at the loop's next turn. */
struct lease_answer {
	struct operation op;
	struct loop_task task;
	struct lease_table *table;
	int r;
	struct error err;
	struct lease *lease;
	lease_acquired_fn *acquired; /* one of the two */
	command_ended_fn *ended;
	void *data;
	struct lease_answer *prev, *next;
};

struct lease_table {
	struct loop *loop;
	const struct config *config;
	struct journal *journal;
	struct events *events;
	struct lease_hooks hooks;
	const struct sandbox_provider_ops *ops;
	void *provider;
	char node_id[17];
	const char *node_ip;
	uint64_t last_serial;
	uint64_t skipped_ms; /* only a test's: lease_table_skip() */
	struct lease *by_trajectory, *by_serial;
	struct lease *shown;  /* in order of creation */
	struct lease *ending; /* not shown any more, their sandboxes not gone yet */
	unsigned counts[LEASE_LOST + 1];
	struct released_leases *released;
	struct lease_creation *creations;
	struct lease_waiter *cancelled; /* to be told so */
	struct lease_answer *answers;
	unsigned renderings; /* results that workers are at */
	struct spooler *spooler;
	struct lease_exec *execs;      /* that show, by serial */
	struct lease_exec *open_execs; /* not complete yet */
	uint64_t last_exec_serial, execs_ended;
	bool draining, stopping, provider_told, provider_stopped;
	lease_done_fn *started, *done; /* done: of the stop */
	void *started_data, *done_data;
};

/* Makes a lease of the sandbox and shows it. The box is the lease's on success. spec is moved into
 * it. */
int lease_make(struct lease_table *table, struct sandbox_spec *spec, struct sandbox *box,
	struct lease **ret_lease, struct error *err);
/* Lets go of a shown lease, for the table's own end: no event, and nobody hears of it but of its
 * commands, which are told as gone. */
void lease_forget(struct lease *lease);
/* Ends what the journal has of a daemon that died: told as events, remembered as released. Before
 * anything is written to the journal. */
int lease_end_former(struct lease_table *table, struct error *err);
/* Counts, tells events and hooks, writes the row. */
void lease_set_state(struct lease *lease, enum lease_state to, enum reason reason);
void lease_write_row(struct lease *lease, journal_committed_fn *committed, void *data);
/* Gives its sandbox back. */
void lease_give_back(struct lease *lease, enum reason reason);
/* The provider's lost hook. */
void lease_handle_lost(void *data, struct sandbox *box, const struct error *why);

/* Its clock, and its first deadline. */
int lease_time_begin(struct lease *lease, struct error *err);
/* Milliseconds of the clock that leases live by. */
uint64_t lease_clock_ms(const struct lease_table *table);
/* For tests: so much time passes at once for every lease and for what is remembered of those that
 * ended. */
void lease_table_skip(struct lease_table *table, uint64_t skip_ms);

/* An operation that ends at the next turn with r and err. NULL: no memory. */
struct operation *lease_answer_later(struct lease_table *table, const struct lease_answer *answer);
/* Ends every creation under way as stopping. */
void lease_creations_stop(struct lease_table *table);
void lease_creations_free(struct lease_table *table);
/* Something that a stop waits for has ended. */
void lease_table_check_stopped(struct lease_table *table);

/* Appends "endpoints": of the services, while they can be reached. */
void lease_render_endpoints(const struct lease *lease, struct strbuf *out);
/* Whether it has such, which is a capability. */
bool lease_has_endpoints(const struct lease *lease);
/* lease-log.c: while it still has its sandbox; at its own end. */
void lease_keep_logs(struct lease *lease);
void lease_drop_logs(struct lease *lease);

/* lease-exec.c: its commands' account, and their end with the lease. */
int lease_execs_begin(struct lease *lease, struct error *err);
void lease_execs_drop(struct lease *lease);
/* For the table's own end: nobody is told. */
void lease_execs_forget(struct lease_table *table);

/* Appends terminate's reply. */
void lease_render_end(const struct lease_table *table, const struct released_lease *lease,
	bool already, struct strbuf *out);

/* A stable name of this machine, of 16 hex digits. */
void node_id(char ret_id[17]);

#endif
