/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * control.h: the control half of the tree: everything but what is below `leases/T/fs`.
 *
 * What it knows lives on the loop. Its parts: tree.h (which nodes there are), render.h (what
 * snapshot files say), inode.h (what is remembered of a node), handle.h (one open file), job.h (one
 * request being carried out), request.h (one FUSE request on its way), reply.h (how failures
 * leave). Threads: loop, except that FUSE workers read `loop` and `config`.
 */
#ifndef FS_CONTROL_H
#define FS_CONTROL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/statvfs.h>

#include "base/loop.h"
#include "base/strbuf.h"

struct config;
struct control;
struct error;
struct events;
struct files;
struct inode;
struct job;
struct lease;
struct lease_table;
struct listing;
struct notifier;
struct request;
struct space;

struct control {
	struct loop *loop;
	const struct config *config;
	struct events *events;
	struct files *files;        /* the other half; NULL: there is none */
	struct lease_table *leases; /* from control_begin() on */
	struct notifier *notifier;  /* between control_begin() and control_end() */
	bool finished;              /* nothing happens any more: followers get their end */
	bool ended;
	struct loop_timer *finish; /* when it is over even if not all have got it */
	loop_fn *told;
	void *told_data;
	double started_at, changed_at; /* Unix seconds; changed: a lease or slot of the tree did */
	bool leases_known;             /* the kernel may remember attributes of `leases` */
	struct inode *inodes;          /* hash by ino: inode.h */
	struct job *jobs;              /* not yet done: job.h */
	struct request *held;          /* waiting for something: request.h */
	struct listing *listings;      /* open directories: directory.h */
	struct loop_timer *watch; /* looks again at held requests whose first signal was harmless */
	struct space *space;      /* of the state directory */
};

/* Everything is borrowed. Looks at the state directory, which must exist. */
int control_create(struct loop *loop, const struct config *config, struct events *events,
	struct control **ret_control, struct error *err);
/* After control_end(), or when it never began. Jobs that were never finished are forgotten. Accepts
 * NULL. */
void control_destroy(struct control *control);

/* Requests may come in from now on. */
void control_begin(struct control *control, struct lease_table *leases, struct notifier *notifier);
/*
 * Nothing happens any more: who follows is told the end. told() runs once, later: when all streams
 * that are open have been read to their end or closed, or half a second later; not after
 * control_end(). -ENOMEM: nobody will be told, and told() does not run.
 */
int control_finish(struct control *control, loop_fn *told, void *data);
/* A reader has got the end of a stream, or has closed it. */
void control_told_one(struct control *control);
/* No further request is coming: answers those that are held and closes every handle. Twice is
 * harmless. */
void control_end(struct control *control);
/* A lease appeared, changed or went. */
void control_lease_changed(struct control *control, struct lease *lease);

/* Bytes and slots as `df` and `df -i` show them, from memory; refreshed behind the caller's back
 * when old. */
void control_space(struct control *control, struct statvfs *ret_space);

#endif
