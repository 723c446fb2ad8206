/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is remembered of a slot for whoever looks at it: how long its starts and resets took. */
#include "pool/events.h"
#include "pool/metrics.h"
#include "pool/pool-private.h"

static double seconds_since(uint64_t ms)
{
	return (double)(loop_now_ms() - ms) / 1000;
}

static void note_ready(struct slot *slot, struct metrics *metrics)
{
	if (slot->notes.start_ms)
		histogram_add(&metrics->slot_start_seconds, seconds_since(slot->notes.start_ms));
	if (slot->notes.reset_ms)
		histogram_add(&metrics->slot_reset_seconds, seconds_since(slot->notes.reset_ms));
	slot->notes.start_ms = slot->notes.reset_ms = 0;
}

void slot_note_step(struct slot *slot, enum slot_state from)
{
	struct metrics *metrics = events_metrics(slot->pool->events);

	metrics->slot_states[slot->state]++;
	switch (slot->state) {
	case SLOT_STARTING:
	case SLOT_RESTARTING:
		slot->notes.start_ms = loop_now_ms();
		break;
	case SLOT_RELEASING:
		slot->notes.reset_ms = loop_now_ms();
		break;
	case SLOT_RESETTING:
		if (from == SLOT_LOST)
			slot->notes.reset_ms = loop_now_ms();
		break;
	case SLOT_READY:
		note_ready(slot, metrics);
		break;
	case SLOT_FAILED: /* what follows is a retry, which backoff stretches */
		slot->notes.reset_ms = 0;
		break;
	case SLOT_EMPTY:
	case SLOT_LEASED:
	case SLOT_DEAD:
	case SLOT_LOST:
		break;
	}
}
