/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/loop.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/error.h"

struct loop {
	uv_loop_t uv;
	uv_poll_t wake;
	int wake_fd;      /* eventfd */
	pthread_t thread; /* of loop_run(), once running is true */
	atomic_bool running;
	bool closing;         /* in loop_destroy() */
	pthread_mutex_t lock; /* guards every field after it; leaf */
	struct loop_task *first, **last;
	bool stop_asked;
};

struct loop_timer {
	uv_timer_t uv;
	loop_fn *fn;
	void *data;
};

struct loop_watch {
	uv_poll_t uv;
	int events; /* libuv's */
	loop_ready_fn *fn;
	void *data;
};

struct work {
	uv_work_t uv;
	loop_fn *work, *done;
	void *data;
};

static int uv_error(struct error *err, int r, const char *what)
{
	return error_set(err, -r, "%s: %s", what, uv_strerror(r));
}

static struct loop_task *take_tasks(struct loop *loop, bool *ret_stop)
{
	struct loop_task *tasks;

	pthread_mutex_lock(&loop->lock);
	tasks = loop->first;
	loop->first = NULL;
	loop->last = &loop->first;
	*ret_stop = loop->stop_asked;
	pthread_mutex_unlock(&loop->lock);
	return tasks;
}

static void handle_wake(uv_poll_t *wake, int status, int events)
{
	struct loop *loop = wake->data;
	uint64_t count;
	bool stop;

	(void)status;
	(void)events;
	(void)!read(
		loop->wake_fd, &count, sizeof(count)); /* before looking: a later post wakes anew */
	for (struct loop_task *task = take_tasks(loop, &stop), *next; task; task = next) {
		next = task->next; /* fn may free the task or post it again */
		task->fn(task->data);
	}
	if (stop)
		uv_stop(&loop->uv);
}

int loop_create(struct loop **ret_loop, struct error *err)
{
	struct loop *loop = calloc(1, sizeof(*loop));
	int r;

	if (!loop)
		return error_set(err, ENOMEM, "no memory for the event loop");
	r = uv_loop_init(&loop->uv);
	if (r < 0)
		goto free_loop;
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = loop->wake_fd < 0 ? -errno : uv_poll_init(&loop->uv, &loop->wake, loop->wake_fd);
	if (r < 0)
		goto close_uv;
	(void)uv_poll_start(&loop->wake, UV_READABLE, handle_wake);
	loop->uv.data = loop->wake.data = loop;
	loop->last = &loop->first;
	pthread_mutex_init(&loop->lock, NULL);
	*ret_loop = loop;
	return 0;
close_uv:
	closep(&loop->wake_fd);
	(void)uv_loop_close(&loop->uv);
free_loop:
	free(loop);
	return uv_error(err, r, "cannot make the event loop");
}

static void free_handle(uv_handle_t *handle)
{
	free(handle->data);
}

static void close_left_over(uv_handle_t *handle, void *arg)
{
	if (uv_is_closing(handle))
		return;
	/* timers and watches are ours and begin with the handle; anything else belongs to whoever
	 * made it */
	if ((handle->type == UV_TIMER || handle->type == UV_POLL) && handle->data == handle)
		uv_close(handle, free_handle);
	else
		uv_close(handle, NULL);
}

void loop_destroy(struct loop *loop)
{
	if (!loop)
		return;
	assert(!loop->running);
	loop->closing = true;
	uv_walk(&loop->uv, close_left_over, NULL);
	while (uv_run(&loop->uv, UV_RUN_DEFAULT) != 0)
		;
	(void)uv_loop_close(&loop->uv);
	(void)close(loop->wake_fd);
	pthread_mutex_destroy(&loop->lock);
	free(loop);
}

void loop_run(struct loop *loop)
{
	loop->thread = pthread_self();
	loop->running = true;
	(void)uv_run(&loop->uv, UV_RUN_DEFAULT);
	loop->running = false;
	pthread_mutex_lock(&loop->lock);
	loop->stop_asked = false; /* it may run again */
	pthread_mutex_unlock(&loop->lock);
}

/*
 * Not a uv_async_t: its receiver spins until the sender is back from its write(2), which takes long
 * when the wake-up put the receiver in the sender's place on the same processor.
 */
static void wake_up(const struct loop *loop)
{
	const uint64_t one = 1;

	(void)!write(
		loop->wake_fd, &one, sizeof(one)); /* fails when it is full of wake-ups: fine */
}

void loop_stop(struct loop *loop)
{
	pthread_mutex_lock(&loop->lock);
	loop->stop_asked = true;
	pthread_mutex_unlock(&loop->lock);
	if (loop->running && loop_is_mine(loop))
		uv_stop(&loop->uv); /* no other turn */
	else
		wake_up(loop);
}

bool loop_is_mine(const struct loop *loop)
{
	return !loop->running || pthread_equal(loop->thread, pthread_self());
}

void loop_post(struct loop *loop, struct loop_task *task)
{
	bool wake;

	task->next = NULL;
	pthread_mutex_lock(&loop->lock);
	wake = !loop->first; /* a queue that was not empty has its wake-up under way */
	*loop->last = task;
	loop->last = &task->next;
	pthread_mutex_unlock(&loop->lock);
	if (wake)
		wake_up(loop);
}

void loop_unpost(struct loop *loop, struct loop_task *task)
{
	struct loop_task **at = &loop->first;

	pthread_mutex_lock(&loop->lock);
	while (*at && *at != task)
		at = &(*at)->next;
	if (*at)
		*at = task->next;
	while (*at)
		at = &(*at)->next;
	loop->last = at;
	pthread_mutex_unlock(&loop->lock);
}

uint64_t loop_now_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void handle_timer(uv_timer_t *uv)
{
	struct loop_timer *timer = (struct loop_timer *)uv;

	timer->fn(timer->data);
}

int loop_timer_start(struct loop *loop, uint64_t delay_ms, loop_fn *fn, void *data,
	struct loop_timer **ret_timer, struct error *err)
{
	struct loop_timer *timer = calloc(1, sizeof(*timer));

	assert(loop_is_mine(loop));
	if (!timer)
		return error_set(err, ENOMEM, "no memory for a timer");
	(void)uv_timer_init(&loop->uv, &timer->uv);
	timer->uv.data = timer;
	timer->fn = fn;
	timer->data = data;
	loop_timer_restart(timer, delay_ms);
	*ret_timer = timer;
	return 0;
}

void loop_timer_restart(struct loop_timer *timer, uint64_t delay_ms)
{
	/* the loop's clock stands still within a turn; after a long callback it would fire early */
	uv_update_time(timer->uv.loop);
	(void)uv_timer_start(&timer->uv, handle_timer, delay_ms, 0);
}

void loop_timer_stop(struct loop_timer *timer)
{
	if (timer)
		uv_close((uv_handle_t *)&timer->uv, free_handle);
}

static int uv_events(unsigned events)
{
	return (events & LOOP_READABLE ? UV_READABLE | UV_DISCONNECT : 0) |
	       (events & LOOP_WRITABLE ? UV_WRITABLE : 0) |
	       (events & LOOP_PRIORITY ? UV_PRIORITIZED : 0);
}

static void handle_poll(uv_poll_t *uv, int status, int events)
{
	struct loop_watch *watch = (struct loop_watch *)uv;
	unsigned ready = 0;

	if (status < 0) /* libuv has stopped at an error; the descriptor is still ready */
		(void)uv_poll_start(uv, watch->events, handle_poll);
	if (status < 0 || events & (UV_READABLE | UV_DISCONNECT))
		ready |= LOOP_READABLE;
	if (status < 0 || events & UV_WRITABLE)
		ready |= LOOP_WRITABLE;
	if (status < 0 || events & UV_PRIORITIZED)
		ready |= LOOP_PRIORITY;
	watch->fn(watch->data, ready);
}

int loop_watch_start(struct loop *loop, int fd, unsigned events, loop_ready_fn *fn, void *data,
	struct loop_watch **ret_watch, struct error *err)
{
	struct loop_watch *watch = calloc(1, sizeof(*watch));
	int r;

	assert(loop_is_mine(loop));
	if (!watch)
		return error_set(err, ENOMEM, "no memory to watch a descriptor");
	r = uv_poll_init(&loop->uv, &watch->uv, fd);
	if (r < 0) {
		free(watch);
		return uv_error(err, r, "cannot watch a descriptor");
	}
	watch->uv.data = watch;
	watch->fn = fn;
	watch->data = data;
	loop_watch_events(watch, events);
	*ret_watch = watch;
	return 0;
}

void loop_watch_events(struct loop_watch *watch, unsigned events)
{
	if (watch->events == uv_events(events)) /* libuv would tell the kernel, both times */
		return;
	watch->events = uv_events(events);
	if (events)
		(void)uv_poll_start(&watch->uv, watch->events, handle_poll);
	else
		(void)uv_poll_stop(&watch->uv);
}

void loop_watch_stop(struct loop_watch *watch)
{
	if (watch)
		uv_close((uv_handle_t *)&watch->uv, free_handle);
}

static void run_work(uv_work_t *uv)
{
	struct work *work = (struct work *)uv;

	work->work(work->data);
}

static void run_done(uv_work_t *uv, int status)
{
	struct work *work = (struct work *)uv;
	struct loop *loop = uv->loop->data;

	(void)status; /* nobody can cancel it */
	if (!loop->closing)
		work->done(work->data);
	free(work);
}

int loop_work(struct loop *loop, loop_fn *work_fn, loop_fn *done, void *data, struct error *err)
{
	struct work *work = calloc(1, sizeof(*work));

	assert(loop_is_mine(loop));
	if (!work)
		return error_set(err, ENOMEM, "no memory for background work");
	work->work = work_fn;
	work->done = done;
	work->data = data;
	(void)uv_queue_work(&loop->uv, &work->uv, run_work, run_done);
	return 0;
}

struct uv_loop_s *loop_uv(struct loop *loop)
{
	return &loop->uv;
}
