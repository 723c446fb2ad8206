/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/bubble-fixture.h"

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	fixture_init(fixture);
	fixture_open(fixture);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	fixture_fini(*state);
	free(*state);
	return 0;
}

static void assert_exit(const struct fixture_result *result, int status)
{
	assert_true(result->started);
	assert_false(result->end.lost);
	assert_int_equal(result->end.start_errno, 0);
	if (!WIFEXITED(result->end.wait_status) || WEXITSTATUS(result->end.wait_status) != status)
		fail_msg("status %#x, not exit %d: %s", (unsigned)result->end.wait_status, status,
			result->out.data);
}

static void a_command_runs_and_its_output_and_status_come_back(void **state)
{
	struct fixture *fixture = *state;
	struct fixture_result result;

	(void)fixture_start(fixture, 0);
	fixture_shell(fixture, 0, "echo out; echo err >&2; id -u; pwd; exit 7", &result);
	assert_exit(&result, 7);
	assert_string_equal(result.out.data, "out\nerr\n1000\n/workspace\n");
	assert_true(result.inside_pid > 1);
	fixture_result_fini(&result);
}

static void argv_reaches_the_program_byte_for_byte(void **state)
{
	struct fixture *fixture = *state;
	struct fixture_result result;

	(void)fixture_start(fixture, 0);
	fixture_run(fixture, 0,
		(const char *const[]){"printf", "[%s]", "", "a b", "\xff\n$x", NULL}, &result);
	assert_exit(&result, 0);
	assert_string_equal(result.out.data, "[][a b][\xff\n$x]");
	fixture_result_fini(&result);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_command_runs_and_its_output_and_status_come_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			argv_reaches_the_program_byte_for_byte, set_up, tear_down),
	};
	bool as_user = argc > 1 && strcmp(argv[1], "--user") == 0;
	const char *obstacle;

	if (as_user && geteuid() != 0) {
		printf("1..0 # SKIP already an ordinary user: the other run is this one\n");
		return 0;
	}
	if (as_user)
		fixture_drop_root();
	obstacle = fixture_obstacle();
	if (obstacle) {
		printf("1..0 # SKIP %s\n", obstacle);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
