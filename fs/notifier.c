/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define FUSE_USE_VERSION 318
#include "fs/notifier.h"

#include <errno.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"

struct notifier {
	pthread_t thread;
	pthread_cond_t wake;
	pthread_mutex_t lock; /* guards every field after it; leaf */
	struct poll_wait *first, **last;
	bool ending;
};

/* Waits for work. NULL: there is none and never will be. */
static struct poll_wait *take_all(struct notifier *notifier)
{
	struct poll_wait *waits;

	pthread_mutex_lock(&notifier->lock);
	while (!notifier->first && !notifier->ending)
		pthread_cond_wait(&notifier->wake, &notifier->lock);
	waits = notifier->first;
	notifier->first = NULL;
	notifier->last = &notifier->first;
	pthread_mutex_unlock(&notifier->lock);
	return waits;
}

static void *run(void *data)
{
	struct poll_wait *waits;

	while ((waits = take_all(data)) != NULL) {
		while (waits) {
			struct poll_wait *wait = waits;

			waits = wait->next;
			(void)fuse_lowlevel_notify_poll(
				wait->handle); /* fails when the file or the mount is gone: fine */
			poll_wait_free(wait);
		}
	}
	return NULL;
}

int notifier_create(struct notifier **ret_notifier, struct error *err)
{
	struct notifier *notifier = calloc(1, sizeof(*notifier));
	sigset_t all, before;
	int r;

	if (!notifier)
		return error_set(err, ENOMEM, "no memory for the notifier");
	notifier->last = &notifier->first;
	pthread_mutex_init(&notifier->lock, NULL);
	pthread_cond_init(&notifier->wake, NULL);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&notifier->thread, NULL, run, notifier);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 0) {
		free(notifier);
		return error_errno(err, r, "cannot start the notifier's thread");
	}
	*ret_notifier = notifier;
	return 0;
}

void notifier_destroy(struct notifier *notifier)
{
	if (!notifier)
		return;
	pthread_mutex_lock(&notifier->lock);
	notifier->ending = true;
	pthread_cond_signal(&notifier->wake);
	pthread_mutex_unlock(&notifier->lock);
	(void)pthread_join(notifier->thread, NULL);
	pthread_cond_destroy(&notifier->wake);
	pthread_mutex_destroy(&notifier->lock);
	free(notifier);
}

void notifier_post(struct notifier *notifier, struct poll_wait *owned_wait)
{
	owned_wait->next = NULL;
	pthread_mutex_lock(&notifier->lock);
	*notifier->last = owned_wait;
	notifier->last = &owned_wait->next;
	pthread_cond_signal(&notifier->wake);
	pthread_mutex_unlock(&notifier->lock);
}

void poll_wait_free(struct poll_wait *wait)
{
	if (!wait)
		return;
	fuse_pollhandle_destroy(wait->handle);
	free(wait);
}
