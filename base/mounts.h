/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * mounts.h: the lines of /proc/self/mountinfo, and whether what is mounted somewhere answers.
 *
 *	struct mount_line mount;
 *
 *	for (const char *at = text; mount_next(&at, &mount);)
 *		...
 *
 * Threads: any.
 */
#ifndef BASE_MOUNTS_H
#define BASE_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>

struct stat;

/* Points into the text. Root and mountpoint are written with blanks as \040: procfs_add_path(). */
struct mount_line {
	unsigned long id;
	const char *root, *point;
	size_t root_len, point_len;
	const char *type, *end; /* "type source options" */
};

/* Reads the next line that has all this, moves *at behind it. False: there is none. */
bool mount_next(const char **at, struct mount_line *ret_mount);
bool mount_is_at(const struct mount_line *mount, const char *path);
bool mount_is_dressage(const struct mount_line *mount); /* of any dressagefs, also another's */

/* 0, or -errno of a look at what is there; may hang with its daemon. */
int mount_look(const char *path, struct stat *ret_st);
/* What mount_look() gives where the daemon has gone. */
bool mount_is_dead(int r);

#endif
