/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * flock(2) that has to wait. Nothing announces that somebody in a sandbox let go of a lock, and
 * a worker must not wait for it: one thread tries for all of them, a hundred times a second, as
 * long as there are any.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/thread.h"
#include "fs/files-private.h"

enum { WAITERS_MAX = 1024, TRY_EVERY_NS = 10 * 1000 * 1000 };

struct lock_wait {
	struct lock_wait *next;
	struct lock_waiters *waiters;
	fuse_req_t req;
	struct file_node *node; /* a reference */
	struct opened *opened;  /* it stays while its owner waits; begun */
	int op;                 /* of flock(2) */
	bool interrupted;
};

struct lock_waiters {
	struct worker worker; /* guards what stands behind it, and `interrupted` of each wait */
	struct lock_wait *first;
	size_t count;
};

/* Runs with libfuse's lock of the request. */
static void handle_interrupt(fuse_req_t req, void *data)
{
	struct lock_wait *wait = data;

	pthread_mutex_lock(&wait->waiters->worker.lock);
	wait->interrupted = true;
	pthread_cond_signal(&wait->waiters->worker.wake);
	pthread_mutex_unlock(&wait->waiters->worker.lock);
}

/* Takes the wait. */
static void answer(struct lock_wait *owned_wait, int r)
{
	fuse_req_interrupt_func(owned_wait->req, NULL, NULL); /* waits for one that is running */
	opened_end(owned_wait->opened);
	files_done(owned_wait->req, owned_wait->node, r);
	file_node_put(owned_wait->node);
	free(owned_wait);
}

/* The lock lives in the open descriptor, which must then not be exchanged. */
static int try_lock(struct opened *opened, int op)
{
	if (flock(opened->fd, op | LOCK_NB) < 0)
		return -errno;
	pthread_mutex_lock(&opened->lock);
	opened->locked = (op & ~LOCK_NB) != LOCK_UN;
	pthread_mutex_unlock(&opened->lock);
	return 0;
}

/* 1: not yet. */
static int try_locked(const struct lock_waiters *waiters, const struct lock_wait *wait)
{
	int r = loan_check(wait->node->loan);

	if (r < 0)
		return r;
	if (wait->interrupted || waiters->worker.ending)
		return -EINTR;
	r = try_lock(wait->opened, wait->op);
	return r == -EWOULDBLOCK ? 1 : r;
}

/* Takes out one whose waiting is over; NULL: everybody waits on. */
static struct lock_wait *take_done_locked(struct lock_waiters *waiters, int *ret_r)
{
	struct lock_wait **link, *wait;
	int r;

	for (link = &waiters->first; (wait = *link); link = &wait->next) {
		r = try_locked(waiters, wait);
		if (r > 0)
			continue;
		*link = wait->next;
		waiters->count--;
		*ret_r = r;
		return wait;
	}
	return NULL;
}

static void pause_locked(struct lock_waiters *waiters)
{
	struct timespec until;

	if (!waiters->first) {
		pthread_cond_wait(&waiters->worker.wake, &waiters->worker.lock);
		return;
	}
	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += TRY_EVERY_NS;
	if (until.tv_nsec >= 1000 * 1000 * 1000) {
		until.tv_nsec -= 1000 * 1000 * 1000;
		until.tv_sec++;
	}
	(void)pthread_cond_timedwait(&waiters->worker.wake, &waiters->worker.lock, &until);
}

static void *run(void *data)
{
	struct lock_waiters *waiters = data;
	struct lock_wait *wait;
	int r;

	pthread_mutex_lock(&waiters->worker.lock);
	while (waiters->first || !waiters->worker.ending) {
		wait = take_done_locked(waiters, &r);
		if (!wait) {
			pause_locked(waiters);
			continue;
		}
		pthread_mutex_unlock(&waiters->worker.lock);
		answer(wait, r);
		pthread_mutex_lock(&waiters->worker.lock);
	}
	pthread_mutex_unlock(&waiters->worker.lock);
	return NULL;
}

int lock_waiters_create(struct lock_waiters **ret_waiters)
{
	struct lock_waiters *waiters = calloc(1, sizeof(*waiters));
	int r;

	if (!waiters)
		return -ENOMEM;
	r = worker_start(&waiters->worker, run, waiters);
	if (r < 0) {
		free(waiters);
		return r;
	}
	*ret_waiters = waiters;
	return 0;
}

void lock_waiters_stop(struct lock_waiters *waiters)
{
	worker_stop(&waiters->worker);
}

void lock_waiters_destroy(struct lock_waiters *waiters)
{
	if (!waiters)
		return;
	worker_fini(&waiters->worker);
	free(waiters);
}

/*
 * On success it takes the node's reference and ends what was begun; the request is answered
 * later.
 */
static int wait_for_lock(fuse_req_t req, struct file_node *node, struct opened *opened, int op)
{
	struct lock_waiters *waiters = files_of(req)->lock_waiters;
	struct lock_wait *wait = waiters ? calloc(1, sizeof(*wait)) : NULL;
	bool full;

	if (!wait)
		return -ENOLCK;
	*wait = (struct lock_wait){
		.waiters = waiters, .req = req, .node = node, .opened = opened, .op = op};
	fuse_req_interrupt_func(req, handle_interrupt, wait);
	pthread_mutex_lock(&waiters->worker.lock);
	full = waiters->count >= WAITERS_MAX || waiters->worker.ending;
	if (!full) {
		wait->next = waiters->first;
		waiters->first = wait;
		waiters->count++;
		pthread_cond_signal(&waiters->worker.wake);
	}
	pthread_mutex_unlock(&waiters->worker.lock);
	if (!full)
		return 0;
	fuse_req_interrupt_func(req, NULL, NULL);
	free(wait);
	return -ENOLCK;
}

/*
 * An interrupt gives EINTR for any signal, as `flock -w` and every alarm() around a lock need
 * it.
 */
void files_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int op)
{
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	struct opened *opened = files_opened(fi);
	int r = files_node(req, ino, &node);

	if (r == 0)
		r = opened_begin(opened);
	if (r < 0) {
		files_fail(req, node, r);
		return;
	}
	r = try_lock(opened, op);
	if (r == -EWOULDBLOCK && !(op & LOCK_NB)) {
		r = wait_for_lock(req, node, opened, op);
		if (r == 0) {
			(void)take_ptr(&node);
			return;
		}
	}
	opened_end(opened);
	files_done(req, node, r);
}
