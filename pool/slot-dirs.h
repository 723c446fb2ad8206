/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * slot-dirs.h: a slot's directories on disk,
 * `<slot_dir>/slots/NNNN/{home,work,runtime,tmp,overlay,logs,archives}`.
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
	SLOT_DIRS_FILES = 1u << 0,  /* home, work, runtime, tmp */
	SLOT_DIRS_LAYERS = 1u << 1, /* overlay: what the exec helper mounts in */
};

#define SLOT_DIRS_OVERLAY "overlay"

struct slot_dirs_wish {
	unsigned kinds; /* bits of slot_dirs_kind */
	uid_t uid;      /* of the slot's processes until its commands */
	gid_t gid;
	uid_t user_uid; /* of its commands */
	gid_t user_gid;
};

/* Throws away what is there and makes fresh ones. The slot's directory itself and its archives
 * stay. What cannot be thrown away is named, all of
 * it, and the rest is thrown away all the same; nothing fresh is made then. */
int slot_dirs_replace(
	const char *dir, struct trash *trash, const struct slot_dirs_wish *wish, struct error *err);
/* Throws everything away but archives; the slot's directory goes too if there are none. */
int slot_dirs_remove(const char *dir, struct trash *trash, struct error *err);

#endif
