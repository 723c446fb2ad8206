/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Commands with a terminal whose leader ends before others let go of it. `--user` as in
 * test-exec.c. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"
#include "pool/exec.h"
#include "pool/spool.h"
#include "tests/support/bubble-fixture.h"

enum { PATIENCE_MS = 5000 };
enum { ROOM = 16384, MUCH = 84000 }; /* more than the room and a pipe hold */

static const char ready[] = "ready\r\n";

/* A command of exec.h itself, and what came of it. */
struct outcome {
	struct exec *exec;
	struct spooler *spooler;
	struct spool_account *account;
	struct spool *out;
	bool ended, gone;
	bool fed_late; /* can_feed() after ended() */
	uint64_t patient_until;
	struct command_result result;
};

static void note_ended(void *data, struct command_result *result)
{
	struct outcome *outcome = data;

	outcome->ended = true;
	outcome->result = *result;
	command_result_init(result);
}

static void note_can_feed(void *data)
{
	struct outcome *outcome = data;

	outcome->fed_late = outcome->ended;
}

static void note_gone(void *data)
{
	((struct outcome *)data)->gone = true;
}

/* Until the command has ended a spool that has no room waits for some; not for ever, since small
 * pieces fill a pipe sooner, and then the command cannot end. */
static bool make_room(void *data, struct spool *spool)
{
	const struct outcome *outcome = data;

	return !outcome->ended && loop_now_ms() < outcome->patient_until;
}

static void make_spool(struct fixture *fixture, struct outcome *outcome)
{
	char dir[96];

	(void)snprintf(dir, sizeof(dir), "%s/spool", fixture->dir);
	assert_int_equal(spooler_create(fixture->loop, dir, &outcome->spooler, NULL), 0);
	assert_int_equal(
		spool_account_create(ROOM, make_room, outcome, &outcome->account, NULL), 0);
	assert_int_equal(
		spool_create(outcome->spooler, outcome->account, 1 << 20, &outcome->out, NULL), 0);
}

/* Starts a script that says that it is ready, and waits for that. */
static void begin(struct fixture *fixture, struct outcome *outcome, const char *script)
{
	const struct exec_hooks hooks = {
		.ended = note_ended, .can_feed = note_can_feed, .gone = note_gone, .data = outcome};
	char *words[] = {(char *)"/bin/sh", (char *)"-c", (char *)"-c", NULL};
	const struct word_list shell = {.words = words, .count = 3};
	const struct command command = {.script = (char *)script, .tty_rows = 24, .tty_cols = 80};
	struct exec_options options = {
		.loop = fixture->loop,
		.command = &command,
		.env = (const char *const[]){"PATH=/usr/bin:/bin", NULL},
		.shell = &shell,
		.uid = fixture_options(fixture, 0).host_uid,
		.gid = fixture_options(fixture, 0).host_gid,
	};

	*outcome = (struct outcome){.patient_until = loop_now_ms() + PATIENCE_MS};
	options.bubble = fixture_start(fixture, 0);
	make_spool(fixture, outcome);
	options.out = outcome->out;
	assert_int_equal(exec_start(&options, &hooks, &outcome->exec, NULL), 0);
	while (spool_size(outcome->out) < strlen(ready))
		fixture_turn(fixture);
}

static void finish(struct fixture *fixture, struct outcome *outcome)
{
	bubble_kill(fixture->slots[0].bubble);
	fixture_wait(fixture, &outcome->gone);
	fixture_wait(fixture, &fixture->slots[0].died);
	command_result_fini(&outcome->result);
	spool_unref(outcome->out);
	spool_account_close(outcome->account);
	spooler_destroy(outcome->spooler);
}

static void type_until_full(const struct outcome *outcome)
{
	char lines[4096];
	ssize_t n;

	memset(lines, '\n', sizeof(lines));
	do
		n = exec_feed(outcome->exec, lines, sizeof(lines));
	while (n >= 0);
	assert_int_equal(n, -EAGAIN);
}

/* Its owner may have forgotten it: nothing but gone() follows. */
static void who_waits_to_type_hears_nothing_after_the_end(void **state)
{
	struct fixture *fixture = *state;
	struct outcome outcome;
	begin(fixture, &outcome,
		"stty -echo; trap '' HUP; sleep 1000 & echo ready; exec sleep 1000");
	type_until_full(&outcome);
	assert_int_equal(exec_signal(outcome.exec, SIGKILL, true, NULL), 0);
	fixture_wait(fixture, &outcome.ended);
	assert_false(outcome.gone);
	finish(fixture, &outcome);
	assert_false(outcome.fed_late);
}

static void what_it_showed_before_its_end_is_not_late_though_nobody_kept_up(void **state)
{
	struct fixture *fixture = *state;
	struct outcome outcome;
	struct spool_counts counts;

	begin(fixture, &outcome, "stty -echo; echo ready; head -c 84000 /dev/zero | tr '\\0' x");
	fixture_wait(fixture, &outcome.gone);
	while (!spool_finished(outcome.out))
		fixture_turn(fixture);
	counts = spool_counts(outcome.out);
	assert_int_equal(counts.kept + counts.dropped, strlen(ready) + MUCH);
	assert_int_equal(counts.late, 0);
	assert_int_equal(spool_end_size(outcome.out), strlen(ready) + MUCH);
	finish(fixture, &outcome);
}

static void the_end_of_the_input_arrives_though_the_terminal_was_full(void **state)
{
	struct fixture *fixture = *state;
	struct outcome outcome;

	begin(fixture, &outcome,
		"stty -echo; trap go=1 USR1; echo ready; until [ $go ]; do sleep 0.1; done; cat");
	type_until_full(&outcome);
	exec_feed_end(outcome.exec);
	assert_int_equal(exec_signal(outcome.exec, SIGUSR1, true, NULL), 0);
	fixture_wait(fixture, &outcome.ended);
	assert_true(outcome.result.has_returncode);
	assert_int_equal(outcome.result.returncode, 0);
	finish(fixture, &outcome);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_waits_to_type_hears_nothing_after_the_end,
			fixture_set_up, fixture_tear_down),
		cmocka_unit_test_setup_teardown(
			what_it_showed_before_its_end_is_not_late_though_nobody_kept_up,
			fixture_set_up, fixture_tear_down),
		cmocka_unit_test_setup_teardown(
			the_end_of_the_input_arrives_though_the_terminal_was_full, fixture_set_up,
			fixture_tear_down),
	};

	if (!fixture_begin_tests(argc, argv))
		return 0;
	log_set_level(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
