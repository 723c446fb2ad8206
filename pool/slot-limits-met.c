/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "pool/slot-limits-private.h"

static uint64_t usage_of(const struct slot_limits *slot)
{
	char text[32] = "";

	if (slot->usage_fd < 0 || pread(slot->usage_fd, text, sizeof(text) - 1, 0) <= 0)
		return 0;
	return strtoull(text, NULL, 10);
}

bool slot_limits_memory_is_short(const struct slot_limits *slot)
{
	return slot->usage_fd >= 0 && usage_of(slot) >= slot->short_of;
}

static uint64_t count_in(int fd, const char *key)
{
	char text[512] = "";

	if (fd < 0 || pread(fd, text, sizeof(text) - 1, 0) <= 0)
		return 0;
	return cgroup_event_count(text, key);
}

struct limits_met slot_limits_met(const struct slot_limits *slot)
{
	return (struct limits_met){
		.oom = count_in(slot->oom_fd, "oom_kill"),
		.pids = count_in(slot->pids_fd, "max"),
	};
}

bool slot_limits_count_forks(const struct slot_limits *slot)
{
	return slot && slot->pids_fd >= 0;
}

enum reason limits_reason(
	struct limits_met before, struct limits_met after, bool alone, int returncode)
{
	if (!alone && returncode == 0)
		return REASON_NONE;
	if (after.oom > before.oom)
		return REASON_OOM;
	return after.pids > before.pids ? REASON_PIDS : REASON_NONE;
}

/* ---- memory_high, for a while ---- */

void slot_limits_unwatch(struct slot_limits *slot)
{
	loop_watch_stop(take_ptr(&slot->watch));
	loop_timer_stop(take_ptr(&slot->timer));
}

static uint64_t nearly(uint64_t high)
{
	return high - high / 16;
}

static void set_high(struct slot_limits *slot, bool lift)
{
	char text[24] = "max";

	if (!lift)
		(void)snprintf(text, sizeof(text), "%" PRIu64, slot->high);
	if (pwrite(slot->high_fd, text, strlen(text), 0) > 0)
		slot->lifted = lift;
}

/* While it is lifted we look again: the slot may have come down by itself. */
static void handle_high_timer(void *data)
{
	struct slot_limits *slot = data;
	bool above = usage_of(slot) >= nearly(slot->high);

	if (slot->lifted != above)
		set_high(slot, above);
	if (slot->lifted)
		loop_timer_restart(slot->timer, LIMITS_LIFTED_MS);
	else
		loop_watch_events(slot->watch, LOOP_PRIORITY);
}

static void handle_memory_event(void *data, unsigned events)
{
	struct slot_limits *slot = data;

	(void)slot_limits_met(slot); /* reading it arms the watch for the next change */
	if (usage_of(slot) < nearly(slot->high))
		return;
	loop_watch_events(slot->watch, 0);
	loop_timer_restart(slot->timer, LIMITS_SLOW_MS);
}

void slot_limits_watch(struct limits *limits, struct slot_limits *slot)
{
	if (slot->high_fd < 0)
		return;
	(void)slot_limits_met(slot);
	if (loop_timer_start(limits->loop, 0, handle_high_timer, slot, &slot->timer, NULL) < 0 ||
		loop_watch_start(limits->loop, slot->oom_fd, LOOP_PRIORITY, handle_memory_event,
			slot, &slot->watch, NULL) < 0) {
		slot_limits_unwatch(slot);
		set_high(slot, true);
	}
}
