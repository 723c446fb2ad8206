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
struct fuse_session;
struct sandbox_root;

#define FILES_INO_BIT (UINT64_C(1) << 63)

static inline bool files_owns(fuse_ino_t ino)
{
	return (ino & FILES_INO_BIT) != 0;
}

int files_create(const struct config *config, struct files **ret_files, struct error *err);
void files_destroy(struct files *files); /* after the FUSE session has ended; accepts NULL */

/*
 * The session that the operations will be called in, before it is run. Starts the threads that
 * need it: one waits for locks, one has the kernel forget files.
 */
int files_attach(struct files *files, struct fuse_session *session, struct error *err);
/*
 * Ends those threads, and waits for that: before the session is told to exit, so that what they
 * may wait for is still answered, and again after its last request. Harmless any number of
 * times, also without files_attach().
 */
void files_detach(struct files *files);

/* A lookup of `fs` in a lease's directory: fills the entry (attributes, timeouts, a node with one
 * more lookup counted). Takes its own reference of root. -errno. */
int files_enter(struct files *files, struct sandbox_root *root, struct fuse_entry_param *ret_entry);

/*
 * The lease has ended, or is ending: soon, on another thread, every descriptor of its files is
 * let go of, so that they can be cleared away; what clients still have open leads nowhere then.
 * root may be NULL: only those are looked for whose root->ended is set. Never blocks.
 */
void files_end(struct files *files, const struct sandbox_root *root);

/* The operations on nodes that files_owns(); userdata of the session is a struct fs_context. Each
 * replies before it returns. */
extern const struct fuse_lowlevel_ops files_ops;

/* How many nodes there are now, for status and tests. */
size_t files_node_count(struct files *files);

#endif
