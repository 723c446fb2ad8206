/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * thread.h: a thread that no signal reaches, and one that waits for work until it has to end.
 * Threads: any, unless said.
 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread with all signals blocked. -errno. */
int thread_start(pthread_t *ret_thread, void *(*run)(void *data), void *data);

/*
 * Embedded in what the thread works on. `lock` guards `ending` and whatever else it shares with
 * those who bring work; the thread waits on `wake` and ends when it sees `ending`.
 */
struct worker {
	pthread_mutex_t lock; /* leaf */
	pthread_cond_t wake;
	pthread_t thread;
	bool ending;
};

/* -errno, with nothing to be undone. */
int worker_start(struct worker *worker, void *(*run)(void *data), void *data);
/* Tells it to end and waits until it has; the second time it does nothing. Not from two threads at
 * once. */
void worker_stop(struct worker *worker);
/* Stops it. */
void worker_fini(struct worker *worker);

#endif
