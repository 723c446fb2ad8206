/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * mountpoint.h: the directory that is mounted on: made when absent, freed from what a dead daemon
 * left there. Threads: any; the calls block on the kernel for a moment.
 */
#ifndef FS_MOUNTPOINT_H
#define FS_MOUNTPOINT_H

#include <stdbool.h>

struct error;

struct mountpoint {
	char *path; /* absolute, without links; owned */
	bool made;  /* the directory is ours to remove */
};

/* Changes nothing: 0, or -EBUSY when a living mount of ours is there. */
int mountpoint_check(const char *path, struct error *err);
/*
 * Makes the directory ready to be mounted on. -EBUSY: a living mount of ours is there already, or a
 * dead one that is none of ours; -ENOTDIR, -ENOENT (its parent is missing), -EACCES; -EINVAL:
 * state_dir lies below it, where the daemon would wait for itself. May wait for fusermount3.
 */
int mountpoint_prepare(const char *path, const char *state_dir, struct mountpoint *ret_mountpoint,
	struct error *err);
/* Detaches a mount of ours that is left there dead, removes the directory if it was made, and frees
 * the path. Accepts a zeroed one. After the unmount. */
void mountpoint_fini(struct mountpoint *mountpoint);

/* Gives the mount `nosymfollow`: the client's kernel then follows no link in it. */
int mountpoint_forbid_links(const char *path, struct error *err);

#endif
