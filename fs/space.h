/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * space.h: what statvfs(2) says of a directory, from memory: a file system may be slow to tell, so
 * a worker asks. Threads: loop.
 */
#ifndef FS_SPACE_H
#define FS_SPACE_H

#include <sys/statvfs.h>

struct error;
struct loop;
struct space;

/* Looks once, now. All zero when the directory is not there. */
int space_create(const char *path, struct space **ret_space, struct error *err);
/* Accepts NULL, and does not wait for a worker that is asking. */
void space_destroy(struct space *space);
/* What was known last; when that is older than a second, a worker is sent, and a later call has
 * what it finds. */
void space_read(struct space *space, struct loop *loop, struct statvfs *ret_space);

#endif
