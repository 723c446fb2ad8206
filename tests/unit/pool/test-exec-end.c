/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How commands are asked to end and then made to, in real slots with a grace between the two.
 * `--user` runs everything as an ordinary user's daemon, which has no cgroups. */
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "base/operation.h"
#include "base/strbuf.h"
#include "pool/exec.h"
#include "tests/support/bubble-fixture.h"
#include "tests/support/pool-fixture.h"

static struct pool_fixture fixture;

static struct pool_fixture *f = &fixture;
static struct slot *slot;

static int open_pool(void **state)
{
	static const char *const overrides[] = {"exec.kill_grace=2s", NULL};

	pool_fixture_init(f, 1, overrides);
	pool_fixture_open(f);
	return 0;
}

static int close_pool(void **state)
{
	pool_fixture_fini(f);
	return 0;
}

static int set_up(void **state)
{
	slot = loan_take(f, "t");
	return 0;
}

static int tear_down(void **state)
{
	pool_return(f->pool, slot, REASON_TERMINATED);
	return 0;
}

/* Runs the script until its time is over. */
static void time_out(struct run_outcome *run, const char *script, uint64_t timeout_ms)
{
	const struct command command = {
		.script = (char *)script, .timeout_ms = timeout_ms, .max_output = 4096};

	run_command(slot, run, &command);
	assert_true(run->result.timed_out);
	assert_int_equal(run->result.returncode, -SIGKILL);
	assert_int_equal(run->result.reason, REASON_TIMEOUT);
}

static void assert_prints(const char *script, const char *output)
{
	struct run_outcome run;

	run_script(slot, &run, script);
	assert_string_equal(run.result.out.data, output);
	run_fini(&run);
}

/* Commands' processes in the slot, beside the shell that counts; the dead may show for a moment. */
static void assert_nothing_lives(void)
{
	assert_prints("for i in $(seq 500); do set -- /proc/[0-9]*; [ $# -le 1 ] && break;"
		      " sleep 0.01; done; echo $(($# - 1))",
		"0\n");
}

static void a_command_may_say_goodbye_in_its_grace(void **state)
{
	struct run_outcome run;

	time_out(&run, "trap 'echo bye; exit 7' TERM; sleep 1000 & wait", 1500);
	assert_string_equal(run.result.out.data, "bye\n");
	assert_int_equal(run.result.signal, 0);
	assert_non_null(strstr(run.result.detail, "status 7"));
	run_fini(&run);
}

static void the_signal_that_ended_a_command_out_of_time_is_told(void **state)
{
	struct run_outcome run;

	time_out(&run, "exec sleep 1000", 300);
	assert_int_equal(run.result.signal, SIGTERM);
	assert_string_equal(run.result.detail, "");
	run_fini(&run);
	time_out(&run, "trap '' TERM; while :; do sleep 0.1; done", 1500);
	assert_int_equal(run.result.signal, SIGKILL);
	run_fini(&run);
	assert_nothing_lives();
}

/* In a session of its own, and its parents are gone when it has done: only the cgroup knows it. */
static void every_process_of_the_tree_may_clean_up_in_the_grace(void **state)
{
	struct run_outcome run;

	if (!pool_fixture_has_cgroups(f))
		return;
	time_out(&run,
		"setsid sh -c 'trap \"sleep 0.3; echo clean >cleaned; exit\" TERM; touch up;"
		" while :; do sleep 0.1; done' & until [ -e up ]; do sleep 0.01; done;"
		" touch began; exec sleep 1000",
		2500);
	assert_int_equal(run.result.signal, SIGTERM);
	assert_prints("cat cleaned", "clean\n");
	assert_nothing_lives();
	run_fini(&run);
}

static void what_ignores_TERM_is_dead_after_the_grace(void **state)
{
	struct run_outcome run;

	time_out(&run,
		"for i in 1 2 3; do setsid sh -c 'trap \"\" TERM; while :; do sleep 1000; done' & done;"
		" exec sleep 1000",
		2000);
	assert_int_equal(run.result.signal, SIGTERM);
	assert_nothing_lives();
	run_fini(&run);
}

/* Init tells only after 20 ms that a command runs; before that a kill is repeated anyhow. */
static void begin_long_one(struct run_outcome *run)
{
	run_begin_script(slot, run, "touch up; exec sleep 1000");
	assert_prints("until [ -e up ]; do sleep 0.01; done; rm up; sleep 0.1", "");
}

/* cgroup.procs of the only command that runs, open for writing. */
static int open_its_processes(void)
{
	CLEANUP(globfree) glob_t found = {0};
	char pattern[4200];
	int fd = -1;

	(void)snprintf(pattern, sizeof(pattern), "%s/slot-0000-g*/{.,work}/cmd-*/cgroup.procs",
		pool_cgroups(f->pool));
	assert_int_equal(glob(pattern, GLOB_BRACE, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

		if (read_text(found.gl_pathv[i], &text) == 0 && text.size > 0)
			fd = open(found.gl_pathv[i], O_WRONLY | O_CLOEXEC);
	}
	assert_true(fd >= 0);
	return fd;
}

static pid_t start_sleeper(void)
{
	char *argv[] = {(char *)"sleep", (char *)"1000", NULL};
	pid_t pid;

	assert_int_equal(posix_spawnp(&pid, "sleep", NULL, NULL, argv, environ), 0);
	return pid;
}

static void who_comes_into_a_killed_cgroup_late_is_killed_too(void **state)
{
	struct run_outcome run;
	pid_t late;
	int fd, status;

	if (!pool_fixture_has_cgroups(f))
		return;
	begin_long_one(&run);
	fd = open_its_processes();
	late = start_sleeper();
	operation_cancel(run.op);
	assert_true(dprintf(fd, "%d", (int)late) > 0);
	(void)close(fd);
	pool_fixture_wait(f, &run.ended);
	(void)kill(late, SIGUSR1); /* if it lives it ends by this one */
	assert_int_equal(waitpid(late, &status, 0), late);
	assert_int_equal(WTERMSIG(status), SIGKILL);
	assert_int_equal(run.result.reason, REASON_CANCELLED);
	run_fini(&run);
}

/* The daemon does not look at anything for longer than a killed command may live. */
static void a_kill_that_was_complete_is_not_called_otherwise_by_a_daemon_that_looks_late(
	void **state)
{
	unsigned patience_ms = pool_fixture_has_cgroups(f) ? EXEC_GIVE_UP_MS : EXEC_HUNT_MS;
	struct run_outcome run;

	begin_long_one(&run);
	operation_cancel(run.op);
	(void)usleep((patience_ms + 600) * 1000);
	pool_fixture_wait(f, &run.ended);
	assert_int_equal(run.result.reason, REASON_CANCELLED);
	assert_int_equal(run.result.signal, SIGKILL);
	run_fini(&run);
	assert_prints("echo alive", "alive\n");
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(a_command_may_say_goodbye_in_its_grace),
		CASE(the_signal_that_ended_a_command_out_of_time_is_told),
		CASE(every_process_of_the_tree_may_clean_up_in_the_grace),
		CASE(what_ignores_TERM_is_dead_after_the_grace),
		CASE(who_comes_into_a_killed_cgroup_late_is_killed_too),
		CASE(a_kill_that_was_complete_is_not_called_otherwise_by_a_daemon_that_looks_late),
	};

	if (!fixture_begin_tests(argc, argv))
		return 0;
	log_set_level(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, open_pool, close_pool);
}
