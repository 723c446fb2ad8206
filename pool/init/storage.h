/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * storage.h: `storage = tmpfs`: the slot's four directories on one file system of bounded size,
 * which is gone with the slot. For a process with the capabilities of the slot's namespaces.
 */
#ifndef POOL_INIT_STORAGE_H
#define POOL_INIT_STORAGE_H

#include <stdint.h>

/* Mounts an empty one at path. size: bytes; inodes: files and directories. -errno. */
int storage_mount(const char *path, uint64_t size, uint64_t inodes);
/* work, home, runtime and tmp in dir, as their modes are inside, of these ids (as we see them).
 * -errno. */
int storage_make_directories(int dir, unsigned uid, unsigned gid);
/* The whole: mounted where commands see the four, which must be there as empty directories. -errno.
 */
int storage_create(uint64_t size, uint64_t inodes);

#endif
