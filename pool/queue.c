/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/queue.h"

#include <stddef.h>

void queue_push(struct queue *queue, struct waiter *waiter)
{
	waiter->next = NULL;
	waiter->prev = queue->last;
	if (queue->last)
		queue->last->next = waiter;
	else
		queue->first = waiter;
	queue->last = waiter;
	queue->count++;
}

void queue_remove(struct queue *queue, struct waiter *waiter)
{
	if (waiter->prev)
		waiter->prev->next = waiter->next;
	else
		queue->first = waiter->next;
	if (waiter->next)
		waiter->next->prev = waiter->prev;
	else
		queue->last = waiter->prev;
	waiter->prev = waiter->next = NULL;
	queue->count--;
}

struct waiter *queue_first(const struct queue *queue, queue_blocked_fn *blocked, void *data)
{
	for (struct waiter *waiter = queue->first; waiter; waiter = waiter->next)
		if (!blocked(data, waiter))
			return waiter;
	return NULL;
}
