/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * request.h: one FUSE request about a control file, from a worker to the loop and back.
 *
 *	worker: request_post() -> loop: run() -> one of the request_reply_*() at once,
 *	                                     \-> request_hold() -> ... -> request_reply_*()
 *
 * Each request is answered exactly once; the answer frees it. A held one whose caller was sent a
 * fatal signal (or has died) gets cancelled() on the loop and has to be answered then; any other
 * signal leaves it held (interrupt.h).
 */
#ifndef FS_REQUEST_H
#define FS_REQUEST_H

#define FUSE_USE_VERSION 318
#include <fuse_lowlevel.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/loop.h"
#include "fs/notifier.h"

struct control;
struct error;
struct lease;
struct request;

typedef void request_fn(struct request *request);

struct request {
	struct loop_task task;      /* to the loop */
	struct loop_task interrupt; /* the same for its interrupt */
	struct notice notice; /* of a WRITE that makes the kernel's idea of the size grow first */
	struct control *control;
	fuse_req_t fuse;
	request_fn *run, *cancelled;
	fuse_ino_t ino;             /* the node, or the parent of the one that is named */
	struct fuse_file_info file; /* where the operation has one */
	bool has_file;
	uint64_t offset;
	size_t size;              /* of bytes, or how much to read */
	bool cached;              /* a READ that fills the kernel's page cache */
	size_t fed;               /* of a WRITE to a command's input: bytes that it took */
	int to_set;               /* of setattr */
	short events;             /* of poll */
	struct poll_wait *poller; /* of poll; NULL: nobody wants to be told */
	pid_t process;            /* thread-group id of the caller; 0: unknown or not asked for */
	bool dying;               /* the caller is being ended by a signal; only for FLUSH */
	bool exiting;             /* the caller is exiting: it must not be held; only for FLUSH */
	bool commits; /* it made its handle's request be carried out: it is told of a failure */
	struct request *prev, *next;           /* the handle's waiting ones, while held */
	struct request *held_prev, *held_next; /* the control's */
	bool held, answered;
	bool watched; /* interrupted once, harmlessly: the kernel will not say so again */
	atomic_bool interrupt_posted;
	atomic_bool fatal;
	char bytes[]; /* name, or data to write; a NUL behind it */
};

/* A request with a copy of the bytes, or room for them (bytes NULL). NULL: the request was answered
 * with ENOMEM. Worker. */
struct request *request_create(fuse_req_t fuse, fuse_ino_t ino, const void *bytes, size_t size,
	const struct fuse_file_info *file);
/* Hands it to the loop. Worker. */
void request_post(struct request *owned_request, request_fn *run);

/* Keeps it unanswered. Loop, like all that follows. */
void request_hold(struct request *request, request_fn *cancelled);

/* The answers. Each frees the request. */
void request_reply_code(struct request *request, int code); /* an errno value, or 0 */
void request_reply_entry(struct request *request, const struct fuse_entry_param *entry);
void request_reply_attr(struct request *request, const struct stat *st, double timeout);
/* False: whoever opened has gone; there will be no RELEASE. */
bool request_reply_open(struct request *request, const struct fuse_file_info *file);
void request_reply_bytes(struct request *request, const char *bytes, size_t size);
void request_reply_written(struct request *request, size_t size);
void request_reply_poll(struct request *request, unsigned events);
void request_reply_statfs(struct request *request, const struct statvfs *space);

/* How many are held. */
unsigned request_held_count(const struct control *control);
/* Cancels all that are held, as if each caller had died: the session is over. */
void request_end_all(struct control *control);

#endif
