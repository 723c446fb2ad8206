/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What every provider does alike: staying whole under any order of requests. */
#include "tests/contract/world.h"

#include <errno.h>

#include "providers/lease-table.h"

enum {
	CREATIONS = 8,
	RUNS = 8,
	HOLDS = 8,
	TRAJECTORIES = 5,
	FAKE_MOVES = 10000,
	REAL_MOVES = 1500
};

struct churn {
	struct world *world;
	uint64_t random;
	struct creation creations[CREATIONS];
	struct running runs[RUNS];
	bool creating[CREATIONS], running[RUNS];
	struct lease *held[HOLDS];
};

/* The same moves at every run: a failure can be looked at again. */
static unsigned pick(struct churn *churn, unsigned count)
{
	churn->random ^= churn->random << 13;
	churn->random ^= churn->random >> 7;
	churn->random ^= churn->random << 17;
	return (unsigned)(churn->random % count);
}

static struct lease *pick_lease(struct churn *churn)
{
	char name[8];

	(void)snprintf(name, sizeof(name), "t%u", pick(churn, TRAJECTORIES));
	return lease_find(churn->world->table, name);
}

static void check_creation(const struct creation *creation)
{
	switch (-creation->r) {
	case 0:
	case EAGAIN:
	case ETIMEDOUT:
	case EEXIST:
	case ECANCELED:
	case ESTALE:
	case ENOTCONN:
	case EBUSY: /* draining */
		return;
	default:
		fail_msg("creation: %d: %s", creation->r, creation->err.text);
	}
}

static void move_create(struct churn *churn)
{
	static const char *const waits[] = {"0", "0.003", "60"};
	unsigned i = pick(churn, CREATIONS);
	char text[128];

	if (churn->creating[i] && !churn->creations[i].done)
		return;
	if (churn->creating[i])
		check_creation(&churn->creations[i]);
	churn->creating[i] = true;
	(void)snprintf(text, sizeof(text), "t%u", pick(churn, TRAJECTORIES));
	if (pick(churn, 4) == 0) {
		create_now_begin(churn->world, text, &churn->creations[i]);
		return;
	}
	(void)snprintf(text, sizeof(text),
		"{\"trajectory_id\": \"t%u\", \"wait\": %s, \"timeout_sec\": %s}",
		pick(churn, TRAJECTORIES), waits[pick(churn, 3)], pick(churn, 3) ? "60" : "0.004");
	create_begin(churn->world, text, &churn->creations[i]);
}

static void move_cancel(struct churn *churn)
{
	unsigned i = pick(churn, CREATIONS);

	if (churn->creating[i] && !churn->creations[i].done)
		operation_cancel(churn->creations[i].op);
}

static void move_run(struct churn *churn)
{
	static const char *const scripts[] = {"echo hi", "sleep 60", "exit 3", "lose"};
	unsigned i = pick(churn, RUNS);
	struct lease *lease = pick_lease(churn);

	if (churn->running[i] && !churn->runs[i].done) {
		if (pick(churn, 2))
			operation_cancel(churn->runs[i].op);
		return;
	}
	if (!lease)
		return;
	if (churn->running[i])
		running_fini(&churn->runs[i]);
	churn->running[i] = true;
	run_begin(churn->world, lease, scripts[pick(churn, 4)], &churn->runs[i]);
}

static void move_end(struct churn *churn)
{
	struct lease *lease = pick_lease(churn);

	if (lease)
		lease_end(lease, REASON_TERMINATED, NULL);
}

static void move_renew(struct churn *churn)
{
	struct lease *lease = pick_lease(churn);

	if (lease)
		(void)lease_renew(lease, 0.002, NULL);
}

static void let_go(struct churn *churn, unsigned i)
{
	struct lease *lease = churn->held[i];

	churn->held[i] = NULL;
	if (!lease)
		return;
	lease_let_go(lease);
	lease_unref(lease);
}

static void move_hold(struct churn *churn)
{
	unsigned i = pick(churn, HOLDS);
	struct lease *lease = pick_lease(churn);

	let_go(churn, i);
	if (lease && lease_hold(lease, NULL) == 0)
		churn->held[i] = lease_ref(lease);
}

static void move_drain(struct churn *churn)
{
	lease_table_drain(churn->world->table, pick(churn, 8) == 0);
}

/* Seconds to minutes: what was held goes, EXPIRED ones are forgotten. */
static void move_skip(struct churn *churn)
{
	lease_table_skip(churn->world->table, pick(churn, 8) == 0 ? 600000 : pick(churn, 100));
}

static void handle_turn(void *data)
{
	loop_stop(data);
}

static void move_turn(struct churn *churn)
{
	struct loop_timer *timer = NULL;

	assert_int_equal(loop_timer_start(churn->world->loop, pick(churn, 4), handle_turn,
				 churn->world->loop, &timer, NULL),
		0);
	loop_run(churn->world->loop);
	loop_timer_stop(timer);
}

static void check_tree(struct churn *churn)
{
	unsigned shown = 0, active = 0;

	for (struct lease *lease = NULL; (lease = lease_next(churn->world->table, lease));) {
		assert_ptr_equal(lease_find(churn->world->table, lease_trajectory(lease)), lease);
		shown++;
		active += lease_state(lease) == LEASE_ACTIVE;
	}
	assert_true(active <= 2); /* no more than there are slots */
	assert_int_equal(active, lease_count(churn->world->table, LEASE_ACTIVE));
	assert_true(shown <= TRAJECTORIES);
}

static void any_order_of_requests_leaves_the_table_whole(void **state)
{
	static void (*const moves[])(struct churn *) = {move_create, move_create, move_cancel,
		move_run, move_end, move_renew, move_hold, move_drain, move_skip, move_turn};
	struct churn *churn = calloc(1, sizeof(*churn));
	unsigned count = world_is_fake() ? FAKE_MOVES : REAL_MOVES;

	churn->world = *state;
	churn->random = 88172645463325252;
	for (unsigned i = 0; i < count; i++) {
		moves[pick(churn, sizeof(moves) / sizeof(moves[0]))](churn);
		check_tree(churn);
	}
	world_stop(churn->world);
	for (unsigned i = 0; i < HOLDS; i++)
		let_go(churn, i);
	for (unsigned i = 0; i < CREATIONS; i++)
		assert_true(!churn->creating[i] || churn->creations[i].done);
	for (unsigned i = 0; i < RUNS; i++) {
		assert_true(!churn->running[i] || churn->runs[i].done);
		if (churn->running[i])
			running_fini(&churn->runs[i]);
	}
	for (enum lease_state s = LEASE_STARTING; s <= LEASE_LOST; s++)
		if (s != LEASE_RELEASED)
			assert_int_equal(lease_count(churn->world->table, s), 0);
	free(churn);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest cases[] = {
		CASE(any_order_of_requests_leaves_the_table_whole),
	};

	return WORLD_MAIN(argc, argv, cases);
}
