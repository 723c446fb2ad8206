/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * notifier.h: tells the kernel things on a thread of its own.
 *
 * A notification takes locks in the kernel that a request may hold which the loop has still to
 * answer; sent from the loop it could wait for itself. Threads: any.
 */
#ifndef FS_NOTIFIER_H
#define FS_NOTIFIER_H

#include <stdint.h>

struct error;
struct fuse_pollhandle;
struct fuse_session;
struct notifier;

/* The session is borrowed until notifier_destroy(). */
int notifier_create(
	struct fuse_session *session, struct notifier **ret_notifier, struct error *err);
/* Sends what is queued, ends the thread. Accepts NULL. */
void notifier_destroy(struct notifier *notifier);

/* Embedded in what is to be told; the notifier's from the post until send() is called, on its
 * thread, which may free it. */
struct notice {
	struct notice *next;
	void (*send)(struct notice *notice, struct fuse_session *session);
};

/* Never blocks. */
void notifier_post(struct notifier *notifier, struct notice *notice);

/* Makes the kernel believe that the file is at least so long, as if its end had been written. */
void notifier_stretch(struct fuse_session *session, uint64_t ino, uint64_t size);

/* Makes the kernel ask anew for a file's attributes, from here on. At once and on the caller's
 * thread, the loop's too: unlike the others this one waits for no lock that a request holds. */
void notifier_forget_attr(struct notifier *notifier, uint64_t ino);

/* One poller of a file, waiting to be told. */
struct poll_wait;
/* Takes over the handle. NULL: no memory, and the handle is freed. */
struct poll_wait *poll_wait_create(struct fuse_pollhandle *owned_handle);
/* Frees one that is no longer wanted. Accepts NULL. */
void poll_wait_free(struct poll_wait *wait);
/* Wakes the poller, then frees it. */
void notifier_wake(struct notifier *notifier, struct poll_wait *owned_wait);

#endif
