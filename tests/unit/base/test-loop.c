/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"

static struct loop *loop;

static int create(void **state)
{
	struct error err;

	return loop_create(&loop, &err);
}

static int destroy(void **state)
{
	loop_destroy(loop);
	loop = NULL;
	return 0;
}

static void stop(void *data)
{
	loop_stop(loop);
}

static void count(void *data)
{
	++*(unsigned *)data;
}

/* posting */

enum { POSTERS = 4, POSTS = 2000 };

struct post {
	struct loop_task task;
	unsigned poster, number;
};

static struct post posts[POSTERS][POSTS];
static unsigned next_of[POSTERS], arrived;

static void arrive(void *data)
{
	struct post *post = data;

	assert_true(loop_is_mine(loop));
	assert_int_equal(post->number, next_of[post->poster]++);
	if (++arrived == POSTERS * POSTS)
		loop_stop(loop);
}

static void *post_all(void *data)
{
	struct post *mine = data;

	for (unsigned i = 0; i < POSTS; i++)
		loop_post(loop, &mine[i].task);
	return NULL;
}

static void tasks_of_each_thread_run_once_and_in_order(void **state)
{
	pthread_t threads[POSTERS];

	memset(next_of, 0, sizeof(next_of));
	arrived = 0;
	for (unsigned i = 0; i < POSTERS; i++) {
		for (unsigned j = 0; j < POSTS; j++)
			posts[i][j] = (struct post){{.fn = arrive, .data = &posts[i][j]}, i, j};
		assert_int_equal(pthread_create(&threads[i], NULL, post_all, posts[i]), 0);
	}
	loop_run(loop);
	for (unsigned i = 0; i < POSTERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(arrived, POSTERS * POSTS);
}

struct again {
	struct loop_task task;
	unsigned runs;
};

static void run_again(void *data)
{
	struct again *again = data;

	if (++again->runs == 3)
		loop_stop(loop);
	else
		loop_post(loop, &again->task);
}

static void a_task_may_post_itself_again(void **state)
{
	struct again again = {.task = {.fn = run_again, .data = &again}};

	loop_post(loop, &again.task);
	loop_run(loop);
	assert_int_equal(again.runs, 3);
}

static void free_and_stop(void *data)
{
	free(data);
	loop_stop(loop);
}

static void a_task_may_free_itself(void **state)
{
	struct loop_task *task = calloc(1, sizeof(*task));

	assert_non_null(task);
	*task = (struct loop_task){.fn = free_and_stop, .data = task};
	loop_post(loop, task);
	loop_run(loop);
}

static void a_stop_before_the_run_is_not_lost_and_holds_for_one_run(void **state)
{
	unsigned runs = 0;
	struct loop_task counted = {.fn = count, .data = &runs}, stopper = {.fn = stop};

	loop_stop(loop);
	loop_run(loop);
	/* had the first stop lasted, the run would end with the first wake-up, before the second */
	loop_post(loop, &counted);
	loop_post(loop, &stopper);
	loop_run(loop);
	assert_int_equal(runs, 1);
}

static void a_task_that_was_taken_out_again_does_not_run_and_the_others_do(void **state)
{
	unsigned runs[4] = {0};
	struct loop_task tasks[4], stopper = {.fn = stop};

	for (unsigned i = 0; i < 4; i++) {
		tasks[i] = (struct loop_task){.fn = count, .data = &runs[i]};
		loop_post(loop, &tasks[i]);
	}
	loop_unpost(loop, &tasks[0]);
	loop_unpost(loop, &tasks[2]);
	loop_unpost(loop, &tasks[3]);
	loop_unpost(loop, &tasks[3]); /* harmless */
	loop_post(loop, &stopper);
	loop_run(loop);
	assert_int_equal(runs[0] + runs[2] + runs[3], 0);
	assert_int_equal(runs[1], 1);
}

static void tasks_still_queued_at_the_end_are_forgotten(void **state)
{
	unsigned runs = 0;
	struct loop_task task = {.fn = count, .data = &runs};

	loop_post(loop, &task);
	(void)destroy(state);
	assert_int_equal(runs, 0);
}

/* timers */

static char order[8];

static void note_a(void *data)
{
	strcat(order, "a"); // NOLINT: three letters
}

static void note_b(void *data)
{
	strcat(order, "b"); // NOLINT: three letters
}

static void timers_fire_in_the_order_of_their_times(void **state)
{
	struct loop_timer *a, *b, *end;
	struct error err;

	order[0] = '\0';
	assert_int_equal(loop_timer_start(loop, 60, stop, NULL, &end, &err), 0);
	assert_int_equal(loop_timer_start(loop, 30, note_b, NULL, &b, &err), 0);
	assert_int_equal(loop_timer_start(loop, 0, note_a, NULL, &a, &err), 0);
	loop_run(loop);
	assert_string_equal(order, "ab");
	loop_timer_stop(a);
	loop_timer_stop(b);
	loop_timer_stop(end);
}

static void a_timer_never_fires_early(void **state)
{
	uint64_t begin = loop_now_ms();
	struct loop_timer *timer;
	struct error err;

	assert_int_equal(loop_timer_start(loop, 50, stop, NULL, &timer, &err), 0);
	loop_run(loop);
	assert_true(loop_now_ms() - begin >= 50);
	loop_timer_stop(timer);
}

static void a_stopped_timer_does_not_fire_even_when_due(void **state)
{
	struct loop_timer *timer, *end;
	struct error err;
	unsigned runs = 0;

	assert_int_equal(loop_timer_start(loop, 0, count, &runs, &timer, &err), 0);
	assert_int_equal(loop_timer_start(loop, 20, stop, NULL, &end, &err), 0);
	loop_timer_stop(timer);
	loop_timer_stop(NULL);
	loop_run(loop);
	assert_int_equal(runs, 0);
	loop_timer_stop(end);
}

struct twice {
	struct loop_timer *timer;
	unsigned runs;
};

static void fire_twice(void *data)
{
	struct twice *twice = data;

	if (++twice->runs == 1) {
		loop_timer_restart(twice->timer, 1);
		return;
	}
	loop_timer_stop(twice->timer);
	loop_stop(loop);
}

static void a_timer_may_be_restarted_and_stopped_by_its_own_call(void **state)
{
	struct twice twice = {0};
	struct error err;

	assert_int_equal(loop_timer_start(loop, 1, fire_twice, &twice, &twice.timer, &err), 0);
	loop_run(loop);
	assert_int_equal(twice.runs, 2);
}

/* watches */

struct watched {
	struct loop_watch *watch;
	int fd;
	unsigned calls, events;
	bool stop_watch;
};

static void note_ready(void *data, unsigned events)
{
	struct watched *watched = data;

	watched->calls++;
	watched->events = events;
	if (watched->stop_watch)
		loop_watch_stop(watched->watch);
	loop_stop(loop);
}

static void a_watch_tells_as_long_as_there_is_something_to_read(void **state)
{
	struct watched watched = {0};
	struct error err;
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(loop_watch_start(loop, fds[0], LOOP_READABLE, note_ready, &watched,
				 &watched.watch, &err),
		0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	loop_run(loop);
	loop_run(loop);
	assert_int_equal(watched.calls, 2);
	assert_int_equal(watched.events, LOOP_READABLE);
	loop_watch_stop(watched.watch);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void a_paused_watch_is_silent_until_it_goes_on(void **state)
{
	struct watched watched = {0};
	struct loop_timer *end;
	struct error err;
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(
		loop_watch_start(loop, fds[0], 0, note_ready, &watched, &watched.watch, &err), 0);
	assert_int_equal(loop_timer_start(loop, 20, stop, NULL, &end, &err), 0);
	loop_run(loop);
	assert_int_equal(watched.calls, 0);
	loop_watch_events(watched.watch, LOOP_READABLE);
	loop_run(loop);
	assert_int_equal(watched.calls, 1);
	loop_timer_stop(end);
	loop_watch_stop(watched.watch);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void a_hang_up_is_something_to_read(void **state)
{
	struct watched watched = {.stop_watch = true};
	struct error err;
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(loop_watch_start(loop, fds[0], LOOP_READABLE, note_ready, &watched,
				 &watched.watch, &err),
		0);
	(void)close(fds[1]);
	loop_run(loop);
	assert_int_equal(watched.calls, 1);
	assert_true(watched.events & LOOP_READABLE);
	(void)close(fds[0]);
}

static void a_pipe_without_a_reader_stays_writable(void **state)
{
	struct watched watched = {0};
	struct error err;
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(loop_watch_start(loop, fds[1], LOOP_WRITABLE, note_ready, &watched,
				 &watched.watch, &err),
		0);
	(void)close(fds[0]);
	loop_run(loop);
	loop_run(loop);
	assert_int_equal(watched.calls, 2);
	assert_true(watched.events & LOOP_WRITABLE);
	loop_watch_stop(watched.watch);
	(void)close(fds[1]);
}

static void what_cannot_be_watched_is_an_error(void **state)
{
	struct loop_watch *watch = NULL;
	struct error err = ERROR_NONE;

	assert_int_equal(
		loop_watch_start(loop, -1, LOOP_READABLE, note_ready, NULL, &watch, &err), -EBADF);
	assert_null(watch);
	assert_int_not_equal(err.text[0], '\0');
	loop_watch_stop(NULL);
}

static void what_is_left_running_is_freed_with_the_loop(void **state)
{
	struct loop_timer *timer;
	struct loop_watch *watch;
	struct error err;
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(loop_timer_start(loop, 0, stop, NULL, &timer, &err), 0);
	assert_int_equal(
		loop_watch_start(loop, fds[1], LOOP_WRITABLE, note_ready, NULL, &watch, &err), 0);
	(void)destroy(state);
	(void)close(fds[0]);
	(void)close(fds[1]);
	loop_destroy(NULL);
}

/* work */

struct job {
	sem_t begun, go;
	pthread_t worker;
	bool worked, done;
};

static void work(void *data)
{
	struct job *job = data;

	job->worker = pthread_self();
	job->worked = true;
}

static void work_done(void *data)
{
	struct job *job = data;

	assert_true(loop_is_mine(loop));
	assert_true(job->worked);
	assert_false(pthread_equal(job->worker, pthread_self()));
	job->done = true;
	loop_stop(loop);
}

static void work_is_done_elsewhere_and_reported_on_the_loop(void **state)
{
	struct job job = {.done = false};
	struct error err;

	assert_int_equal(loop_work(loop, work, work_done, &job, &err), 0);
	loop_run(loop);
	assert_true(job.done);
}

static void work_slowly(void *data)
{
	struct job *job = data;

	(void)sem_post(&job->begun);
	(void)sem_wait(&job->go);
	job->worked = true;
}

static void *let_go(void *data)
{
	struct job *job = data;

	(void)sem_wait(&job->begun);
	(void)sem_post(&job->go);
	return NULL;
}

static void work_that_has_begun_is_waited_for_and_not_reported(void **state)
{
	struct job job = {.done = false};
	struct error err;
	pthread_t helper;

	assert_int_equal(sem_init(&job.begun, 0, 0), 0);
	assert_int_equal(sem_init(&job.go, 0, 0), 0);
	assert_int_equal(loop_work(loop, work_slowly, work_done, &job, &err), 0);
	assert_int_equal(pthread_create(&helper, NULL, let_go, &job), 0);
	(void)destroy(state);
	assert_true(job.worked);
	assert_false(job.done);
	assert_int_equal(pthread_join(helper, NULL), 0);
	(void)sem_destroy(&job.begun);
	(void)sem_destroy(&job.go);
}

#define LOOP_TEST(name) cmocka_unit_test_setup_teardown(name, create, destroy)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOOP_TEST(tasks_of_each_thread_run_once_and_in_order),
		LOOP_TEST(a_task_may_post_itself_again),
		LOOP_TEST(a_task_may_free_itself),
		LOOP_TEST(a_stop_before_the_run_is_not_lost_and_holds_for_one_run),
		LOOP_TEST(a_task_that_was_taken_out_again_does_not_run_and_the_others_do),
		LOOP_TEST(tasks_still_queued_at_the_end_are_forgotten),
		LOOP_TEST(timers_fire_in_the_order_of_their_times),
		LOOP_TEST(a_timer_never_fires_early),
		LOOP_TEST(a_stopped_timer_does_not_fire_even_when_due),
		LOOP_TEST(a_timer_may_be_restarted_and_stopped_by_its_own_call),
		LOOP_TEST(a_watch_tells_as_long_as_there_is_something_to_read),
		LOOP_TEST(a_paused_watch_is_silent_until_it_goes_on),
		LOOP_TEST(a_hang_up_is_something_to_read),
		LOOP_TEST(a_pipe_without_a_reader_stays_writable),
		LOOP_TEST(what_cannot_be_watched_is_an_error),
		LOOP_TEST(what_is_left_running_is_freed_with_the_loop),
		LOOP_TEST(work_is_done_elsewhere_and_reported_on_the_loop),
		LOOP_TEST(work_that_has_begun_is_waited_for_and_not_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
