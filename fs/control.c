/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/control.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"
#include "config/settings.h"
#include "fs/directory.h"
#include "fs/handle.h"
#include "fs/inode.h"
#include "fs/job.h"
#include "fs/notifier.h"
#include "fs/request.h"
#include "fs/space.h"
#include "fs/stream.h"
#include "fs/tree.h"
#include "pool/events.h"
#include "pool/pool.h"
#include "providers/lease.h"

enum { LAST_WORDS_MS = 500 };

static void handle_event(void *data)
{
	stream_wake(data, NODE_EVENTS_FOLLOW, 0);
}

int control_create(struct loop *loop, const struct config *config, struct events *events,
	struct control **ret_control, struct error *err)
{
	struct control *control = calloc(1, sizeof(*control));
	int r;

	if (!control)
		return error_set(err, ENOMEM, "no memory for the control files");
	control->loop = loop;
	control->config = config;
	control->events = events;
	control->started_at = control->changed_at = unix_now();
	events_on_add(events, handle_event, control);
	r = space_create(config->dressage.state_dir, &control->space, err);
	if (r < 0)
		control_destroy(control);
	else
		*ret_control = control;
	return r;
}

void control_destroy(struct control *control)
{
	struct job *job, *after;

	if (!control)
		return;
	control_end(control);
	events_on_add(control->events, NULL, NULL);
	DL_FOREACH_SAFE (control->jobs, job, after) {
		job->operation = NULL; /* whoever was to end it has gone before us */
		job_unref(job);
	}
	inode_forget_all(control);
	loop_timer_stop(control->watch);
	space_destroy(control->space);
	free(control);
}

void control_begin(struct control *control, struct lease_table *leases, struct notifier *notifier)
{
	control->leases = leases;
	control->notifier = notifier;
	control->started_at = control->changed_at = unix_now();
}

static void close_handles(struct control *control)
{
	struct inode *inode, *after;

	HASH_ITER (hh, control->inodes, inode, after) {
		struct handle *handle, *next;

		DL_FOREACH_SAFE (inode->handles, handle, next)
			handle_abandon(handle); /* the last one may take the inode with it */
	}
}

static bool all_are_told(const struct control *control)
{
	const struct inode *inode, *after;
	const struct handle *handle;

	HASH_ITER (hh, control->inodes, inode, after)
		DL_FOREACH (inode->handles, handle)
			if (node_type(handle->node.kind)->stream && !handle->end_read)
				return false;
	return true;
}

void control_told_one(struct control *control)
{
	if (control->finish && all_are_told(control))
		loop_timer_restart(control->finish, 0);
}

/* Each looks by itself whether there is more. */
static void finish_streams(struct control *control)
{
	control->finished = true;
	stream_wake(control, NODE_EVENTS_FOLLOW, 0);
}

static void handle_finish(void *data)
{
	struct control *control = data;

	loop_timer_stop(take_ptr(&control->finish));
	control->told(control->told_data);
}

int control_finish(struct control *control, loop_fn *told, void *data)
{
	int r = loop_timer_start(
		control->loop, LAST_WORDS_MS, handle_finish, control, &control->finish, NULL);

	if (r < 0)
		return r;
	control->told = told;
	control->told_data = data;
	finish_streams(control);
	control_told_one(control);
	return 0;
}

void control_end(struct control *control)
{
	if (control->ended)
		return;
	loop_timer_stop(take_ptr(&control->finish));
	finish_streams(control);
	control->ended = true;
	request_end_all(control);
	close_handles(control);
	directory_close_all(control);
	control->notifier = NULL;
}

static void forget_attr(struct control *control, enum node_kind kind, uint64_t object)
{
	if (control->notifier)
		notifier_forget_attr(control->notifier, node_ino(kind, object));
}

void control_lease_changed(struct control *control, struct lease *lease)
{
	enum lease_state state = lease_state(lease);
	bool gone = !control->leases || !lease_find_serial(control->leases, lease_serial(lease));

	control->changed_at = unix_now();
	if (control->leases_known)
		forget_attr(control, NODE_LEASES, 0);
	control->leases_known = false;
	if (gone)
		forget_attr(control, NODE_LEASE, lease_serial(lease));
	stream_wake(control, NODE_WAIT, lease_serial(lease));
	if (gone || state == LEASE_RELEASING || state == LEASE_RELEASED)
		inode_forget_lease(control, lease);
}

void control_space(struct control *control, struct statvfs *ret_space)
{
	struct pool *pool = lease_table_pool(control->leases);
	unsigned slots = pool ? pool_slot_count(pool) : 0, ready = 0;

	space_read(control->space, control->loop, ret_space);
	for (unsigned number = 0; number < slots; number++)
		ready += slot_view(pool_slot(pool, number)).state == SLOT_READY;
	ret_space->f_files = slots;
	ret_space->f_ffree = ready;
	ret_space->f_favail = ready;
	ret_space->f_namemax = 255;
}
