/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * slot.h: the states of a slot and every move between them. Pure: no I/O, no lock, no clock.
 *
 * EMPTY -> STARTING -> READY -> LEASED -> RELEASING -> RESETTING -> RESTARTING -> READY is a slot's
 * ordinary life. A READY slot whose init dies is DEAD until it is started again; a LEASED one is
 * LOST, kept for inspection until its lease is terminated. A start that fails is FAILED, tried
 * again with backoff. Threads: loop.
 */
#ifndef POOL_SLOT_H
#define POOL_SLOT_H

#include <stdbool.h>

struct strbuf;

enum slot_state {
	SLOT_EMPTY,      /* no process, no directories in use */
	SLOT_STARTING,   /* first start under way */
	SLOT_READY,      /* may be lent */
	SLOT_LEASED,     /* lent */
	SLOT_RELEASING,  /* being killed */
	SLOT_RESETTING,  /* dead; its directories are being replaced */
	SLOT_RESTARTING, /* a later start under way */
	SLOT_FAILED,     /* could not start; will be tried again */
	SLOT_DEAD,       /* died while READY; will be started again */
	SLOT_LOST,       /* died while LEASED; waits for its lease's end */
};

enum slot_event {
	SLOT_SPAWN,  /* a start begins */
	SLOT_BOOTED, /* init said READY */
	SLOT_BROKE,  /* the start failed */
	SLOT_LEND,
	SLOT_RELEASE, /* its holder gave it back */
	SLOT_KILLED,  /* the pidfd says that nothing of it lives */
	SLOT_DIED,    /* the same, unasked for */
	SLOT_STOP,    /* the pool is stopping: what lives is killed, what is dead is cleared */
	SLOT_CLEARED, /* stopping: its directories are gone */
};

enum { SLOT_STATE_COUNT = SLOT_LOST + 1, SLOT_EVENT_COUNT = SLOT_CLEARED + 1 };

const char *slot_state_name(enum slot_state state);
const char *slot_event_name(enum slot_event event);

/* Appends the table, one move a line: "READY LEND LEASED". For tests and docs. */
void slot_table_render(struct strbuf *out);

/* The state after the event. False when the table has no such move; *ret_to is untouched then. */
bool slot_next_state(enum slot_state from, enum slot_event event, enum slot_state *ret_to);

#endif
