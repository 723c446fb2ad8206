/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * slot-limits.h: what a slot may use at most of memory, processes and processors, by the best
 * mechanism that this daemon can have: controllers of cgroup v2 that are delegated to it, else
 * cgroups of the first version where it may make some (root), else rlimits, which init sets in any
 * case.
 *
 *	limits_open() -> { slot_limits_create() -> starts, runs, dies -> slot_limits_discard() }
 *		-> limits_close()
 *
 * A slot's object is made before the slot starts. Whatever starts init joins the limits on
 * processes and processors, so that all of a slot is counted; the limit on memory is joined by
 * commands alone, so that init is never what the OOM killer chooses. Threads: loop, but for
 * slot_limits_create().
 */
#ifndef POOL_SLOT_LIMITS_H
#define POOL_SLOT_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "base/reason.h"
#include "pool/delegation.h"

struct cgroups;
struct config;
struct error;
struct limits;
struct slot_cgroup;
struct slot_limits;
struct strbuf;

/* Finds out once what can be had; logs what cannot. cgroups may be NULL (no cgroup v2). -ENOMEM. */
int limits_open(struct loop *loop, const struct config *config, struct cgroups *cgroups,
	struct limits **ret_limits, struct error *err);
/* After cgroups_close(). Kills what still lives in cgroups v1 of ours and removes them: blocks, 5 s
 * at most. Accepts NULL. */
void limits_close(struct limits *limits);

/* Whether our slots' cgroups v1 of some controller are in this one. */
bool limits_has_tree(const struct limits *limits, const char *path);
/* Removes what an earlier daemon left in our cgroups v1; counts it. -errno: something stays. */
int limits_clear(struct limits *limits, unsigned *ret_count, struct error *err);

enum limit_mechanism { LIMIT_NOT, LIMIT_RLIMIT, LIMIT_CGROUP1, LIMIT_CGROUP2 };

/* What is in force for memory, processes or processors; why is then "", else a sentence. RLIMIT is
 * known for processes alone. */
enum limit_mechanism limits_mechanism(
	const struct limits *limits, enum controller controller, const char **ret_why);

/* Frees what the pool's end leaves; limits_close() removes it. Accepts NULL. */
void slot_limits_free(struct slot_limits *slot);
/* Slots' limits given to slot_limits_discard() that still exist, and who wants to know of 0. */
unsigned limits_leaving(const struct limits *limits);
void limits_on_gone(struct limits *limits, loop_fn *fn, void *data);

/*
 * Beyond memory.high the kernel lets a process sleep 2 s for each 256 KiB that it takes: one that
 * goes on would be neither at work nor at its end for an hour. So a slot is slowed down for so
 * long; then it may go on to its memory_max, for so long at least and until it is below
 * memory_high.
 */
enum { LIMITS_SLOW_MS = 2000, LIMITS_LIFTED_MS = 20000 };

/* Sets the limits of a slot about to start. cgroup: its own of v2; NULL: none. Any thread. */
int slot_limits_create(const struct limits *limits, unsigned slot, uint32_t generation,
	const struct slot_cgroup *cgroup, struct slot_limits **ret_limits, struct error *err);
/* The slot is dead: removes them on a worker. Accepts NULL. */
void slot_limits_discard(struct limits *limits, struct slot_limits *slot);

/* `tasks` files that whatever starts init must join; theirs until slot_limits_joined(). */
const int *slot_limits_joins(const struct slot_limits *slot, unsigned *ret_count);
void slot_limits_joined(struct slot_limits *slot);
/* The slot runs: looks after its memory_high until slot_limits_discard(). */
void slot_limits_watch(struct limits *limits, struct slot_limits *slot);
/* The one that each command must join; -1: none. */
int slot_limits_commands_fd(const struct slot_limits *slot);
/* Appends the directories that the journal must know, each after a newline. */
void slot_limits_add_paths(const struct slot_limits *slot, struct strbuf *out);

/* So little is left of its memory that a command may be ended before it executes anything. */
bool slot_limits_memory_is_short(const struct slot_limits *slot);

/* How often the slot met its limits. */
struct limits_met {
	uint64_t oom;  /* processes that the OOM killer ended */
	uint64_t pids; /* forks refused */
};

/* Zeros where nobody counts. */
struct limits_met slot_limits_met(const struct slot_limits *slot);
/* Whether forks refused are counted. */
bool slot_limits_count_forks(const struct slot_limits *slot);

/*
 * What a command's result is to say of the limits that its slot met while it ran: REASON_OOM,
 * REASON_PIDS or REASON_NONE. Counters are a slot's: alone, nothing else of the slot lived
 * meanwhile; else only a command that failed is said to have been hit. Pure.
 */
enum reason limits_reason(
	struct limits_met before, struct limits_met after, bool alone, int returncode);

#endif
