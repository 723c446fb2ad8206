/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What every provider does alike: getting a sandbox, or being refused one. */
#include "tests/contract/world.h"

#include <errno.h>
#include <sqlite3.h>

#include "base/json.h"
#include "pool/pool.h"

static cJSON *lease_json(const struct lease *lease)
{
	struct strbuf text = STRBUF_INIT;
	struct error err = ERROR_NONE;
	cJSON *object = NULL;

	lease_render(lease, &text);
	if (json_parse_object(text.data, text.size, &object, &err) < 0)
		fail_msg("%s: %s", text.data, err.text);
	strbuf_fini(&text);
	return object;
}

static void a_created_lease_has_the_fields_of_the_contract(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "{\"trajectory_id\": \"t 1\", \"timeout_sec\": 100}\n");
	cJSON *json = lease_json(lease);
	const cJSON *metadata = cJSON_GetObjectItem(json, "metadata");
	double deadline = cJSON_GetNumberValue(cJSON_GetObjectItem(json, "deadline"));

	assert_string_equal(text_of(json, "trajectory_id"), "t 1");
	assert_string_equal(text_of(json, "provider"), world_is_fake() ? "fake" : "local_bwrap");
	assert_string_equal(text_of(json, "sandbox_id"), lease_id(lease));
	assert_string_equal(text_of(json, "state"), "ACTIVE");
	assert_string_equal(text_of(json, "name"), "t 1");
	assert_true(cJSON_IsNull(cJSON_GetObjectItem(json, "reason")));
	assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "endpoints")), 0);
	assert_string_equal(
		cJSON_GetArrayItem(cJSON_GetObjectItem(json, "capabilities"), 0)->valuestring,
		"command");
	assert_string_equal(text_of(metadata, "pool_mode"), "command_only");
	assert_string_equal(text_of(metadata, "paddock_mode"), "whitebox");
	assert_int_equal(number_of(metadata, "port"), 31000 + number_of(metadata, "slot_id"));
	assert_int_equal(number_of(metadata, "generation"), 1);
	assert_int_equal(strlen(text_of(metadata, "node_id")), 16);
	assert_string_equal(text_of(metadata, "node_ip"), "127.0.0.1");
	assert_true(deadline > lease_created_at(lease) + 99 &&
		    deadline < lease_created_at(lease) + 101);
	cJSON_Delete(json);
}

static void a_lease_id_says_node_slot_generation_and_trajectory(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world,
		"{\"trajectory_id\": \"a/b c\\n-0123456789012345678901234567890123456789\"}");
	cJSON *json = lease_json(lease);
	const cJSON *metadata = cJSON_GetObjectItem(json, "metadata");
	char start[128];

	(void)snprintf(start, sizeof(start),
		"lease-%.12s-%04d-gen1-a_b_c_-0123456789012345678901234-",
		text_of(metadata, "node_id"), number_of(metadata, "slot_id"));
	assert_int_equal(strncmp(lease_id(lease), start, strlen(start)), 0);
	assert_int_equal(strlen(lease_id(lease)), strlen(start) + 8);
	assert_string_equal(
		lease_name(lease), "a%2Fb c%0A-0123456789012345678901234567890123456789");
	assert_ptr_equal(lease_find_name(world->table, lease_name(lease)), lease);
	cJSON_Delete(json);
}

static void create_gives_a_live_lease_again(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "{\"trajectory_id\": \"t\", \"env\": {\"A\": \"1\"}}");

	assert_ptr_equal(take(world, "t"), lease);
	assert_ptr_equal(take(world, "{\"trajectory_id\": \"t\", \"env\": {\"A\": \"1\"}}"), lease);
	assert_ptr_equal(
		take(world,
			"{\"trajectory_id\": \"t\", \"env\": {}, \"services\": [], \"wait\": 0}"),
		lease);
	assert_int_equal(lease_count(world->table, LEASE_ACTIVE), 1);
}

static void a_spec_that_asks_for_another_environment_is_refused(void **state)
{
	struct world *world = *state;

	take(world, "{\"trajectory_id\": \"t\", \"env\": {\"A\": \"1\"}, \"env_type\": \"x\"}");
	refuse(world, "{\"trajectory_id\": \"t\", \"env\": {\"A\": \"2\"}}", EEXIST,
		REASON_SPEC_DIFFERS);
	refuse(world, "{\"trajectory_id\": \"t\", \"env_type\": \"y\"}", EEXIST,
		REASON_SPEC_DIFFERS);
}

static void creates_of_one_trajectory_at_the_same_time_share_one_sandbox(void **state)
{
	struct world *world = *state;
	struct creation all[5];

	for (int i = 0; i < 5; i++)
		create_begin(
			world, i < 2 ? "{\"trajectory_id\": \"t\", \"wait\": 0}" : "t", &all[i]);
	for (int i = 0; i < 5; i++) {
		await(world, &all[i].done);
		assert_int_equal(all[i].r, 0);
		assert_ptr_equal(all[i].lease, all[0].lease);
	}
	assert_int_equal(lease_count(world->table, LEASE_ACTIVE), 1);
}

static void creates_at_the_same_time_that_differ_are_not_mixed_up(void **state)
{
	struct world *world = *state;
	struct creation first, second;

	create_begin(world, "{\"trajectory_id\": \"t\", \"env\": {\"A\": \"1\"}}", &first);
	create_begin(world, "{\"trajectory_id\": \"t\", \"env\": {\"A\": \"2\"}}", &second);
	await(world, &first.done);
	await(world, &second.done);
	assert_int_equal(first.r, 0);
	assert_int_equal(second.r, -EEXIST);
}

static void mkdir_makes_a_lease_and_refuses_a_second_one(void **state)
{
	struct world *world = *state;
	struct creation first, second;

	create_now_begin(world, "t", &first);
	await(world, &first.done);
	assert_int_equal(first.r, 0);
	create_now_begin(world, "t", &second);
	await(world, &second.done);
	assert_int_equal(second.r, -EEXIST);
}

static void with_nothing_free_mkdir_and_a_create_without_patience_end_at_once(void **state)
{
	struct world *world = *state;
	struct creation now;

	take(world, "a");
	take(world, "b");
	create_now_begin(world, "c", &now);
	await(world, &now.done);
	assert_int_equal(now.r, -EAGAIN);
	assert_int_equal(now.err.reason, REASON_POOL_EXHAUSTED);
	refuse(world, "{\"trajectory_id\": \"c\", \"wait\": 0}", EAGAIN, REASON_POOL_EXHAUSTED);
}

static void creates_are_served_in_the_order_of_asking(void **state)
{
	struct world *world = *state;
	struct creation third, fourth;

	take(world, "a");
	take(world, "b");
	create_begin(world, "c", &third);
	create_begin(world, "d", &fourth);
	cJSON_Delete(end(world, "b"));
	await(world, &third.done);
	assert_int_equal(third.r, 0);
	assert_false(fourth.done);
	cJSON_Delete(end(world, "a"));
	await(world, &fourth.done);
	assert_int_equal(fourth.r, 0);
}

static void a_create_gives_up_when_its_wait_is_over(void **state)
{
	struct world *world = *state;

	take(world, "a");
	take(world, "b");
	refuse(world, "{\"trajectory_id\": \"c\", \"wait\": 0.05}", ETIMEDOUT,
		REASON_POOL_EXHAUSTED);
	cJSON_Delete(end(world, "b"));
	take(world, "d");
}

static void one_who_joins_with_more_patience_goes_on_waiting(void **state)
{
	struct world *world = *state;
	struct creation hasty, patient;

	take(world, "a");
	take(world, "b");
	create_begin(world, "{\"trajectory_id\": \"c\", \"wait\": 0}", &hasty);
	create_begin(world, "{\"trajectory_id\": \"c\", \"wait\": 60}", &patient);
	await(world, &hasty.done);
	assert_int_equal(hasty.r, -EAGAIN);
	assert_false(patient.done);
	cJSON_Delete(end(world, "a"));
	await(world, &patient.done);
	assert_int_equal(patient.r, 0);
}

static void a_cancelled_create_leaves_the_line(void **state)
{
	struct world *world = *state;
	struct creation waiting, next;

	take(world, "a");
	take(world, "b");
	create_begin(world, "c", &waiting);
	create_begin(world, "d", &next);
	operation_cancel(waiting.op);
	operation_cancel(waiting.op);
	assert_false(waiting.done);
	await(world, &waiting.done);
	assert_int_equal(waiting.r, -ECANCELED);
	cJSON_Delete(end(world, "a"));
	await(world, &next.done);
	assert_int_equal(next.r, 0);
	assert_null(lease_find(world->table, "c"));
}

static void a_create_cancelled_at_once_takes_nothing(void **state)
{
	struct world *world = *state;
	struct creation creation;

	for (int i = 0; i < 6; i++) {
		create_begin(world, "c", &creation);
		operation_cancel(creation.op);
		await(world, &creation.done);
		assert_int_equal(creation.r, -ECANCELED);
	}
	take(world, "a");
	take(world, "b");
}

static void cancelling_one_of_two_leaves_the_other(void **state)
{
	struct world *world = *state;
	struct creation one, other, again;

	create_begin(world, "t", &one);
	create_begin(world, "t", &other);
	operation_cancel(one.op);
	await(world, &one.done);
	await(world, &other.done);
	assert_int_equal(one.r, -ECANCELED);
	assert_int_equal(other.r, 0);
	create_begin(world, "u", &one);
	operation_cancel(one.op);
	create_begin(world, "u", &again); /* comes when the first is being undone */
	await(world, &one.done);
	await(world, &again.done);
	assert_int_equal(again.r, 0);
}

static void a_mode_that_does_not_fit_is_refused_before_anything_is_taken(void **state)
{
	struct world *world = *state;
	struct creation creation;

	create_begin(world,
		"{\"trajectory_id\": \"t\", \"metadata\": {\"paddock_mode\": \"blackbox\"}}",
		&creation);
	await(world, &creation.done);
	assert_int_equal(creation.r, -EPROTOTYPE);
	assert_int_equal(creation.err.reason, REASON_MODE_MISMATCH);
	assert_non_null(strstr(creation.err.text, "blackbox"));
	assert_non_null(strstr(creation.err.text, "command_only"));
	assert_non_null(strstr(creation.err.text, "DRESSAGE_PADDOCK_MODE"));
	assert_int_equal(world->changes, 0);
	refuse(world, "{\"trajectory_id\": \"t\", \"metadata\": {\"paddock_mode\": \"gray\"}}",
		EINVAL, REASON_NONE);
	take(world, "{\"trajectory_id\": \"t\", \"metadata\": {\"paddock_mode\": \"whitebox\"}}");
}

static void an_unknown_image_and_services_without_a_network_are_refused(void **state)
{
	struct world *world = *state;

	refuse(world, "{\"trajectory_id\": \"t\", \"env_args\": {\"sandbox_image\": \"py\"}}",
		EINVAL, REASON_UNKNOWN_IMAGE);
	refuse(world,
		"{\"trajectory_id\": \"t\", \"services\": [{\"name\": \"web\", \"port\": 80}]}",
		EINVAL, REASON_NONE);
}

static void leases_are_listed_in_order_of_creation(void **state)
{
	struct world *world = *state;
	struct lease *a = take(world, "b-first");
	struct lease *b = take(world, "a-second");

	assert_ptr_equal(lease_next(world->table, NULL), a);
	assert_ptr_equal(lease_next(world->table, a), b);
	assert_null(lease_next(world->table, b));
	assert_ptr_equal(lease_find_serial(world->table, lease_serial(b)), b);
	lease_ref(a);
	cJSON_Delete(end(world, "b-first"));
	assert_ptr_equal(lease_next(world->table, a), b);
	assert_null(lease_find_serial(world->table, lease_serial(a)));
	lease_unref(a);
}

static void a_fake_that_is_told_to_fail_says_so_and_keeps_nothing(void **state)
{
	struct world *world = *state;

	if (!world_is_fake())
		return;
	for (int i = 0; i < 4; i++)
		refuse(world,
			"{\"trajectory_id\": \"t\", \"env_args\": {\"fake\": {\"create_fails\": \"EIO\", "
			"\"create_delay_ms\": 5}}}",
			EIO, REASON_NONE);
	take(world, "t");
}

static void a_create_cancelled_while_the_sandbox_is_made_gives_it_back(void **state)
{
	struct world *world = *state;
	struct creation slow;

	if (!world_is_fake())
		return; /* a slot is made beforehand there */
	create_begin(world,
		"{\"trajectory_id\": \"t\", \"env_args\": {\"fake\": {\"create_delay_ms\": 60000}}}",
		&slow);
	refuse(world,
		"{\"trajectory_id\": \"u\", \"env_args\": {\"fake\": {\"create_fails\": \"EIO\"}}}",
		EIO, REASON_NONE);
	operation_cancel(slow.op);
	await(world, &slow.done);
	assert_int_equal(slow.r, -ECANCELED);
	take(world, "a");
	take(world, "b");
}

static void a_lease_is_written_down_before_anybody_is_told(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "{\"trajectory_id\": \"t\", \"env\": {\"A\": \"1\"}}");
	char path[128];
	sqlite3 *db;
	sqlite3_stmt *rows;

	(void)snprintf(path, sizeof(path), "%s/journal.db", world->dir);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(
		sqlite3_prepare_v2(
			db, "SELECT state, spec FROM leases WHERE lease_id = ?1", -1, &rows, NULL),
		SQLITE_OK);
	assert_int_equal(sqlite3_bind_text(rows, 1, lease_id(lease), -1, SQLITE_STATIC), SQLITE_OK);
	assert_int_equal(sqlite3_step(rows), SQLITE_ROW);
	assert_string_equal((const char *)sqlite3_column_text(rows, 0), "ACTIVE");
	assert_string_equal((const char *)sqlite3_column_text(rows, 1),
		"{\"trajectory_id\":\"t\",\"env\":{\"A\":\"1\"}}");
	assert_int_equal(sqlite3_finalize(rows), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void a_lease_that_ends_before_its_creator_is_told_is_not_given_out(void **state)
{
	struct world *world = *state;
	struct creation creation;

	create_begin(world, "t", &creation);
	while (!lease_find(world->table, "t") && !creation.done)
		loop_run(world->loop); /* the hook stops it */
	if (creation.done)
		return; /* the journal was too quick this time */
	cJSON_Delete(end(world, "t"));
	await(world, &creation.done);
	assert_int_equal(creation.r, -ESTALE);
	take(world, "t");
}

static void a_sandbox_that_dies_before_its_creator_is_told_is_said_to_be_lost(void **state)
{
	struct world *world = *state;
	struct creation creation;

	if (!world_is_fake())
		return;
	create_begin(world,
		"{\"trajectory_id\": \"t\", \"env_args\": {\"fake\": {\"lost_after_ms\": 0}}}",
		&creation);
	await(world, &creation.done);
	if (creation.r == 0) /* the journal was quicker */
		await_state(world, creation.lease, LEASE_LOST);
	else
		assert_int_equal(creation.r, -ENOTCONN);
	assert_int_equal(lease_state(lease_find(world->table, "t")), LEASE_LOST);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest cases[] = {
		CASE(a_created_lease_has_the_fields_of_the_contract),
		CASE(a_lease_id_says_node_slot_generation_and_trajectory),
		CASE(create_gives_a_live_lease_again),
		CASE(a_spec_that_asks_for_another_environment_is_refused),
		CASE(creates_of_one_trajectory_at_the_same_time_share_one_sandbox),
		CASE(creates_at_the_same_time_that_differ_are_not_mixed_up),
		CASE(mkdir_makes_a_lease_and_refuses_a_second_one),
		CASE(with_nothing_free_mkdir_and_a_create_without_patience_end_at_once),
		CASE(creates_are_served_in_the_order_of_asking),
		CASE(a_create_gives_up_when_its_wait_is_over),
		CASE(one_who_joins_with_more_patience_goes_on_waiting),
		CASE(a_cancelled_create_leaves_the_line),
		CASE(a_create_cancelled_at_once_takes_nothing),
		CASE(cancelling_one_of_two_leaves_the_other),
		CASE(a_mode_that_does_not_fit_is_refused_before_anything_is_taken),
		CASE(an_unknown_image_and_services_without_a_network_are_refused),
		CASE(leases_are_listed_in_order_of_creation),
		CASE(a_fake_that_is_told_to_fail_says_so_and_keeps_nothing),
		CASE(a_create_cancelled_while_the_sandbox_is_made_gives_it_back),
		CASE(a_lease_is_written_down_before_anybody_is_told),
		CASE(a_lease_that_ends_before_its_creator_is_told_is_not_given_out),
		CASE(a_sandbox_that_dies_before_its_creator_is_told_is_said_to_be_lost),
	};

	return WORLD_MAIN(argc, argv, cases);
}
