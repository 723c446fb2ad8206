/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * metrics.h: what the daemon counts since its start, for `metrics`.
 *
 * Plain numbers without a lock: the loop alone writes and reads them. Each is written at one place,
 * where the state it is about changes. What can be looked up when somebody asks (slots by state,
 * the queue) is not counted here. Threads: loop.
 */
#ifndef POOL_METRICS_H
#define POOL_METRICS_H

#include <stdint.h>

#include "base/reason.h"
#include "pool/slot.h"

struct command_result;

/* How a command ended, as the label `result`. */
enum command_end {
	COMMAND_OK,        /* returncode 0 */
	COMMAND_NONZERO,   /* any other, signals of its own included */
	COMMAND_NOT_FOUND, /* it could not be started: 126 or 127 */
	COMMAND_KILLED,    /* by us: the reason says why */
	COMMAND_LOST,      /* with its slot */
	COMMAND_REFUSED,   /* it never reached a slot */
	COMMAND_END_COUNT
};

enum create_end { CREATE_OK, CREATE_FAILED, CREATE_END_COUNT };

enum { HISTOGRAM_BOUNDS = 16 };

/* Upper bounds of the buckets, in seconds, the same for all; above the last one is +Inf. */
extern const double histogram_bounds[HISTOGRAM_BOUNDS];

struct histogram {
	uint64_t buckets[HISTOGRAM_BOUNDS + 1]; /* each for itself, not cumulated */
	double sum;
};

struct metrics {
	uint64_t slot_states[SLOT_STATE_COUNT];           /* how often one was reached */
	uint64_t creates[CREATE_END_COUNT][REASON_COUNT]; /* answers to create and mkdir */
	uint64_t lease_ends[REASON_COUNT];                /* leases that stopped being ACTIVE */
	uint64_t commands[COMMAND_END_COUNT][REASON_COUNT];
	uint64_t stdout_bytes, stderr_bytes; /* of commands that have ended */
	struct histogram command_seconds, create_seconds, slot_start_seconds, slot_reset_seconds;
};

const char *command_end_word(enum command_end end);
const char *create_end_word(enum create_end end);

void histogram_add(struct histogram *histogram, double seconds);

/* The end of a command; NULL: it never reached a slot, and this is why. */
void metrics_add_command(
	struct metrics *metrics, const struct command_result *result, enum reason refused);
/* What one that has ended has written. */
void metrics_add_output(struct metrics *metrics, const struct command_result *result);
/* An answer to a create, r as it was told, after so many milliseconds. */
void metrics_add_create(struct metrics *metrics, int r, enum reason reason, uint64_t waited_ms);

#endif
