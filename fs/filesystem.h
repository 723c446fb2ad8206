/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * filesystem.h: the mount and its FUSE session, from the daemon's side.
 *
 *	filesystem_create() -> filesystem_mount() -> ... -> filesystem_unmount(),
 *	    or `fusermount3 -u` by somebody -> unmounted() -> filesystem_destroy()
 *
 * Requests come in on worker threads; those about control files are answered from the loop
 * (fs/context.h). So nothing on the loop's thread may ever touch the mount: it would wait for
 * itself. Whoever wants to know whether the mount answers asks from another thread.
 * Threads: loop.
 */
#ifndef FS_FILESYSTEM_H
#define FS_FILESYSTEM_H

#include <stdbool.h>

#include "providers/lease.h"

struct config;
struct error;
struct events;
struct filesystem;
struct loop;

/* All borrowed until filesystem_destroy(). */
struct filesystem_options {
	struct loop *loop;
	const struct config *config;
	struct events *events;
	bool read_only; /* -o ro: nothing can be created, run or changed through the mount */
};

struct filesystem_hooks {
	/* Runs once: the mount is gone, by filesystem_unmount() or from outside; no request is
	 * left. */
	void (*unmounted)(void *data);
	void *data;
};

/*
 * Makes the mountpoint ready (mountpoint.h: it may wait for fusermount3, so not while the loop
 * runs): one left by a daemon that died ("transport endpoint is not connected") is detached, a
 * directory that is not there is made, and removed at the end. Nothing is mounted and no thread
 * started yet. -EBUSY and the other failures of mountpoint_prepare().
 */
int filesystem_create(const struct filesystem_options *options,
	const struct filesystem_hooks *hooks, struct filesystem **ret_fs, struct error *err);
/* What lease_table_create() is to be given, so that what the tree remembers of a lease ends with
 * it. */
struct lease_hooks filesystem_lease_hooks(struct filesystem *fs);

/*
 * Mounts at the configured mountpoint and starts the workers. -EBUSY: another dressagefs has
 * mounted there meanwhile. leases is borrowed until unmounted().
 */
int filesystem_mount(struct filesystem *fs, struct lease_table *leases, struct error *err);
/* Where it is mounted, without links; the file system's own. */
const char *filesystem_path(const struct filesystem *fs);
/* Detaches the mount, lazily when it is in use; held requests are answered first. unmounted()
 * follows. Harmless twice, and when nothing is mounted (then nothing follows). */
void filesystem_unmount(struct filesystem *fs);
/* After unmounted(), or when nothing was mounted. Accepts NULL. */
void filesystem_destroy(struct filesystem *fs);

#endif
