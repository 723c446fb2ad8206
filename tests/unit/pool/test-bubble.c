/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Starting, living and dying: with real bwrap, and with the fake one that breaks every rule. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/loop.h"
#include "pool/bubble-private.h"
#include "pool/cgroup.h"
#include "tests/support/bubble-fixture.h"

/* ---- Real ones ---- */

static void a_ready_bubble_has_a_pid_a_pidfd_and_a_root(void **state)
{
	struct fixture *fixture = *state;
	struct bubble *bubble = fixture_start(fixture, 0);
	struct stat st;

	assert_true(bubble_pid(bubble) > 1);
	assert_int_equal(pidfd_send_signal(bubble_pidfd(bubble), 0, NULL, 0), 0);
	assert_int_equal(fstatat(bubble_root_fd(bubble),
				 "workspace_sandbox/blackbox_server_runtime", &st, 0),
		0);
	assert_int_equal(st.st_uid, fixture_options(fixture, 0).host_uid);
}

static void its_directories_are_the_slots_own(void **state)
{
	struct fixture *fixture = *state;
	struct bubble_options options = fixture_options(fixture, 0);
	struct fixture_result result;
	char path[128];
	struct stat st;

	(void)fixture_start(fixture, 0);
	fixture_shell(fixture, 0,
		"for d in /workspace /home/blackbox /tmp /workspace_sandbox/blackbox_server_runtime; do echo $d > $d/f; done",
		&result);
	assert_int_equal(result.end.wait_status, 0);
	for (const char *const *name =
			(const char *const[]){"work", "home", "tmp", "runtime", NULL};
		*name; name++) {
		(void)snprintf(path, sizeof(path), "%s/%s/f", options.dir, *name);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_uid, options.host_uid);
		assert_int_equal(st.st_gid, options.host_gid);
	}
	fixture_result_fini(&result);
}

static void a_killed_bubble_says_so_when_nothing_of_it_lives(void **state)
{
	struct fixture *fixture = *state;
	struct bubble *bubble = fixture_start(fixture, 0);
	struct fixture_slot *slot = &fixture->slots[0];
	struct fixture_result result;
	pid_t pid = bubble_pid(bubble);

	fixture_begin(fixture, 0, (const char *const[]){"sleep", "1000", NULL}, &result);
	fixture_wait(fixture, &result.started);
	bubble_kill(bubble);
	bubble_kill(bubble);
	fixture_wait(fixture, &slot->died);
	assert_int_equal(slot->why.code, ECANCELED);
	assert_true(result.ended);
	assert_true(result.end.lost);
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(errno, ESRCH);
	fixture_result_fini(&result);
}

static void an_init_killed_from_outside_is_a_lost_slot(void **state)
{
	struct fixture *fixture = *state;
	struct bubble *bubble = fixture_start(fixture, 0);
	struct fixture_slot *slot = &fixture->slots[0];

	assert_int_equal(kill(bubble_pid(bubble), SIGKILL), 0);
	fixture_wait(fixture, &slot->died);
	assert_int_equal(slot->why.code, ENOTCONN);
	assert_int_equal(slot->why.reason, REASON_SLOT_LOST);
	assert_non_null(strstr(slot->why.text, "signal 9"));
}

static void assert_takes_no_commands(struct bubble *bubble)
{
	const char *const words[] = {"true", NULL};
	struct bubble_exec_options options = {
		.argv = words, .env = words + 1, .cwd = "/", .extra_fd = -1, .cgroup_fd = -1};
	struct bubble_exec_hooks hooks = {0};
	struct bubble_exec *exec;
	struct error err = ERROR_NONE;

	assert_int_equal(bubble_exec_start(bubble, &options, &hooks, &exec, &err), -ENOTCONN);
	assert_int_equal(err.reason, REASON_SLOT_LOST);
}

static void a_dead_bubble_takes_no_commands(void **state)
{
	struct fixture *fixture = *state;
	struct bubble *bubble = fixture_start(fixture, 0);

	bubble_kill(bubble);
	fixture_wait(fixture, &fixture->slots[0].died);
	assert_takes_no_commands(bubble);
}

static void one_whose_death_nobody_has_heard_of_yet_takes_none_either(void **state)
{
	struct fixture *fixture = *state;
	struct bubble *bubble = fixture_start(fixture, 0);
	struct pollfd death = {.fd = bubble_pidfd(bubble), .events = POLLIN};

	assert_int_equal(kill(bubble_pid(bubble), SIGKILL), 0);
	assert_int_equal(poll(&death, 1, 20000), 1); /* the loop does not run meanwhile */
	assert_takes_no_commands(bubble);
	fixture_wait(fixture, &fixture->slots[0].died);
}

/* Nobody lives in the process group. Orphans come to this process, which is made their reaper: see
 * main(). */
static void assert_group_vanishes(pid_t group)
{
	pid_t pid = 0;

	for (int i = 0; i < 20000 && pid >= 0; i++) {
		pid = waitpid(-group, NULL, WNOHANG);
		if (pid == 0)
			(void)poll(NULL, 0, 1);
	}
	assert_int_equal(pid, -1);
	assert_int_equal(kill(-group, 0), -1);
}

static void a_bubble_killed_while_it_starts_leaves_nothing(void **state)
{
	struct fixture *fixture = *state;
	struct bubble_options options = fixture_options(fixture, 0);
	struct fixture_slot *slot = &fixture->slots[0];

	for (int turns = 0; turns < 12; turns++) {
		pid_t runner;

		fixture_spawn(fixture, 0, &options);
		runner = slot->bubble->runner_pid;
		for (int i = 0; i < turns && !slot->ready; i++)
			(void)poll(NULL, 0, 1); /* every millisecond of a start has its turn */
		bubble_kill(slot->bubble);
		fixture_wait(fixture, &slot->died);
		assert_int_equal(slot->why.code, ECANCELED);
		assert_group_vanishes(runner);
	}
}

static void init_dies_with_the_daemons_end_of_its_socket(void **state)
{
	struct fixture *fixture = *state;
	struct bubble *bubble = fixture_start(fixture, 0);
	struct pollfd dead = {.fd = bubble_pidfd(bubble), .events = POLLIN};

	/* the loop does not turn meanwhile, so nothing but init itself can have ended it */
	assert_int_equal(shutdown(bubble->control_fd, SHUT_RDWR), 0);
	assert_int_equal(poll(&dead, 1, 20000), 1);
	fixture_wait(fixture, &fixture->slots[0].died);
}

struct pong {
	bool came;
	int r;
};

static void handle_pong(void *data, int r)
{
	struct pong *pong = data;

	pong->came = true;
	pong->r = r;
}

static int ping(struct fixture *fixture, uint64_t timeout_ms)
{
	struct pong pong = {0};

	bubble_ping(fixture->slots[0].bubble, timeout_ms, handle_pong, &pong);
	assert_false(pong.came);
	fixture_wait(fixture, &pong.came);
	return pong.r;
}

static void a_ping_tells_the_living_from_the_stopped_and_the_dead(void **state)
{
	struct fixture *fixture = *state;
	struct bubble *bubble = fixture_start(fixture, 0);

	assert_int_equal(ping(fixture, 20000), 0);
	assert_int_equal(kill(bubble_pid(bubble), SIGSTOP), 0);
	assert_int_equal(ping(fixture, 50), -ETIMEDOUT);
	assert_int_equal(kill(bubble_pid(bubble), SIGCONT), 0);
	assert_int_equal(ping(fixture, 20000), 0);
	bubble_kill(bubble);
	assert_int_equal(ping(fixture, 20000), -ENOTCONN);
	fixture_wait(fixture, &fixture->slots[0].died);
	assert_int_equal(ping(fixture, 20000), -ENOTCONN);
}

static void many_lives_leak_no_descriptor(void **state)
{
	struct fixture *fixture = *state;
	struct fixture_result result;
	unsigned before = 0;

	for (int i = 0; i < 5; i++) {
		struct bubble *bubble = fixture_start(fixture, 0);

		fixture_shell(fixture, 0, "true", &result);
		fixture_result_fini(&result);
		bubble_kill(bubble);
		fixture_wait(fixture, &fixture->slots[0].died);
		bubble_destroy(bubble);
		fixture->slots[0] = (struct fixture_slot){0};
		if (i == 0)
			before = fixture_open_fds();
	}
	assert_int_equal(fixture_open_fds(), before);
}

static void mark_flag(void *data)
{
	*(bool *)data = true;
}

static bool has_cgroups(void)
{
	struct cgroups *cgroups = NULL;
	struct error err = ERROR_NONE;
	struct loop *loop;
	bool has;

	if (loop_create(&loop, &err) < 0)
		return false;
	has = cgroups_open(loop, "/tmp/dressage-test-bubble", &cgroups, &err) == 0;
	if (!has)
		print_message(
			"# a_slot_starts_in_its_cgroup_and_a_command_in_its_own is left out: %s\n",
			err.text);
	cgroups_close(cgroups);
	loop_destroy(loop);
	return has;
}

static void a_slot_starts_in_its_cgroup_and_a_command_in_its_own(void **state)
{
	struct fixture *fixture = *state;
	struct bubble_options options = fixture_options(fixture, 0);
	const char *const argv[] = {"cat", "/proc/self/cgroup", NULL};
	struct bubble_exec_options exec = {
		.argv = argv, .env = argv + 2, .cwd = "/", .stdin_fd = -1, .extra_fd = -1};
	struct command_cgroup *command_cgroup;
	struct slot_cgroup *slot_cgroup;
	struct fixture_result result;
	struct cgroups *cgroups;
	bool gone = false;

	assert_int_equal(cgroups_open(fixture->loop, fixture->dir, &cgroups, NULL), 0);
	cgroups_on_gone(cgroups, mark_flag, &gone);
	assert_int_equal(
		slot_cgroup_create(cgroups, 0, 1, options.host_uid, &slot_cgroup, NULL), 0);
	options.cgroup_fd = slot_cgroup_fd(slot_cgroup);
	fixture_spawn(fixture, 0, &options);
	fixture_wait(fixture, &fixture->slots[0].ready);
	assert_int_equal(command_cgroup_take(slot_cgroup, &command_cgroup, NULL), 0);
	exec.cgroup_fd = command_cgroup_fd(command_cgroup);
	fixture_begin_with(fixture, 0, &exec, &result);
	fixture_finish(fixture, &result);
	assert_int_equal(result.end.start_errno, 0);
	/* init's own is the root of what the slot sees: a command's is right below it */
	assert_non_null(strstr(result.out.data, "0::/cmd-"));
	fixture_result_fini(&result);
	command_cgroup_give(command_cgroup);
	bubble_kill(fixture->slots[0].bubble);
	fixture_wait(fixture, &fixture->slots[0].died);
	slot_cgroup_discard(cgroups, slot_cgroup);
	if (cgroups_leaving(cgroups) > 0)
		fixture_wait(fixture, &gone);
	cgroups_close(cgroups);
}

/* ---- Starts that fail ---- */

static void fail_to_start(struct fixture *fixture, const struct bubble_options *options)
{
	fixture_spawn(fixture, 0, options);
	fixture_wait(fixture, &fixture->slots[0].died);
	assert_false(fixture->slots[0].ready);
}

static void assert_why(struct fixture *fixture, int code, const char *part)
{
	const struct error *why = &fixture->slots[0].why;

	if (why->code != code || !strstr(why->text, part))
		fail_msg("%d (%s), not %d (… %s …)", why->code, why->text, code, part);
}

static void an_init_of_another_version_refuses_to_start(void **state)
{
	struct fixture *fixture = *state;
	struct bubble_options options = fixture_options(fixture, 0);

	fixture->kit->setup.version++;
	fail_to_start(fixture, &options);
	assert_why(fixture, EPROTONOSUPPORT, "init's step 'options'");
}

static void a_failed_step_ends_the_start_with_its_name(void **state)
{
	struct fixture *fixture = *state;
	struct bubble_options options = fixture_options(fixture, 0);

	fixture->kit->setup.uid = UINT32_MAX;
	fail_to_start(fixture, &options);
	assert_why(fixture, EINVAL, "init's step 'uid map'");
	fixture->kit->setup.uid = 1000;
	fixture->kit->setup.filter_count = 1;
	fixture->kit->filter_size = 8;
	fail_to_start(fixture, &options);
	assert_why(fixture, EINVAL, "init's step 'seccomp'");
}

static void bwraps_own_complaint_is_the_reason(void **state)
{
	struct fixture *fixture = *state;
	struct bubble_options options = fixture_options(fixture, 0);
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/home", options.dir);
	assert_int_equal(rmdir(path), 0);
	fail_to_start(fixture, &options);
	assert_why(fixture, EIO, "bwrap: Can't find source path");
}

static void a_daemon_without_descriptors_says_so(void **state)
{
	struct fixture *fixture = *state;
	struct bubble_options options = fixture_options(fixture, 0);
	struct rlimit before, none;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){0, before.rlim_max};
	fixture_spawn(fixture, 0, &options);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	fixture_wait(fixture, &fixture->slots[0].died);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_why(fixture, EMFILE, "no descriptor left");
}

static void note_ready(void *data)
{
}

static void note_died(void *data, const struct error *why)
{
	*(bool *)data = true;
}

/* With descriptors below n, and a cgroup, which takes one more. False: there were too few. */
static bool start_with_descriptors(struct fixture *fixture, rlim_t n, int cgroup_fd)
{
	struct bubble_options options = fixture_options(fixture, 0);
	bool died = false;
	const struct bubble_hooks hooks = {.ready = note_ready, .died = note_died, .data = &died};
	struct rlimit before, few;
	struct bubble *bubble;
	int r;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){n, before.rlim_max};
	options.cgroup_fd = cgroup_fd;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	r = bubble_spawn(fixture->loop, fixture->kit, &options, &hooks, &bubble, NULL);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	if (r < 0)
		return false;
	bubble_kill(bubble);
	fixture_wait(fixture, &died);
	bubble_destroy(bubble);
	return true;
}

static void handle_late(void *data)
{
	*(bool *)data = true;
}

static bool have_children(void)
{
	siginfo_t info;

	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void a_start_that_fails_half_way_leaves_no_zombie(void **state)
{
	struct fixture *fixture = *state;
	unsigned before = fixture_open_fds();
	int no_cgroup = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct loop_timer *timer;
	bool late = false;
	rlim_t n = 4;
	int low[32];

	for (unsigned i = 0; i < 32; i++) /* the spawn's own are above 16: none is free below */
		low[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
	while (!start_with_descriptors(fixture, n, no_cgroup))
		n++;
	assert_in_range(n, 8, 100);
	assert_int_equal(
		loop_timer_start(fixture->loop, 20000, handle_late, &late, &timer, NULL), 0);
	while (have_children() && !late)
		fixture_turn(fixture);
	loop_timer_stop(timer);
	(void)close(no_cgroup);
	for (unsigned i = 0; i < 32; i++)
		(void)close(low[i]);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	assert_false(have_children());
	assert_int_equal(fixture_open_fds(), before);
}

static void a_missing_bwrap_is_said_with_the_way_out(void **state)
{
	struct fixture fixture;
	struct bubble_kit *kit;
	struct error err = ERROR_NONE;
	char etc[128];

	fixture_init(&fixture);
	fixture.config.slot.bwrap = (char *)"no-such-bwrap";
	(void)snprintf(etc, sizeof(etc), "%s/etc", fixture.dir);
	assert_int_equal(bubble_kit_create(&fixture.config, etc, &kit, &err), -ENOENT);
	assert_non_null(strstr(err.text, "apt-get install bubblewrap"));
	fixture_fini(&fixture);
}

/* ---- With the fake ---- */

static void the_last_line_of_standard_error_is_told(void **state)
{
	struct fixture fixture;

	fixture_start_fake(&fixture, "complain", 20000);
	fixture_wait(&fixture, &fixture.slots[0].died);
	assert_why(&fixture, EIO, "cannot start: bwrap: setting up uid map: Permission denied");
	fixture_fini_fake(&fixture);
}

static void a_start_that_takes_too_long_is_ended(void **state)
{
	for (const char *const *act = (const char *const[]){"hang", "hang-with-a-child", NULL};
		*act; act++) {
		struct fixture fixture;
		pid_t runner;

		fixture_start_fake(&fixture, *act, 100);
		runner = fixture.slots[0].bubble->runner_pid;
		fixture_wait(&fixture, &fixture.slots[0].died);
		assert_why(&fixture, ETIMEDOUT, "is not ready after 100 ms");
		assert_group_vanishes(runner);
		fixture_fini_fake(&fixture);
	}
}

static void an_init_that_breaks_the_protocol_is_killed(void **state)
{
	const char *const acts[] = {"too-little", "another-version", "ready-without-hello",
		"ready-without-root", "two-descriptors", "done-with-nothing", "nonsense",
		"pong-for-ever", NULL};

	for (const char *const *act = acts; *act; act++) {
		struct fixture fixture;

		fixture_start_fake(&fixture, *act, 20000);
		fixture_wait(&fixture, &fixture.slots[0].died);
		assert_why(&fixture, EPROTO, "broke the protocol");
		fixture_fini_fake(&fixture);
	}
}

static void a_lie_about_a_command_kills_the_bubble_and_loses_the_command(void **state)
{
	for (const char *const *act =
			(const char *const[]){"started-twice", "done-with-descriptor", NULL};
		*act; act++) {
		struct fixture fixture;
		struct fixture_result result;

		fixture_start_fake(&fixture, *act, 20000);
		fixture_wait(&fixture, &fixture.slots[0].ready);
		fixture_begin(&fixture, 0, (const char *const[]){"true", NULL}, &result);
		fixture_wait(&fixture, &fixture.slots[0].died);
		assert_why(&fixture, EPROTO, "broke the protocol");
		assert_true(result.ended);
		assert_true(result.end.lost);
		fixture_result_fini(&result);
		fixture_fini_fake(&fixture);
	}
}

static void control_bytes_in_a_steps_name_are_not_shown(void **state)
{
	struct fixture fixture;

	fixture_start_fake(&fixture, "fail-in-colour", 20000);
	fixture_wait(&fixture, &fixture.slots[0].died);
	assert_why(&fixture, EACCES, "init's step 'a?[31mb'");
	fixture_fini_fake(&fixture);
}

static void what_a_silent_init_does_not_read_waits_and_is_lost_with_it(void **state)
{
	enum { COUNT = 40 };
	struct fixture fixture;
	struct fixture_result results[COUNT];
	char *large = calloc(1, 90001);
	unsigned before;

	memset(large, 'x', 90000);
	fixture_start_fake(&fixture, "silent", 20000);
	fixture_wait(&fixture, &fixture.slots[0].ready);
	before = fixture_open_fds();
	for (int i = 0; i < COUNT; i++)
		fixture_begin(&fixture, 0, (const char *const[]){"true", large, NULL}, &results[i]);
	bubble_kill(fixture.slots[0].bubble);
	fixture_wait(&fixture, &fixture.slots[0].died);
	for (int i = 0; i < COUNT; i++) {
		assert_true(results[i].end.lost);
		fixture_result_fini(&results[i]);
	}
	assert_true(fixture_open_fds() <= before);
	free(large);
	fixture_fini_fake(&fixture);
}

int main(int argc, char **argv)
{
#define REAL(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)
	const struct CMUnitTest tests[] = {
		REAL(a_start_that_fails_half_way_leaves_no_zombie), /* first: no orphans yet */
		REAL(a_ready_bubble_has_a_pid_a_pidfd_and_a_root),
		REAL(its_directories_are_the_slots_own),
		REAL(a_killed_bubble_says_so_when_nothing_of_it_lives),
		REAL(an_init_killed_from_outside_is_a_lost_slot),
		REAL(a_dead_bubble_takes_no_commands),
		REAL(one_whose_death_nobody_has_heard_of_yet_takes_none_either),
		REAL(a_bubble_killed_while_it_starts_leaves_nothing),
		REAL(init_dies_with_the_daemons_end_of_its_socket),
		REAL(a_ping_tells_the_living_from_the_stopped_and_the_dead),
		REAL(many_lives_leak_no_descriptor),
		REAL(an_init_of_another_version_refuses_to_start),
		REAL(a_failed_step_ends_the_start_with_its_name),
		REAL(bwraps_own_complaint_is_the_reason),
		REAL(a_daemon_without_descriptors_says_so),
		cmocka_unit_test(a_missing_bwrap_is_said_with_the_way_out),
		cmocka_unit_test(the_last_line_of_standard_error_is_told),
		cmocka_unit_test(a_start_that_takes_too_long_is_ended),
		cmocka_unit_test(an_init_that_breaks_the_protocol_is_killed),
		cmocka_unit_test(a_lie_about_a_command_kills_the_bubble_and_loses_the_command),
		cmocka_unit_test(control_bytes_in_a_steps_name_are_not_shown),
		cmocka_unit_test(what_a_silent_init_does_not_read_waits_and_is_lost_with_it),
		REAL(a_slot_starts_in_its_cgroup_and_a_command_in_its_own), /* last: see below */
	};
	size_t count = sizeof(tests) / sizeof(*tests);
#undef REAL

	if (!fixture_begin_tests(argc, argv))
		return 0;
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	if (!has_cgroups())
		count--;
	return _cmocka_run_group_tests("bubble", tests, count, NULL, NULL);
}
