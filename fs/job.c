/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/job.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "fs/control.h"
#include "fs/handle.h"
#include "fs/inode.h"
#include "fs/reply.h"
#include "providers/lease-exec.h"
#include "providers/lease.h"

/* Nodes of a lease or command that has left the tree remember nothing: nobody can look there any
 * more. */
static struct inode *place_of(const struct job *job)
{
	const struct lease_table *leases = job->control->leases;

	if (job->lease && !lease_find_serial(leases, lease_serial(job->lease)))
		return NULL;
	if (job->verb->abandon)
		return inode_find(job->control, job->ino);
	if (job->exec && !lease_exec_find_serial(leases, lease_exec_serial(job->exec)))
		return NULL;
	return inode_get(job->control, job->ino);
}

static struct job *create(struct control *control, const struct node *node)
{
	struct job *job = calloc(1, sizeof(*job));
	struct inode *inode;

	if (!job)
		return NULL;
	job->refs = 2; /* the caller's, and its own until it is done */
	job->control = control;
	job->verb = node_type(node->kind)->verb;
	job->ino = node_ino(node->kind, node->object);
	job->lease = node->lease ? lease_ref(node->lease) : NULL;
	job->exec = node->exec ? lease_exec_ref(node->exec) : NULL;
	strbuf_init(&job->reply);
	DL_APPEND(control->jobs, job);
	inode = place_of(job);
	if (inode && job->verb->shows_last)
		inode_committed(inode, job);
	return job;
}

struct job *job_begin(
	struct control *control, const struct node *node, const char *text, size_t size, bool json)
{
	struct job *job = create(control, node);

	if (job)
		job->verb->begin(job, text, size, json);
	return job;
}

struct job *job_refused(struct control *control, const struct node *node, const struct error *err)
{
	struct job *job = create(control, node);

	if (job)
		job_failed(job, err);
	return job;
}

struct job *job_ref(struct job *job)
{
	job->refs++;
	return job;
}

void job_unref(struct job *job)
{
	if (!job || --job->refs > 0)
		return;
	if (job->exec)
		lease_exec_unref(job->exec);
	if (job->lease)
		lease_unref(job->lease);
	command_fini(&job->command);
	strbuf_fini(&job->reply);
	free(job);
}

/* Those that wait for it get its reply; those that only poll are told to look. */
static void deliver(struct job *job)
{
	struct inode *inode = place_of(job);
	struct handle *handle;

	if (inode) {
		inode->changed_at = unix_now();
		if (job->verb->shows_last)
			inode_done(inode, job);
	}
	while (job->handles)
		handle_settle(job->handles);
	inode = inode_find(job->control, job->ino);
	if (inode) {
		DL_FOREACH (inode->handles, handle)
			handle_wake_poller(handle);
	}
}

static void finish(struct job *job)
{
	job->done = true;
	job->operation = NULL;
	DL_DELETE(job->control->jobs, job);
}

void job_done(struct job *job)
{
	finish(job);
	deliver(job);
	job_unref(job);
}

void job_drop(struct job *job)
{
	finish(job);
	job_unref(job);
}

void job_rendered(void *data, int r, struct strbuf *reply, const struct error *err)
{
	struct job *job = data;

	if (r == 0) {
		job->reply = *reply;
		strbuf_init(reply);
	}
	job_end(job, r, err);
}

void job_end(struct job *job, int r, const struct error *err)
{
	if (r < 0)
		job_failed(job, err);
	else
		job_done(job);
}

void job_failed(struct job *job, const struct error *err)
{
	struct error named = *err;

	(void)error_wrap(&named, "%s", job->verb->name);
	reply_make_readable(&named);
	job->result = -named.code;
	strbuf_clear(&job->reply);
	conversation_render_error(&named, &job->reply);
	inode_note_error(job->control, job->lease, &named);
	job_done(job);
}
