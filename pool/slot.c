/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/slot.h"

#include <stddef.h>

#include "base/strbuf.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Every legal move, and nothing else. */
static const struct {
	enum slot_state from;
	enum slot_event on;
	enum slot_state to;
} moves[] = {
	{SLOT_EMPTY, SLOT_SPAWN, SLOT_STARTING},
	{SLOT_STARTING, SLOT_BOOTED, SLOT_READY},
	{SLOT_STARTING, SLOT_BROKE, SLOT_FAILED},
	{SLOT_STARTING, SLOT_STOP, SLOT_RELEASING},
	{SLOT_READY, SLOT_LEND, SLOT_LEASED},
	{SLOT_READY, SLOT_RELEASE, SLOT_RELEASING},
	{SLOT_READY, SLOT_DIED, SLOT_DEAD},
	{SLOT_READY, SLOT_STOP, SLOT_RELEASING},
	{SLOT_LEASED, SLOT_RELEASE, SLOT_RELEASING},
	{SLOT_LEASED, SLOT_DIED, SLOT_LOST},
	{SLOT_LEASED, SLOT_STOP, SLOT_RELEASING},
	{SLOT_RELEASING, SLOT_KILLED, SLOT_RESETTING},
	{SLOT_RESETTING, SLOT_SPAWN, SLOT_RESTARTING},
	{SLOT_RESETTING, SLOT_BROKE, SLOT_FAILED},
	{SLOT_RESETTING, SLOT_CLEARED, SLOT_EMPTY},
	{SLOT_RESTARTING, SLOT_BOOTED, SLOT_READY},
	{SLOT_RESTARTING, SLOT_BROKE, SLOT_FAILED},
	{SLOT_RESTARTING, SLOT_STOP, SLOT_RELEASING},
	{SLOT_FAILED, SLOT_SPAWN, SLOT_RESTARTING},
	{SLOT_FAILED, SLOT_STOP, SLOT_RESETTING},
	{SLOT_DEAD, SLOT_SPAWN, SLOT_RESTARTING},
	{SLOT_DEAD, SLOT_STOP, SLOT_RESETTING},
	{SLOT_LOST, SLOT_RELEASE, SLOT_RESETTING},
	{SLOT_LOST, SLOT_STOP, SLOT_RESETTING},
};

const char *slot_state_name(enum slot_state state)
{
	static const char *const names[SLOT_STATE_COUNT] = {
		[SLOT_EMPTY] = "EMPTY",
		[SLOT_STARTING] = "STARTING",
		[SLOT_READY] = "READY",
		[SLOT_LEASED] = "LEASED",
		[SLOT_RELEASING] = "RELEASING",
		[SLOT_RESETTING] = "RESETTING",
		[SLOT_RESTARTING] = "RESTARTING",
		[SLOT_FAILED] = "FAILED",
		[SLOT_DEAD] = "DEAD",
		[SLOT_LOST] = "LOST",
	};

	return names[state];
}

const char *slot_event_name(enum slot_event event)
{
	static const char *const names[SLOT_EVENT_COUNT] = {
		[SLOT_SPAWN] = "SPAWN",
		[SLOT_BOOTED] = "BOOTED",
		[SLOT_BROKE] = "BROKE",
		[SLOT_LEND] = "LEND",
		[SLOT_RELEASE] = "RELEASE",
		[SLOT_KILLED] = "KILLED",
		[SLOT_DIED] = "DIED",
		[SLOT_STOP] = "STOP",
		[SLOT_CLEARED] = "CLEARED",
	};

	return names[event];
}

bool slot_next_state(enum slot_state from, enum slot_event event, enum slot_state *ret_to)
{
	for (size_t i = 0; i < COUNT(moves); i++) {
		if (moves[i].from == from && moves[i].on == event) {
			*ret_to = moves[i].to;
			return true;
		}
	}
	return false;
}

void slot_table_render(struct strbuf *out)
{
	for (size_t i = 0; i < COUNT(moves); i++)
		strbuf_addf(out, "%s %s %s\n", slot_state_name(moves[i].from),
			slot_event_name(moves[i].on), slot_state_name(moves[i].to));
}
