/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/inode.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "fs/control.h"
#include "fs/job.h"
#include "fs/reply.h"
#include "fs/tree.h"
#include "providers/lease.h"

struct inode *inode_find(const struct control *control, fuse_ino_t ino)
{
	struct inode *inode;

	HASH_FIND(hh, control->inodes, &ino, sizeof(ino), inode);
	return inode;
}

struct inode *inode_get(struct control *control, fuse_ino_t ino)
{
	struct inode *inode = inode_find(control, ino);

	if (inode)
		return inode;
	inode = calloc(1, sizeof(*inode));
	if (!inode)
		return NULL;
	inode->ino = ino;
	strbuf_init(&inode->text);
	HASH_ADD(hh, control->inodes, ino, sizeof(inode->ino), inode);
	if (!inode->hh.tbl) {
		free(inode);
		return NULL;
	}
	return inode;
}

static void free_inode(struct control *control, struct inode *inode)
{
	HASH_DEL(control->inodes, inode);
	job_unref(inode->last);
	job_unref(inode->last_done);
	strbuf_fini(&inode->text);
	free(inode);
}

void inode_tidy(struct control *control, struct inode *inode)
{
	if (inode && !inode->handles && !inode->last && !inode->last_done &&
		inode->text.size == 0 && inode->changed_at == 0)
		free_inode(control, inode);
}

static void replace_job(struct job **place, struct job *job)
{
	struct job *old = *place;

	*place = job_ref(job);
	job_unref(old);
}

void inode_committed(struct inode *inode, struct job *job)
{
	replace_job(&inode->last, job);
}

void inode_done(struct inode *inode, struct job *job)
{
	inode->changed_at = unix_now();
	replace_job(&inode->last_done, job);
}

static void forget(struct control *control, struct inode *inode)
{
	job_unref(take_ptr(&inode->last));
	job_unref(take_ptr(&inode->last_done));
	strbuf_fini(&inode->text);
	inode->changed_at = 0;
	inode_tidy(control, inode);
}

void inode_forget_lease(struct control *control, const struct lease *lease)
{
	for (enum node_kind kind = NODE_ROOT; kind < NODE_KIND_COUNT; kind++) {
		struct inode *inode = inode_find(control, node_ino(kind, lease_serial(lease)));

		if (inode && node_of_lease(kind) && !node_of_exec(kind))
			forget(control, inode);
	}
}

void inode_forget_command(struct control *control, uint64_t serial)
{
	for (enum node_kind kind = NODE_EXEC; kind <= NODE_EXEC_SIGNAL; kind++) {
		struct inode *inode = inode_find(control, node_ino(kind, serial));

		if (inode && (!inode->handles || kind != NODE_EXEC_WAIT))
			forget(control, inode); /* what `wait` remembers is its readers' job */
	}
}

void inode_forget_all(struct control *control)
{
	struct inode *inode, *after;

	HASH_ITER (hh, control->inodes, inode, after)
		forget(control, inode);
}

void inode_note_error(struct control *control, const struct lease *lease, const struct error *err)
{
	fuse_ino_t ino = lease ? node_ino(NODE_LEASE_LAST_ERROR, lease_serial(lease))
			       : node_ino(NODE_LAST_ERROR, 0);
	struct error readable = *err;
	struct inode *inode;

	if (lease && !lease_find_serial(control->leases, lease_serial(lease)))
		return; /* it has left the tree: nobody could read it */
	inode = inode_get(control, ino);
	if (!inode)
		return;
	strbuf_clear(&inode->text);
	reply_make_readable(&readable);
	strbuf_adds(&inode->text, readable.text);
	strbuf_addc(&inode->text, '\n');
	inode->changed_at = unix_now();
}
