/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/thread.h"

struct work {
	struct worker worker;
	unsigned wanted, done;
	sigset_t blocked;
};

static void *run(void *data)
{
	struct work *work = data;

	(void)pthread_sigmask(SIG_SETMASK, NULL, &work->blocked);
	pthread_mutex_lock(&work->worker.lock);
	while (!work->worker.ending || work->done < work->wanted) {
		if (work->done < work->wanted)
			work->done++;
		else
			pthread_cond_wait(&work->worker.wake, &work->worker.lock);
	}
	pthread_mutex_unlock(&work->worker.lock);
	return NULL;
}

static void work_is_done_before_the_stop_returns_and_a_second_stop_does_nothing(void **state)
{
	struct work work = {0};

	assert_int_equal(worker_start(&work.worker, run, &work), 0);
	pthread_mutex_lock(&work.worker.lock);
	work.wanted = 3;
	pthread_cond_signal(&work.worker.wake);
	pthread_mutex_unlock(&work.worker.lock);
	worker_stop(&work.worker);
	assert_int_equal(work.done, 3);
	worker_stop(&work.worker);
	worker_fini(&work.worker);
}

static void signals_are_blocked_there_and_nowhere_else(void **state)
{
	struct work work = {0};
	sigset_t ours;

	assert_int_equal(worker_start(&work.worker, run, &work), 0);
	worker_fini(&work.worker);
	(void)pthread_sigmask(SIG_SETMASK, NULL, &ours);
	for (int number = 1; number < NSIG; number++) {
		if (number == SIGKILL || number == SIGSTOP || (number > 31 && number < SIGRTMIN))
			continue;
		assert_true(sigismember(&work.blocked, number));
		assert_false(sigismember(&ours, number));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			work_is_done_before_the_stop_returns_and_a_second_stop_does_nothing),
		cmocka_unit_test(signals_are_blocked_there_and_nowhere_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
