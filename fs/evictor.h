/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * evictor.h: keeps the table of nodes small by having the client's kernel forget what it does
 * not use.
 *
 * A kernel forgets names only when *it* is short of memory; a daemon whose clients walk large
 * trees would grow for ever. Above a number of nodes this thread picks those that were not used
 * lately and says so to the kernel, until a fifth of them is gone. Linux 6.18 can be told to
 * drop what nobody uses (FUSE_NOTIFY_PRUNE); an older one only to look a name up again, which
 * is done for files that are no directories (a shell that stands in one would lose its way),
 * and for directories too above twice that number.
 *
 * Threads: any; the work is done on a thread of its own, as notifications must be.
 */
#ifndef FS_EVICTOR_H
#define FS_EVICTOR_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct evictor;
struct fuse_session;
struct file_node_table;

/* table and session are borrowed until destroy. */
int evictor_create(struct file_node_table *table, struct fuse_session *session, size_t max_nodes,
	struct evictor **ret_evictor, struct error *err);
/* The kernel knows FUSE_NOTIFY_PRUNE. Before the first evictor_look(). Accepts NULL. */
void evictor_use_prune(struct evictor *evictor);
/*
 * Ends the thread and waits for that; harmless twice. While requests are still being served, for
 * the kernel may make it wait for one, or when the connection is gone. From then on nothing is
 * forgotten.
 */
void evictor_stop(struct evictor *evictor);
void evictor_destroy(struct evictor *evictor); /* accepts NULL */
/* There is one more node. Never blocks. Accepts NULL. */
void evictor_look(struct evictor *evictor);

#endif
