/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define FUSE_USE_VERSION 318
#include "fs/evictor.h"

#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread.h"
#include "fs/file-node.h"

enum { BATCH = 256, NOTIFY_PRUNE = 9, PAUSE_SEC = 1 };

struct evictor {
	struct file_node_table *table;
	struct fuse_session *session;
	size_t max_nodes;
	atomic_bool can_prune;
	struct file_node_idle idle[BATCH]; /* the thread's */
	struct worker worker;              /* guards what stands behind it */
	bool wanted;
};

/* As linux/fuse.h has it from 7.45 on; libfuse 3.18 does not know it yet. */
struct prune_message {
	struct {
		uint32_t length;
		int32_t code;
		uint64_t unique;
	} header;
	uint32_t count;
	uint32_t padding;
	uint64_t spare;
	uint64_t nodes[BATCH];
};

static void prune(const struct evictor *evictor, const struct file_node_idle *idle, size_t count)
{
	struct prune_message message;
	size_t length = offsetof(struct prune_message, nodes) + count * sizeof(message.nodes[0]), i;

	memset(&message, 0, sizeof(message));
	message.header.length = (uint32_t)length;
	message.header.code = NOTIFY_PRUNE;
	message.count = (uint32_t)count;
	for (i = 0; i < count; i++)
		message.nodes[i] = idle[i].id;
	(void)!write(fuse_session_fd(evictor->session), &message, length);
}

static void invalidate(const struct evictor *evictor, const struct file_node_idle *idle,
	size_t count, bool directories)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (idle[i].parent && S_ISDIR(idle[i].type) == directories)
			(void)fuse_lowlevel_notify_inval_entry(evictor->session, idle[i].parent,
				idle[i].name, strlen(idle[i].name));
	}
}

/*
 * How many of at most max it has told the kernel of. urgent: also directories that the kernel
 * will not drop by itself, because of the names that it remembers not to be there. *in_vain:
 * how many nodes were looked at.
 */
static size_t evict_some(struct evictor *evictor, size_t max, bool urgent, size_t *in_vain)
{
	struct file_node_idle *idle = evictor->idle;
	size_t count, seen = 0;

	count = file_node_table_pick_idle(evictor->table, idle, max < BATCH ? max : BATCH, &seen);
	if (count > 0 && atomic_load(&evictor->can_prune))
		prune(evictor, idle, count);
	else if (count > 0)
		invalidate(evictor, idle, count, false);
	if (count > 0 && urgent)
		invalidate(evictor, idle, count, true);
	*in_vain += seen;
	return count;
}

static bool is_ending(struct evictor *evictor)
{
	bool ending;

	pthread_mutex_lock(&evictor->worker.lock);
	ending = evictor->worker.ending;
	pthread_mutex_unlock(&evictor->worker.lock);
	return ending;
}

/* False when it was not enough. The kernel forgets without being asked, too. */
static bool evict(struct evictor *evictor, bool urgent)
{
	size_t count = file_node_table_count(evictor->table),
	       few = evictor->max_nodes - evictor->max_nodes / 5;
	size_t wanted = count > few ? count - few : 0, in_vain = 0;

	while (wanted > 0 && in_vain < 3 * count && !is_ending(evictor)) {
		wanted -= evict_some(evictor, wanted, urgent, &in_vain);
		if (file_node_table_count(evictor->table) <= few)
			return true;
	}
	return wanted == 0;
}

/* pause_sec: how long to do nothing at least. False at the end. */
static bool wait_for_work(struct evictor *evictor, time_t pause_sec)
{
	struct timespec until;
	bool ending;
	int r = 0;

	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += pause_sec;
	pthread_mutex_lock(&evictor->worker.lock);
	while (pause_sec > 0 && !evictor->worker.ending && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&evictor->worker.wake, &evictor->worker.lock, &until);
	while (!evictor->wanted && !evictor->worker.ending)
		pthread_cond_wait(&evictor->worker.wake, &evictor->worker.lock);
	evictor->wanted = false;
	ending = evictor->worker.ending;
	pthread_mutex_unlock(&evictor->worker.lock);
	return !ending;
}

static void *run(void *data)
{
	struct evictor *evictor = data;
	bool enough = true;

	while (wait_for_work(evictor, enough ? 0 : PAUSE_SEC))
		enough = evict(
			evictor, file_node_table_count(evictor->table) > 2 * evictor->max_nodes);
	return NULL;
}

int evictor_create(struct file_node_table *table, struct fuse_session *session, size_t max_nodes,
	struct evictor **ret_evictor, struct error *err)
{
	struct evictor *evictor = calloc(1, sizeof(*evictor));
	int r;

	if (!evictor)
		return error_set(err, ENOMEM, "no memory for what keeps the table of nodes small");
	evictor->table = table;
	evictor->session = session;
	evictor->max_nodes = max_nodes;
	atomic_init(&evictor->can_prune, false);
	r = worker_start(&evictor->worker, run, evictor);
	if (r < 0) {
		free(evictor);
		return error_errno(
			err, -r, "cannot start the thread that keeps the table of nodes small");
	}
	*ret_evictor = evictor;
	return 0;
}

void evictor_use_prune(struct evictor *evictor)
{
	if (evictor)
		atomic_store(&evictor->can_prune, true);
}

void evictor_stop(struct evictor *evictor)
{
	worker_stop(&evictor->worker);
}

void evictor_destroy(struct evictor *evictor)
{
	if (!evictor)
		return;
	worker_fini(&evictor->worker);
	free(evictor);
}

void evictor_look(struct evictor *evictor)
{
	if (!evictor || file_node_table_count(evictor->table) <= evictor->max_nodes)
		return;
	pthread_mutex_lock(&evictor->worker.lock);
	evictor->wanted = true;
	pthread_cond_signal(&evictor->worker.wake);
	pthread_mutex_unlock(&evictor->worker.lock);
}
