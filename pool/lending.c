/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/settings.h"
#include "pool/net.h"
#include "pool/pool-private.h"

/* Somebody who wants a slot. It is in the queue until its outcome is known, then among the finished
 * until it is told. */
struct loan_request {
	struct operation op; /* first */
	struct waiter waiter;
	struct loan_request *next; /* pool::finished */
	struct pool *pool;
	bool queued, impatient;
	unsigned image;        /* as in struct slot */
	struct slot *reserved; /* is being started with that image; NULL: none */
	struct loop_timer *timer;
	slot_lent_fn *done;
	void *data;
	struct slot *slot;
	struct error err;
	char holder[];
};

static struct loan_request *request_of(struct waiter *waiter)
{
	return (struct loan_request *)((char *)waiter - offsetof(struct loan_request, waiter));
}

/* Lent by now, or not wanted any more: unless it was lent it goes back to what all have. */
static void free_reserved(struct slot *slot)
{
	slot->reserved_for = NULL;
	if (!slot->holder)
		slot->image = 0;
}

/* Out of the queue; done() runs at the next turn. */
static void finish(struct loan_request *request)
{
	struct pool *pool = request->pool;

	if (request->queued)
		queue_remove(&pool->queue, &request->waiter);
	if (request->queued && request->impatient)
		pool->impatient_count--;
	request->queued = false;
	if (request->reserved)
		free_reserved(take_ptr(&request->reserved));
	request->next = NULL;
	*pool->finished_last = request;
	pool->finished_last = &request->next;
	pool_wake(pool);
}

static void request_free(struct loan_request *request)
{
	loop_timer_stop(request->timer);
	free(request);
}

static void cancel(struct operation *op)
{
	struct loan_request *request = (struct loan_request *)op;

	if (!request->queued) /* it has its outcome */
		return;
	(void)error_set(&request->err, ECANCELED, "whoever asked for a slot has gone");
	finish(request);
}

static void handle_timeout(void *data)
{
	struct loan_request *request = data;

	if (!request->queued)
		return;
	(void)error_reason(&request->err, ETIMEDOUT, REASON_POOL_EXHAUSTED,
		"all %u slots stayed in use for the time allowed (acquire_timeout)",
		request->pool->slot_count);
	finish(request);
}

static void enqueue(struct loan_request *request, uint64_t wait_ms)
{
	struct pool *pool = request->pool;

	request->impatient = wait_ms == 0;
	if (!request->impatient && loop_timer_start(pool->loop, wait_ms, handle_timeout, request,
					   &request->timer, &request->err) < 0) {
		finish(request);
		return;
	}
	queue_push(&pool->queue, &request->waiter);
	request->queued = true;
	pool->impatient_count += request->impatient;
	pool_wake(pool);
}

/* The number of an image by its name. False: there is none of that name. */
static bool find_image(const struct config *config, const char *name, unsigned *ret_image)
{
	size_t size = strlen(name);

	for (size_t i = 0; i < config->images.count; i++) {
		const char *word = config->images.words[i];

		if (!strncmp(word, name, size) && word[size] == '=') {
			*ret_image = (unsigned)i + 1;
			return true;
		}
	}
	return false;
}

struct operation *pool_lend(struct pool *pool, const char *holder, const char *image,
	uint64_t wait_ms, slot_lent_fn *done, void *data)
{
	size_t size = strlen(holder) + 1;
	struct loan_request *request = calloc(1, sizeof(*request) + size);

	if (!request)
		return NULL;
	memcpy(request->holder, holder, size);
	request->op.cancel = cancel;
	request->waiter.holder = request->holder;
	request->pool = pool;
	request->done = done;
	request->data = data;
	if (!image || find_image(pool->config, image, &request->image)) {
		enqueue(request, wait_ms);
		return &request->op;
	}
	(void)error_reason(&request->err, EINVAL, REASON_UNKNOWN_IMAGE,
		"no image '%.100s' in [images]", image);
	finish(request);
	return &request->op;
}

/*
 * A slot for it is on its way. Or its former slot is still being reset: it waits for that, unless
 * it does not want to wait at all.
 */
static bool is_blocked(void *data, const struct waiter *waiter)
{
	const struct loan_request *request = request_of((struct waiter *)waiter);
	struct pool *pool = data;

	if (request->reserved)
		return true;
	if (request->impatient)
		return false;
	for (unsigned i = 0, left = pool->former_count; left > 0 && i < pool->slot_count; i++) {
		const char *former = pool->slots[i]->former;

		if (former && !strcmp(former, waiter->holder))
			return true;
		left -= former != NULL;
	}
	return false;
}

/* READY, and not about to die. */
static bool can_be_lent(const struct slot *slot)
{
	return slot->state == SLOT_READY && slot->booted && slot->kill_why.code == 0;
}

static struct slot *ready_slot(const struct pool *pool)
{
	for (unsigned i = 0; i < pool->slot_count; i++)
		if (can_be_lent(pool->slots[i]) && !pool->slots[i]->reserved_for)
			return pool->slots[i];
	return NULL;
}

static void lend(struct slot *slot, struct loan_request *request)
{
	char *holder = strdup(request->holder);

	if (!holder) {
		(void)error_set(&request->err, ENOMEM, "no memory for a loan");
		finish(request);
		return;
	}
	free(slot->holder);
	slot->holder = holder;
	slot->end_reason = REASON_NONE;
	request->slot = slot;
	slot_net_lend(slot->net);
	(void)slot_step(slot, SLOT_LEND, REASON_NONE);
	finish(request);
}

/* Its root cannot be exchanged under a running init: it is killed and started again with another.
 */
static void reserve(struct slot *slot, struct loan_request *request)
{
	slot->reserved_for = request;
	request->reserved = slot;
	slot->image = request->image;
	slot_begin_release(slot, REASON_NONE);
}

/* Slots that were started with an image: for who asked for it, or, if he has gone, for nothing. */
static void serve_images(struct pool *pool)
{
	for (unsigned i = 0; i < pool->slot_count && pool->config->images.count > 0; i++) {
		struct slot *slot = pool->slots[i];

		if (!can_be_lent(slot))
			continue;
		if (slot->started_image != slot->image)
			slot_begin_release(slot, REASON_NONE);
		else if (slot->reserved_for)
			lend(slot, slot->reserved_for);
	}
}

void slot_forget_image(struct slot *slot, const struct error *why)
{
	struct loan_request *request = slot->reserved_for;

	slot->image = 0;
	if (!request)
		return;
	request->err = *why;
	finish(request);
}

static void serve_ready_slots(struct pool *pool)
{
	struct slot *slot;

	while (pool->queue.first && (slot = ready_slot(pool))) {
		struct waiter *waiter = queue_first(&pool->queue, is_blocked, pool);

		if (!waiter)
			return;
		if (request_of(waiter)->image == slot->image)
			lend(slot, request_of(waiter));
		else
			reserve(slot, request_of(waiter));
	}
}

static void refuse_all(struct pool *pool)
{
	while (pool->queue.first) {
		struct loan_request *request = request_of(pool->queue.first);

		if (pool->stopping)
			(void)error_reason(
				&request->err, EBUSY, REASON_STOPPING, "the pool is stopping");
		else
			(void)error_reason(&request->err, EBUSY, REASON_DRAINING,
				"the pool is draining and takes no new leases (control: undrain)");
		finish(request);
	}
}

static void refuse_impatient(struct pool *pool)
{
	struct waiter *next;

	for (struct waiter *waiter = pool->queue.first; waiter && pool->impatient_count > 0;
		waiter = next) {
		struct loan_request *request = request_of(waiter);

		next = waiter->next;
		if (!request->impatient || request->reserved)
			continue;
		(void)error_reason(&request->err, EAGAIN, REASON_POOL_EXHAUSTED,
			"none of %u slots is free now", pool->slot_count);
		finish(request);
	}
}

static void tell_finished(struct pool *pool)
{
	while (pool->finished) {
		struct loan_request *request = pool->finished;
		struct loan_request told = *request;

		pool->finished = request->next;
		if (!pool->finished)
			pool->finished_last = &pool->finished;
		request_free(request);
		told.done(told.data, told.slot ? 0 : -told.err.code, told.slot,
			told.slot ? NULL : &told.err);
	}
}

void lending_serve(struct pool *pool)
{
	if (pool->stopping || pool->draining)
		refuse_all(pool);
	serve_images(pool);
	serve_ready_slots(pool);
	if (pool->impatient_count > 0)
		refuse_impatient(pool);
	tell_finished(pool);
}

void lending_destroy(struct pool *pool)
{
	while (pool->queue.first) {
		struct loan_request *request = request_of(pool->queue.first);

		queue_remove(&pool->queue, &request->waiter);
		request_free(request);
	}
	while (pool->finished) {
		struct loan_request *request = pool->finished;

		pool->finished = request->next;
		request_free(request);
	}
}

void slot_forget_former(struct slot *slot)
{
	if (!slot->former)
		return;
	free(take_ptr(&slot->former));
	slot->pool->former_count--;
}

void pool_return(struct pool *pool, struct slot *slot, enum reason reason)
{
	if (slot->state != SLOT_LEASED &&
		slot->state != SLOT_LOST) /* stopping, or given back already */
		return;
	slot_forget_former(slot);
	slot->former = take_ptr(&slot->holder);
	slot->pool->former_count++;
	slot->failures = 0;
	slot->image = 0;
	slot_begin_release(slot, reason);
}

void pool_drain(struct pool *pool, bool drain)
{
	pool->draining = drain;
	pool_wake(pool);
}
