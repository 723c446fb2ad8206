/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "pool/bubble.h"
#include "pool/events.h"
#include "pool/pool-private.h"

enum {
	BACKOFF_FIRST_MS = 200,
	BACKOFF_LAST_MS = 30000,
	HEALTHY_MS = 30000, /* a slot that was READY for so long begins its backoff anew */
};

static void handle_pong(void *data, int r)
{
	struct slot *slot = data;

	slot->ping_pending = false;
	if (r == 0)
		slot_note_life(slot);
	if (r != -ETIMEDOUT || !slot->booted)
		return;
	(void)error_reason(&slot->kill_why, ETIMEDOUT, REASON_SLOT_LOST,
		"its init gave no sign of life for %llu ms",
		(unsigned long long)slot->pool->times.ping_deadline);
	slot_kill(slot);
}

static void ping(struct slot *slot)
{
	if (!slot->booted || slot->ping_pending)
		return;
	slot->ping_pending = true;
	bubble_ping(slot->bubble, slot->pool->times.ping_deadline, handle_pong, slot);
}

/* Nothing can be done about it but to say so: what lives cannot be lent, nor started again. */
static void say_stuck(struct slot *slot)
{
	struct error why = ERROR_NONE;
	const char *state = slot_state_name(slot->state);
	unsigned long long deadline_ms = slot->pool->times.step_deadline;

	slot->step_said = true;
	if (slot->bubble)
		(void)error_reason(&why, EBUSY, REASON_KILL_INCOMPLETE,
			"its init (pid %d) still lives %llu ms after SIGKILL: something in it waits for a disk, or is traced from outside",
			(int)bubble_pid(slot->bubble), deadline_ms);
	else
		(void)error_set(&why, EBUSY,
			"work on '%s' has not ended after %llu ms: its file system hangs",
			slot->dir, deadline_ms);
	slot->last_error = why;
	log_warn("slot %s: %s", slot->name, why.text);
	events_add(slot->pool->events, &(struct event){
					       .kind = "slot",
					       .id = slot->name,
					       .from = state,
					       .to = state,
					       .reason = why.reason,
					       .generation = slot->generation,
					       .why = why.text,
				       });
	slot_forget_image(slot, &why); /* who waits for this very slot waits in vain */
}

static void look_at_deadlines(struct slot *slot, uint64_t now)
{
	if (slot->step_ms && !slot->step_said &&
		now - slot->step_ms > slot->pool->times.step_deadline)
		say_stuck(slot);
	if (slot->in_turn && !slot->overdue && now - slot->turn_ms > slot->pool->times.slow_start)
		slot_lose_turn(slot);
}

static void handle_tick(void *data)
{
	struct pool *pool = data;
	uint64_t now = loop_now_ms();
	bool stalled = now - pool->tick_ms >
		       3 * pool->times.tick; /* we were; what happened is not seen yet */

	pool->tick_ms = now;
	slot_cycle_empty_trash(pool);
	for (unsigned i = 0; i < pool->slot_count && !stalled; i++)
		look_at_deadlines(pool->slots[i], now);
	for (unsigned i = pool->ping_turn; i < pool->slot_count && !pool->stopping;
		i += pool->times.ping_every)
		ping(pool->slots[i]);
	pool->ping_turn = (pool->ping_turn + 1) % pool->times.ping_every;
	loop_timer_restart(pool->ping_timer, pool->times.tick);
}

int supervisor_start(struct pool *pool, struct error *err)
{
	pool->tick_ms = loop_now_ms();
	return loop_timer_start(
		pool->loop, pool->times.tick, handle_tick, pool, &pool->ping_timer, err);
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
	slot->ready_ms = 0; /* or every failure half a minute after it would be the first */
	slot->failures++;
	(void)getrandom(&random, sizeof(random), GRND_NONBLOCK);
	if (loop_timer_start(slot->pool->loop, supervisor_backoff_ms(slot->failures, random),
		    handle_retry, slot, &slot->retry, NULL) < 0)
		slot_want_start(slot);
}

static int refuse_restart(const struct slot *slot, struct error *err)
{
	return error_set(err, EBUSY, "slot %s is lent to '%s': end that lease first", slot->name,
		slot->holder ? slot->holder : "");
}

int pool_restart_slot(struct pool *pool, unsigned number, struct error *err)
{
	struct slot *slot = pool_slot(pool, number);

	if (!slot)
		return error_set(err, ENOENT, "there is no slot %u: they count from 0 to %u",
			number, pool->slot_count - 1);
	if (pool->stopping)
		return error_reason(err, EBUSY, REASON_STOPPING, "the pool is stopping");
	switch (slot->state) {
	case SLOT_LEASED:
	case SLOT_LOST:
		return refuse_restart(slot, err);
	case SLOT_READY:
		slot_begin_release(slot, REASON_OPERATOR);
		return 0;
	case SLOT_FAILED:
	case SLOT_DEAD:
		loop_timer_stop(take_ptr(&slot->retry));
		slot_want_start(slot);
		return 0;
	case SLOT_EMPTY:
	case SLOT_STARTING:
	case SLOT_RELEASING:
	case SLOT_RESETTING:
	case SLOT_RESTARTING:
		return 0; /* on its way */
	}
	return 0;
}
