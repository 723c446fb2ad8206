/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "providers/lease-released.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void add(
	struct released_leases *released, const char *id, const char *trajectory, uint64_t at_ms)
{
	struct released_lease lease = {
		.lease_id = id, .trajectory_id = trajectory, .slot = 4, .generation = 2};

	released_add(released, &lease, at_ms);
}

static void it_is_found_by_either_id(void **state)
{
	struct released_leases *released = released_create(10, 1000);
	const struct released_lease *found;

	add(released, "lease-a", "a", 5);
	found = released_find(released, "a", 6);
	assert_non_null(found);
	assert_string_equal(found->lease_id, "lease-a");
	assert_int_equal(found->slot, 4);
	assert_ptr_equal(released_find(released, "lease-a", 6), found);
	assert_null(released_find(released, "b", 6));
	released_destroy(released);
}

static void a_trajectory_means_its_latest_lease(void **state)
{
	struct released_leases *released = released_create(10, 1000);

	add(released, "lease-1", "a", 5);
	add(released, "lease-2", "a", 7);
	assert_string_equal(released_find(released, "a", 8)->lease_id, "lease-2");
	assert_string_equal(released_find(released, "lease-1", 8)->lease_id, "lease-1");
	assert_null(released_find(released, "lease-1", 1006)); /* too old */
	assert_string_equal(released_find(released, "a", 1006)->lease_id, "lease-2");
	released_destroy(released);
}

static void it_is_forgotten_after_its_time(void **state)
{
	struct released_leases *released = released_create(10, 1000);

	add(released, "lease-a", "a", 5);
	assert_non_null(released_find(released, "a", 1004));
	assert_null(released_find(released, "a", 1005));
	assert_int_equal(released_count(released), 0);
	released_destroy(released);
}

static void the_oldest_goes_when_there_are_too_many(void **state)
{
	struct released_leases *released = released_create(100, 1000000);
	char id[32], trajectory[32];

	for (int i = 0; i < 1000; i++) {
		(void)snprintf(id, sizeof(id), "lease-%d", i);
		(void)snprintf(trajectory, sizeof(trajectory), "t-%d", i % 150);
		add(released, id, trajectory, (uint64_t)i);
	}
	assert_int_equal(released_count(released), 100);
	assert_null(released_find(released, "lease-899", 1000));
	assert_non_null(released_find(released, "lease-900", 1000));
	assert_string_equal(released_find(released, "t-99", 1000)->lease_id, "lease-999");
	assert_null(released_find(released, "t-140", 1000)); /* 890 was its last */
	released_destroy(released);
}

static void its_sandbox_becomes_reusable(void **state)
{
	struct released_leases *released = released_create(10, 1000);

	add(released, "lease-a", "a", 5);
	assert_false(released_find(released, "a", 6)->reusable);
	released_set_reusable(released, "lease-a");
	released_set_reusable(released, "lease-b");
	assert_true(released_find(released, "a", 6)->reusable);
	released_destroy(released);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_found_by_either_id),
		cmocka_unit_test(a_trajectory_means_its_latest_lease),
		cmocka_unit_test(it_is_forgotten_after_its_time),
		cmocka_unit_test(the_oldest_goes_when_there_are_too_many),
		cmocka_unit_test(its_sandbox_becomes_reusable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
