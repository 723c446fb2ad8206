/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What every provider does alike: taking no new leases for a while, and many requests at once of
 * which some fail. */
#include "tests/contract/world.h"

#include <errno.h>

enum { CROWD = 100, CROWD_FAILS = CROWD / 3, CROWD_LIVES = CROWD - CROWD_FAILS };

static void a_draining_table_makes_no_new_lease_and_keeps_the_old(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct creation now;
	struct running running;

	lease_table_drain(world->table, true);
	lease_table_drain(world->table, true); /* twice is harmless */
	assert_true(lease_table_is_draining(world->table));
	refuse(world, "u", EBUSY, REASON_DRAINING);
	refuse(world, "{\"trajectory_id\": \"u\", \"wait\": 0}", EBUSY, REASON_DRAINING);
	create_now_begin(world, "u", &now);
	await(world, &now.done);
	assert_int_equal(now.r, -EBUSY);
	assert_ptr_equal(take(world, "t"), lease);
	run(world, lease, "echo hi", &running);
	assert_string_equal(running.result.out.data, "hi\n");
	running_fini(&running);
	lease_table_drain(world->table, false);
	assert_false(lease_table_is_draining(world->table));
	take(world, "u");
}

static void those_in_line_are_told_of_the_drain(void **state)
{
	struct world *world = *state;
	struct creation waiting[3];

	take(world, "a");
	take(world, "b");
	create_begin(world, "c", &waiting[0]);
	create_begin(world, "c", &waiting[1]); /* joins it */
	create_begin(world, "d", &waiting[2]);
	refuse(world, "{\"trajectory_id\": \"e\", \"wait\": 0}", EAGAIN, REASON_POOL_EXHAUSTED);
	lease_table_drain(world->table, true);
	for (size_t i = 0; i < 3; i++) {
		await(world, &waiting[i].done);
		assert_int_equal(waiting[i].r, -EBUSY);
		assert_int_equal(waiting[i].err.reason, REASON_DRAINING);
	}
	cJSON_Delete(end(world, "a"));
	lease_table_drain(world->table, false);
	take(world, "c");
}

static void a_create_that_was_asked_for_in_the_same_turn_is_refused(void **state)
{
	struct world *world = *state;
	struct creation creation;

	create_begin(world, "t", &creation);
	lease_table_drain(world->table, true);
	await(world, &creation.done);
	assert_int_equal(creation.r, -EBUSY);
	assert_null(lease_find(world->table, "t"));
}

static void an_undrain_in_the_same_turn_leaves_nobody_in_doubt(void **state)
{
	struct world *world = *state;
	struct creation creation;

	create_begin(world, "t", &creation);
	lease_table_drain(world->table, true);
	lease_table_drain(world->table, false);
	await(world, &creation.done);
	assert_true(creation.r == 0 || creation.r == -EBUSY);
	take(world, "t");
}

static void a_lost_lease_stays_while_it_cannot_be_taken_again(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");

	lose(world, lease);
	lease_table_drain(world->table, true);
	refuse(world, "t", EBUSY, REASON_DRAINING);
	assert_ptr_equal(lease_find(world->table, "t"), lease);
	assert_int_equal(lease_state(lease), LEASE_LOST);
	lease_table_drain(world->table, false);
	take(world, "t");
}

static void a_draining_table_can_be_stopped(void **state)
{
	struct world *world = *state;
	struct creation waiting;

	take(world, "a");
	take(world, "b");
	create_begin(world, "c", &waiting);
	lease_table_drain(world->table, true);
	world_stop(world);
	assert_true(waiting.done);
	assert_int_equal(waiting.r, -EBUSY);
}

/* Every third one fails, and not the last two: the fake is told to, of others the request is
 * cancelled. */
static void begin_one_of_a_crowd(struct world *world, unsigned i, struct creation *creation)
{
	bool fails = i % 3 == 1;
	char request[160];

	(void)snprintf(request, sizeof(request), "{\"trajectory_id\": \"t%u\"%s}", i,
		fails && world_is_fake() ? ", \"env_args\": {\"fake\": {\"create_fails\": \"EIO\", "
					   "\"create_delay_ms\": 1}}"
					 : "");
	create_begin(world, request, creation);
	if (fails && !world_is_fake())
		operation_cancel(creation->op);
}

static void of_a_hundred_creates_with_failures_those_that_succeeded_live_and_no_other(void **state)
{
	struct world *world = *state;
	struct creation *crowd = calloc(CROWD, sizeof(*crowd));
	unsigned given = 0, failed = 0;

	for (unsigned i = 0; i < CROWD; i++)
		begin_one_of_a_crowd(world, i, &crowd[i]);
	for (unsigned i = 0; i < CROWD; i++) {
		await(world, &crowd[i].done);
		assert_true(lease_count_shown(world->table) <= 2);
		if (crowd[i].r < 0) {
			assert_int_equal(crowd[i].r, world_is_fake() ? -EIO : -ECANCELED);
			assert_int_equal(i % 3, 1);
			failed++;
			continue;
		}
		given++;
		assert_string_equal(lease_trajectory(crowd[i].lease),
			lease_trajectory(
				lease_find(world->table, lease_trajectory(crowd[i].lease))));
		if (given <= CROWD_LIVES - 2) /* the last two stay */
			lease_end(crowd[i].lease, REASON_TERMINATED, NULL);
	}
	assert_int_equal(failed, CROWD_FAILS);
	assert_int_equal(given, CROWD_LIVES);
	assert_int_equal(lease_count_shown(world->table), 2);
	assert_int_equal(lease_count(world->table, LEASE_ACTIVE), 2);
	refuse(world, "{\"trajectory_id\": \"u\", \"wait\": 0}", EAGAIN, REASON_POOL_EXHAUSTED);
	free(crowd);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest cases[] = {
		CASE(a_draining_table_makes_no_new_lease_and_keeps_the_old),
		CASE(those_in_line_are_told_of_the_drain),
		CASE(a_create_that_was_asked_for_in_the_same_turn_is_refused),
		CASE(an_undrain_in_the_same_turn_leaves_nobody_in_doubt),
		CASE(a_lost_lease_stays_while_it_cannot_be_taken_again),
		CASE(a_draining_table_can_be_stopped),
		CASE(of_a_hundred_creates_with_failures_those_that_succeeded_live_and_no_other),
	};

	return WORLD_MAIN(argc, argv, cases);
}
