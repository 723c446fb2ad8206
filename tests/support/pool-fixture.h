/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pool-fixture.h: a real pool for tests, in a temporary directory, and calls that wait. Every wait
 * has a deadline of 30 s and asserts.
 */
#ifndef TESTS_SUPPORT_POOL_FIXTURE_H
#define TESTS_SUPPORT_POOL_FIXTURE_H

#include <stdbool.h>

#include "base/error.h"
#include "config/settings.h"
#include "pool/pool.h"
#include "pool/spool.h"

struct pool_fixture {
	char dir[64];
	struct config *config;
	struct loop *loop;
	struct journal *journal;
	struct events *events;
	struct pool *pool;
	struct spooler *spooler;
	struct spool_account *account; /* of all commands: [exec] spool_budget */
	struct {
		uint32_t generation, last;
	} numbers[64]; /* of commands, by slot */
	unsigned lost_count;
	struct error lost_why;
};

/* overrides: "section.key=value", NULL-terminated, beside the directories; NULL: none. */
void pool_fixture_init(struct pool_fixture *f, unsigned slots, const char *const *overrides);
/* The same in a directory that is there. */
void pool_fixture_init_in(
	struct pool_fixture *f, const char *dir, unsigned slots, const char *const *overrides);
/* What pool_start() or pool_stop() told. */
struct pool_outcome {
	bool told;
	int r;
	struct error err;
};
void pool_outcome_note(void *data, int r, const struct error *err);

/* Makes the pool; the test starts it, and stops it by pool_fixture_fini() or itself. */
int pool_fixture_create(struct pool_fixture *f, struct error *err);
/* Makes the pool and waits until its start is over; -errno as pool_start() tells. */
int pool_fixture_try(struct pool_fixture *f, struct error *err);
/* Makes the pool and waits until every slot is READY. */
void pool_fixture_open(struct pool_fixture *f);
/* Stops and destroys the pool, closes the journal; the state directory stays. */
void pool_fixture_close(struct pool_fixture *f);
/* The same, and removes everything. */
void pool_fixture_fini(struct pool_fixture *f);
/* Turns the loop once, whatever happens first. */
void pool_fixture_turn(struct pool_fixture *f);
/* Turns the loop until the flag is set. */
void pool_fixture_wait(struct pool_fixture *f, const bool *flag);
void pool_fixture_wait_state(struct pool_fixture *f, struct slot *slot, enum slot_state state);

/* Whether a cgroup keeps each command's tree together; else a runner does. */
bool pool_fixture_has_cgroups(const struct pool_fixture *f);

struct loan {
	bool told;
	int r;
	struct slot *slot;
	struct error err;
	struct operation *op;
	unsigned order; /* which one of all loans it was told as, from 1 */
};

void loan_ask(struct pool_fixture *f, struct loan *loan, const char *holder, uint64_t wait_ms);
/* Asks and waits. */
struct slot *loan_take(struct pool_fixture *f, const char *holder);

struct run_outcome {
	bool ended; /* and its output is in the result, as much as max_output says */
	int r;
	struct command_result result;
	struct error err;
	struct operation *op;
	/* the fixture's */
	bool result_is_there;
	size_t max_output;
	struct spool *out, *err_spool;
	struct spool_listener out_listener, err_listener;
};

void run_begin(struct slot *slot, struct run_outcome *run, const struct command *command);
void run_begin_script(struct slot *slot, struct run_outcome *run, const char *script);
/* Begins and waits; it must start. */
void run_command(struct slot *slot, struct run_outcome *run, const struct command *command);
void run_script(struct slot *slot, struct run_outcome *run, const char *script);
void run_fini(struct run_outcome *run);

/* What the process holds: descriptors, children, and cgroups below the pool's. */
struct holdings {
	unsigned fds, children, cgroups;
};
struct holdings holdings_now(const struct pool_fixture *f);

#endif
