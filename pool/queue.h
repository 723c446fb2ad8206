/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * queue.h: who waits for a slot, in order of asking. Pure: no clock, no slot.
 * A waiter is embedded in whatever its owner keeps about the request. Threads: loop.
 */
#ifndef POOL_QUEUE_H
#define POOL_QUEUE_H

#include <stdbool.h>

struct waiter {
	struct waiter *prev, *next; /* the queue's */
	const char *holder;         /* borrowed until it is removed */
};

struct queue {
	struct waiter *first, *last;
	unsigned count;
};

void queue_push(struct queue *queue, struct waiter *waiter);
void queue_remove(struct queue *queue, struct waiter *waiter);

typedef bool queue_blocked_fn(void *data, const struct waiter *waiter);

/* The first one that is not blocked: one that must wait for its own former slot holds up nobody
 * behind it. NULL: none. */
struct waiter *queue_first(const struct queue *queue, queue_blocked_fn *blocked, void *data);

#endif
