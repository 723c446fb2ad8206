/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pool/delegation.h"
#include "pool/slot-limits.h"

static void controllers_are_found_among_others_and_by_their_whole_names(void **state)
{
	const unsigned memory = 1u << CONTROLLER_MEMORY, pids = 1u << CONTROLLER_PIDS,
		       cpu = 1u << CONTROLLER_CPU;

	assert_int_equal(
		controllers_parse("cpuset cpu io memory hugetlb pids\n"), memory | pids | cpu);
	assert_int_equal(controllers_parse("memory"), memory);
	assert_int_equal(controllers_parse("cpuset memories pid\n"), 0);
	assert_int_equal(controllers_parse(" \n"), 0);
	assert_int_equal(controllers_parse(""), 0);
}

static void an_event_is_counted_by_its_whole_name(void **state)
{
	static const char v2[] = "low 0\nhigh 3\nmax 17\noom 2\noom_kill 5\noom_group_kill 9\n";
	static const char v1[] = "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n";

	assert_int_equal(cgroup_event_count(v2, "oom_kill"), 5);
	assert_int_equal(cgroup_event_count(v2, "max"), 17);
	assert_int_equal(cgroup_event_count(v1, "oom_kill"), 1);
	assert_int_equal(cgroup_event_count("max 18446744073709551615", "max"), UINT64_MAX);
	assert_int_equal(cgroup_event_count(v1, "max"), 0);
	assert_int_equal(cgroup_event_count("max\n", "max"), 0);
	assert_int_equal(cgroup_event_count("\n\nmax 1\n", "max"), 1);
	assert_int_equal(cgroup_event_count("", "max"), 0);
}

static void somebody_else_in_our_cgroup_is_found(void **state)
{
	assert_int_equal(procs_other("12\n", 12, 0), 0);
	assert_int_equal(procs_other("12\n7\n", 12, 7), 0);
	assert_int_equal(procs_other("12\n7\n", 12, 0), 7);
	assert_int_equal(procs_other("1\n12\n", 12, 7), 1);
	assert_int_equal(procs_other("120\n12\n", 12, 7), 120);
	assert_int_equal(procs_other("", 12, 0), 0);
}

static void somebody_who_cannot_be_seen_is_somebody(void **state)
{
	assert_int_equal(procs_other("12\n0\n", 12, 0), -1);
	assert_int_equal(procs_other("rubbish", 12, 0), -1);
}

static enum reason reason(uint64_t oom_before, uint64_t oom, uint64_t pids_before, uint64_t pids,
	bool alone, int code)
{
	return limits_reason((struct limits_met){.oom = oom_before, .pids = pids_before},
		(struct limits_met){.oom = oom, .pids = pids}, alone, code);
}

static void a_command_alone_is_named_whatever_it_returned(void **state)
{
	assert_int_equal(reason(1, 2, 0, 0, true, -9), REASON_OOM);
	assert_int_equal(reason(1, 2, 0, 0, true, 0), REASON_OOM);
	assert_int_equal(reason(0, 0, 5, 90, true, 0), REASON_PIDS);
	assert_int_equal(reason(0, 0, 5, 90, true, 2), REASON_PIDS);
	assert_int_equal(reason(0, 1, 5, 90, true, 1), REASON_OOM);
}

static void one_of_several_is_named_if_it_failed(void **state)
{
	assert_int_equal(reason(1, 2, 0, 0, false, 0), REASON_NONE);
	assert_int_equal(reason(1, 2, 0, 0, false, 137), REASON_OOM);
	assert_int_equal(reason(0, 0, 0, 1, false, 2), REASON_PIDS);
	assert_int_equal(reason(0, 0, 0, 1, false, 0), REASON_NONE);
}

static void what_was_met_before_names_nobody(void **state)
{
	assert_int_equal(reason(3, 3, 7, 7, true, -9), REASON_NONE);
	assert_int_equal(reason(3, 3, 7, 7, false, 1), REASON_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(controllers_are_found_among_others_and_by_their_whole_names),
		cmocka_unit_test(an_event_is_counted_by_its_whole_name),
		cmocka_unit_test(somebody_else_in_our_cgroup_is_found),
		cmocka_unit_test(somebody_who_cannot_be_seen_is_somebody),
		cmocka_unit_test(a_command_alone_is_named_whatever_it_returned),
		cmocka_unit_test(one_of_several_is_named_if_it_failed),
		cmocka_unit_test(what_was_met_before_names_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
