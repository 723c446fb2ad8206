/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Real slots. `--user` runs everything as an ordinary user's daemon. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/operation.h"
#include "base/strbuf.h"
#include "pool/events.h"
#include "pool/process.h"
#include "tests/support/bubble-fixture.h"
#include "tests/support/pool-fixture.h"

static struct pool_fixture *set_up_with(void **state, unsigned slots)
{
	static struct pool_fixture f;

	pool_fixture_init(&f, slots, NULL);
	pool_fixture_open(&f);
	*state = &f;
	return &f;
}

static int set_up_one(void **state)
{
	(void)set_up_with(state, 1);
	return 0;
}

static int set_up_three(void **state)
{
	(void)set_up_with(state, 3);
	return 0;
}

static int tear_down(void **state)
{
	pool_fixture_fini(*state);
	return 0;
}

/* An orphan's zombie counts as gone: in a container nobody may reap it. */
static bool slot_is_running(pid_t pid)
{
	char path[64], text[512] = "";
	const char *at;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "r");
	if (!file)
		return false;
	(void)fread(text, 1, sizeof(text) - 1, file);
	(void)fclose(file);
	at = strrchr(text, ')');
	return at && at[2] != 'Z' && at[2] != 'X';
}

static void every_slot_starts_ready(void **state)
{
	struct pool_fixture *f = *state;

	assert_int_equal(pool_slot_count(f->pool), 3);
	for (unsigned i = 0; i < 3; i++) {
		struct slot_view view = slot_view(pool_slot(f->pool, i));

		assert_int_equal(view.state, SLOT_READY);
		assert_int_equal(view.generation, 1);
		assert_true(view.pid > 1);
		assert_string_equal(view.holder, "");
	}
	assert_null(pool_slot(f->pool, 3));
}

static void a_leased_slot_is_not_lent_again(void **state)
{
	struct pool_fixture *f = *state;
	struct slot *slots[3];
	struct loan none;

	for (unsigned i = 0; i < 3; i++) {
		char holder[8];

		(void)snprintf(holder, sizeof(holder), "t%u", i);
		slots[i] = loan_take(f, holder);
		assert_string_equal(slot_view(slots[i]).holder, holder);
		for (unsigned j = 0; j < i; j++)
			assert_ptr_not_equal(slots[i], slots[j]);
	}
	loan_ask(f, &none, "late", 0);
	pool_fixture_wait(f, &none.told);
	assert_int_equal(none.r, -EAGAIN);
	assert_int_equal(none.err.reason, REASON_POOL_EXHAUSTED);
}

static void a_command_runs_in_a_lent_slot(void **state)
{
	struct pool_fixture *f = *state;
	struct slot *slot = loan_take(f, "t");
	struct run_outcome run;

	run_script(slot, &run, "echo hi; echo oops >&2; id -u; pwd; exit 3");
	assert_string_equal(run.result.out.data, "hi\n1000\n/workspace\n");
	assert_string_equal(run.result.err.data, "oops\n");
	assert_int_equal(run.result.returncode, 3);
	assert_true(run.result.has_returncode);
	assert_int_equal(run.result.exec_id, 1);
	assert_int_equal(run.result.reason, REASON_NONE);
	run_fini(&run);
	run_script(slot, &run, "true");
	assert_int_equal(run.result.exec_id, 2);
	run_fini(&run);
}

static void a_returned_slot_comes_back_empty_with_the_next_generation(void **state)
{
	struct pool_fixture *f = *state;
	struct slot *slot = loan_take(f, "t");
	struct run_outcome run;

	run_script(slot, &run,
		"mkdir -p a/b; echo secret > a/b/c; echo x > /tmp/x; touch ~/y; chmod 0 a");
	assert_int_equal(run.result.returncode, 0);
	run_fini(&run);
	pool_return(f->pool, slot, REASON_TERMINATED);
	assert_int_equal(slot_view(slot).state, SLOT_RELEASING);
	assert_ptr_equal(loan_take(f, "t"), slot);
	assert_int_equal(slot_view(slot).generation, 2);
	run_script(slot, &run, "ls -A /workspace /tmp ~");
	assert_null(strstr(run.result.out.data, "x\n"));
	assert_string_equal(run.result.out.data, "/home/blackbox:\n\n/tmp:\n\n/workspace:\n");
	run_fini(&run);
}

static void waiting_requests_are_served_in_order_of_asking(void **state)
{
	struct pool_fixture *f = *state;
	struct slot *slot = loan_take(f, "first");
	struct loan loans[4];

	for (unsigned i = 0; i < 4; i++) {
		char holder[8];

		(void)snprintf(holder, sizeof(holder), "w%u", i);
		loan_ask(f, &loans[i], holder, 30000);
	}
	assert_int_equal(pool_queue_length(f->pool), 4);
	for (unsigned i = 0; i < 4; i++) {
		pool_return(f->pool, slot, REASON_TERMINATED);
		pool_fixture_wait(f, &loans[i].told);
		assert_int_equal(loans[i].r, 0);
		for (unsigned j = i + 1; j < 4; j++)
			assert_false(loans[j].told);
	}
	assert_int_equal(pool_queue_length(f->pool), 0);
}

static void a_request_that_waited_its_time_out_is_told_so(void **state)
{
	struct pool_fixture *f = *state;
	struct loan loan;

	(void)loan_take(f, "first");
	loan_ask(f, &loan, "second", 50);
	pool_fixture_wait(f, &loan.told);
	assert_int_equal(loan.r, -ETIMEDOUT);
	assert_int_equal(loan.err.reason, REASON_POOL_EXHAUSTED);
}

static void a_cancelled_request_leaves_the_queue_and_is_told_once(void **state)
{
	struct pool_fixture *f = *state;
	struct slot *slot = loan_take(f, "first");
	struct loan gone, next;

	loan_ask(f, &gone, "gone", 30000);
	loan_ask(f, &next, "next", 30000);
	operation_cancel(gone.op);
	operation_cancel(gone.op);
	assert_false(gone.told);
	assert_int_equal(pool_queue_length(f->pool), 1);
	pool_return(f->pool, slot, REASON_TERMINATED);
	pool_fixture_wait(f, &next.told);
	assert_int_equal(gone.r, -ECANCELED);
	assert_int_equal(next.r, 0);
}

static void a_holder_waits_for_its_own_former_slot_but_others_do_not(void **state)
{
	struct pool_fixture *f = *state;
	struct slot *slot = loan_take(f, "same");
	struct loan same, other, hasty;

	pool_return(f->pool, slot, REASON_TERMINATED);
	loan_ask(f, &same, "same", 30000);
	loan_ask(f, &other, "other", 30000);
	loan_ask(f, &hasty, "same", 0);
	pool_fixture_wait(f, &other.told);
	assert_false(same.told);
	pool_fixture_wait(f, &hasty.told);
	assert_int_equal(hasty.r, 0);
	assert_ptr_not_equal(hasty.slot, slot);
	pool_fixture_wait(f, &same.told);
	assert_int_equal(same.r, 0);
	assert_int_equal(slot_view(slot).generation, 2);
}

static void a_draining_pool_refuses_and_an_undrained_one_lends(void **state)
{
	struct pool_fixture *f = *state;
	struct loan loan;

	pool_drain(f->pool, true);
	assert_true(pool_is_draining(f->pool));
	loan_ask(f, &loan, "t", 1000);
	pool_fixture_wait(f, &loan.told);
	assert_int_equal(loan.r, -EBUSY);
	assert_int_equal(loan.err.reason, REASON_DRAINING);
	pool_drain(f->pool, false);
	assert_non_null(loan_take(f, "t"));
}

static void a_leased_slot_whose_init_is_killed_is_lost_until_it_is_returned(void **state)
{
	struct pool_fixture *f = *state;
	struct slot *slot = loan_take(f, "t");
	struct run_outcome running, late;

	run_begin_script(slot, &running, "echo before; sleep 1000");
	assert_int_equal(kill(slot_view(slot).pid, SIGKILL), 0);
	pool_fixture_wait_state(f, slot, SLOT_LOST);
	assert_int_equal(f->lost_count, 1);
	assert_int_equal(f->lost_why.reason, REASON_SLOT_LOST);
	assert_true(running.ended);
	assert_int_equal(running.r, 0);
	assert_true(running.result.infra_failure);
	assert_false(running.result.has_returncode);
	assert_int_equal(running.result.reason, REASON_SLOT_LOST);
	run_fini(&running);
	assert_int_equal(slot_root_fd(slot), -1);
	assert_int_equal(slot_view(slot).pid, 0);
	run_begin_script(slot, &late, "true");
	pool_fixture_wait(f, &late.ended);
	assert_int_equal(late.r, -ENOTCONN);
	assert_int_equal(late.err.reason, REASON_SLOT_LOST);
	pool_return(f->pool, slot, REASON_TERMINATED);
	assert_ptr_equal(loan_take(f, "u"), slot);
}

static void a_ready_slot_whose_init_is_killed_is_started_again(void **state)
{
	struct pool_fixture *f = *state;
	struct slot *slot = pool_slot(f->pool, 0);

	assert_int_equal(kill(slot_view(slot).pid, SIGKILL), 0);
	pool_fixture_wait_state(f, slot, SLOT_DEAD);
	assert_true(slot_view(slot).last_error[0] != '\0');
	assert_int_equal(f->lost_count, 0);
	pool_fixture_wait_state(f, slot, SLOT_READY);
	assert_string_equal(slot_view(slot).last_error, "");
	assert_ptr_equal(loan_take(f, "t"), slot);
}

static void a_command_cut_off_by_a_return_says_why(void **state)
{
	struct pool_fixture *f = *state;
	struct slot *slot = loan_take(f, "t");
	struct run_outcome run;

	run_begin_script(slot, &run, "echo started; exec sleep 1000");
	pool_return(f->pool, slot, REASON_LEASE_TTL_EXPIRED);
	pool_fixture_wait(f, &run.ended);
	assert_int_equal(run.r, 0);
	assert_true(run.result.infra_failure);
	assert_int_equal(run.result.reason, REASON_LEASE_TTL_EXPIRED);
	run_fini(&run);
}

static void returning_twice_is_harmless(void **state)
{
	struct pool_fixture *f = *state;
	struct slot *slot = loan_take(f, "t");

	pool_return(f->pool, slot, REASON_TERMINATED);
	pool_return(f->pool, slot, REASON_TERMINATED);
	pool_fixture_wait_state(f, slot, SLOT_READY);
	assert_int_equal(slot_view(slot).generation, 2);
}

static void a_stop_leaves_no_process_no_cgroup_and_no_directory(void **state)
{
	struct pool_fixture *f = *state;
	struct slot *slot = loan_take(f, "t");
	char cgroups[4096], path[128];
	struct run_outcome run;
	struct loan waiting;
	struct stat st;

	(void)loan_take(f, "u");
	(void)loan_take(f, "v");
	loan_ask(f, &waiting, "w", 30000);
	run_begin_script(slot, &run, "setsid sleep 1000 & setsid sleep 1000 & echo x > file; wait");
	(void)snprintf(cgroups, sizeof(cgroups), "%s", pool_cgroups(f->pool));
	pool_fixture_close(f);
	assert_true(waiting.told);
	assert_int_equal(waiting.r, -EBUSY);
	assert_int_equal(waiting.err.reason, REASON_STOPPING);
	assert_true(run.ended);
	assert_int_equal(run.result.reason, REASON_STOPPING);
	run_fini(&run);
	assert_int_equal(holdings_now(f).children, 0);
	if (cgroups[0])
		assert_int_equal(stat(cgroups, &st), -1);
	(void)snprintf(path, sizeof(path), "%s/slots", f->dir);
	assert_int_equal(stat(path, &st), -1);
	(void)snprintf(path, sizeof(path), "%s/trash", f->dir);
	assert_int_equal(stat(path, &st), -1);
}

static void a_stop_in_the_middle_of_starts_and_resets_is_clean(void **state)
{
	struct pool_fixture *f = *state;

	pool_return(f->pool, loan_take(f, "t"), REASON_TERMINATED);
	(void)kill(slot_view(pool_slot(f->pool, 2)).pid, SIGKILL);
	pool_fixture_close(f);
	assert_int_equal(holdings_now(f).children, 0);
}

static void a_slot_stopped_while_it_starts_again_says_so(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf lines = STRBUF_INIT;
	struct pool_fixture *f = *state;
	struct slot *slot = loan_take(f, "a");

	pool_return(f->pool, slot, REASON_TERMINATED);
	pool_fixture_wait_state(f, slot, SLOT_RESTARTING);
	pool_fixture_close(f);
	events_render(f->events, &lines);
	assert_non_null(strstr(
		lines.data, "\"from\":\"LEASED\",\"to\":\"RELEASING\",\"reason\":\"terminated\""));
	assert_non_null(strstr(lines.data,
		"\"from\":\"RESTARTING\",\"to\":\"RELEASING\",\"reason\":\"stopping\""));
	assert_non_null(strstr(
		lines.data, "\"from\":\"RELEASING\",\"to\":\"RESETTING\",\"reason\":\"stopping\""));
}

static void rounds_leave_descriptors_processes_and_cgroups_as_before(void **state)
{
	struct pool_fixture *f = *state;
	struct holdings before = {0}, after;

	for (unsigned round = 0; round < 60; round++) {
		struct slot *slot = loan_take(f, "t");
		struct run_outcome run;

		run_script(slot, &run, "echo $((6*7)); sleep 300 >/dev/null 2>&1 &");
		assert_string_equal(run.result.out.data, "42\n");
		run_fini(&run);
		pool_return(f->pool, slot, REASON_TERMINATED);
		pool_fixture_wait_state(f, slot, SLOT_READY);
		if (round == 1)
			before = holdings_now(f);
	}
	after = holdings_now(f);
	assert_in_range(after.fds, 0, before.fds + 4); /* the trash may be at work */
	assert_int_equal(after.children, before.children);
	assert_int_equal(after.cgroups, before.cgroups);
	assert_int_equal(slot_view(pool_slot(f->pool, 0)).generation, 61);
}

static void a_second_pool_on_the_same_slot_directory_is_refused(void **state)
{
	struct pool_fixture *f = *state;
	const struct pool_hooks hooks = {0};
	struct pool *second = NULL;
	struct error err = ERROR_NONE;

	assert_int_equal(
		pool_create(f->loop, f->config, f->journal, f->events, &hooks, &second, &err),
		-EBUSY);
	assert_non_null(strstr(err.text, "slot_dir"));
	assert_null(second);
}

/*
 * The program as a daemon of its own, `--daemon DIR`: lends a slot, runs a command, writes init's
 * pid to standard output and waits for its end.
 */
static void be_a_daemon(const char *dir)
{
	static struct pool_fixture fixture;
	static struct run_outcome run;
	struct slot *slot;
	pid_t pid;

	pool_fixture_init_in(&fixture, dir, 2, NULL);
	pool_fixture_open(&fixture);
	slot = loan_take(&fixture, "t");
	run_begin_script(slot, &run, "echo x > file; setsid sleep 1000 & exec sleep 1000");
	pid = slot_view(slot).pid;
	if (write(STDOUT_FILENO, &pid, sizeof(pid)) == sizeof(pid))
		pool_fixture_wait(&fixture, &run.ended);
	_exit(1);
}

static pid_t spawn_daemon(char *dir, int *ret_report_fd)
{
	char *argv[] = {(char *)"test-pool-pool", (char *)"--daemon", dir, NULL};
	posix_spawn_file_actions_t actions;
	int report[2];
	pid_t pid;

	assert_int_equal(pipe2(report, O_CLOEXEC), 0);
	assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
	assert_int_equal(posix_spawn_file_actions_adddup2(&actions, report[1], STDOUT_FILENO), 0);
	assert_int_equal(posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, environ), 0);
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)close(report[1]);
	*ret_report_fd = report[0];
	return pid;
}

static void what_a_killed_daemon_left_is_cleared_by_the_next_start(void **state)
{
	static struct pool_fixture fixture;
	struct pool_fixture *f = &fixture;
	char dir[] = "/tmp/dressage-pool-XXXXXX";
	struct run_outcome run;
	struct slot *slot;
	int report_fd;
	pid_t daemon_pid, init_pid;

	assert_non_null(mkdtemp(dir));
	daemon_pid = spawn_daemon(dir, &report_fd);
	assert_int_equal(read(report_fd, &init_pid, sizeof(init_pid)), sizeof(init_pid));
	assert_true(process_starttime(init_pid) > 0);
	assert_int_equal(kill(daemon_pid, SIGKILL), 0);
	assert_int_equal(waitpid(daemon_pid, NULL, 0), daemon_pid);
	pool_fixture_init_in(f, dir, 2, NULL);
	pool_fixture_open(f);
	assert_true(!slot_is_running(init_pid));
	slot = loan_take(f, "t");
	assert_int_equal(slot_view(slot).generation, 2);
	run_script(slot, &run, "ls");
	assert_string_equal(run.result.out.data, "");
	run_fini(&run);
	(void)close(report_fd);
	pool_fixture_fini(f);
}

/* A bwrap that fails for as long as the flag file is there. */
static void write_moody_bwrap(const char *path, const char *flag)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(
		fprintf(file,
			"#!/bin/sh\n[ -e %s ] && { echo 'bwrap: not today' >&2; exit 1; }\nexec bwrap \"$@\"\n",
			flag) > 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, 0755), 0);
	file = fopen(flag, "w");
	assert_non_null(file);
	assert_int_equal(fclose(file), 0);
}

static void a_slot_that_cannot_start_says_why_and_is_tried_again(void **state)
{
	static struct pool_fixture fixture;
	struct pool_fixture *f = &fixture;
	char dir[] = "/tmp/dressage-pool-XXXXXX";
	char bwrap[64], flag[64], override[96];
	const char *const overrides[] = {override, NULL};
	struct error err = ERROR_NONE;

	assert_non_null(mkdtemp(dir));
	(void)snprintf(bwrap, sizeof(bwrap), "%s/bwrap", dir);
	(void)snprintf(flag, sizeof(flag), "%s/flag", dir);
	(void)snprintf(override, sizeof(override), "slot.bwrap=%s", bwrap);
	write_moody_bwrap(bwrap, flag);
	pool_fixture_init_in(f, dir, 2, overrides);
	assert_true(pool_fixture_try(f, &err) < 0);
	assert_non_null(strstr(err.text, "not today"));
	assert_non_null(strstr(err.text, "2 of 2 slots"));
	assert_non_null(strstr(slot_view(pool_slot(f->pool, 0)).last_error, "not today"));
	assert_int_equal(unlink(flag), 0);
	pool_fixture_wait_state(f, pool_slot(f->pool, 0), SLOT_READY);
	pool_fixture_wait_state(f, pool_slot(f->pool, 1), SLOT_READY);
	assert_non_null(loan_take(f, "t"));
	pool_fixture_fini(f);
}

static void a_pool_can_be_destroyed_without_a_stop(void **state)
{
	static struct pool_fixture fixture;
	struct pool_fixture *f = &fixture;
	struct run_outcome run;
	struct loan waiting;
	struct slot *slot;
	struct pollfd death = {.events = POLLIN};

	pool_fixture_init(f, 2, NULL);
	pool_fixture_open(f);
	slot = loan_take(f, "t");
	pool_return(f->pool, loan_take(f, "u"), REASON_TERMINATED);
	loan_ask(f, &waiting, "w", 30000);
	run_begin_script(slot, &run, "sleep 1000");
	death.fd = dup(slot_pidfd(slot));
	pool_destroy(take_ptr(&f->pool));
	assert_false(run.ended);
	assert_false(waiting.told);
	assert_int_equal(poll(&death, 1, 20000), 1);
	(void)close(death.fd);
	run_fini(&run);
	pool_fixture_fini(f);
}

static void sixty_four_waiters_on_three_slots_are_all_served_once(void **state)
{
	enum { WAITERS = 64 };
	static struct loan loans[WAITERS];
	struct pool_fixture *f = *state;
	unsigned returned = 0, out = 0;

	for (unsigned i = 0; i < WAITERS; i++) {
		char holder[16];

		(void)snprintf(holder, sizeof(holder), "w%u", i % 40); /* some ask twice */
		loan_ask(f, &loans[i], holder, 30000);
	}
	while (returned < WAITERS) {
		for (unsigned i = 0; i < WAITERS; i++) {
			if (!loans[i].told || !loans[i].slot)
				continue;
			assert_int_equal(loans[i].r, 0);
			for (unsigned j = 0; j < i; j++)
				assert_ptr_not_equal(loans[i].slot, loans[j].slot);
			out++;
		}
		assert_in_range(out, 0, 3);
		out = 0;
		for (unsigned i = 0; i < WAITERS; i++) {
			if (!loans[i].slot)
				continue;
			pool_return(f->pool, loans[i].slot, REASON_TERMINATED);
			loans[i].slot = NULL;
			returned++;
		}
		pool_fixture_turn(f);
	}
	assert_int_equal(pool_queue_length(f->pool), 0);
}

#define ONE(fn)   cmocka_unit_test_setup_teardown(fn, set_up_one, tear_down)
#define THREE(fn) cmocka_unit_test_setup_teardown(fn, set_up_three, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		THREE(every_slot_starts_ready),
		THREE(a_leased_slot_is_not_lent_again),
		ONE(a_command_runs_in_a_lent_slot),
		ONE(a_returned_slot_comes_back_empty_with_the_next_generation),
		ONE(waiting_requests_are_served_in_order_of_asking),
		ONE(a_request_that_waited_its_time_out_is_told_so),
		ONE(a_cancelled_request_leaves_the_queue_and_is_told_once),
		THREE(a_holder_waits_for_its_own_former_slot_but_others_do_not),
		ONE(a_draining_pool_refuses_and_an_undrained_one_lends),
		ONE(a_leased_slot_whose_init_is_killed_is_lost_until_it_is_returned),
		ONE(a_ready_slot_whose_init_is_killed_is_started_again),
		ONE(a_command_cut_off_by_a_return_says_why),
		ONE(returning_twice_is_harmless),
		THREE(a_stop_leaves_no_process_no_cgroup_and_no_directory),
		THREE(a_stop_in_the_middle_of_starts_and_resets_is_clean),
		ONE(a_slot_stopped_while_it_starts_again_says_so),
		ONE(rounds_leave_descriptors_processes_and_cgroups_as_before),
		THREE(sixty_four_waiters_on_three_slots_are_all_served_once),
		cmocka_unit_test(what_a_killed_daemon_left_is_cleared_by_the_next_start),
		cmocka_unit_test(a_slot_that_cannot_start_says_why_and_is_tried_again),
		cmocka_unit_test(a_pool_can_be_destroyed_without_a_stop),
		ONE(a_second_pool_on_the_same_slot_directory_is_refused),
	};

	log_set_level(LOG_LEVEL_ERROR);
	if (argc == 3 && !strcmp(argv[1], "--daemon"))
		be_a_daemon(argv[2]);
	if (!fixture_begin_tests(argc, argv))
		return 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
