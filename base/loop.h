/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * loop.h: the one thread that owns pool, lease and exec state; libuv underneath.
 *
 * Every callback runs on the thread that is in loop_run(). Timers, watches and work items are heap
 * objects: the starter keeps the pointer until it stops them; after stop the callback never runs
 * again, even if it was already due. Threads: loop, except loop_post() and loop_stop(), which may
 * be called from any thread.
 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct error;
struct loop;
struct loop_timer;
struct loop_watch;
struct uv_loop_s;

typedef void loop_fn(void *data);

int loop_create(struct loop **ret_loop, struct error *err);
/*
 * Closes what is left open, runs no callback any more, frees. Accepts NULL. The loop must not be
 * running and nobody may post any more; tasks that are still queued are forgotten, so whoever
 * posted them frees what they stand in.
 */
void loop_destroy(struct loop *loop);

/* Runs until loop_stop(). The calling thread is the loop's thread from now on. */
void loop_run(struct loop *loop);
/* Makes loop_run() return after the current callback. Any thread. */
void loop_stop(struct loop *loop);
/* True on the loop's thread, and before loop_run() (set-up is single-threaded). For assertions. */
bool loop_is_mine(const struct loop *loop);

/* A task is embedded in the poster's struct and must live until fn runs: no allocation, so posting
 * cannot fail. */
struct loop_task {
	struct loop_task *next; /* the loop's, while posted */
	loop_fn *fn;
	void *data;
};

/* Queues task->fn(task->data) to the loop, in order of posting. Any thread. */
void loop_post(struct loop *loop, struct loop_task *task);
/* Takes it out of the queue again, if it is there; not from within a task. Any thread. */
void loop_unpost(struct loop *loop, struct loop_task *task);

/* Milliseconds of a clock that never jumps back (CLOCK_MONOTONIC), read now. Any thread. */
uint64_t loop_now_ms(void);

/* Runs fn once after delay_ms (0: at the next turn of the loop). The timer is freed by
 * loop_timer_stop() alone, also after it fired. */
int loop_timer_start(struct loop *loop, uint64_t delay_ms, loop_fn *fn, void *data,
	struct loop_timer **ret_timer, struct error *err);
/* Sets a timer anew, fired or not. */
void loop_timer_restart(struct loop_timer *timer, uint64_t delay_ms);
/* Accepts NULL. */
void loop_timer_stop(struct loop_timer *timer);

enum loop_events {
	LOOP_READABLE = 1u << 0, /* includes hang-up and error: the read tells */
	LOOP_WRITABLE = 1u << 1,
	/* POLLPRI: a file of /sys or a cgroup has changed since it was read */
	LOOP_PRIORITY = 1u << 2,
};

typedef void loop_ready_fn(void *data, unsigned events);

/* Calls fn whenever fd is ready (level-triggered). fd stays the caller's and must stay open until
 * the watch is stopped. */
int loop_watch_start(struct loop *loop, int fd, unsigned events, loop_ready_fn *fn, void *data,
	struct loop_watch **ret_watch, struct error *err);
/* Changes what is waited for; 0 pauses the watch. */
void loop_watch_events(struct loop_watch *watch, unsigned events);
/* Accepts NULL. */
void loop_watch_stop(struct loop_watch *watch);

/*
 * Runs work(data) on a worker thread (it may block on disk), then done(data) on the loop. There is
 * no cancelling: the data must live until done. When the loop is destroyed first, work that has
 * begun is waited for, and done is not run.
 */
int loop_work(struct loop *loop, loop_fn *work, loop_fn *done, void *data, struct error *err);

/* For code that needs libuv itself (signals, curl's sockets). */
struct uv_loop_s *loop_uv(struct loop *loop);

#endif
