/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define FUSE_USE_VERSION 318
#include "fs/notifier.h"

#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/thread.h"

struct notifier {
	struct fuse_session *session;
	struct worker worker; /* guards what stands behind it */
	struct notice *first, **last;
};

/* Waits for work. NULL: there is none and never will be. */
static struct notice *take_all(struct notifier *notifier)
{
	struct notice *notices;

	pthread_mutex_lock(&notifier->worker.lock);
	while (!notifier->first && !notifier->worker.ending)
		pthread_cond_wait(&notifier->worker.wake, &notifier->worker.lock);
	notices = notifier->first;
	notifier->first = NULL;
	notifier->last = &notifier->first;
	pthread_mutex_unlock(&notifier->worker.lock);
	return notices;
}

static void *run(void *data)
{
	struct notifier *notifier = data;
	struct notice *notices;

	while ((notices = take_all(notifier)) != NULL) {
		while (notices) {
			struct notice *notice = notices;

			notices = notice->next;
			notice->send(notice, notifier->session);
		}
	}
	return NULL;
}

int notifier_create(struct fuse_session *session, struct notifier **ret_notifier, struct error *err)
{
	struct notifier *notifier = calloc(1, sizeof(*notifier));
	int r;

	if (!notifier)
		return error_set(err, ENOMEM, "no memory for the notifier");
	notifier->session = session;
	notifier->last = &notifier->first;
	r = worker_start(&notifier->worker, run, notifier);
	if (r < 0) {
		free(notifier);
		return error_errno(err, -r, "cannot start the notifier's thread");
	}
	*ret_notifier = notifier;
	return 0;
}

void notifier_destroy(struct notifier *notifier)
{
	if (!notifier)
		return;
	worker_fini(&notifier->worker);
	free(notifier);
}

void notifier_post(struct notifier *notifier, struct notice *notice)
{
	notice->next = NULL;
	pthread_mutex_lock(&notifier->worker.lock);
	*notifier->last = notice;
	notifier->last = &notice->next;
	pthread_cond_signal(&notifier->worker.wake);
	pthread_mutex_unlock(&notifier->worker.lock);
}

void notifier_stretch(struct fuse_session *session, uint64_t ino, uint64_t size)
{
	struct fuse_bufvec end = FUSE_BUFVEC_INIT(1);
	char byte = 0;

	end.buf[0].mem = &byte;
	(void)fuse_lowlevel_notify_store(session, ino, (off_t)size - 1, &end, 0);
}

void notifier_forget_attr(struct notifier *notifier, uint64_t ino)
{
	(void)fuse_lowlevel_notify_inval_inode(notifier->session, ino, -1, 0);
}

/* Pollers */

struct poll_wait {
	struct notice notice;
	struct fuse_pollhandle *handle;
};

static void send_wake(struct notice *notice, struct fuse_session *session)
{
	struct poll_wait *wait = (struct poll_wait *)notice;

	(void)fuse_lowlevel_notify_poll(
		wait->handle); /* fails when the file or the mount has gone: fine */
	poll_wait_free(wait);
}

struct poll_wait *poll_wait_create(struct fuse_pollhandle *owned_handle)
{
	struct poll_wait *wait = calloc(1, sizeof(*wait));

	if (!wait) {
		fuse_pollhandle_destroy(owned_handle);
		return NULL;
	}
	wait->notice.send = send_wake;
	wait->handle = owned_handle;
	return wait;
}

void poll_wait_free(struct poll_wait *wait)
{
	if (!wait)
		return;
	fuse_pollhandle_destroy(wait->handle);
	free(wait);
}

void notifier_wake(struct notifier *notifier, struct poll_wait *owned_wait)
{
	notifier_post(notifier, &owned_wait->notice);
}
