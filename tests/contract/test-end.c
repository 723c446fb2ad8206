/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What every provider does alike: how leases end. */
#include "tests/contract/world.h"

#include <errno.h>
#include <math.h>

#include "pool/events.h"

static void terminate_takes_the_lease_away_and_says_what_became_of_the_slot(void **state)
{
	struct world *world = *state;
	struct lease *lease = lease_ref(take(world, "t"));
	cJSON *reply = end(world, "t");

	assert_null(lease_find(world->table, "t"));
	assert_null(lease_root(lease));
	assert_int_equal(lease_state(lease), LEASE_RELEASING);
	assert_true(truth_of(reply, "released"));
	assert_true(truth_of(reply, "release_queued"));
	assert_false(truth_of(reply, "already_released"));
	assert_false(truth_of(reply, "slot_reusable"));
	assert_string_equal(text_of(reply, "trajectory_id"), "t");
	assert_string_equal(text_of(reply, "lease_id"), lease_id(lease));
	assert_int_equal(number_of(reply, "generation"), 1);
	assert_true(number_of(reply, "slot_id") >= 0);
	assert_int_equal(strlen(text_of(reply, "node_id")), 16);
	cJSON_Delete(reply);
	assert_int_equal(lease_count(world->table, LEASE_RELEASING), 1);
	assert_int_equal(lease_count(world->table, LEASE_RELEASED), 0);
	await_state(world, lease, LEASE_RELEASED);
	assert_int_equal(lease_count(world->table, LEASE_RELEASED), 1);
	assert_int_equal(lease_reason(lease), REASON_TERMINATED);
	lease_unref(lease);
}

static void a_second_terminate_says_already_released(void **state)
{
	struct world *world = *state;
	struct lease *lease = lease_ref(take(world, "t"));
	struct strbuf reply = STRBUF_INIT;
	cJSON *json;

	cJSON_Delete(end(world, "t"));
	json = end(world, "t");
	assert_true(truth_of(json, "released"));
	assert_true(truth_of(json, "already_released"));
	assert_false(truth_of(json, "slot_reusable"));
	cJSON_Delete(json);
	await_state(world, lease, LEASE_RELEASED);
	json = end(world, lease_id(lease));
	assert_true(truth_of(json, "already_released"));
	assert_true(truth_of(json, "slot_reusable"));
	cJSON_Delete(json);
	lease_end(lease, REASON_TERMINATED, &reply);
	assert_non_null(strstr(reply.data, "\"already_released\":true"));
	strbuf_fini(&reply);
	lease_unref(lease);
}

static void terminating_what_was_never_there_is_refused(void **state)
{
	struct world *world = *state;
	struct error err = ERROR_NONE;

	assert_int_equal(
		lease_end_by_id(world->table, "nonsense", REASON_TERMINATED, NULL, &err), -ENOENT);
	assert_non_null(strstr(err.text, "nonsense"));
}

static void a_former_lease_s_id_does_not_end_the_trajectory_s_new_lease(void **state)
{
	struct world *world = *state;
	struct lease *former = lease_ref(take(world, "t"));
	struct lease *lease;
	cJSON *json;

	cJSON_Delete(end(world, "t"));
	lease = take(world, "t");
	assert_string_not_equal(lease_id(lease), lease_id(former));
	json = end(world, lease_id(former));
	assert_true(truth_of(json, "already_released"));
	cJSON_Delete(json);
	assert_int_equal(lease_state(lease), LEASE_ACTIVE);
	json = end(world, lease_id(lease));
	assert_false(truth_of(json, "already_released"));
	cJSON_Delete(json);
	assert_null(lease_find(world->table, "t"));
	lease_unref(former);
}

static void create_waits_for_the_reset_of_the_trajectory_s_former_slot(void **state)
{
	struct world *world = *state;
	struct lease *former = lease_ref(take(world, "t"));
	cJSON *first, *second;

	lease_end(former, REASON_TERMINATED, NULL);
	first = end(world, "t");
	take(world, "t");
	assert_int_equal(lease_state(former), LEASE_RELEASED);
	second = end(world, "t");
	assert_int_equal(number_of(first, "slot_id"), number_of(second, "slot_id"));
	assert_int_equal(number_of(second, "generation"), 2);
	cJSON_Delete(first);
	cJSON_Delete(second);
	lease_unref(former);
}

static void a_lease_whose_time_has_passed_expires_and_its_commands_end(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "{\"trajectory_id\": \"t\", \"timeout_sec\": 100}");
	struct running running;
	struct creation creation;
	struct error err = ERROR_NONE;
	cJSON *json;

	run_begin(world, lease, "sleep 100", &running);
	assert_int_equal(lease_renew(lease, 0.3, &err), 0);
	await_state(world, lease, LEASE_EXPIRED);
	await(world, &running.done);
	assert_int_equal(lease_reason(lease), REASON_LEASE_TTL_EXPIRED);
	assert_true(running.result.infra_failure);
	assert_int_equal(running.result.reason, REASON_LEASE_TTL_EXPIRED);
	running_fini(&running);
	assert_ptr_equal(lease_find(world->table, "t"), lease);
	assert_null(lease_root(lease));
	run(world, lease, "true", &running);
	assert_int_equal(running.r, -ESTALE);
	assert_int_equal(running.err.reason, REASON_LEASE_TTL_EXPIRED);
	running_fini(&running);
	assert_int_equal(lease_renew(lease, 10, &err), -ESTALE);
	create_now_begin(world, "t", &creation);
	await(world, &creation.done);
	assert_int_equal(creation.r, -EEXIST);
	take(world, "a"); /* the slot has come back by itself */
	take(world, "b");
	json = end(world, "t");
	assert_true(truth_of(json, "already_released"));
	assert_true(truth_of(json, "slot_reusable"));
	cJSON_Delete(json);
	assert_null(lease_find(world->table, "t"));
}

static void an_expired_lease_stays_until_there_is_another(void **state)
{
	struct world *world = *state;
	struct lease *lease =
		lease_ref(take(world, "{\"trajectory_id\": \"t\", \"timeout_sec\": 0.1}"));
	struct lease *other;

	await_state(world, lease, LEASE_EXPIRED);
	take(world, "a");
	take(world, "b");
	refuse(world, "{\"trajectory_id\": \"t\", \"wait\": 0}", EAGAIN, REASON_POOL_EXHAUSTED);
	assert_ptr_equal(lease_find(world->table, "t"), lease);
	cJSON_Delete(end(world, "a"));
	other = take(world, "t");
	assert_ptr_equal(lease_find(world->table, "t"), other);
	assert_int_equal(lease_state(lease), LEASE_RELEASED);
	lease_unref(lease);
}

static void renewing_moves_the_end(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "{\"trajectory_id\": \"t\", \"timeout_sec\": 100}");
	struct error err = ERROR_NONE;

	assert_true(lease_seconds_left(lease) > 90 && lease_seconds_left(lease) <= 100);
	assert_int_equal(lease_renew(lease, 1000, &err), 0);
	assert_true(lease_seconds_left(lease) > 990);
	assert_int_equal(lease_renew(lease, 0, &err), -EINVAL);
	assert_int_equal(lease_renew(lease, -1, &err), -EINVAL);
	assert_int_equal(lease_renew(lease, (double)NAN, &err), -EINVAL);
	assert_int_equal(lease_renew(lease, (double)INFINITY, &err), -EINVAL);
	assert_int_equal(lease_renew(lease, 0.1, &err), 0);
	await_state(world, lease, LEASE_EXPIRED);
	assert_true(lease_seconds_left(lease) == 0);
}

static void a_lost_sandbox_makes_the_lease_lost_until_it_is_ended(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct lease *other = take(world, "other");
	struct running running, survivor;
	struct error err = ERROR_NONE;
	cJSON *json;

	lose(world, lease);
	assert_int_equal(lease_reason(lease), REASON_SLOT_LOST);
	assert_ptr_equal(lease_find(world->table, "t"), lease);
	run(world, lease, "true", &running);
	assert_int_equal(running.r, -ENOTCONN);
	assert_int_equal(running.err.reason, REASON_SLOT_LOST);
	running_fini(&running);
	assert_int_equal(lease_renew(lease, 10, &err), -ENOTCONN);
	run(world, other, "echo alive", &survivor);
	assert_string_equal(survivor.result.out.data, "alive\n");
	running_fini(&survivor);
	refuse(world, "{\"trajectory_id\": \"third\", \"wait\": 0}", EAGAIN, REASON_POOL_EXHAUSTED);
	json = end(world, "t");
	assert_false(truth_of(json, "already_released"));
	cJSON_Delete(json);
	take(world, "third");
}

static void a_command_running_when_the_sandbox_dies_is_no_result_of_its_own(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct running running;

	run_begin(world, lease, "sleep 100", &running);
	lose(world, lease);
	await(world, &running.done);
	assert_int_equal(running.r, 0);
	assert_true(running.result.infra_failure);
	assert_false(running.result.has_returncode);
	assert_int_equal(running.result.reason, REASON_SLOT_LOST);
	running_fini(&running);
}

static void a_lost_lease_is_taken_again_with_create(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	uint64_t serial = lease_serial(lease);
	struct running running;

	lose(world, lease);
	lease = take(world, "t");
	assert_true(lease_serial(lease) != serial);
	run(world, lease, "echo again", &running);
	assert_string_equal(running.result.out.data, "again\n");
	running_fini(&running);
}

static void a_lost_lease_ends_when_its_time_has_passed(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct error err = ERROR_NONE;

	assert_int_equal(lease_renew(lease, 1, &err), 0);
	lose(world, lease);
	await_state(world, lease, LEASE_EXPIRED);
	take(world, "a");
	take(world, "b");
}

static void a_stop_ends_leases_commands_and_those_in_line(void **state)
{
	struct world *world = *state;
	struct lease *lease = lease_ref(take(world, "a"));
	struct creation waiting, late;
	struct running running;

	take(world, "b");
	create_begin(world, "c", &waiting);
	run_begin(world, lease, "sleep 100", &running);
	world_stop(world);
	assert_true(waiting.done);
	assert_int_equal(waiting.r, -EBUSY);
	assert_int_equal(waiting.err.reason, REASON_STOPPING);
	assert_true(running.done);
	assert_true(running.result.infra_failure);
	assert_int_equal(running.result.reason, REASON_STOPPING);
	running_fini(&running);
	assert_null(lease_next(world->table, NULL));
	assert_int_equal(lease_state(lease), LEASE_RELEASED);
	assert_int_equal(lease_count(world->table, LEASE_RELEASING), 0);
	create_begin(world, "d", &late);
	await(world, &late.done);
	assert_int_equal(late.r, -EBUSY);
	assert_int_equal(late.err.reason, REASON_STOPPING);
	lease_unref(lease);
}

static void a_stop_in_the_middle_of_a_creation_leaves_nothing(void **state)
{
	struct world *world = *state;
	struct creation creation;

	create_begin(world, "c", &creation);
	world_stop(world);
	assert_true(creation.done);
	assert_int_equal(creation.r, -EBUSY);
}

static void a_stop_during_the_start_ends_both(void **state)
{
	struct world *world = *state;

	world_start_and_stop(world);
	refuse(world, "t", EBUSY, REASON_STOPPING);
}

static void every_change_is_an_event(void **state)
{
	struct world *world = *state;
	struct lease *lease = lease_ref(take(world, "t"));
	struct strbuf events = STRBUF_INIT;
	char line[256];

	cJSON_Delete(end(world, "t"));
	await_state(world, lease, LEASE_RELEASED);
	events_render(world->events, &events);
	(void)snprintf(line, sizeof(line),
		"\"kind\":\"lease\",\"id\":\"%s\",\"from\":\"\",\"to\":\"ACTIVE\"",
		lease_id(lease));
	assert_non_null(strstr(events.data, line));
	(void)snprintf(line, sizeof(line),
		"\"id\":\"%s\",\"from\":\"ACTIVE\",\"to\":\"RELEASING\",\"reason\":\"terminated\"",
		lease_id(lease));
	assert_non_null(strstr(events.data, line));
	strbuf_fini(&events);
	lease_unref(lease);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest cases[] = {
		CASE(terminate_takes_the_lease_away_and_says_what_became_of_the_slot),
		CASE(a_second_terminate_says_already_released),
		CASE(terminating_what_was_never_there_is_refused),
		CASE(a_former_lease_s_id_does_not_end_the_trajectory_s_new_lease),
		CASE(create_waits_for_the_reset_of_the_trajectory_s_former_slot),
		CASE(a_lease_whose_time_has_passed_expires_and_its_commands_end),
		CASE(an_expired_lease_stays_until_there_is_another),
		CASE(renewing_moves_the_end),
		CASE(a_lost_sandbox_makes_the_lease_lost_until_it_is_ended),
		CASE(a_command_running_when_the_sandbox_dies_is_no_result_of_its_own),
		CASE(a_lost_lease_is_taken_again_with_create),
		CASE(a_lost_lease_ends_when_its_time_has_passed),
		CASE(a_stop_ends_leases_commands_and_those_in_line),
		CASE(a_stop_in_the_middle_of_a_creation_leaves_nothing),
		cmocka_unit_test_setup_teardown(
			a_stop_during_the_start_ends_both, world_setup_idle, world_teardown),
		CASE(every_change_is_an_event),
	};

	return WORLD_MAIN(argc, argv, cases);
}
