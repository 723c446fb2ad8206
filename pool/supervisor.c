/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "pool/bubble.h"
#include "pool/pool-private.h"

enum {
	PING_EVERY = 10,          /* seconds; a tenth of the slots each second */
	PING_DEADLINE_MS = 30000, /* long: a command may have taken the machine */
	BACKOFF_FIRST_MS = 200,
	BACKOFF_LAST_MS = 30000,
	HEALTHY_MS = 30000, /* a slot that was READY for so long begins its backoff anew */
};

static void handle_pong(void *data, int r)
{
	struct slot *slot = data;

	slot->ping_pending = false;
	if (r == 0)
		slot->last_pong_ms = loop_now_ms();
	if (r != -ETIMEDOUT || !slot->booted)
		return;
	(void)error_reason(&slot->kill_why, ETIMEDOUT, REASON_SLOT_LOST,
		"its init gave no sign of life for %d s", PING_DEADLINE_MS / 1000);
	bubble_kill(slot->bubble);
}

static void handle_tick(void *data)
{
	struct pool *pool = data;

	for (unsigned i = pool->ping_turn; i < pool->slot_count; i += PING_EVERY) {
		struct slot *slot = pool->slots[i];

		if (!slot->booted || slot->ping_pending)
			continue;
		slot->ping_pending = true;
		bubble_ping(slot->bubble, PING_DEADLINE_MS, handle_pong, slot);
	}
	pool->ping_turn = (pool->ping_turn + 1) % PING_EVERY;
	loop_timer_restart(pool->ping_timer, 1000);
}

int supervisor_start(struct pool *pool, struct error *err)
{
	return loop_timer_start(pool->loop, 1000, handle_tick, pool, &pool->ping_timer, err);
}

void supervisor_stop(struct pool *pool)
{
	loop_timer_stop(take_ptr(&pool->ping_timer));
}

uint64_t supervisor_backoff_ms(unsigned failures, uint32_t random)
{
	uint64_t full = BACKOFF_FIRST_MS;

	for (unsigned i = 1; i < failures && full < BACKOFF_LAST_MS; i++)
		full *= 2;
	if (full > BACKOFF_LAST_MS)
		full = BACKOFF_LAST_MS;
	/* between half of it and all: slots that broke together do not come back together */
	return full / 2 + full / 2 * (random % 1024) / 1023;
}

static void handle_retry(void *data)
{
	struct slot *slot = data;

	loop_timer_stop(take_ptr(&slot->retry));
	slot_want_start(slot);
}

void supervisor_retry(struct slot *slot)
{
	uint32_t random = 0;

	if (slot->ready_ms && loop_now_ms() - slot->ready_ms > HEALTHY_MS)
		slot->failures = 0;
	slot->failures++;
	(void)getrandom(&random, sizeof(random), GRND_NONBLOCK);
	if (loop_timer_start(slot->pool->loop, supervisor_backoff_ms(slot->failures, random),
		    handle_retry, slot, &slot->retry, NULL) < 0)
		slot_want_start(slot);
}
