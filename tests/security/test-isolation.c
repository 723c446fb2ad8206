/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A hostile program in one slot tries everything that hostile.c lists, one TAP line each; another
 * slot beside it, and the host, hold what it must not get. After each attempt init must still
 * answer and run a command. test-leave-out.c shows that the attempts can succeed.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/security/world.h"

static struct world world; /* cmocka gives a test its name or a state, not both */

static int make_world(void **state)
{
	world_init(&world);
	fixture_open(&world.fixture);
	(void)fixture_start(&world.fixture, 0);
	(void)fixture_start(&world.fixture, 1);
	return 0;
}

static int end_world(void **state)
{
	world_fini(&world);
	return 0;
}

/* In both slots: what is done in one must not be felt in the other. */
static void assert_slots_work(void)
{
	for (unsigned n = 0; n < 2; n++) {
		struct fixture_result result;

		fixture_shell(&world.fixture, n, "echo well", &result);
		assert_string_equal(result.out.data, "well\n");
		fixture_result_fini(&result);
	}
}

static void attempt_is_refused(void **state)
{
	struct fixture_result result;

	if (world_attempt(&world, *state, &result) != 0)
		fail_msg("got through: %s", result.out.data);
	fixture_result_fini(&result);
	assert_slots_work();
}

static void an_attempt_that_gets_through_is_noticed(void **state)
{
	struct fixture_result result;

	assert_int_equal(world_attempt(&world, "control", &result), 1);
	assert_non_null(strstr(result.out.data, "wrote a file of its own"));
	fixture_result_fini(&result);
}

/* The decoys would be found by somebody who may: else every attempt on them would fail for the
 * wrong reason. */
static void the_decoys_are_where_the_attempts_look(void **state)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct fixture_result result;

	address.sin_port = htons((uint16_t)strtol(world.port, NULL, 10));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	(void)close(fd);
	assert_int_equal(access(world.other_file, R_OK), 0);
	assert_true(shmget((key_t)strtol(world.shm_key, NULL, 10), 0, 0) >= 0);
	fixture_shell(&world.fixture, 1, "cat secret", &result);
	assert_string_equal(result.out.data, MARKER);
	fixture_result_fini(&result);
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[ATTEMPTS_MAX + 2] = {
		cmocka_unit_test(an_attempt_that_gets_through_is_noticed),
		cmocka_unit_test(the_decoys_are_where_the_attempts_look),
	};
	const char *program = getenv("HOSTILE");
	size_t count = program ? world_list(program, attempt_is_refused, tests + 2) : 0;
	int r;

	if (count == 0) {
		printf("Bail out! HOSTILE does not name the hostile program\n");
		return 1;
	}
	if (!fixture_begin_tests(argc, argv))
		return 0;
	r = _cmocka_run_group_tests("isolation", tests, count + 2, make_world, end_world);
	for (size_t i = 0; i < count; i++)
		free((void *)tests[2 + i].name);
	return r;
}
