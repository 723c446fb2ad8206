/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the supervisor does with slots that break, hang, or will not die, and does not do to those
 * that are well. Where the real deadline is long the test shortens it. `--user` runs everything as
 * an ordinary user's daemon.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/strbuf.h"
#include "pool/bubble-private.h"
#include "pool/events.h"
#include "pool/pool-private.h"
#include "tests/support/bubble-fixture.h"
#include "tests/support/pool-fixture.h"

enum { PATH_SIZE = 128 };

/* Of something in a slot's directory. */
static void name_path(
	const struct pool_fixture *f, char path[PATH_SIZE], unsigned slot, const char *name)
{
	(void)snprintf(path, PATH_SIZE, "%.60s/slots/%04u/%s", f->dir, slot, name);
}

/*
 * A bwrap whose mood is in files beside it: `fail-NNNN`, `hang-NNNN` and `wait-NNNN` are for one
 * slot, with ALL in place of the number for every one.
 */
static void write_moody_bwrap(const char *dir)
{
	static const char script[] =
		"#!/bin/sh\n"
		"dir=%s all=\"$*\"\n"
		"slot=${all#*/slots/} slot=${slot%%%%/*}\n"
		"if [ -e $dir/fail-$slot ] || [ -e $dir/fail-ALL ]; then\n"
		"	echo 'bwrap: first line' >&2; echo 'bwrap: not today' >&2; exit 1\n"
		"fi\n"
		"[ ! -e $dir/hang-$slot ] && [ ! -e $dir/hang-ALL ] || exec sleep 1000\n"
		"while [ -e $dir/wait-$slot ]; do sleep 0.05; done\n"
		"exec bwrap \"$@\"\n";
	char path[96];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/bwrap", dir);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fprintf(file, script, dir) > 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, 0755), 0);
}

static void set_mood(const struct pool_fixture *f, const char *name, bool on)
{
	char path[PATH_SIZE];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	if (!on) {
		assert_int_equal(unlink(path), 0);
		return;
	}
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fclose(file), 0);
}

/* A pool that is not started yet, with a moody bwrap. */
static struct pool_fixture *make_moody(unsigned slots)
{
	static struct pool_fixture f;
	char dir[] = "/tmp/dressage-pool-XXXXXX", override[96];
	const char *const overrides[] = {override, NULL};
	struct error err = ERROR_NONE;

	assert_non_null(mkdtemp(dir));
	write_moody_bwrap(dir);
	(void)snprintf(override, sizeof(override), "slot.bwrap=%s/bwrap", dir);
	pool_fixture_init_in(&f, dir, slots, overrides);
	if (pool_fixture_create(&f, &err) < 0)
		fail_msg("%s", err.text);
	return &f;
}

static void start(struct pool_fixture *f)
{
	static struct pool_outcome started;

	started = (struct pool_outcome){0};
	pool_start(f->pool, pool_outcome_note, &started);
}

static void wait_all(struct pool_fixture *f, enum slot_state state)
{
	for (unsigned i = 0; i < pool_slot_count(f->pool); i++)
		pool_fixture_wait_state(f, pool_slot(f->pool, i), state);
}

static struct pool_fixture *open_plain(unsigned slots)
{
	static struct pool_fixture f;

	pool_fixture_init(&f, slots, NULL);
	pool_fixture_open(&f);
	return &f;
}

static void look_often(struct pool_fixture *f)
{
	f->pool->times.tick = 100;
	f->pool->times.ping_every = 1;
	loop_timer_restart(f->pool->ping_timer, 100);
}

/* Waits, while the loop stands still, until init has said something. */
static void wait_for_word(const struct slot *slot)
{
	struct pollfd control = {.fd = slot->bubble->control_fd, .events = POLLIN};

	assert_int_equal(poll(&control, 1, 60000), 1);
}

/* Turns the loop while the clock runs, for what must not happen. */
static void turn_for(struct pool_fixture *f, uint64_t ms)
{
	uint64_t end = loop_now_ms() + ms;

	look_often(f);
	while (loop_now_ms() < end)
		pool_fixture_turn(f);
}

/* Children of ours that are a moody bwrap, or the sleep that it has become. */
static unsigned count_moody_children(void)
{
	CLEANUP(fclosep) FILE *file = fopen("/proc/thread-self/children", "r");
	unsigned count = 0;
	int pid;

	while (file && fscanf(file, "%d", &pid) == 1) {
		char path[64], comm[32] = "";
		FILE *of_child;

		(void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		of_child = fopen(path, "r");
		if (of_child && fgets(comm, sizeof(comm), of_child))
			comm[strcspn(comm, "\n")] = '\0';
		if (of_child)
			(void)fclose(of_child);
		count += strcmp(comm, "bwrap") == 0 || strcmp(comm, "sleep") == 0;
	}
	return count;
}

/* ---- Slots that do not start ---- */

static void slots_that_never_get_ready_are_never_more_than_configured(void **state)
{
	struct pool_fixture *f = make_moody(3);
	unsigned most = 0, starts = 0;

	f->pool->times.start_timeout = 500;
	set_mood(f, "hang-ALL", true);
	start(f);
	while (starts < 9) {
		unsigned now = count_moody_children();

		pool_fixture_turn(f);
		most = now > most ? now : most;
		assert_in_range(now, 0, 3);
		starts = 0;
		for (unsigned i = 0; i < 3; i++)
			starts += slot_view(pool_slot(f->pool, i)).generation;
	}
	assert_int_equal(most, 3);
	set_mood(f, "hang-ALL", false);
	f->pool->times.start_timeout = 30000;
	wait_all(f, SLOT_READY);
	pool_fixture_fini(f);
}

static void slots_whose_starts_hang_do_not_hold_up_the_others(void **state)
{
	struct pool_fixture *f = make_moody(5);

	f->pool->starting_max = 2;
	look_often(f);
	f->pool->times.slow_start = 100;
	set_mood(f, "wait-0000", true);
	set_mood(f, "wait-0001", true);
	start(f);
	for (unsigned i = 2; i < 5; i++)
		pool_fixture_wait_state(f, pool_slot(f->pool, i), SLOT_READY);
	for (unsigned i = 0; i < 6; i++) { /* and they refill meanwhile */
		struct slot *slot = loan_take(f, "t");

		pool_return(f->pool, slot, REASON_TERMINATED);
		pool_fixture_wait_state(f, slot, SLOT_READY);
	}
	assert_int_equal(slot_view(pool_slot(f->pool, 0)).state, SLOT_STARTING);
	assert_int_equal(slot_view(pool_slot(f->pool, 1)).state, SLOT_STARTING);
	set_mood(f, "wait-0000", false);
	set_mood(f, "wait-0001", false);
	wait_all(f, SLOT_READY);
	assert_int_equal(f->pool->starting_count, 0);
	assert_int_equal(f->pool->overdue_count, 0);
	pool_fixture_fini(f);
}

static void a_slot_is_lent_only_when_its_init_has_said_ready(void **state)
{
	struct pool_fixture *f = make_moody(1);
	struct loan loan;

	set_mood(f, "wait-0000", true);
	start(f);
	loan_ask(f, &loan, "t", 30000);
	turn_for(f, 300);
	assert_false(loan.told);
	assert_int_equal(slot_view(pool_slot(f->pool, 0)).state, SLOT_STARTING);
	set_mood(f, "wait-0000", false);
	pool_fixture_wait(f, &loan.told);
	assert_int_equal(loan.r, 0);
	assert_true(slot_view(loan.slot).pid > 1);
	pool_fixture_fini(f);
}

static void the_last_words_of_a_failed_start_are_its_last_error(void **state)
{
	struct pool_fixture *f = make_moody(1);

	set_mood(f, "fail-0000", true);
	start(f);
	for (unsigned tries = 2; tries < 4; tries++) { /* and again, and again */
		while (slot_view(pool_slot(f->pool, 0)).generation < tries)
			pool_fixture_turn(f);
		pool_fixture_wait_state(f, pool_slot(f->pool, 0), SLOT_FAILED);
		assert_non_null(
			strstr(slot_view(pool_slot(f->pool, 0)).last_error, "bwrap: not today"));
	}
	set_mood(f, "fail-0000", false);
	pool_fixture_wait_state(f, pool_slot(f->pool, 0), SLOT_READY);
	pool_fixture_fini(f);
}

static void a_refill_starts_with_the_release_and_waits_for_no_timer(void **state)
{
	struct pool_fixture *f = open_plain(1);
	struct slot *slot = loan_take(f, "t");

	supervisor_stop(f->pool);
	pool_return(f->pool, slot, REASON_TERMINATED);
	assert_int_equal(slot_view(slot).state, SLOT_RELEASING);
	pool_fixture_wait_state(f, slot, SLOT_READY);
	pool_fixture_fini(f);
}

/* ---- Slots that are well ---- */

/* One is READY, one LEASED with a command at work; beside them one dies, one fails, one is lost. */
static void a_look_at_mixed_slots_leaves_the_healthy_their_init(void **state)
{
	struct pool_fixture *f = make_moody(5);
	struct run_outcome run;
	struct slot *idle, *busy, *dying, *lost;
	pid_t idle_pid, busy_pid, dying_pid;
	uint64_t pong;

	look_often(f);
	set_mood(f, "fail-0004", true);
	start(f);
	pool_fixture_wait_state(f, pool_slot(f->pool, 4), SLOT_FAILED);
	for (unsigned i = 0; i < 4; i++)
		pool_fixture_wait_state(f, pool_slot(f->pool, i), SLOT_READY);
	busy = loan_take(f, "busy");
	lost = loan_take(f, "lost");
	idle = pool_slot(f->pool, 2);
	dying = pool_slot(f->pool, 3);
	idle_pid = slot_view(idle).pid;
	busy_pid = slot_view(busy).pid;
	dying_pid = slot_view(dying).pid;
	run_begin_script(busy, &run, "read line; echo undisturbed");
	pool_fixture_wait(f, &run.ended); /* no input: at once */
	run_fini(&run);
	run_begin_script(busy, &run, "sleep 1; echo undisturbed");
	assert_int_equal(kill(slot_view(lost).pid, SIGKILL), 0);
	assert_int_equal(kill(dying_pid, SIGKILL), 0);
	pool_fixture_wait_state(f, lost, SLOT_LOST);
	pong = loop_now_ms();
	while (slot_view(idle).last_pong_ms <= pong || slot_view(busy).last_pong_ms <= pong)
		pool_fixture_turn(f);
	pool_fixture_wait_state(f, dying, SLOT_READY);
	pool_fixture_wait(f, &run.ended);
	assert_string_equal(run.result.out.data, "undisturbed\n");
	run_fini(&run);
	assert_int_equal(slot_view(idle).pid, idle_pid);
	assert_int_equal(slot_view(idle).generation, 1);
	assert_int_equal(slot_view(busy).pid, busy_pid);
	assert_int_not_equal(slot_view(dying).pid, dying_pid);
	assert_int_equal(slot_view(lost).state, SLOT_LOST); /* kept for inspection */
	assert_string_equal(slot_view(lost).holder, "lost");
	pool_fixture_fini(f);
}

/* A daemon, or a machine, that stood still sees the deadline first and the answer after it. */
static void an_answer_that_waited_for_a_daemon_that_stood_still_counts(void **state)
{
	struct pool_fixture *f = open_plain(2);
	struct slot *slot = pool_slot(f->pool, 0);
	pid_t pid = slot_view(slot).pid;
	uint64_t pong = slot_view(slot).last_pong_ms;

	look_often(f);
	f->pool->times.ping_deadline = 100;
	for (unsigned round = 0; round < 2; round++) {
		while (!slot->ping_pending)
			pool_fixture_turn(f);
		wait_for_word(slot);
		(void)usleep(200 * 1000);
		while (slot->ping_pending)
			pool_fixture_turn(f);
		assert_true(slot_view(slot).last_pong_ms > pong);
	}
	assert_int_equal(slot_view(slot).state, SLOT_READY);
	assert_int_equal(slot_view(slot).pid, pid);
	pool_fixture_fini(f);
}

static void a_start_that_a_daemon_slept_through_counts(void **state)
{
	struct pool_fixture *f = make_moody(1);

	f->pool->times.start_timeout = 500;
	start(f);
	while (slot_view(pool_slot(f->pool, 0)).state != SLOT_STARTING ||
		!pool_slot(f->pool, 0)->bubble)
		pool_fixture_turn(f);
	wait_for_word(pool_slot(f->pool, 0));
	(void)usleep(600 * 1000);
	pool_fixture_wait_state(f, pool_slot(f->pool, 0), SLOT_READY);
	assert_int_equal(slot_view(pool_slot(f->pool, 0)).generation, 1);
	pool_fixture_fini(f);
}

static void an_init_that_is_silent_for_too_long_is_killed_and_started_again(void **state)
{
	struct pool_fixture *f = open_plain(2);
	struct slot *silent = pool_slot(f->pool, 0), *lent;
	pid_t pid = slot_view(silent).pid;

	look_often(f);
	f->pool->times.ping_deadline = 1500;
	assert_int_equal(kill(pid, SIGSTOP), 0);
	pool_fixture_wait_state(f, silent, SLOT_DEAD);
	assert_non_null(strstr(slot_view(silent).last_error, "no sign of life"));
	pool_fixture_wait_state(f, silent, SLOT_READY);
	assert_int_not_equal(slot_view(silent).pid, pid);
	lent = loan_take(f, "t");
	assert_int_equal(kill(slot_view(lent).pid, SIGSTOP), 0);
	pool_fixture_wait_state(f, lent, SLOT_LOST);
	assert_int_equal(f->lost_count, 1);
	pool_fixture_fini(f);
}

/* ---- An operator's restart ---- */

static void an_operator_restarts_what_nobody_holds(void **state)
{
	struct pool_fixture *f = make_moody(2);
	struct slot *slot = pool_slot(f->pool, 0);
	struct error err = ERROR_NONE;
	pid_t pid;

	start(f);
	wait_all(f, SLOT_READY);
	pid = slot_view(slot).pid;
	assert_int_equal(pool_restart_slot(f->pool, 0, &err), 0);
	assert_int_equal(slot_view(slot).state, SLOT_RELEASING);
	assert_int_equal(pool_restart_slot(f->pool, 0, &err), 0); /* on its way */
	pool_fixture_wait_state(f, slot, SLOT_READY);
	assert_int_not_equal(slot_view(slot).pid, pid);
	assert_int_equal(slot_view(slot).generation, 2);
	assert_int_equal(slot_view(pool_slot(f->pool, 1)).generation, 1);
	assert_int_equal(pool_restart_slot(f->pool, 2, &err), -ENOENT);
	assert_non_null(strstr(err.text, "0 to 1"));
	assert_ptr_equal(loan_take(f, "t"), slot);
	assert_int_equal(pool_restart_slot(f->pool, 0, &err), -EBUSY);
	assert_non_null(strstr(err.text, "'t'"));
	assert_int_equal(slot_view(slot).state, SLOT_LEASED);
	pool_fixture_fini(f);
}

static void handle_next_try(void *data)
{
	fail();
}

static void an_operator_does_not_wait_for_the_next_try(void **state)
{
	struct pool_fixture *f = make_moody(1);
	struct slot *slot = pool_slot(f->pool, 0);
	struct error err = ERROR_NONE;

	set_mood(f, "fail-0000", true);
	start(f);
	pool_fixture_wait_state(f, slot, SLOT_FAILED);
	loop_timer_stop(take_ptr(&slot->retry));
	assert_int_equal(
		loop_timer_start(f->loop, 1000000, handle_next_try, NULL, &slot->retry, NULL), 0);
	set_mood(f, "fail-0000", false);
	assert_int_equal(pool_restart_slot(f->pool, 0, &err), 0);
	pool_fixture_wait_state(f, slot, SLOT_READY);
	pool_fixture_fini(f);
}

/* ---- Steps of a cleanup that fail or hang ---- */

/* Nobody but its tracer can reap it: pid 1 of its namespace cannot end before. */
static pid_t hold_a_process(struct pool_fixture *f, struct slot *slot)
{
	struct run_outcome run;
	char path[64];
	FILE *file;
	int pid = 0;

	run_script(slot, &run, "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!");
	run_fini(&run);
	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)slot_view(slot).pid,
		(int)slot_view(slot).pid);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%d", &pid), 1);
	(void)fclose(file);
	assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
	return pid;
}

static void let_go(pid_t pid)
{
	assert_int_equal(waitpid(pid, NULL, __WALL), pid);
}

/* As if its last READY had been so long ago. */
static void was_ready_before(struct slot *slot, uint64_t ms)
{
	assert_true(slot->ready_ms > 0);
	slot->ready_ms = loop_now_ms() - ms;
}

static void only_the_first_failure_after_a_good_half_minute_begins_the_backoff_anew(void **state)
{
	struct pool_fixture *f = make_moody(1);
	struct slot *slot = pool_slot(f->pool, 0);

	start(f);
	for (unsigned round = 0; round < 2; round++) {
		pool_fixture_wait_state(f, slot, SLOT_READY);
		was_ready_before(slot, 40000);
		set_mood(f, "fail-0000", true);
		assert_int_equal(kill(slot_view(slot).pid, SIGKILL), 0);
		for (unsigned failures = 1; failures <= 3; failures++) {
			uint32_t generation = slot_view(slot).generation;

			while (slot_view(slot).failures != failures || !slot->retry) {
				assert_in_range(slot_view(slot).generation - generation, 0, 1);
				pool_fixture_turn(f);
			}
		}
		set_mood(f, "fail-0000", false);
	}
	pool_fixture_fini(f);
}

static void a_kill_that_does_not_end_is_said_and_holds_up_no_other_slot(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf lines = STRBUF_INIT;
	struct pool_fixture *f = open_plain(2);
	struct slot *stuck = loan_take(f, "t"), *other;
	pid_t held = hold_a_process(f, stuck);
	struct loan same;

	look_often(f);
	f->pool->times.step_deadline = 300;
	pool_return(f->pool, stuck, REASON_TERMINATED);
	loan_ask(f, &same, "t", 30000); /* waits for its own former slot */
	while (!strstr(slot_view(stuck).last_error, "still lives"))
		pool_fixture_turn(f);
	assert_int_equal(slot_view(stuck).state, SLOT_RELEASING);
	events_render(f->events, &lines);
	assert_non_null(strstr(lines.data,
		"\"from\":\"RELEASING\",\"to\":\"RELEASING\",\"reason\":\"kill_incomplete\""));
	for (unsigned i = 0; i < 3; i++) {
		other = loan_take(f, "u");
		assert_ptr_not_equal(other, stuck);
		pool_return(f->pool, other, REASON_TERMINATED);
	}
	assert_false(same.told);
	let_go(held);
	pool_fixture_wait(f, &same.told);
	assert_int_equal(same.r, 0);
	assert_ptr_equal(same.slot, stuck);
	assert_int_equal(slot_view(stuck).generation, 2);
	pool_fixture_fini(f);
}

static void a_stop_that_waits_for_a_stuck_slot_ends_and_clears_the_others(void **state)
{
	struct pool_fixture *f = open_plain(3);
	struct pool_outcome stopped = {0};
	struct slot *stuck = loan_take(f, "t");
	pid_t held = hold_a_process(f, stuck);

	look_often(f);
	f->pool->times.step_deadline = 100;
	pool_stop(f->pool, pool_outcome_note, &stopped);
	for (unsigned i = 1; i < 3; i++)
		pool_fixture_wait_state(f, pool_slot(f->pool, i), SLOT_EMPTY);
	while (!strstr(slot_view(stuck).last_error, "still lives"))
		pool_fixture_turn(f);
	loop_timer_restart(f->pool->stop_timer, 100); /* the others have had their time */
	pool_fixture_wait(f, &stopped.told);
	assert_int_equal(stopped.r, -EBUSY);
	assert_int_equal(stopped.err.reason, REASON_KILL_INCOMPLETE);
	assert_non_null(strstr(stopped.err.text, "1 slots"));
	assert_non_null(strstr(stopped.err.text, "still lives"));
	assert_int_equal(slot_view(stuck).state, SLOT_RELEASING);
	for (unsigned i = 1; i < 3; i++) {
		char path[PATH_SIZE];

		assert_int_equal(slot_view(pool_slot(f->pool, i)).state, SLOT_EMPTY);
		name_path(f, path, i, "");
		assert_int_equal(access(path, F_OK), -1);
	}
	let_go(held);
	pool_destroy(take_ptr(&f->pool));
	pool_fixture_close(f);
	pool_fixture_open(f); /* the next start finds it clean, or clears it */
	pool_fixture_fini(f);
}

enum { WORKERS = 4 }; /* libuv's */

/* Work that takes as long as the test wants, as on a disk that hangs. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t opened;
	bool open;
	unsigned ended; /* the loop's */
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER};

static void hang(void *data)
{
	pthread_mutex_lock(&gate.lock);
	while (!gate.open)
		pthread_cond_wait(&gate.opened, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
}

static void note_end(void *data)
{
	gate.ended++;
}

/* The slot is cleared, and only what it left is still to be removed. */
static void hang_all_workers(void *data, struct slot *slot)
{
	struct pool_fixture *f = data;

	if (slot_view(slot).state != SLOT_EMPTY)
		return;
	for (unsigned i = 0; i < WORKERS; i++)
		assert_int_equal(loop_work(f->loop, hang, note_end, f, NULL), 0);
}

static void a_stop_does_not_wait_for_ever_for_what_slots_left_to_be_removed(void **state)
{
	struct pool_fixture *f = open_plain(1);
	struct pool_outcome stopped = {0};

	f->pool->times.stop_trash = 300;
	f->pool->hooks.slot_changed = hang_all_workers;
	pool_stop(f->pool, pool_outcome_note, &stopped);
	pool_fixture_wait(f, &stopped.told);
	assert_int_equal(stopped.r, -ETIMEDOUT);
	assert_non_null(strstr(stopped.err.text, "/trash' is not removed within 300 ms"));
	pthread_mutex_lock(&gate.lock);
	gate.open = true;
	pthread_cond_broadcast(&gate.opened);
	pthread_mutex_unlock(&gate.lock);
	while (gate.ended < WORKERS)
		pool_fixture_turn(f);
	pool_destroy(take_ptr(&f->pool));
	pool_fixture_close(f);
	pool_fixture_open(f);
	pool_fixture_fini(f);
}

/* A directory that something is mounted on cannot be renamed. */
static void each_step_of_a_cleanup_that_fails_is_listed_and_the_rest_is_done(void **state)
{
	static const char *const names[] = {"home", "work", "runtime", "tmp", "logs"};
	struct pool_fixture *f = open_plain(1);
	struct slot *slot = pool_slot(f->pool, 0);

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		char path[PATH_SIZE], quoted[32];
		struct run_outcome run;

		(void)loan_take(f, "t");
		run_script(slot, &run, "touch ~/x /workspace/x /tmp/x");
		run_fini(&run);
		name_path(f, path, 0, names[i]);
		assert_int_equal(mount("none", path, "tmpfs", 0, NULL), 0);
		pool_return(f->pool, slot, REASON_TERMINATED);
		pool_fixture_wait_state(f, slot, SLOT_FAILED);
		(void)snprintf(quoted, sizeof(quoted), "'%s'", names[i]);
		assert_non_null(strstr(slot_view(slot).last_error, quoted));
		for (size_t j = 0; j < sizeof(names) / sizeof(*names); j++) {
			name_path(f, path, 0, names[j]);
			assert_int_equal(access(path, F_OK), i == j ? 0 : -1);
		}
		name_path(f, path, 0, names[i]);
		assert_int_equal(umount(path), 0);
		pool_fixture_wait_state(f, slot, SLOT_READY);
	}
	pool_fixture_fini(f);
}

static void two_steps_of_a_cleanup_that_fail_are_both_listed(void **state)
{
	struct pool_fixture *f = open_plain(1);
	struct slot *slot = loan_take(f, "t");
	char home[PATH_SIZE], tmp[PATH_SIZE];

	name_path(f, home, 0, "home");
	name_path(f, tmp, 0, "tmp");
	assert_int_equal(mount("none", home, "tmpfs", 0, NULL), 0);
	assert_int_equal(mount("none", tmp, "tmpfs", 0, NULL), 0);
	pool_return(f->pool, slot, REASON_TERMINATED);
	pool_fixture_wait_state(f, slot, SLOT_FAILED);
	assert_non_null(strstr(slot_view(slot).last_error, "'home'"));
	assert_non_null(strstr(slot_view(slot).last_error, "'tmp'"));
	assert_int_equal(umount(home), 0);
	assert_int_equal(umount(tmp), 0);
	pool_fixture_wait_state(f, slot, SLOT_READY);
	pool_fixture_fini(f);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_that_never_get_ready_are_never_more_than_configured),
		cmocka_unit_test(slots_whose_starts_hang_do_not_hold_up_the_others),
		cmocka_unit_test(a_slot_is_lent_only_when_its_init_has_said_ready),
		cmocka_unit_test(the_last_words_of_a_failed_start_are_its_last_error),
		cmocka_unit_test(a_refill_starts_with_the_release_and_waits_for_no_timer),
		cmocka_unit_test(a_look_at_mixed_slots_leaves_the_healthy_their_init),
		cmocka_unit_test(an_answer_that_waited_for_a_daemon_that_stood_still_counts),
		cmocka_unit_test(a_start_that_a_daemon_slept_through_counts),
		cmocka_unit_test(an_init_that_is_silent_for_too_long_is_killed_and_started_again),
		cmocka_unit_test(an_operator_restarts_what_nobody_holds),
		cmocka_unit_test(an_operator_does_not_wait_for_the_next_try),
		cmocka_unit_test(
			only_the_first_failure_after_a_good_half_minute_begins_the_backoff_anew),
		cmocka_unit_test(a_kill_that_does_not_end_is_said_and_holds_up_no_other_slot),
		cmocka_unit_test(a_stop_that_waits_for_a_stuck_slot_ends_and_clears_the_others),
		cmocka_unit_test(a_stop_does_not_wait_for_ever_for_what_slots_left_to_be_removed),
		/* only root may mount: */
		cmocka_unit_test(each_step_of_a_cleanup_that_fails_is_listed_and_the_rest_is_done),
		cmocka_unit_test(two_steps_of_a_cleanup_that_fail_are_both_listed),
	};
	size_t count = sizeof(tests) / sizeof(*tests);

	log_set_level(LOG_LEVEL_ERROR);
	if (!fixture_begin_tests(argc, argv))
		return 0;
	if (geteuid() != 0)
		count -= 2;
	return _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
}
