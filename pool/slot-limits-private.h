/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * slot-limits-private.h: what the files of slot-limits.h share. slot-limits.c knows what can be had
 * and makes and removes a slot's limits, slot-limits-set.c sets them, slot-limits-met.c tells when
 * they are met, slot-limits-facts.c shows them.
 */
#ifndef POOL_SLOT_LIMITS_PRIVATE_H
#define POOL_SLOT_LIMITS_PRIVATE_H

#include "base/error.h"
#include "base/strbuf.h"
#include "pool/init/protocol.h"
#include "pool/slot-limits.h"

struct loop_timer;
struct loop_watch;

struct limits {
	struct loop *loop;
	const struct config *config;
	struct delegation *delegation;
	struct controlled {
		enum limit_mechanism mechanism;
		struct strbuf tree; /* of cgroup v1 */
		struct error why;   /* code 0: it is there */
	} by[CONTROLLER_COUNT];
	struct slot_limits *leaving;
	unsigned leaving_count;
	loop_fn *gone;
	void *data;
};

struct slot_limits {
	struct slot_limits *prev, *next; /* limits::leaving */
	struct limits *limits;           /* NULL: they are closed; the loop's */
	int joins[INIT_JOINS_MAX];
	unsigned join_count;
	int commands_fd, oom_fd, pids_fd;
	int usage_fd;  /* -1: memory is not limited */
	int high_fd;   /* memory.high; -1: none */
	uint64_t high; /* bytes */
	bool lifted;   /* for now there is none */
	struct loop_watch *watch;
	struct loop_timer *timer;
	uint64_t short_of;             /* bytes in use from which its memory is short */
	char *paths[CONTROLLER_COUNT]; /* of cgroup v1; NULL: none */
	bool left;
	struct error why;
};

/* What the mechanism of one controller enforces, set for a slot: in a cgroup v1 of that name, which
 * is made, or in its own of v2. Any thread. */
int slot_limits_set1(struct slot_limits *slot, enum controller controller, const char *name,
	const struct limits *limits, struct error *err);
int slot_limits_set2(struct slot_limits *slot, enum controller controller,
	const struct slot_cgroup *cgroup, const struct limits *limits, struct error *err);

void slot_limits_unwatch(struct slot_limits *slot);

#endif
