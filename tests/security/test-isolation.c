/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A hostile program in one slot tries everything that hostile.c lists, one TAP line each; another
 * slot beside it, and the host, hold what it must not get. After each attempt init must still
 * answer and run a command.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/bubble-fixture.h"

#define MARKER "decoy-5d1f0c"

enum { ATTEMPTS_MAX = 100 };

struct world {
	struct fixture fixture;
	char other_file[128], port[16], abstract_name[64], shm_key[16], pid[16];
	int listener, abstract, shm_id;
};

static struct world world; /* cmocka gives a test its name or a state, not both */

static void plant_file(const char *path, uid_t uid)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, MARKER, strlen(MARKER)), strlen(MARKER));
	if (geteuid() == 0)
		assert_int_equal(fchown(fd, uid, uid), 0);
	(void)close(fd);
}

static void plant_listeners(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	socklen_t size = sizeof(address);

	world.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(world.listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(world.listener, 8), 0);
	assert_int_equal(getsockname(world.listener, (struct sockaddr *)&address, &size), 0);
	(void)snprintf(world.port, sizeof(world.port), "%d", ntohs(address.sin_port));

	(void)snprintf(world.abstract_name, sizeof(world.abstract_name), "dressage-test-%d",
		(int)getpid());
	memcpy(name.sun_path + 1, world.abstract_name, strlen(world.abstract_name));
	world.abstract = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   strlen(world.abstract_name));
	assert_int_equal(bind(world.abstract, (struct sockaddr *)&name, size), 0);
	assert_int_equal(listen(world.abstract, 8), 0);
}

static void plant_shared_memory(void)
{
	key_t key = 0x0d1e55 + (getpid() & 0xffff);

	world.shm_id = shmget(key, 4096, IPC_CREAT | 0666);
	assert_true(world.shm_id >= 0);
	(void)snprintf(world.shm_key, sizeof(world.shm_key), "%d", (int)key);
}

static void copy_program(const char *from, const char *to_dir)
{
	char command[512];

	(void)snprintf(
		command, sizeof(command), "install -m 0755 '%s' '%s/work/hostile'", from, to_dir);
	assert_int_equal(system(command), 0);
}

static int make_world(void **state)
{
	struct fixture *fixture = &world.fixture;
	struct bubble_options other;

	(void)setenv("DECOY_OF_THE_DAEMON", MARKER, 1);
	(void)prctl(PR_SET_NAME, "decoydaemon");
	(void)snprintf(world.pid, sizeof(world.pid), "%d", (int)getpid());
	fixture_init(fixture);
	fixture_open(fixture);
	other = fixture_options(fixture, 1);
	(void)snprintf(world.other_file, sizeof(world.other_file), "%s/work/secret", other.dir);
	plant_file(world.other_file, other.host_uid);
	plant_listeners();
	plant_shared_memory();
	copy_program(getenv("HOSTILE"), fixture_options(fixture, 0).dir);
	(void)fixture_start(fixture, 0);
	(void)fixture_start(fixture, 1);
	return 0;
}

static int end_world(void **state)
{
	fixture_fini(&world.fixture);
	(void)shmctl(world.shm_id, IPC_RMID, NULL);
	(void)close(world.listener);
	(void)close(world.abstract);
	return 0;
}

static void run_attempt(const char *name, struct fixture_result *result)
{
	fixture_run(&world.fixture, 0,
		(const char *const[]){"/workspace/hostile", name, MARKER, world.pid, "decoydaemon",
			world.other_file, world.port, world.abstract_name, world.shm_key, NULL},
		result);
	assert_int_equal(result->end.start_errno, 0);
	if (!WIFEXITED(result->end.wait_status))
		fail_msg("died of signal %d", WTERMSIG(result->end.wait_status));
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

	run_attempt(*state, &result);
	if (WEXITSTATUS(result.end.wait_status) != 0)
		fail_msg("got through: %s", result.out.data);
	fixture_result_fini(&result);
	assert_slots_work();
}

static void an_attempt_that_gets_through_is_noticed(void **state)
{
	struct fixture_result result;

	run_attempt("control", &result);
	assert_int_equal(WEXITSTATUS(result.end.wait_status), 1);
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

static size_t read_names(const char *program, struct CMUnitTest *tests)
{
	char command[512];
	char *line = NULL;
	size_t room = 0, count = 0;
	FILE *names;

	(void)snprintf(command, sizeof(command), "'%s' --list", program);
	names = popen(command, "re");
	if (!names)
		return 0;
	while (count < ATTEMPTS_MAX && getline(&line, &room, names) > 0) {
		char *name = strndup(line, strcspn(line, "\n"));

		tests[count++] = (struct CMUnitTest){
			.name = name, .test_func = attempt_is_refused, .initial_state = name};
	}
	free(line);
	(void)pclose(names);
	return count;
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[ATTEMPTS_MAX + 2] = {
		cmocka_unit_test(an_attempt_that_gets_through_is_noticed),
		cmocka_unit_test(the_decoys_are_where_the_attempts_look),
	};
	const char *program = getenv("HOSTILE");
	size_t count = program ? read_names(program, tests + 2) : 0;
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
