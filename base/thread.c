/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/thread.h"

#include <signal.h>

int thread_start(pthread_t *ret_thread, void *(*run)(void *data), void *data)
{
	sigset_t all, before;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(ret_thread, NULL, run, data);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

int worker_start(struct worker *worker, void *(*run)(void *data), void *data)
{
	int r;

	worker->ending = false;
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->wake, NULL);
	r = thread_start(&worker->thread, run, data);
	if (r < 0) {
		pthread_cond_destroy(&worker->wake);
		pthread_mutex_destroy(&worker->lock);
	}
	return r;
}

void worker_stop(struct worker *worker)
{
	bool ended;

	pthread_mutex_lock(&worker->lock);
	ended = worker->ending;
	worker->ending = true;
	pthread_cond_signal(&worker->wake);
	pthread_mutex_unlock(&worker->lock);
	if (!ended)
		(void)pthread_join(worker->thread, NULL);
}

void worker_fini(struct worker *worker)
{
	worker_stop(worker);
	pthread_cond_destroy(&worker->wake);
	pthread_mutex_destroy(&worker->lock);
}
