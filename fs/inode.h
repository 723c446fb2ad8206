/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * inode.h: what has to be remembered of a control node beyond its number: who has it open, what was
 * asked of it last. Most nodes have none of that and no inode. Threads: loop.
 */
#ifndef FS_INODE_H
#define FS_INODE_H

#define FUSE_USE_VERSION 318
#include <fuse_lowlevel.h>

/* uthash would end the process when memory runs out; here a failed add is looked for. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/strbuf.h"

struct control;
struct error;
struct handle;
struct job;
struct lease;

struct inode {
	fuse_ino_t ino;
	struct handle *handles; /* open now, latest first: handle.h */
	struct job *last;       /* the request that was committed last, done or not; counted */
	struct job *last_done;  /* the last one that is done; counted */
	struct strbuf text;     /* of a last_error file: its sentence */
	off_t told_size;        /* what the kernel last heard; a request file's only */
	double changed_at;      /* Unix seconds; 0: as its lease */
	UT_hash_handle hh;
};

/* NULL when nothing is remembered. */
struct inode *inode_find(const struct control *control, fuse_ino_t ino);
/* The inode, made when it is not there. NULL: no memory. */
struct inode *inode_get(struct control *control, fuse_ino_t ino);
/* Frees it if nothing is left to remember. Accepts NULL. */
void inode_tidy(struct control *control, struct inode *inode);
/* A request was committed (or is done): it is the node's last. */
void inode_committed(struct inode *inode, struct job *job);
void inode_done(struct inode *inode, struct job *job);
/* The lease has left the tree: only what is still open is remembered. */
void inode_forget_lease(struct control *control, const struct lease *lease);
/* The same of a command. */
void inode_forget_command(struct control *control, uint64_t serial);
/* Forgets everything. No handle is open. */
void inode_forget_all(struct control *control);

/* Writes the failure into the last_error file beside the file it happened at. lease NULL: the
 * root's. */
void inode_note_error(struct control *control, const struct lease *lease, const struct error *err);

#endif
