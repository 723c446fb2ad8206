/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Commands in real slots. `--user` runs everything as an ordinary user's daemon, which has no
 * cgroups. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/operation.h"
#include "base/strbuf.h"
#include "pool/events.h"
#include "pool/exec.h"
#include "tests/support/bubble-fixture.h"
#include "tests/support/pool-fixture.h"

static struct pool_fixture fixture;

static struct pool_fixture *f = &fixture;

static int open_pool(void **state)
{
	pool_fixture_init(f, 1, NULL);
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
	*state = loan_take(f, "t");
	return 0;
}

static int tear_down(void **state)
{
	pool_return(f->pool, *state, REASON_TERMINATED);
	return 0;
}

/* Runs a script and gives its output, which must be all there is. */
static void assert_prints(struct slot *slot, const char *script, const char *output)
{
	struct run_outcome run;

	run_script(slot, &run, script);
	assert_string_equal(run.result.out.data, output);
	assert_string_equal(run.result.err.data, "");
	run_fini(&run);
}

/* Commands' processes in the slot, beside the shell that counts. Init does not show. */
static unsigned count_processes(struct slot *slot)
{
	struct run_outcome run;
	unsigned count;

	run_script(slot, &run, "set -- /proc/[0-9]*; echo $(($# - 1))");
	count = (unsigned)strtoul(run.result.out.data, NULL, 10);
	run_fini(&run);
	return count;
}

/* The dead may show for a moment, until init has reaped them. */
static void assert_processes(struct slot *slot, unsigned count)
{
	for (unsigned i = 0; i < 100 && count_processes(slot) != count; i++)
		assert_prints(slot, "sleep 0.1", "");
	assert_int_equal(count_processes(slot), count);
}

static void words_reach_the_program_as_they_are(void **state)
{
	char *argv[] = {(char *)"printf", (char *)"%s|", (char *)"a b", (char *)"$HOME;`id`",
		(char *)"", (char *)"*", NULL};
	const struct command command = {.argv = argv, .max_output = 4096};
	struct run_outcome run;

	run_command(*state, &run, &command);
	assert_string_equal(run.result.out.data, "a b|$HOME;`id`||*|");
	run_fini(&run);
}

static void a_script_of_many_lines_with_quotes_runs_whole(void **state)
{
	assert_prints(*state, "for i in 1 2; do\n\techo \"l$i\"\ndone\ncat <<'X'\n$y\nX\n",
		"l1\nl2\n$y\n");
}

static void a_script_larger_than_an_argument_may_be_runs_alike(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf script = STRBUF_INIT;

	while (script.size < 1 << 20)
		strbuf_adds(&script, "# this line is a comment and nothing else\n");
	strbuf_adds(&script,
		"echo \"$0 $#\"; ls -l /proc/self/fd | grep -c script; exit 0\necho not reached\n");
	assert_prints(*state, script.data, "/bin/sh 0\n0\n");
}

static void standard_input_is_empty_unless_given(void **state)
{
	assert_prints(*state, "cat; readlink /proc/self/fd/0", "/dev/null\n");
}

static void standard_input_is_fed_whole_and_ends(void **state)
{
	size_t size = 3 << 20;
	char *bytes = malloc(size);
	const struct command command = {.script = (char *)"wc -c; cat </dev/null",
		.stdin_data = bytes,
		.stdin_size = size,
		.max_output = 4096};
	struct run_outcome run;

	memset(bytes, 'x', size);
	run_command(*state, &run, &command);
	assert_string_equal(run.result.out.data, "3145728\n");
	run_fini(&run);
	free(bytes);
}

static void input_that_nobody_reads_holds_nothing_up(void **state)
{
	size_t size = 3 << 20;
	char *bytes = calloc(1, size);
	const struct command command = {.script = (char *)"head -c 5 >/dev/null; echo done",
		.stdin_data = bytes,
		.stdin_size = size,
		.max_output = 4096};
	struct run_outcome run;

	run_command(*state, &run, &command);
	assert_string_equal(run.result.out.data, "done\n");
	run_fini(&run);
	free(bytes);
}

static void the_streams_can_be_opened_by_their_names_in_dev(void **state)
{
	const struct command command = {
		.script = (char *)"cat /dev/stdin >/dev/stdout; echo e >/dev/stderr",
		.stdin_data = (char *)"hi",
		.stdin_size = 2,
		.max_output = 4096};
	struct run_outcome run;

	run_command(*state, &run, &command);
	assert_string_equal(run.result.out.data, "hi");
	assert_string_equal(run.result.err.data, "e\n");
	run_fini(&run);
}

static void a_directory_is_relative_to_the_workspace(void **state)
{
	struct command command = {
		.script = (char *)"pwd", .cwd = (char *)"sub/dir", .max_output = 4096};
	struct run_outcome run;

	assert_prints(*state, "mkdir -p sub/dir", "");
	run_command(*state, &run, &command);
	assert_string_equal(run.result.out.data, "/workspace/sub/dir\n");
	run_fini(&run);
	command.cwd = (char *)"/tmp";
	run_command(*state, &run, &command);
	assert_string_equal(run.result.out.data, "/tmp\n");
	run_fini(&run);
}

static void a_program_that_is_not_there_gives_127_and_a_sentence(void **state)
{
	char *argv[] = {(char *)"no-such-program", NULL};
	const struct command command = {.argv = argv, .max_output = 4096};
	struct run_outcome run;

	run_command(*state, &run, &command);
	assert_int_equal(run.result.returncode, 127);
	assert_true(run.result.has_returncode);
	assert_false(run.result.started);
	assert_false(run.result.infra_failure);
	assert_non_null(strstr(run.result.start_error, "No such file"));
	assert_non_null(strstr(run.result.err.data, "No such file"));
	run_fini(&run);
}

static void what_cannot_be_executed_or_entered_gives_126(void **state)
{
	char *argv[] = {(char *)"/usr", NULL};
	struct command command = {.argv = argv, .max_output = 4096};
	struct run_outcome run;

	run_command(*state, &run, &command);
	assert_int_equal(run.result.returncode, 126);
	run_fini(&run);
	command.argv[0] = (char *)"true";
	command.cwd = (char *)"nowhere";
	run_command(*state, &run, &command);
	assert_int_equal(run.result.returncode, 126);
	assert_non_null(strstr(run.result.start_error, "directory"));
	run_fini(&run);
}

static void a_signal_is_told_as_its_negative_number(void **state)
{
	struct run_outcome run;

	run_script(*state, &run, "kill -TERM $$");
	assert_int_equal(run.result.returncode, -SIGTERM);
	assert_int_equal(run.result.signal, SIGTERM);
	run_fini(&run);
}

static void sigpipe_is_not_ignored_inside(void **state)
{
	assert_prints(*state, "bash -o pipefail -c 'yes | head -1; echo $?'", "y\n141\n");
}

static void bytes_of_any_kind_come_back_as_they_are(void **state)
{
	struct run_outcome run;

	run_script(*state, &run, "printf 'a\\000b\\377\\n'");
	assert_int_equal(run.result.out.size, 5);
	assert_memory_equal(run.result.out.data, "a\0b\xff\n", 5);
	run_fini(&run);
}

static void output_beyond_the_limit_is_counted_and_lost(void **state)
{
	const struct command command = {
		.script = (char *)"printf 123456789; yes | head -c 200000000; printf err >&2",
		.max_output = 5};
	struct run_outcome run;

	run_command(*state, &run, &command);
	assert_int_equal(run.result.returncode, 0);
	assert_string_equal(run.result.out.data, "12345");
	assert_int_equal(run.result.out_bytes, 200000009);
	assert_string_equal(run.result.err.data, "err");
	assert_int_equal(run.result.err_bytes, 3);
	run_fini(&run);
}

static void what_a_lease_keeps_in_memory_is_bounded(void **state)
{
	static const char *const overrides[] = {"exec.spool_budget=1M", NULL};
	static struct pool_fixture small;
	const struct command command = {
		.script =
			(char *)"head -c 800000 /dev/zero; touch done$$; until [ -e go ]; do sleep 0.02; done",
		.max_output = 10 << 20};
	struct run_outcome first, second, last;
	struct slot *slot;

	pool_fixture_init(&small, 1, overrides);
	pool_fixture_open(&small);
	slot = loan_take(&small, "t");
	run_begin(slot, &first, &command);
	run_begin(slot, &second, &command);
	run_script(slot, &last, "until set -- done* && [ $# = 2 ]; do sleep 0.02; done; touch go");
	run_fini(&last);
	pool_fixture_wait(&small, &first.ended);
	pool_fixture_wait(&small, &second.ended);
	assert_int_equal(first.result.out_bytes, 800000);
	assert_int_equal(second.result.out_bytes, 800000);
	assert_int_equal(first.result.out.size + second.result.out.size, 1 << 20);
	run_begin(slot, &last, &command);
	pool_fixture_wait(&small, &last.ended);
	assert_int_equal(last.result.out.size, 800000);
	run_fini(&first);
	run_fini(&second);
	run_fini(&last);
	pool_fixture_fini(&small);
}

static void more_commands_at_once_than_may_be_are_refused(void **state)
{
	enum { COUNT = 260 };
	static struct run_outcome runs[COUNT];
	unsigned refused = 0;

	for (unsigned i = 0; i < COUNT; i++)
		run_begin_script(*state, &runs[i], "exec sleep 1000");
	for (unsigned i = 0; i < COUNT; i++)
		if (i >= 256)
			pool_fixture_wait(f, &runs[i].ended);
	for (unsigned i = 0; i < COUNT; i++)
		refused += runs[i].ended && runs[i].r == -EAGAIN;
	assert_int_equal(refused, 4);
	pool_return(f->pool, *state, REASON_TERMINATED);
	for (unsigned i = 0; i < COUNT; i++) {
		pool_fixture_wait(f, &runs[i].ended);
		run_fini(&runs[i]);
	}
}

static void the_environment_is_made_from_nothing(void **state)
{
	char *env[] = {(char *)"HOME=/tmp/h", (char *)"MINE=a=b",
		(char *)"DRESSAGE_BLACKBOX_SLOT_ID=99", NULL};
	const struct command command = {.script = (char *)"env", .env = env, .max_output = 65536};
	struct run_outcome run;

	assert_int_equal(setenv("A_SECRET_OF_THE_DAEMON", "x", 1), 0);
	assert_int_equal(setenv("LC_TEST", "y", 1), 0);
	run_command(*state, &run, &command);
	assert_null(strstr(run.result.out.data, "A_SECRET"));
	assert_non_null(strstr(run.result.out.data, "LC_TEST=y\n"));
	assert_non_null(strstr(run.result.out.data, "HOME=/tmp/h\n"));
	assert_non_null(strstr(run.result.out.data, "MINE=a=b\n"));
	assert_non_null(strstr(run.result.out.data, "TMPDIR=/tmp\n"));
	assert_non_null(strstr(run.result.out.data, "DRESSAGE_BLACKBOX_SLOT_ID=0\n"));
	assert_non_null(strstr(run.result.out.data, "NVIDIA_VISIBLE_DEVICES=void\n"));
	run_fini(&run);
}

static void a_timed_out_command_keeps_its_output_and_its_tree_is_dead(void **state)
{
	const struct command command = {
		.script =
			(char *)"echo before; for i in $(seq 20); do setsid sh -c 'trap \"\" TERM; sleep 1000' & done; sleep 1000",
		.timeout_ms = 2000,
		.max_output = 4096};
	struct run_outcome run;

	run_command(*state, &run, &command);
	assert_true(run.result.timed_out);
	assert_int_equal(run.result.returncode, -9);
	assert_string_equal(run.result.out.data, "before\n");
	assert_int_equal(run.result.reason, REASON_TIMEOUT);
	assert_processes(*state, 0);
	run_fini(&run);
}

static void a_timed_out_process_group_is_dead_without_cgroups_too(void **state)
{
	const struct command command = {
		.script = (char *)"trap '' TERM INT; sleep 1000 | sleep 1000 & sleep 1000",
		.timeout_ms = 300,
		.max_output = 4096};
	struct run_outcome run;

	run_command(*state, &run, &command);
	assert_true(run.result.timed_out);
	assert_int_equal(run.result.reason, REASON_TIMEOUT);
	assert_processes(*state, 0);
	run_fini(&run);
}

static void a_tree_that_forks_without_end_is_killed(void **state)
{
	const struct command command = {
		.script =
			(char *)"f() { while :; do (setsid sh -c 'sleep 0.01' &) ; done; }; f & f & f & wait",
		.timeout_ms = 500,
		.max_output = 4096};
	struct run_outcome run;

	run_command(*state, &run, &command);
	assert_int_equal(run.result.reason, REASON_TIMEOUT);
	assert_processes(*state, 0);
	run_fini(&run);
}

static void a_killed_command_leaves_the_others_of_its_lease_alone(void **state)
{
	const struct command command = {
		.script = (char *)"sleep 1000", .timeout_ms = 200, .max_output = 4096};
	struct run_outcome bystander, run;

	assert_prints(*state, "mkfifo /workspace/fifo", "");
	run_begin_script(*state, &bystander, "read line </workspace/fifo; echo $line");
	run_command(*state, &run, &command);
	assert_true(run.result.timed_out);
	assert_false(bystander.ended);
	assert_prints(*state, "echo alive >/workspace/fifo", "");
	pool_fixture_wait(f, &bystander.ended);
	run_fini(&run);
	run_fini(&bystander);
}

static void a_silent_command_ends_after_its_idle_time(void **state)
{
	const struct command command = {
		.script = (char *)"for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done; sleep 1000",
		.idle_timeout_ms = 2500,
		.max_output = 4096};
	struct run_outcome run;

	run_command(*state, &run, &command);
	assert_true(run.result.timed_out);
	assert_int_equal(run.result.reason, REASON_IDLE_TIMEOUT);
	assert_string_equal(run.result.out.data, "1\n2\n3\n4\n5\n6\n");
	run_fini(&run);
}

static void a_cancelled_command_is_killed_and_says_so(void **state)
{
	struct run_outcome run;

	run_begin_script(*state, &run, "sleep 1000 & sleep 1000");
	operation_cancel(run.op);
	operation_cancel(run.op);
	assert_false(run.ended);
	pool_fixture_wait(f, &run.ended);
	assert_int_equal(run.r, 0);
	assert_int_equal(run.result.reason, REASON_CANCELLED);
	assert_int_equal(run.result.returncode, -9);
	assert_false(run.result.timed_out);
	assert_processes(*state, 0);
	run_fini(&run);
}

static void a_background_child_that_holds_the_pipes_does_not_hold_the_end(void **state)
{
	struct run_outcome run;
	uint64_t begin = loop_now_ms();

	run_script(*state, &run, "echo now; (sleep 1000) & true");
	assert_true(loop_now_ms() - begin < 10000);
	assert_string_equal(run.result.out.data, "now\n");
	assert_int_equal(run.result.returncode, 0);
	assert_int_equal(run.result.reason, REASON_NONE);
	assert_processes(*state, 1); /* it lives on until the lease ends */
	run_fini(&run);
}

static void a_background_child_writes_on_without_blocking_or_dying(void **state)
{
	struct run_outcome run;

	run_script(*state, &run,
		"(sleep 0.5; head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2; echo $? >/workspace/status) & echo x");
	assert_string_equal(run.result.out.data, "x\n");
	assert_int_equal(run.result.out_bytes, 2);
	run_fini(&run);
	assert_prints(*state, "until [ -s status ]; do sleep 0.05; done; cat status", "0\n");
}

static void output_just_behind_the_leader_is_not_lost(void **state)
{
	assert_prints(*state, "bash -c 'exec > >(sleep 0.05; cat); echo through a child'",
		"through a child\n");
}

static void a_command_that_closes_its_output_still_ends_with_its_status(void **state)
{
	struct run_outcome run;

	run_script(*state, &run, "echo first; exec >&- 2>&-; sleep 0.3; exit 7");
	assert_string_equal(run.result.out.data, "first\n");
	assert_int_equal(run.result.returncode, 7);
	run_fini(&run);
}

static void many_commands_run_side_by_side(void **state)
{
	enum { COUNT = 64 };
	static struct run_outcome runs[COUNT];

	for (unsigned i = 0; i < COUNT; i++) {
		char script[128];

		(void)snprintf(script, sizeof(script),
			"mkdir m%u; until [ -d m%u ]; do sleep 0.05; done; echo %u", i,
			COUNT - 1 - i, i);
		run_begin_script(*state, &runs[i], script);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		char output[16];

		pool_fixture_wait(f, &runs[i].ended);
		(void)snprintf(output, sizeof(output), "%u\n", i);
		assert_string_equal(runs[i].result.out.data, output);
		assert_int_equal(runs[i].result.exec_id, i + 1);
		run_fini(&runs[i]);
	}
}

static void commands_one_after_the_other_leave_nothing_open(void **state)
{
	struct holdings before = {0}, after;
	struct stat st = {0};
	char path[4096];

	for (unsigned i = 0; i < 200; i++) {
		assert_prints(*state, "echo hi", "hi\n");
		if (i == 20)
			before = holdings_now(f);
	}
	after = holdings_now(f);
	assert_in_range(after.fds, 0, before.fds + 4); /* the trash may be at work */
	assert_int_equal(after.cgroups, before.cgroups);
	if (!pool_fixture_has_cgroups(f))
		return;
	(void)snprintf(path, sizeof(path), "%s/slot-0000-g%u", pool_cgroups(f->pool),
		slot_view(*state).generation);
	do { /* the kernel tells late that one is empty */
		assert_int_equal(stat(path, &st), 0);
		if (st.st_nlink > 6)
			pool_fixture_turn(f);
	} while (st.st_nlink > 6);
}

static void more_lingering_children_than_may_be_drained_do_no_harm(void **state)
{
	enum { COMMANDS = 34 };
	static struct run_outcome runs[COMMANDS];

	for (unsigned round = 0; round < 8; round++) { /* each takes the time of a drain */
		for (unsigned i = 0; i < COMMANDS; i++)
			run_begin_script(*state, &runs[i], "sleep 1000 & echo x");
		for (unsigned i = 0; i < COMMANDS; i++) {
			pool_fixture_wait(f, &runs[i].ended);
			assert_string_equal(runs[i].result.out.data, "x\n");
			run_fini(&runs[i]);
		}
	}
	assert_prints(*state, "echo fine", "fine\n");
}

static void the_events_tell_how_each_command_ended(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf lines = STRBUF_INIT;
	char *argv[] = {(char *)"no-such-program", NULL};
	const struct command missing = {.argv = argv};
	struct run_outcome run;

	assert_prints(*state, "true", "");
	run_script(*state, &run, "exit 3");
	run_fini(&run);
	run_command(*state, &run, &missing);
	run_fini(&run);
	run_begin_script(*state, &run, "sleep 1000");
	operation_cancel(run.op);
	pool_fixture_wait(f, &run.ended);
	run_fini(&run);
	run_begin_script(*state, &run, "sleep 1000");
	pool_return(f->pool, *state, REASON_TERMINATED);
	pool_fixture_wait(f, &run.ended);
	run_fini(&run);
	events_render(f->events, &lines);
#define EVENT(n, to, reason)                                                                       \
	"\"kind\":\"exec\",\"id\":\"0000/" n "\",\"from\":\"RUNNING\",\"to\":\"" to                \
	"\",\"reason\":\"" reason "\",\"generation\":"
	assert_non_null(strstr(lines.data, EVENT("1", "EXITED", "")));
	assert_non_null(strstr(lines.data, EVENT("2", "EXITED", "")));
	assert_non_null(strstr(lines.data, ",\"why\":\"returncode 3\"}\n"));
	assert_non_null(strstr(lines.data, "\"id\":\"0000/3\",\"from\":\"\",\"to\":\"FAILED\""));
	assert_non_null(strstr(lines.data, "\"why\":\"cannot execute 'no-such-program'"));
	assert_non_null(strstr(lines.data, EVENT("4", "KILLED", "cancelled")));
	assert_non_null(strstr(lines.data, "\"to\":\"LOST\",\"reason\":\"terminated\""));
#undef EVENT
}

static void a_word_that_is_no_variable_is_refused(void **state)
{
	char *env[] = {(char *)"=x", NULL};
	const struct command command = {.script = (char *)"true", .env = env};
	struct run_outcome run;

	run_begin(*state, &run, &command);
	pool_fixture_wait(f, &run.ended);
	assert_int_equal(run.r, -EINVAL);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(words_reach_the_program_as_they_are),
		CASE(a_script_of_many_lines_with_quotes_runs_whole),
		CASE(a_script_larger_than_an_argument_may_be_runs_alike),
		CASE(standard_input_is_empty_unless_given),
		CASE(standard_input_is_fed_whole_and_ends),
		CASE(input_that_nobody_reads_holds_nothing_up),
		CASE(the_streams_can_be_opened_by_their_names_in_dev),
		CASE(a_directory_is_relative_to_the_workspace),
		CASE(a_program_that_is_not_there_gives_127_and_a_sentence),
		CASE(what_cannot_be_executed_or_entered_gives_126),
		CASE(a_signal_is_told_as_its_negative_number),
		CASE(sigpipe_is_not_ignored_inside),
		CASE(bytes_of_any_kind_come_back_as_they_are),
		CASE(output_beyond_the_limit_is_counted_and_lost),
		cmocka_unit_test(what_a_lease_keeps_in_memory_is_bounded),
		CASE(more_commands_at_once_than_may_be_are_refused),
		CASE(the_environment_is_made_from_nothing),
		CASE(a_timed_out_command_keeps_its_output_and_its_tree_is_dead),
		CASE(a_timed_out_process_group_is_dead_without_cgroups_too),
		CASE(a_tree_that_forks_without_end_is_killed),
		CASE(a_killed_command_leaves_the_others_of_its_lease_alone),
		CASE(a_silent_command_ends_after_its_idle_time),
		CASE(a_cancelled_command_is_killed_and_says_so),
		CASE(a_background_child_that_holds_the_pipes_does_not_hold_the_end),
		CASE(a_background_child_writes_on_without_blocking_or_dying),
		CASE(output_just_behind_the_leader_is_not_lost),
		CASE(a_command_that_closes_its_output_still_ends_with_its_status),
		CASE(many_commands_run_side_by_side),
		CASE(commands_one_after_the_other_leave_nothing_open),
		CASE(more_lingering_children_than_may_be_drained_do_no_harm),
		CASE(the_events_tell_how_each_command_ended),
		CASE(a_word_that_is_no_variable_is_refused),
	};

	if (!fixture_begin_tests(argc, argv))
		return 0;
	log_set_level(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, open_pool, close_pool);
}
