/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/control.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <utlist.h>

#include "base/error.h"
#include "base/loop.h"
#include "config/settings.h"
#include "fs/directory.h"
#include "fs/handle.h"
#include "fs/inode.h"
#include "fs/job.h"
#include "fs/request.h"
#include "pool/pool.h"
#include "providers/lease.h"

enum { SPACE_FRESH_MS = 1000 };

double control_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int control_create(struct loop *loop, const struct config *config, struct events *events,
	struct control **ret_control, struct error *err)
{
	struct control *control = calloc(1, sizeof(*control));

	if (!control)
		return error_set(err, ENOMEM, "no memory for the control files");
	control->loop = loop;
	control->config = config;
	control->events = events;
	control->started_at = control->changed_at = control_now();
	strbuf_init(&control->config_text);
	config_show(config, true, &control->config_text);
	(void)statvfs(config->dressage.state_dir,
		&control->space); /* all zero when it is not there yet */
	*ret_control = control;
	return 0;
}

void control_destroy(struct control *control)
{
	struct job *job, *after;

	if (!control)
		return;
	control_end(control);
	DL_FOREACH_SAFE (control->jobs, job, after) {
		job->operation = NULL; /* whoever was to end it has gone before us */
		job_unref(job);
	}
	inode_forget_all(control);
	loop_timer_stop(control->watch);
	strbuf_fini(&control->config_text);
	free(control);
}

void control_begin(struct control *control, struct lease_table *leases, struct notifier *notifier)
{
	control->leases = leases;
	control->notifier = notifier;
	control->started_at = control->changed_at = control_now();
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

void control_end(struct control *control)
{
	if (control->ended)
		return;
	control->ended = true;
	request_end_all(control);
	close_handles(control);
	directory_close_all(control);
	control->notifier = NULL;
}

void control_lease_changed(struct control *control, struct lease *lease)
{
	enum lease_state state = lease_state(lease);

	control->changed_at = control_now();
	if (state == LEASE_RELEASING || state == LEASE_RELEASED || !control->leases ||
		!lease_find_serial(control->leases, lease_serial(lease)))
		inode_forget_lease(control, lease);
}

/* The state directory's bytes: a file system may be slow to tell, so a worker asks. */

static void ask_space(void *data)
{
	struct control *control = data;

	if (statvfs(control->config->dressage.state_dir, &control->space_now) < 0)
		control->space_now = (struct statvfs){0};
}

static void take_space(void *data)
{
	struct control *control = data;

	control->space_asked = false;
	control->space_at_ms = loop_now_ms();
	if (control->space_now.f_frsize > 0)
		control->space = control->space_now;
}

void control_space(struct control *control, struct statvfs *ret_space)
{
	struct pool *pool = lease_table_pool(control->leases);
	unsigned slots = pool ? pool_slot_count(pool) : 0, ready = 0;

	if (!control->space_asked && loop_now_ms() - control->space_at_ms > SPACE_FRESH_MS)
		control->space_asked =
			loop_work(control->loop, ask_space, take_space, control, NULL) == 0;
	for (unsigned number = 0; number < slots; number++)
		ready += slot_view(pool_slot(pool, number)).state == SLOT_READY;
	*ret_space = control->space;
	ret_space->f_files = slots;
	ret_space->f_ffree = ready;
	ret_space->f_favail = ready;
	ret_space->f_namemax = 255;
}
