/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * notifier.h: tells the kernel things on a thread of its own.
 *
 * A notification takes locks in the kernel that a request may hold which the loop has still to
 * answer; sent from the loop it could wait for itself. Threads: any.
 */
#ifndef FS_NOTIFIER_H
#define FS_NOTIFIER_H

struct error;
struct fuse_pollhandle;
struct notifier;

int notifier_create(struct notifier **ret_notifier, struct error *err);
/* Sends what is queued, ends the thread. Accepts NULL. The session must still exist. */
void notifier_destroy(struct notifier *notifier);

/* One poller of a file, waiting to be told. */
struct poll_wait {
	struct poll_wait *next; /* the notifier's, once posted */
	struct fuse_pollhandle *handle;
};

/* Wakes the poller, then frees owned_wait and what it holds. Never blocks. */
void notifier_post(struct notifier *notifier, struct poll_wait *owned_wait);
/* Frees one that is no longer wanted. Accepts NULL. */
void poll_wait_free(struct poll_wait *wait);

#endif
