/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Commands in a real bubble. */
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "tests/support/bubble-fixture.h"

/* One bubble serves all cases: what one leaves behind must not disturb the next. */
static int set_up(void **state)
{
	int r = fixture_set_up(state);

	(void)fixture_start(*state, 0);
	return r;
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

static void assert_not_started(const struct fixture_result *result, const char *step, int code)
{
	assert_false(result->started);
	assert_string_equal(result->failed_step, step);
	assert_int_equal(result->end.start_errno, code);
}

static void expect_output(struct fixture *fixture, const char *script, const char *output)
{
	struct fixture_result result;

	fixture_shell(fixture, 0, script, &result);
	assert_true(result.started);
	assert_string_equal(result.out.data, output);
	fixture_result_fini(&result);
}

static void a_command_runs_and_its_output_and_status_come_back(void **state)
{
	struct fixture_result result;

	fixture_shell(*state, 0, "echo out; echo err >&2; id -u; pwd; exit 7", &result);
	assert_exit(&result, 7);
	assert_string_equal(result.out.data, "out\nerr\n1000\n/workspace\n");
	assert_true(result.inside_pid > 1);
	assert_true(result.end.rusage.ru_maxrss > 0);
	fixture_result_fini(&result);
}

static void a_signal_that_ended_it_is_told(void **state)
{
	struct fixture_result result;

	fixture_shell(*state, 0, "kill -TERM $$", &result);
	assert_true(WIFSIGNALED(result.end.wait_status));
	assert_int_equal(WTERMSIG(result.end.wait_status), SIGTERM);
	fixture_result_fini(&result);
}

static void argv_reaches_the_program_byte_for_byte(void **state)
{
	struct fixture_result result;

	fixture_run(*state, 0, (const char *const[]){"printf", "[%s]", "", "a b", "\xff\n$x", NULL},
		&result);
	assert_exit(&result, 0);
	assert_string_equal(result.out.data, "[][a b][\xff\n$x]");
	fixture_result_fini(&result);
}

static void the_environment_is_the_callers_and_nothing_else(void **state)
{
	struct fixture_result result;

	fixture_run(*state, 0, (const char *const[]){"env", NULL}, &result);
	assert_exit(&result, 0);
	assert_string_equal(
		result.out.data, "PATH=/usr/local/bin:/usr/bin:/bin\nHOME=/home/blackbox\n");
	fixture_result_fini(&result);
}

static void a_megabyte_of_arguments_arrives_whole(void **state)
{
	enum { COUNT = 10, SIZE = 100000 };
	const char *argv[COUNT + 5] = {"sh", "-c", "printf %s \"$@\" | md5sum", "sh"};
	char *word = calloc(1, SIZE + 1);
	struct fixture_result result;

	memset(word, 'x', SIZE);
	for (int i = 0; i < COUNT; i++)
		argv[4 + i] = word;
	fixture_run(*state, 0, argv, &result);
	assert_exit(&result, 0);
	/* head -c 1000000 /dev/zero | tr '\0' x | md5sum */
	assert_string_equal(result.out.data, "ec78dbd963d2fc01e51176ed4dec299e  -\n");
	fixture_result_fini(&result);
	free(word);
}

static void an_argument_beyond_the_kernels_limit_fails_in_step_exec(void **state)
{
	enum { SIZE = 200000 };
	char *word = calloc(1, SIZE + 1);
	struct fixture_result result;

	memset(word, 'x', SIZE);
	fixture_run(*state, 0, (const char *const[]){"true", word, NULL}, &result);
	assert_not_started(&result, "exec", E2BIG);
	fixture_result_fini(&result);
	free(word);
}

static void a_program_that_is_not_there_fails_in_step_exec(void **state)
{
	const char *const names[] = {
		"no-such-program", "/no/such/program", "./no-such-program", "", NULL};

	for (const char *const *name = names; *name; name++) {
		struct fixture_result result;

		fixture_run(*state, 0, (const char *const[]){*name, NULL}, &result);
		assert_not_started(&result, "exec", ENOENT);
		fixture_result_fini(&result);
	}
}

static void a_file_that_is_no_program_fails_in_step_exec(void **state)
{
	struct fixture_result result;

	expect_output(*state,
		"echo text > plain; mkdir -p there; printf '\\177ELF' > broken; chmod +x broken",
		"");
	fixture_run(*state, 0, (const char *const[]){"./plain", NULL}, &result);
	assert_not_started(&result, "exec", EACCES);
	fixture_result_fini(&result);
	fixture_run(*state, 0, (const char *const[]){"/workspace/there", NULL}, &result);
	assert_not_started(&result, "exec", EACCES);
	fixture_result_fini(&result);
	fixture_run(*state, 0, (const char *const[]){"./broken", NULL}, &result);
	assert_not_started(&result, "exec", ENOEXEC);
	fixture_result_fini(&result);
}

static void run_with(struct fixture *fixture, const char *const *argv, const char *const *env,
	const char *cwd, struct fixture_result *result)
{
	struct bubble_exec_options options = {.argv = argv,
		.env = env,
		.cwd = cwd,
		.stdin_fd = -1,
		.extra_fd = -1,
		.cgroup_fd = -1};

	fixture_begin_with(fixture, 0, &options, result);
	fixture_finish(fixture, result);
}

static void PATH_is_searched_as_the_command_has_it(void **state)
{
	const char *const argv[] = {"tool", NULL};
	struct fixture_result result;

	expect_output(*state,
		"mkdir -p a b; echo > a/tool; printf '#!/bin/sh\\necho b\\n' > b/tool; chmod +x b/tool",
		"");
	run_with(*state, argv,
		(const char *const[]){"PATH=/nowhere:/workspace/a:/workspace/b", NULL}, "/",
		&result);
	assert_exit(&result, 0);
	assert_string_equal(result.out.data, "b\n");
	fixture_result_fini(&result);
	/* one that may not be executed is remembered when no other is found */
	run_with(*state, argv, (const char *const[]){"PATH=/workspace/a:/nowhere", NULL}, "/",
		&result);
	assert_not_started(&result, "exec", EACCES);
	fixture_result_fini(&result);
	/* an empty entry is the working directory, as everywhere */
	run_with(*state, argv, (const char *const[]){"PATH=", NULL}, "/workspace/b", &result);
	assert_exit(&result, 0);
	fixture_result_fini(&result);
	run_with(*state, (const char *const[]){"true", NULL}, (const char *const[]){NULL}, "/",
		&result);
	assert_exit(&result, 0);
	fixture_result_fini(&result);
}

static void a_missing_cwd_fails_in_step_chdir(void **state)
{
	struct fixture_result result;

	run_with(*state, (const char *const[]){"true", NULL}, (const char *const[]){NULL},
		"/no/such", &result);
	assert_not_started(&result, "chdir", ENOENT);
	fixture_result_fini(&result);
	run_with(*state, (const char *const[]){"true", NULL}, (const char *const[]){NULL},
		"/etc/passwd", &result);
	assert_not_started(&result, "chdir", ENOTDIR);
	fixture_result_fini(&result);
}

static void a_command_has_its_stdio_and_nothing_more(void **state)
{
	expect_output(*state, "readlink /proc/self/fd/0; ls /proc/self/fd | tr '\\n' ' '",
		"/dev/null\n0 1 2 3 ");
}

static void an_extra_descriptor_is_number_three(void **state)
{
	int memfd = memfd_create("script", MFD_CLOEXEC);
	struct bubble_exec_options options = {
		.argv = (const char *const[]){"/bin/sh", "/proc/self/fd/3", "arg", NULL},
		.env = (const char *const[]){"A=b", NULL},
		.cwd = "/workspace",
		.stdin_fd = -1,
		.extra_fd = memfd,
		.cgroup_fd = -1};
	struct fixture_result result;

	assert_int_equal(write(memfd, "echo $1 $A\n", 11), 11);
	fixture_begin_with(*state, 0, &options, &result);
	fixture_finish(*state, &result);
	assert_exit(&result, 0);
	assert_string_equal(result.out.data, "arg b\n");
	fixture_result_fini(&result);
	(void)close(memfd);
}

static void commands_start_with_default_signals_and_none_blocked(void **state)
{
	expect_output(*state, "cat /proc/self/status | grep -E 'Sig(Blk|Ign|Cgt)' | tr -d '\\t\\n'",
		"SigBlk:0000000000000000SigIgn:0000000000000000SigCgt:0000000000000000");
}

static void a_command_leads_a_session_and_group_of_its_own(void **state)
{
	expect_output(*state,
		"read -r pid comm st ppid pgrp sid rest < /proc/self/stat; [ $pgrp = $sid ] && echo alone",
		"alone\n");
}

/* A command that waits until its standard input ends. */
static int begin_waiting(struct fixture *fixture, const char *script, struct fixture_result *result)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};
	struct bubble_exec_options options = {.argv = argv,
		.env = (const char *const[]){"PATH=/usr/bin:/bin", NULL},
		.cwd = "/workspace",
		.extra_fd = -1,
		.cgroup_fd = -1};
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	options.stdin_fd = ends[0];
	fixture_begin_with(fixture, 0, &options, result);
	(void)close(ends[0]);
	return ends[1];
}

static void commands_run_side_by_side(void **state)
{
	struct fixture_result waiting;
	int input = begin_waiting(*state, "cat; echo end", &waiting);

	expect_output(*state, "echo other", "other\n");
	assert_false(waiting.ended);
	assert_int_equal(write(input, "in\n", 3), 3);
	(void)close(input);
	fixture_finish(*state, &waiting);
	assert_string_equal(waiting.out.data, "in\nend\n");
	fixture_result_fini(&waiting);
}

static void a_long_command_is_told_started_while_it_runs(void **state)
{
	struct fixture *fixture = *state;
	struct fixture_result waiting;
	int input = begin_waiting(fixture, "read x", &waiting);

	fixture_wait(fixture, &waiting.started);
	assert_false(waiting.ended);
	(void)close(input);
	fixture_finish(fixture, &waiting);
	fixture_result_fini(&waiting);
}

static void a_signal_reaches_the_whole_group(void **state)
{
	struct fixture_result result;
	int input = begin_waiting(*state, "cat & cat; echo never", &result);

	fixture_wait(*state, &result.started);
	bubble_exec_signal(result.exec, SIGKILL);
	fixture_finish(*state, &result);
	assert_true(WIFSIGNALED(result.end.wait_status));
	assert_string_equal(result.out.data, "");
	/* nobody of the group holds the other end */
	assert_int_equal(poll(&(struct pollfd){.fd = input}, 1, 20000), 1);
	(void)close(input);
	fixture_result_fini(&result);
}

static void orphans_live_on_and_are_reaped(void **state)
{
	expect_output(*state,
		"(setsid sleep 1000 >/dev/null 2>&1 &) ; for i in 1 2 3; do (true &); done", "");
	expect_output(*state,
		"until pgrep -x sleep >/dev/null; do :; done; pkill -KILL -x sleep\n"
		"while pgrep -x 'sleep|true' >/dev/null; do :; done; echo gone",
		"gone\n");
}

static void mark(void *data)
{
	*(bool *)data = true;
}

static void a_child_stopped_before_its_exec_does_not_hold_init(void **state)
{
	struct fixture *fixture = *state;
	struct fixture_result attacker;
	unsigned stopped = 0;
	int input;

	input = begin_waiting(*state, "while :; do kill -STOP -1; done", &attacker);
	fixture_wait(*state, &attacker.started);
	for (int i = 0; i < 30; i++) {
		struct fixture_result victim;

		struct loop_timer *timer;
		bool late = false;

		fixture_begin(*state, 0, (const char *const[]){"true", NULL}, &victim);
		assert_int_equal(loop_timer_start(fixture->loop, 20, mark, &late, &timer, NULL), 0);
		while (!victim.ended && !late)
			fixture_turn(fixture);
		loop_timer_stop(timer);
		/* stopped somewhere: kill it, which init must be there to do */
		if (!victim.ended) {
			stopped++;
			bubble_exec_kill(victim.exec);
			fixture_wait(fixture, &victim.ended);
		}
		fixture_result_fini(&victim);
	}
	print_message("# %u of 30 were stopped\n", stopped);
	bubble_exec_signal(attacker.exec, SIGKILL);
	fixture_wait(*state, &attacker.ended);
	(void)close(input);
	fixture_result_fini(&attacker);
}

static void processes_that_fork_for_ever_do_not_starve_init(void **state)
{
	enum { COUNT = 4 };
	struct fixture_result churn[COUNT];
	int inputs[COUNT];

	for (int i = 0; i < COUNT; i++)
		inputs[i] = begin_waiting(*state, "while :; do (true &) ; done", &churn[i]);
	for (int i = 0; i < COUNT; i++)
		fixture_wait(*state, &churn[i].started);
	for (int i = 0; i < 10; i++) {
		struct fixture_result other;

		fixture_run(*state, 0, (const char *const[]){"true", NULL}, &other);
		assert_exit(&other, 0);
		fixture_result_fini(&other);
	}
	for (int i = 0; i < COUNT; i++) {
		if (!churn[i].ended) /* dash ends by itself where it may not fork */
			bubble_exec_signal(churn[i].exec, SIGKILL);
		fixture_wait(*state, &churn[i].ended);
		(void)close(inputs[i]);
		fixture_result_fini(&churn[i]);
	}
}

static void limits_hold(void **state)
{
	expect_output(*state, "grep -E 'processes|open files|core' /proc/self/limits | tr -s ' '",
		"Max core file size 0 0 bytes \nMax processes 256 256 processes \nMax open files 512 512 files \n");
}

static void etc_has_its_user_and_no_secrets(void **state)
{
	expect_output(*state,
		"id -un; id -gn; id -G; getent passwd agent; getent hosts localhost | tr -s ' '",
		"agent\nagent\n1000\nagent:x:1000:1000:agent:/home/blackbox:/bin/sh\n::1 localhost slot\n");
	expect_output(*state,
		"ls /etc/shadow /etc/gshadow /etc/profile /etc/sudoers /etc/ssh 2>/dev/null; true",
		"");
	expect_output(*state,
		"hostname; test -e /etc/ld.so.cache && test -d /etc/alternatives && echo there",
		"slot\nthere\n");
}

/* Another configuration, another fixture. */
static void expect_with(const struct config *config, const char *script, const char *output)
{
	struct fixture fixture;

	fixture_init(&fixture);
	fixture.config = *config;
	fixture_open(&fixture);
	(void)fixture_start(&fixture, 0);
	expect_output(&fixture, script, output);
	fixture_fini(&fixture);
}

static void the_inside_user_may_be_root_without_being_it(void **state)
{
	struct config config = ((struct fixture *)*state)->config;

	config.slot.uid = config.slot.gid = 0;
	expect_with(&config,
		"id -un; id -u; touch /workspace/f && stat -c %u /workspace/f; chown 1 /workspace/f 2>&1",
		"root\n0\n0\nchown: changing ownership of '/workspace/f': Invalid argument\n");
}

static void in_the_hosts_network_its_names_and_interfaces_are_there(void **state)
{
	struct config config = ((struct fixture *)*state)->config;
	CLEANUP(strbuf_fini) struct strbuf expected = STRBUF_INIT;
	FILE *command =
		popen("cat /etc/resolv.conf; ls /sys/class/net | sort | tr '\\n' ' '", "re");
	size_t n;

	do {
		n = fread(strbuf_room(&expected, 4096), 1, 4096, command);
		strbuf_grown(&expected, n);
	} while (n > 0);
	(void)pclose(command);
	config.slot.network = NETWORK_HOST;
	expect_with(&config,
		"cat /etc/resolv.conf; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | sort | tr '\\n' ' '",
		expected.data);
}

static void readonly_mounts_replace_the_usual_ones(void **state)
{
	struct config config = ((struct fixture *)*state)->config;
	const char *const wanted[] = {
		"/usr/bin", "/usr/lib", "/usr/lib64", "/bin", "/lib", "/lib64"};
	char *words[7] = {NULL};
	size_t count = 0;

	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		if (access(wanted[i], F_OK) == 0)
			words[count++] = (char *)wanted[i];
	}
	config.slot.readonly_mounts = (struct word_list){.words = words, .count = count};
	expect_with(&config,
		"ls -d /usr/bin /usr/share /sbin 2>/dev/null; stat -c %a /usr; touch /usr/bin/x 2>/dev/null || echo read-only",
		"/usr/bin\n755\nread-only\n");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_command_runs_and_its_output_and_status_come_back),
		cmocka_unit_test(a_signal_that_ended_it_is_told),
		cmocka_unit_test(argv_reaches_the_program_byte_for_byte),
		cmocka_unit_test(the_environment_is_the_callers_and_nothing_else),
		cmocka_unit_test(a_megabyte_of_arguments_arrives_whole),
		cmocka_unit_test(an_argument_beyond_the_kernels_limit_fails_in_step_exec),
		cmocka_unit_test(a_program_that_is_not_there_fails_in_step_exec),
		cmocka_unit_test(a_file_that_is_no_program_fails_in_step_exec),
		cmocka_unit_test(PATH_is_searched_as_the_command_has_it),
		cmocka_unit_test(a_missing_cwd_fails_in_step_chdir),
		cmocka_unit_test(a_command_has_its_stdio_and_nothing_more),
		cmocka_unit_test(an_extra_descriptor_is_number_three),
		cmocka_unit_test(commands_start_with_default_signals_and_none_blocked),
		cmocka_unit_test(a_command_leads_a_session_and_group_of_its_own),
		cmocka_unit_test(commands_run_side_by_side),
		cmocka_unit_test(a_long_command_is_told_started_while_it_runs),
		cmocka_unit_test(a_signal_reaches_the_whole_group),
		cmocka_unit_test(orphans_live_on_and_are_reaped),
		cmocka_unit_test(a_child_stopped_before_its_exec_does_not_hold_init),
		cmocka_unit_test(processes_that_fork_for_ever_do_not_starve_init),
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(etc_has_its_user_and_no_secrets),
		cmocka_unit_test(the_inside_user_may_be_root_without_being_it),
		cmocka_unit_test(in_the_hosts_network_its_names_and_interfaces_are_there),
		cmocka_unit_test(readonly_mounts_replace_the_usual_ones),
	};
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	(void)sigaction(
		SIGPIPE, &ignore, NULL); /* as the daemon does; commands must not inherit it */
	if (!fixture_begin_tests(argc, argv))
		return 0;
	return cmocka_run_group_tests(tests, set_up, fixture_tear_down);
}
