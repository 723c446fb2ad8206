/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * overlay.h: the exec helper's part of `overlay = on`: a root file system with a layer of the
 * slot's own over it, in a user and a mount namespace which bwrap and init then live in.
 *
 * Under a root daemon the slot has a range of ids, and the root file system is shown through an
 * idmapped mount, so that its owners are those inside. A plain user has one id, and so has the
 * slot.
 */
#ifndef POOL_INIT_OVERLAY_H
#define POOL_INIT_OVERLAY_H

#include <stdint.h>

struct overlay {
	const char *rootfs, *etc;
	/* the slot's own directory for this: upper, scratch, lower and merged are made in it */
	const char *layers;
	unsigned uid, gid;     /* of commands, inside */
	uint64_t size, inodes; /* of a tmpfs there, for the slot's files too; 0: none */
	int mapper_fd;         /* -1: none */
	int mapper_pid;
};

enum { OVERLAY_WORDS = 7 };
/* From the words after "overlay": rootfs, layers, etc, uid, gid, size, inodes. -1: errno. */
int overlay_parse(char **words, struct overlay *ret_overlay);
/* While still root: starts who will map ids and mounts. A plain user needs nobody. -1: errno. */
int overlay_prepare(struct overlay *overlay, unsigned first_uid, unsigned first_gid);
/* As the slot's user: on success we are uid 0 of the slot's user namespace, and `merged` is there.
 * NULL, or what failed, with errno. */
const char *overlay_enter(struct overlay *overlay);

#endif
