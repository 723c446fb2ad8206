/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * journal.h: what must be known after the daemon has died: slots and leases, in SQLite, written by
 * a thread of its own.
 *
 * Rows are values copied at the call and committed in order, many to a transaction; committed()
 * runs on the loop when the row, and all before it, are on their way to disk. A reply that promises
 * something waits for it. A write that fails (disk full) is reported to committed() and nothing
 * later is lost by it. The state directory is locked (flock on `lock`) while the journal is open:
 * one daemon a directory. Threads: loop; SQLite is touched by the journal's thread only.
 */
#ifndef POOL_JOURNAL_H
#define POOL_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct error;
struct journal;
struct loop;

struct journal_slot {
	uint32_t slot, generation;
	const char *state;      /* slot_state_name() */
	pid_t pid;              /* init's on the host; 0: none, or of the machine's last boot */
	uint64_t pid_starttime; /* field 22 of /proc/<pid>/stat: tells a reused pid */
	const char *dir;        /* the slot's directory */
	const char *cgroup;     /* its cgroups, one a line; "" when there is none */
};

struct journal_lease {
	const char *lease_id, *trajectory_id, *state;
	const char *reason; /* "" while it lives */
	uint32_t slot, generation;
	double created_at; /* Unix seconds */
	double deadline;   /* Unix seconds; 0: none */
	const char *spec;  /* as JSON */
};

/* r is 0 or -errno with err filled. It may put further rows, but not close the journal. */
typedef void journal_committed_fn(void *data, int r, const struct error *err);
typedef void journal_slot_fn(void *data, const struct journal_slot *slot);
typedef void journal_lease_fn(void *data, const struct journal_lease *lease);

/* Opens or makes state_dir (0711) and its journal.db (0600). -EBUSY: another daemon has the
 * directory (the text says which pid). */
int journal_open(
	struct loop *loop, const char *state_dir, struct journal **ret_journal, struct error *err);
/* Waits for what was put, then closes and unlocks. committed() no longer runs. Accepts NULL. */
void journal_close(struct journal *journal);

/* Reads what an earlier daemon left. Waits for what was put before. Visits run inside the call and
 * put nothing. */
int journal_each_slot(
	struct journal *journal, journal_slot_fn *visit, void *data, struct error *err);
int journal_each_lease(
	struct journal *journal, journal_lease_fn *visit, void *data, struct error *err);
/* Whether the mark was set, by this daemon or an earlier one. Waits. */
int journal_has_mark(struct journal *journal, const char *name, bool *ret_set, struct error *err);
/* Forgets every row but the marks: what an earlier daemon left has been cleared. Waits. */
int journal_reset(struct journal *journal, struct error *err);

/* Writes the row, replacing the one of the same slot or lease. committed may be NULL. */
void journal_put_slot(struct journal *journal, const struct journal_slot *slot,
	journal_committed_fn *committed, void *data);
void journal_put_lease(struct journal *journal, const struct journal_lease *lease,
	journal_committed_fn *committed, void *data);
/* Forgets a lease. */
void journal_drop_lease(
	struct journal *journal, const char *lease_id, journal_committed_fn *committed, void *data);
/* Sets or clears what the daemon itself is to remember, such as "draining". */
void journal_put_mark(struct journal *journal, const char *name, bool set,
	journal_committed_fn *committed, void *data);

#endif
