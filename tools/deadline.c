/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tools/deadline.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"

struct deadline {
	pthread_t thread;
	pthread_cond_t changed;
	pthread_mutex_t lock; /* guards every field after it; leaf */
	struct timespec at;   /* CLOCK_MONOTONIC */
	bool met;
};

static void set(struct deadline *deadline, uint64_t ms)
{
	(void)clock_gettime(CLOCK_MONOTONIC, &deadline->at);
	deadline->at.tv_sec += (time_t)(ms / 1000);
	deadline->at.tv_nsec += (long)(ms % 1000) * 1000000;
	if (deadline->at.tv_nsec >= 1000000000) {
		deadline->at.tv_sec++;
		deadline->at.tv_nsec -= 1000000000;
	}
}

static void *wait_for_it(void *data)
{
	struct deadline *deadline = data;
	int code = 0;

	pthread_mutex_lock(&deadline->lock);
	while (!deadline->met && code != ETIMEDOUT) {
		struct timespec at = deadline->at;

		code = pthread_cond_timedwait(&deadline->changed, &deadline->lock, &at);
		if (deadline->at.tv_sec != at.tv_sec || deadline->at.tv_nsec != at.tv_nsec)
			code = 0; /* it was set anew */
	}
	if (!deadline->met) {
		(void)alarm(5); /* kills: the log may be on that file system too */
		log_error(
			"the stop takes too long, most likely for a file system that does not answer: ended without waiting for it; the next start clears what is left");
		_exit(EXIT_FAILURE); /* exit() would wait too */
	}
	pthread_mutex_unlock(&deadline->lock);
	return NULL;
}

int deadline_start(uint64_t ms, struct deadline **ret_deadline)
{
	struct deadline *deadline = calloc(1, sizeof(*deadline));
	pthread_condattr_t monotonic;
	int r;

	if (!deadline)
		return -ENOMEM;
	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&deadline->changed, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
	pthread_mutex_init(&deadline->lock, NULL);
	set(deadline, ms);
	r = thread_start(&deadline->thread, wait_for_it, deadline);
	if (r < 0) {
		free(deadline);
		return r;
	}
	*ret_deadline = deadline;
	return 0;
}

void deadline_restart(struct deadline *deadline, uint64_t ms)
{
	if (!deadline)
		return;
	pthread_mutex_lock(&deadline->lock);
	set(deadline, ms);
	pthread_cond_signal(&deadline->changed);
	pthread_mutex_unlock(&deadline->lock);
}

void deadline_stop(struct deadline *deadline)
{
	if (!deadline)
		return;
	pthread_mutex_lock(&deadline->lock);
	deadline->met = true;
	pthread_cond_signal(&deadline->changed);
	pthread_mutex_unlock(&deadline->lock);
	pthread_join(deadline->thread, NULL);
	pthread_cond_destroy(&deadline->changed);
	pthread_mutex_destroy(&deadline->lock);
	free(deadline);
}
