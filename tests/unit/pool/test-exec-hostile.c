/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Commands that their slot does not let end. `--user` as in test-exec.c. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/operation.h"
#include "pool/exec.h"
#include "tests/support/bubble-fixture.h"
#include "tests/support/pool-fixture.h"

enum { COMMANDS = 8 };               /* beside the stopper */
enum { LINGERERS = 34, ROUNDS = 8 }; /* together more than the late commands that are drained */

/* What came of a command of exec.h itself. */
struct outcome {
	bool ended, gone;
	struct command_result result;
};

static void note_ended(void *data, struct command_result *result)
{
	struct outcome *outcome = data;

	outcome->ended = true;
	outcome->result = *result;
	command_result_init(result);
}

static void note_gone(void *data)
{
	((struct outcome *)data)->gone = true;
}

static struct exec *begin(struct fixture *fixture, struct outcome *outcome)
{
	const struct exec_hooks hooks = {.ended = note_ended, .gone = note_gone, .data = outcome};
	char *words[] = {(char *)"/bin/sh", (char *)"-c", (char *)"-c", NULL};
	const struct word_list shell = {.words = words, .count = 3};
	const struct command command = {.script = (char *)"echo x; sleep 1000"};
	struct exec_options options = {
		.loop = fixture->loop,
		.bubble = fixture->slots[0].bubble,
		.command = &command,
		.env = (const char *const[]){"PATH=/usr/bin:/bin", NULL},
		.shell = &shell,
		.uid = geteuid(),
		.gid = getegid(),
	};
	struct exec *exec;

	*outcome = (struct outcome){0};
	assert_int_equal(exec_start(&options, &hooks, &exec, NULL), 0);
	return exec;
}

static void a_command_may_be_forgotten_while_its_leader_lives(void **state)
{
	struct fixture *fixture = *state;
	struct fixture_result result;
	struct outcome outcome;

	(void)fixture_start(fixture, 0);
	exec_destroy(begin(fixture, &outcome));
	fixture_shell(fixture, 0, "echo alive", &result);
	assert_string_equal(result.out.data, "alive\n");
	fixture_result_fini(&result);
	bubble_kill(fixture->slots[0].bubble);
	fixture_wait(fixture, &fixture->slots[0].died);
	assert_false(outcome.ended || outcome.gone);
}

static void an_error_without_a_name_is_told_by_its_number(void **state)
{
	struct fixture fixture;
	struct outcome outcome;

	fixture_start_fake(&fixture, "unknown-error", 20000);
	fixture_wait(&fixture, &fixture.slots[0].ready);
	(void)begin(&fixture, &outcome);
	fixture_wait(&fixture, &outcome.gone);
	assert_true(outcome.ended);
	assert_string_equal(outcome.result.start_error, "cannot start (a?[31mb): error 4000");
	command_result_fini(&outcome.result);
	fixture_fini_fake(&fixture);
}

static void handle_pause(void *data)
{
	*(bool *)data = true;
}

/* Nothing tells when the next command may be started so that it is caught half born. */
static void pause_shortly(struct pool_fixture *f)
{
	struct loop_timer *timer;
	bool over = false;

	assert_int_equal(loop_timer_start(f->loop, 50, handle_pause, &over, &timer, NULL), 0);
	pool_fixture_wait(f, &over);
	loop_timer_stop(timer);
}

/* Commands run while another stops whatever is born: some never come to execute. */
static void run_beside_a_stopper(struct pool_fixture *f, struct slot *slot)
{
	const struct command command = {.script = (char *)"true", .timeout_ms = 300};
	struct run_outcome stopper, runs[COMMANDS];

	run_begin_script(slot, &stopper, "exec bash -c 'while :; do kill -STOP -1; done'");
	for (unsigned i = 0; i < COMMANDS; i++) {
		pause_shortly(f);
		run_begin(slot, &runs[i], &command);
	}
	for (unsigned i = 0; i < COMMANDS; i++) {
		pool_fixture_wait(f, &runs[i].ended);
		assert_int_equal(runs[i].r, 0);
		assert_int_not_equal(runs[i].result.reason, REASON_KILL_INCOMPLETE);
		run_fini(&runs[i]);
	}
	operation_cancel(stopper.op);
	pool_fixture_wait(f, &stopper.ended);
	run_fini(&stopper);
}

static void leave_background_children(struct pool_fixture *f, struct slot *slot)
{
	static struct run_outcome runs[LINGERERS];

	for (unsigned i = 0; i < LINGERERS; i++)
		run_begin_script(slot, &runs[i], "sleep 1000 & echo x");
	for (unsigned i = 0; i < LINGERERS; i++) {
		pool_fixture_wait(f, &runs[i].ended);
		run_fini(&runs[i]);
	}
}

static void commands_stopped_at_birth_cost_the_slot_nothing(void **state)
{
	static struct pool_fixture fixture;
	struct pool_fixture *f = &fixture;
	struct slot *slot;

	pool_fixture_init(f, 1, NULL);
	pool_fixture_open(f);
	slot = loan_take(f, "t");
	run_beside_a_stopper(f, slot);
	for (unsigned round = 0; round < ROUNDS; round++)
		leave_background_children(f, slot);
	pool_return(f->pool, slot, REASON_TERMINATED);
	pool_fixture_wait_state(f, slot, SLOT_READY);
	pool_fixture_fini(f);
}

/* Until its command has ended it is read as fast as it writes: what it does after that counts. */
static void a_background_child_that_writes_without_end_is_slowed_down(void **state)
{
	static struct pool_fixture fixture;
	struct pool_fixture *f = &fixture;
	struct run_outcome run;
	struct slot *slot;

	pool_fixture_init(f, 1, NULL);
	pool_fixture_open(f);
	slot = loan_take(f, "t");
	run_script(slot, &run,
		"touch done; (while head -c 10000000 /dev/zero; do echo >>done; done) & true");
	run_fini(&run);
	run_script(slot, &run,
		"a=$(wc -l <done); sleep 2; b=$(wc -l <done); [ $((b - a)) -le 3 ] && echo slow");
	assert_string_equal(run.result.out.data, "slow\n");
	run_fini(&run);
	pool_fixture_fini(f);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_command_may_be_forgotten_while_its_leader_lives,
			fixture_set_up, fixture_tear_down),
		cmocka_unit_test(an_error_without_a_name_is_told_by_its_number),
		cmocka_unit_test(commands_stopped_at_birth_cost_the_slot_nothing),
		cmocka_unit_test(a_background_child_that_writes_without_end_is_slowed_down),
	};

	if (!fixture_begin_tests(argc, argv))
		return 0;
	log_set_level(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
