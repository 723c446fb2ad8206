/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Real slots. `--user` runs everything as an ordinary user's daemon. */
#include <errno.h>
#include <ftw.h>
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

#include "base/log.h"
#include "base/operation.h"
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

	run_script(f, slot, &run, "echo hi; echo oops >&2; id -u; pwd; exit 3");
	assert_string_equal(run.result.out.data, "hi\n1000\n/workspace\n");
	assert_string_equal(run.result.err.data, "oops\n");
	assert_int_equal(run.result.returncode, 3);
	assert_true(run.result.has_returncode);
	assert_int_equal(run.result.exec_id, 1);
	assert_int_equal(run.result.reason, REASON_NONE);
	run_fini(&run);
	run_script(f, slot, &run, "true");
	assert_int_equal(run.result.exec_id, 2);
	run_fini(&run);
}

static void a_returned_slot_comes_back_empty_with_the_next_generation(void **state)
{
	struct pool_fixture *f = *state;
	struct slot *slot = loan_take(f, "t");
	struct run_outcome run;

	run_script(f, slot, &run,
		"mkdir -p a/b; echo secret > a/b/c; echo x > /tmp/x; touch ~/y; chmod 0 a");
	assert_int_equal(run.result.returncode, 0);
	run_fini(&run);
	pool_return(f->pool, slot, REASON_TERMINATED);
	assert_int_equal(slot_view(slot).state, SLOT_RELEASING);
	assert_ptr_equal(loan_take(f, "t"), slot);
	assert_int_equal(slot_view(slot).generation, 2);
	run_script(f, slot, &run, "ls -A /workspace /tmp ~");
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

static void rounds_leave_descriptors_processes_and_cgroups_as_before(void **state)
{
	struct pool_fixture *f = *state;
	struct holdings before = {0}, after;

	for (unsigned round = 0; round < 60; round++) {
		struct slot *slot = loan_take(f, "t");
		struct run_outcome run;

		run_script(f, slot, &run, "echo $((6*7)); sleep 300 >/dev/null 2>&1 &");
		assert_string_equal(run.result.out.data, "42\n");
		run_fini(&run);
		pool_return(f->pool, slot, REASON_TERMINATED);
		pool_fixture_wait_state(f, slot, SLOT_READY);
		if (round == 1)
			before = holdings_now(f);
	}
	after = holdings_now(f);
	assert_int_equal(after.fds, before.fds);
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
		ONE(rounds_leave_descriptors_processes_and_cgroups_as_before),
		ONE(a_second_pool_on_the_same_slot_directory_is_refused),
	};

	if (!fixture_begin_tests(argc, argv))
		return 0;
	log_set_level(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
