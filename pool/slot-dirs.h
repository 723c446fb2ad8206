/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * slot-dirs.h: a slot's directories on disk,
 * `<slot_dir>/slots/NNNN/{home,work,runtime,tmp,logs,archives}`.
 *
 * The first four are seen inside and belong to the slot's uid; with `storage = tmpfs` they are not
 * on disk. The slot's own directory lets only that uid's group (and us) pass, so no other user of
 * the host looks in. What is thrown away is
 * renamed into the trash. These calls block on disk; any thread.
 */
#ifndef POOL_SLOT_DIRS_H
#define POOL_SLOT_DIRS_H

#include <sys/types.h>

struct error;
struct trash;

enum slot_dirs_kind {
	SLOT_DIRS_FILES = 1u << 0, /* home, work, runtime, tmp */
};

/* Throws away what is there and makes fresh ones; kinds: bits of slot_dirs_kind that are wanted.
 * The slot's directory itself and its archives stay. What cannot be thrown away is named, all of
 * it, and the rest is thrown away all the same; nothing fresh is made then. */
int slot_dirs_replace(const char *dir, struct trash *trash, uid_t uid, gid_t gid, unsigned kinds,
	struct error *err);
/* Throws everything away but archives; the slot's directory goes too if there are none. */
int slot_dirs_remove(const char *dir, struct trash *trash, struct error *err);

#endif
