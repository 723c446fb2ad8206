/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/interrupt.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Recorded on Linux 6.18, shortened to the lines around those that matter. */
static const char *status_text(
	const char *name, uint64_t mine, uint64_t shared, uint64_t blocked, char *buf, size_t size)
{
	(void)snprintf(buf, size,
		"Name:\t%s\nUmask:\t0022\nState:\tD (disk sleep)\nTgid:\t4711\nNgid:\t0\nPid:\t4713\n"
		"PPid:\t1\nTracerPid:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nFDSize:\t64\nGroups:\t0 \n"
		"NStgid:\t4711\nThreads:\t2\nSigQ:\t0/15364\nSigPnd:\t%016llx\nShdPnd:\t%016llx\n"
		"SigBlk:\t%016llx\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000000000\n"
		"CapInh:\t0000000000000000\n",
		name, (unsigned long long)mine, (unsigned long long)shared,
		(unsigned long long)blocked);
	return buf;
}

static uint64_t bit(int signal)
{
	return UINT64_C(1) << (signal - 1);
}

static void a_signal_that_ends_a_process_cancels_pending_for_thread_or_process(void **state)
{
	static const int fatal[] = {SIGKILL, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	char buf[1024];

	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
		uint64_t set = bit(fatal[i]) | bit(SIGWINCH);

		assert_true(interrupt_cancels_by_status(
			status_text("cat", set, 0, 0, buf, sizeof(buf))));
		assert_true(interrupt_cancels_by_status(
			status_text("cat", 0, set, 0, buf, sizeof(buf))));
	}
}

/* As if the program had a handler for every signal. */
static void catch_all(char *status)
{
	memset(strstr(status, "SigCgt:\t") + strlen("SigCgt:\t"), 'f', 16);
}

static void a_signal_that_dumps_core_cancels_unless_it_is_caught(void **state)
{
	static const int dumping[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS};
	char buf[1024];

	for (size_t i = 0; i < sizeof(dumping) / sizeof(dumping[0]); i++) {
		status_text("cat", 0, bit(dumping[i]), 0, buf, sizeof(buf));
		assert_true(interrupt_cancels_by_status(buf));
		catch_all(buf);
		assert_false(interrupt_cancels_by_status(buf));
	}
}

static void any_other_signal_leaves_the_request_alone(void **state)
{
	char buf[1024];

	for (int i = 1; i <= 64; i++) {
		if (i == SIGKILL || i == SIGINT || i == SIGTERM || i == SIGHUP || i == SIGQUIT)
			continue;
		status_text("cat", bit(i), bit(i), 0, buf, sizeof(buf));
		catch_all(buf);
		assert_false(interrupt_cancels_by_status(buf));
	}
	assert_false(interrupt_cancels_by_status(status_text("cat", 0, 0, 0, buf, sizeof(buf))));
}

static void a_blocked_signal_does_not_cancel(void **state)
{
	char buf[1024];

	assert_false(interrupt_cancels_by_status(
		status_text("cat", 0, bit(SIGTERM), bit(SIGTERM), buf, sizeof(buf))));
	assert_true(interrupt_cancels_by_status(
		status_text("cat", 0, bit(SIGTERM) | bit(SIGINT), bit(SIGTERM), buf, sizeof(buf))));
}

static void a_thread_that_cannot_be_seen_cancels(void **state)
{
	assert_true(interrupt_cancels_by_status(""));
	assert_true(interrupt_cancels_by_status("Name:\tcat\nSigPnd:\t0000000000000000\n"));
	assert_true(interrupt_cancels(0));
	assert_true(interrupt_cancels(-1));
	assert_true(interrupt_cancels(0x7fffffff));
}

static void a_process_name_cannot_forge_a_line(void **state)
{
	char buf[1024];

	/* the kernel writes a newline in a name as \n, a tab as it is */
	assert_false(interrupt_cancels_by_status(
		status_text("x\\nSigPnd:\t0000000000000100", 0, 0, 0, buf, sizeof(buf))));
	assert_int_equal(
		process_by_status(status_text("Tgid:\t1", 0, 0, 0, buf, sizeof(buf))), 4711);
}

static void the_thread_group_is_read_from_status(void **state)
{
	char buf[1024];

	assert_int_equal(process_by_status(status_text("node", 0, 0, 0, buf, sizeof(buf))), 4711);
	assert_int_equal(process_by_status(""), 0);
	assert_int_equal(process_of_thread(gettid()), getpid());
	assert_int_equal(process_of_thread(0), 0);
	assert_int_equal(process_of_thread(0x7fffffff), 0);
}

static void *tell_process(void *data)
{
	pid_t *process = data;

	*process = gettid() == getpid() ? -1 : process_of_thread(gettid());
	return NULL;
}

static void another_thread_belongs_to_the_same_process(void **state)
{
	pthread_t thread;
	pid_t process = 0;

	assert_int_equal(pthread_create(&thread, NULL, tell_process, &process), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(process, getpid());
}

static const char *stat_text(
	const char *name, unsigned flags, unsigned exit_code, char *buf, size_t size)
{
	(void)snprintf(buf, size,
		"4713 (%s) X 4700 4713 4700 34816 4713 %u 104 0 0 0 0 0 0 0 20 0 1 0 8361012 0 0 "
		"18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 %u\n",
		name, flags, exit_code);
	return buf;
}

static void a_process_dies_of_a_signal_when_it_exits_with_one(void **state)
{
	char buf[512];

	assert_true(process_is_dying_by_stat(stat_text("sh", 0x40010c, 9, buf, sizeof(buf))));
	assert_true(
		process_is_dying_by_stat(stat_text("sh", 0x40010c, 11 | 0x80, buf, sizeof(buf))));
	assert_true(
		process_is_dying_by_stat(stat_text("a) R (b 1 2 3", 0x4, 15, buf, sizeof(buf))));
}

static void a_process_that_exits_is_exiting_whatever_for(void **state)
{
	char buf[1024];

	assert_true(process_is_exiting_by_stat(stat_text("sh", 0x40010c, 9, buf, sizeof(buf))));
	assert_true(process_is_exiting_by_stat(stat_text("sh", 0x40010c, 0, buf, sizeof(buf))));
	assert_false(process_is_exiting_by_stat(stat_text("sh", 0x400100, 0, buf, sizeof(buf))));
	assert_false(process_is_exiting_by_stat(""));
	assert_false(process_is_exiting_by_stat("1 (sh)"));
	assert_false(process_is_exiting(getpid()));
	assert_false(process_is_exiting(0));
}

static void a_process_that_exits_by_itself_or_lives_is_not_dying(void **state)
{
	char buf[512];

	assert_false(process_is_dying_by_stat(stat_text("sh", 0x40010c, 0, buf, sizeof(buf))));
	assert_false(process_is_dying_by_stat(stat_text("sh", 0x40010c, 3 << 8, buf, sizeof(buf))));
	assert_false(process_is_dying_by_stat(stat_text("sh", 0x400100, 0, buf, sizeof(buf))));
	assert_false(process_is_dying_by_stat(stat_text("sh", 0x400100, 19, buf, sizeof(buf))));
	assert_false(process_is_dying(getpid()));
}

static void what_is_no_stat_line_tells_of_no_death(void **state)
{
	assert_false(process_is_dying_by_stat(""));
	assert_false(process_is_dying_by_stat("1 (sh"));
	assert_false(process_is_dying_by_stat("1 (sh)"));
	assert_false(process_is_dying_by_stat("1 (sh) X 4 4 4 4 4 4 4 4"));
	assert_false(process_is_dying(0));
	assert_false(process_is_dying(0x7fffffff));
}

static void a_signal_that_waits_in_this_process_is_seen(void **state)
{
	sigset_t set, old;
	int signal;

	/* blocked, so that it stays pending: it must not count */
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	assert_int_equal(sigprocmask(SIG_BLOCK, &set, &old), 0);
	assert_int_equal(kill(getpid(), SIGTERM), 0);
	assert_false(interrupt_cancels(gettid()));
	assert_int_equal(sigwait(&set, &signal), 0);
	assert_int_equal(sigprocmask(SIG_SETMASK, &old, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_signal_that_ends_a_process_cancels_pending_for_thread_or_process),
		cmocka_unit_test(a_signal_that_dumps_core_cancels_unless_it_is_caught),
		cmocka_unit_test(any_other_signal_leaves_the_request_alone),
		cmocka_unit_test(a_blocked_signal_does_not_cancel),
		cmocka_unit_test(a_thread_that_cannot_be_seen_cancels),
		cmocka_unit_test(a_process_name_cannot_forge_a_line),
		cmocka_unit_test(the_thread_group_is_read_from_status),
		cmocka_unit_test(another_thread_belongs_to_the_same_process),
		cmocka_unit_test(a_process_dies_of_a_signal_when_it_exits_with_one),
		cmocka_unit_test(a_process_that_exits_is_exiting_whatever_for),
		cmocka_unit_test(a_process_that_exits_by_itself_or_lives_is_not_dying),
		cmocka_unit_test(what_is_no_stat_line_tells_of_no_death),
		cmocka_unit_test(a_signal_that_waits_in_this_process_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
