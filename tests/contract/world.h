/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * world.h: a lease table with a real loop, journal and provider around it, and requests that are
 * easy to make and await.
 *
 * The provider's name is the program's argument, so that one suite runs against each of them.
 * Nothing here sleeps: await() runs the loop until the flag is set, and fails the test after 30 s.
 */
#ifndef TESTS_CONTRACT_WORLD_H
#define TESTS_CONTRACT_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/loop.h"
#include "base/operation.h"
#include "providers/lease-exec.h"
#include "providers/lease.h"

struct world {
	struct loop *loop;
	struct config *config;
	struct journal *journal;
	struct events *events;
	struct lease_table *table;
	char dir[64];
	struct loop_timer *patience;
	bool impatient; /* await() has waited long enough */
	bool stopped;
	unsigned changes; /* calls of the hook */
};

struct creation {
	struct world *world;
	struct operation *op;
	bool done;
	int r;
	struct lease *lease;
	struct error err;
	unsigned order; /* 1: the first of all that were done */
};

struct running {
	struct world *world;
	struct operation *op;
	bool done;
	int r;
	struct command_result result;
	struct error err;
};

/* Runs the cases against the provider named on the command line, as an ordinary user with `--user`
 * behind it; a provider that cannot run here is a skip. */
int world_main(
	int argc, char **argv, const char *suite, const struct CMUnitTest *cases, size_t count);
#define WORLD_MAIN(argc, argv, cases)                                                              \
	world_main(argc, argv, #cases, cases, sizeof(cases) / sizeof((cases)[0]))
#define CASE(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int world_setup_idle(void **state); /* not started */
int world_setup(void **state);      /* two slots */
int world_teardown(void **state);   /* stops when the test has not */
bool world_is_fake(void);

void await(struct world *world, const bool *flag);
/* Runs the loop until the lease is in the state. */
void await_state(struct world *world, struct lease *lease, enum lease_state state);
/* The same of a command. */
void await_exec(struct world *world, struct lease_exec *exec, enum lease_exec_state state);
void world_stop(struct world *world);
/* Begins to start an idle one and stops it at once. */
void world_start_and_stop(struct world *world);

/* The request as it would be written to `create` (JSON or an id). Fails the test when it cannot be
 * read. */
void create_begin(struct world *world, const char *request, struct creation *creation);
void create_now_begin(struct world *world, const char *id, struct creation *creation);
/* Begins and awaits; the lease, which the test expects to get. */
struct lease *take(struct world *world, const char *request);
/* Begins and awaits one that the test expects to fail so. */
void refuse(struct world *world, const char *request, int code, enum reason reason);

/* The request as it would be written to `run_command`. */
void run_begin(
	struct world *world, struct lease *lease, const char *request, struct running *running);
/* Begins and awaits. Release with running_fini(). */
void run(struct world *world, struct lease *lease, const char *request, struct running *running);
void running_fini(struct running *running);

/* Kills the sandbox under the lease, and awaits that it is LOST. */
void lose(struct world *world, struct lease *lease);
/* Ends the lease (by trajectory or lease id) and gives the reply; cJSON_Delete() it. */
cJSON *end(struct world *world, const char *id);

const char *text_of(const cJSON *object, const char *key);
bool truth_of(const cJSON *object, const char *key);
int number_of(const cJSON *object, const char *key);

#endif
