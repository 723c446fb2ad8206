/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * mount-watch.h: tells when a mount has gone from this process's mounts, also when others have a
 * copy of it in theirs: then the kernel keeps its connection, and the session hears nothing.
 * Threads: loop.
 */
#ifndef TOOLS_MOUNT_WATCH_H
#define TOOLS_MOUNT_WATCH_H

#include "base/loop.h"

struct error;
struct mount_watch;

/* What is mounted at path (absolute, without links) now. gone() runs once, later. -ENOENT: nothing.
 */
int mount_watch_start(struct loop *loop, const char *path, loop_fn *gone, void *data,
	struct mount_watch **ret_watch, struct error *err);
/* Accepts NULL. */
void mount_watch_stop(struct mount_watch *watch);

#endif
