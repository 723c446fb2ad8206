/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What every provider does alike: how long a lease lives, by its clock and by its holders. Time is
 * moved, not waited for. */
#include "tests/contract/world.h"

#include <errno.h>

#include "config/settings.h"
#include "providers/lease-table.h"

enum { SECOND = 1000, HOUR = 3600 * SECOND };

#define TTL_100 "{\"trajectory_id\": \"t\", \"timeout_sec\": 100}"

/* Another lease comes and goes: whatever was due has happened when it is there. */
static void let_things_happen(struct world *world)
{
	take(world, "other");
	cJSON_Delete(end(world, "other"));
}

static void a_lease_expires_when_its_ttl_has_passed_and_not_before(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, TTL_100);

	lease_table_skip(world->table, 90 * SECOND);
	let_things_happen(world);
	assert_int_equal(lease_state(lease), LEASE_ACTIVE);
	assert_true(lease_seconds_left(lease) <= 10);
	lease_table_skip(world->table, 10 * SECOND);
	await_state(world, lease, LEASE_EXPIRED);
	assert_int_equal(lease_reason(lease), REASON_LEASE_TTL_EXPIRED);
}

static void an_expired_lease_is_kept_for_600_seconds(void **state)
{
	struct world *world = *state;
	struct lease *lease = lease_ref(take(world, TTL_100));

	lease_table_skip(world->table, 100 * SECOND);
	await_state(world, lease, LEASE_EXPIRED);
	lease_table_skip(world->table, 590 * SECOND);
	let_things_happen(world);
	assert_ptr_equal(lease_find(world->table, "t"), lease);
	assert_int_equal(lease_state(lease), LEASE_EXPIRED);
	lease_table_skip(world->table, 10 * SECOND);
	await_state(world, lease, LEASE_RELEASED);
	assert_int_equal(lease_reason(lease), REASON_LEASE_TTL_EXPIRED);
	assert_null(lease_find(world->table, "t"));
	lease_unref(lease);
}

static void a_lost_lease_is_kept_until_its_ttl_has_passed(void **state)
{
	struct world *world = *state;
	struct lease *lease = lease_ref(take(world, TTL_100));

	lose(world, lease);
	lease_table_skip(world->table, 90 * SECOND);
	let_things_happen(world);
	assert_int_equal(lease_state(lease), LEASE_LOST);
	lease_table_skip(world->table, 10 * SECOND);
	await_state(world, lease, LEASE_EXPIRED);
	lease_table_skip(world->table, 600 * SECOND);
	await_state(world, lease, LEASE_RELEASED);
	lease_unref(lease);
}

static void an_ended_lease_is_remembered_for_24_hours(void **state)
{
	struct world *world = *state;
	struct error err = ERROR_NONE;
	cJSON *json;

	take(world, "t");
	cJSON_Delete(end(world, "t"));
	lease_table_skip(world->table, 24 * HOUR - 60 * SECOND);
	json = end(world, "t");
	assert_true(truth_of(json, "already_released"));
	cJSON_Delete(json);
	lease_table_skip(world->table, 60 * SECOND);
	assert_int_equal(
		lease_end_by_id(world->table, "t", REASON_TERMINATED, NULL, &err), -ENOENT);
}

static void a_held_lease_has_no_end_of_its_own(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, TTL_100);
	struct error err = ERROR_NONE;

	assert_int_equal(lease_hold(lease, &err), 0);
	assert_int_equal(lease_holders(lease), 1);
	assert_true(lease_seconds_left(lease) < 0);
	assert_true(lease_deadline(lease) == 0);
	assert_int_equal(lease_renew(lease, 10, &err), 0); /* which changes nothing */
	lease_table_skip(world->table, 500 * HOUR);
	let_things_happen(world);
	assert_int_equal(lease_state(lease), LEASE_ACTIVE);
	lease_let_go(lease);
}

static void the_last_holder_s_end_releases_the_lease_after_the_grace(void **state)
{
	struct world *world = *state;
	struct lease *lease = lease_ref(take(world, TTL_100));
	struct error err = ERROR_NONE;
	uint64_t grace_ms = world->config->pool.hold_grace_ms;

	assert_int_equal(lease_hold(lease, &err), 0);
	assert_int_equal(lease_hold(lease, &err), 0);
	lease_let_go(lease);
	lease_table_skip(world->table, HOUR);
	let_things_happen(world);
	assert_int_equal(lease_state(lease), LEASE_ACTIVE);
	lease_let_go(lease);
	assert_int_equal(lease_holders(lease), 0);
	assert_true(lease_seconds_left(lease) > 0);
	assert_true(lease_seconds_left(lease) * 1000 <= (double)grace_ms);
	assert_true(lease_deadline(lease) > 0);
	lease_table_skip(world->table, grace_ms);
	await_state(world, lease, LEASE_RELEASED);
	assert_int_equal(lease_reason(lease), REASON_HOLD_RELEASED);
	lease_unref(lease);
}

static void a_lease_held_again_or_renewed_within_the_grace_lives_on(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, TTL_100);
	struct error err = ERROR_NONE;

	assert_int_equal(lease_hold(lease, &err), 0);
	lease_let_go(lease);
	assert_int_equal(lease_hold(lease, &err), 0);
	lease_table_skip(world->table, HOUR);
	let_things_happen(world);
	assert_int_equal(lease_state(lease), LEASE_ACTIVE);
	lease_let_go(lease);
	assert_int_equal(lease_renew(lease, 1000, &err), 0);
	lease_table_skip(world->table, 990 * SECOND);
	let_things_happen(world);
	assert_int_equal(lease_state(lease), LEASE_ACTIVE);
	lease_table_skip(world->table, 10 * SECOND);
	await_state(world, lease, LEASE_EXPIRED);
}

static void a_lost_lease_goes_with_its_last_holder(void **state)
{
	struct world *world = *state;
	struct lease *lease = lease_ref(take(world, TTL_100));
	struct error err = ERROR_NONE;

	assert_int_equal(lease_hold(lease, &err), 0);
	lose(world, lease);
	assert_int_equal(lease_hold(lease, &err), -ENOTCONN);
	assert_int_equal(lease_holders(lease), 1);
	lease_table_skip(world->table, HOUR);
	let_things_happen(world);
	assert_int_equal(lease_state(lease), LEASE_LOST);
	lease_let_go(lease);
	lease_table_skip(world->table, world->config->pool.hold_grace_ms);
	await_state(world, lease, LEASE_RELEASED);
	assert_int_equal(lease_reason(lease), REASON_HOLD_RELEASED);
	lease_unref(lease);
}

static void what_is_over_is_not_held_and_its_holders_may_let_go_late(void **state)
{
	struct world *world = *state;
	struct lease *held = lease_ref(take(world, "held")), *expired;
	struct error err = ERROR_NONE;

	assert_int_equal(lease_hold(held, &err), 0);
	cJSON_Delete(end(world, "held"));
	await_state(world, held, LEASE_RELEASED);
	lease_let_go(held);
	assert_int_equal(lease_hold(held, &err), -ESTALE);
	assert_int_equal(lease_reason(held), REASON_TERMINATED);
	lease_unref(held);
	expired = take(world, TTL_100);
	lease_table_skip(world->table, 100 * SECOND);
	await_state(world, expired, LEASE_EXPIRED);
	assert_int_equal(lease_hold(expired, &err), -ESTALE);
	assert_int_equal(lease_holders(expired), 0);
}

static void a_stop_ends_what_is_held(void **state)
{
	struct world *world = *state;
	struct lease *lease = lease_ref(take(world, "t"));
	struct error err = ERROR_NONE;

	assert_int_equal(lease_hold(lease, &err), 0);
	world_stop(world);
	assert_int_equal(lease_state(lease), LEASE_RELEASED);
	assert_int_equal(lease_reason(lease), REASON_STOPPING);
	lease_let_go(lease);
	lease_unref(lease);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest cases[] = {
		CASE(a_lease_expires_when_its_ttl_has_passed_and_not_before),
		CASE(an_expired_lease_is_kept_for_600_seconds),
		CASE(a_lost_lease_is_kept_until_its_ttl_has_passed),
		CASE(an_ended_lease_is_remembered_for_24_hours),
		CASE(a_held_lease_has_no_end_of_its_own),
		CASE(the_last_holder_s_end_releases_the_lease_after_the_grace),
		CASE(a_lease_held_again_or_renewed_within_the_grace_lives_on),
		CASE(a_lost_lease_goes_with_its_last_holder),
		CASE(what_is_over_is_not_held_and_its_holders_may_let_go_late),
		CASE(a_stop_ends_what_is_held),
	};

	return WORLD_MAIN(argc, argv, cases);
}
