/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * events.h: what happened, one JSON line a state change, the last few thousand of commands and as
 * many of everything else kept in memory:
 *
 *	{"seq":N,"ts":unix seconds,"kind":"slot","id":"0003","from":"READY","to":"LEASED",
 *	 "reason":"","generation":7}
 *
 * and "why":"a sentence" where there is one. Each is also logged: at info, a command's at debug.
 * Who follows and is too slow for what is kept finds a line of kind "gap" with "missed":N where
 * lines are missing.
 * A command has one event, at its end: from RUNNING, or "" when it could not be started, to EXITED,
 * FAILED (to start), KILLED (by us, the reason says why) or LOST (with its slot). Threads: loop.
 */
#ifndef POOL_EVENTS_H
#define POOL_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"

struct error;
struct events;
struct metrics;
struct strbuf;

struct event {
	const char *kind; /* "slot", "lease", "exec", "daemon" */
	const char *id;   /* slot number as four digits, lease id, "0003/12": its 12th command */
	const char *from, *to; /* states; "" where there is none */
	enum reason reason;
	uint32_t generation; /* 0 where there is none */
	const char *why;     /* what the reason does not say; NULL or "" where there is nothing */
};

/* keep: lines of commands, and as many of everything else. */
int events_create(size_t keep, struct events **ret_events, struct error *err);
void events_destroy(struct events *events);

/* Calls fn after each new line; NULL: nobody. It must not add events. */
typedef void events_added_fn(void *data);
void events_on_add(struct events *events, events_added_fn *added, void *data);

void events_add(struct events *events, const struct event *event);
/* What is counted, for whoever makes things happen. */
struct metrics *events_metrics(struct events *events);
/* How many there were so far. */
uint64_t events_count(const struct events *events);

/* Appends the kept lines, oldest first. */
void events_render(const struct events *events, struct strbuf *out);
/*
 * Appends, until that is `most` bytes or more, the lines from *next_seq on (0: the oldest that is
 * kept) and sets it to the seq behind the last. Nothing is appended when there is nothing new.
 */
void events_read(const struct events *events, uint64_t *next_seq, size_t most, struct strbuf *out);

#endif
