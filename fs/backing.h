/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * backing.h: a lease's files as the daemon holds them: the sandbox's root, its mounts, and a node's
 * descriptor.
 *
 * A node is not a descriptor (thousands of nodes, and 20,000 descriptors): it is opened for each
 * operation. By its file handle, through a really opened directory of its *own* mount, where
 * CAP_DAC_READ_SEARCH allows that: a handle is good for every mount of its superblock, and through
 * the wrong one a read-only file could be written. Else by walking from its parent, one component
 * at a time, never following a link, and looking whether it is still the same file.
 *
 * Threads: any. Locks: loan->lock guards its lists; a leaf, but that a node may be referenced under
 * it.
 */
#ifndef FS_BACKING_H
#define FS_BACKING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "fs/loan.h"

struct file_node;
struct file_identity;

int backing_init(struct backing *backing);
void backing_fini(struct backing *backing);

/*
 * What the descriptor is. near: the branch of the directory it was found in, or NULL. The branch is
 * the loan's. ret_stat has STATX_BASIC_STATS.
 */
int backing_identify(struct loan *loan, struct branch *near, int fd, struct statx *ret_stat,
	struct branch **ret_branch, struct file_identity *ret_identity);

/* What stands in the sandbox's `/`, for looking only. -ENOENT. */
int backing_in_root(struct loan *loan, const char *name, int *ret_fd);
/* False: it can be found by walking only. */
bool backing_opens_by_handle(const struct file_node *node);
/* An O_PATH descriptor, the caller's. -ESTALE: it is not where it was. */
int backing_path(struct file_node *node, int *ret_fd);
/* Really opens a regular file or a directory; -ENXIO for anything else. Close-on-exec, never
 * blocking, no terminal. */
int backing_open(struct file_node *node, int flags, int *ret_fd);
/* The same for what an O_PATH descriptor of that type refers to. */
int backing_reopen(struct backing *backing, int path_fd, uint32_t type, int flags, int *ret_fd);

#endif
