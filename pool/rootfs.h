/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * rootfs.h: a directory of the administrator's as the root of slots.
 *
 * Places that every slot has of its own (/proc, /dev, /tmp, the workspace ...) are mounted over it.
 * A link where such a place belongs would lead the mount elsewhere, so it is refused beforehand.
 * Threads: any; blocks on disk.
 */
#ifndef POOL_ROOTFS_H
#define POOL_ROOTFS_H

struct error;
struct word_list;
struct words;

/* Whether slots can be made from it: a directory with a /bin/sh, and none of our own places a link.
 * -ENOENT, -ENOTDIR, -ELOOP, -EACCES, with a sentence about the directory. */
int rootfs_check(const char *rootfs, struct error *err);

/*
 * Appends bwrap's words that show it read-only at `/`, without our own places, nor those of also
 * (paths that are bound over it; may be NULL), but with the directories above them. -E2BIG: more
 * than a thousand names would have to be bound one by one.
 */
int rootfs_add_words(
	struct words *words, const char *rootfs, const struct word_list *also, struct error *err);

#endif
