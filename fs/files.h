/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * files.h: the lease's own file system, `leases/T/fs` and everything below it, for sandboxes on
 * this machine.
 *
 * Content is hostile: one component at a time, never following a link, every use gated on the
 * sandbox being alive; links are shown by the rules R1 to R3 of docs/files.md. After a lease's end
 * everything here answers ESTALE. Threads: any FUSE worker; files_enter() also the loop.
 */
#ifndef FS_FILES_H
#define FS_FILES_H

#define FUSE_USE_VERSION 318
#include <fuse_lowlevel.h>
#include <stdbool.h>

struct config;
struct error;
struct files;
struct sandbox_root;

#define FILES_INO_BIT (UINT64_C(1) << 63)

static inline bool files_owns(fuse_ino_t ino)
{
	return (ino & FILES_INO_BIT) != 0;
}

int files_create(const struct config *config, struct files **ret_files, struct error *err);
void files_destroy(struct files *files); /* after the FUSE session has ended; accepts NULL */

/* A lookup of `fs` in a lease's directory: fills the entry (attributes, timeouts, a node with one
 * more lookup counted). Takes its own reference of root. -errno. */
int files_enter(struct files *files, struct sandbox_root *root, struct fuse_entry_param *ret_entry);

/*
 * Lets go of every descriptor of leases that have ended (root->ended is set), so that their files can be
 * cleared away: what clients still have open leads nowhere from now on. files_enter() of any lease does
 * that too. May wait for the disk: not for the loop.
 */
void files_sweep(struct files *files);

/* The operations on nodes that files_owns(); userdata of the session is a struct fs_context. Each
 * replies before it returns. */
extern const struct fuse_lowlevel_ops files_ops;

/* How many nodes there are now, for status and tests. */
size_t files_node_count(struct files *files);

#endif
