/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pool.h: a fixed set of warm slots, lent to one holder at a time. It knows who holds a slot, not
 * what a lease is.
 *
 *	pool_create() -> pool_start() -> pool_lend() / slot_run() / pool_return() ...
 *		-> pool_stop() -> pool_destroy()
 *
 * Slots start and reset by themselves, in parallel, off the lender's path; one that cannot start is
 * tried again with backoff (0.2 s to 30 s), for ever; one whose start hangs does not hold up the
 * others; there are never more than configured. Threads: loop. No
 * call blocks.
 */
#ifndef POOL_POOL_H
#define POOL_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/reason.h"
#include "pool/command.h"
#include "pool/slot.h"

struct config;
struct error;
struct events;
struct journal;
struct loop;
struct operation;
struct pool;
struct slot;
struct strbuf;

struct pool_hooks {
	/* A lent slot's init has died. It stays the holder's (LOST) until pool_return(). */
	void (*slot_lost)(void *data, struct slot *slot, const struct error *why);
	/* Any slot changed its state. May be NULL. */
	void (*slot_changed)(void *data, struct slot *slot);
	void *data;
};

/*
 * Takes over the state directory: what an earlier daemon left there (processes by journalled pid,
 * cgroups, directories) is cleared first and said in the log; that may take seconds. Config,
 * journal and events are borrowed until pool_destroy(). SIGPIPE is ignored from here on. -EBUSY:
 * another daemon uses the slot_dir.
 */
int pool_create(struct loop *loop, const struct config *config, struct journal *journal,
	struct events *events, const struct pool_hooks *hooks, struct pool **ret_pool,
	struct error *err);
/* Kills whatever still lives, without waiting for it in the loop; call pool_stop() first for a
 * clean end. Accepts NULL. */
void pool_destroy(struct pool *pool);

typedef void pool_done_fn(void *data, int r, const struct error *err);

/* Starts every slot. started() runs once: 0 when all are READY; -errno, with the first slot's
 * reason, when any failed its first start or `wait_ready_timeout` has passed (the others go on, and
 * are retried); -EBUSY when it is stopped meanwhile. */
void pool_start(struct pool *pool, pool_done_fn *started, void *data);
/* No new loans (-EBUSY, stopping); every slot is killed; stopped() runs when no process, cgroup or
 * directory is left, or, with the failures, when each step has had its time. Once. */
void pool_stop(struct pool *pool, pool_done_fn *stopped, void *data);

/* r 0: the slot is the holder's until pool_return(). Else slot is NULL and err says why. */
typedef void slot_lent_fn(void *data, int r, struct slot *slot, const struct error *err);

/*
 * Lends a READY slot to the holder (a trajectory id, copied), in order of asking. With an image
 * (a name of [images]; NULL: the default) the slot is first started again with that as its root,
 * which its next reset takes back; -EIO when it does not start so, -EINVAL (unknown_image). While
 * the same holder's former slot is still being reset, the request waits for that too. done() runs
 * once, later: 0; -EAGAIN (pool_exhausted) when wait_ms is 0 and nothing is free now; -ETIMEDOUT
 * (pool_exhausted) after wait_ms; -EBUSY (draining, stopping); -ECANCELED. A request that does not
 * wait takes any READY slot. NULL: there is no memory even for the request; done() does not run.
 */
struct operation *pool_lend(struct pool *pool, const char *holder, const char *image,
	uint64_t wait_ms, slot_lent_fn *done, void *data);

/* Gives a slot back, LEASED or LOST: it is killed, emptied and started again with the next
 * generation. Its commands end as lost with this reason. */
void pool_return(struct pool *pool, struct slot *slot, enum reason reason);

/* No new loans (-EBUSY, draining) until it is called with false. */
void pool_drain(struct pool *pool, bool drain);

/*
 * Kills a slot that nobody holds and starts it again, or tries one that broke without waiting for
 * its time; one that starts anyway is left alone. -ENOENT: no such slot; -EBUSY: it is lent, or the
 * pool is stopping.
 */
int pool_restart_slot(struct pool *pool, unsigned number, struct error *err);

/*
 * Runs a command in a lent slot. Cancelling kills its tree; the result then has reason cancelled.
 * The operation may be used until ended() has run. -ENOTCONN (slot_lost): the slot is dead already;
 * -EAGAIN (pids): 256 run; -ENOMEM, -EMFILE: ended() does not run.
 */
int slot_run(struct slot *slot, const struct command_run *run, struct operation **ret_op,
	struct error *err);
/* As exec_feed() and the others of exec.h, for what slot_run() gave. */
ssize_t slot_run_feed(struct operation *op, const void *bytes, size_t size);
void slot_run_feed_end(struct operation *op);
int slot_run_signal(struct operation *op, int number, bool leader_only, struct error *err);
int slot_run_resize(struct operation *op, uint16_t rows, uint16_t cols, struct error *err);

/*
 * Appends the URL under which the port inside a lent slot is reached from outside, and opens it if
 * it is not yet; it stays so until pool_return(). -EOPNOTSUPP (no network), -ENOTCONN (slot_lost),
 * -EMFILE.
 */
int slot_url(struct slot *slot, uint16_t port, struct strbuf *out, struct error *err);
/* The host port that is the slot's own: of the first port that is opened. 0: it has no network. */
uint16_t slot_own_port(const struct slot *slot);

/* What a slot is, for whoever shows it. Strings live until the next turn of the loop. */
struct slot_view {
	unsigned number;
	uint32_t generation;
	enum slot_state state;
	pid_t pid;              /* of init on the host; 0: none */
	const char *holder;     /* "" when not lent */
	const char *last_error; /* "" when there was none since it was last READY */
	double since;           /* Unix seconds of the last change of state */
	uint64_t last_pong_ms;  /* loop_now_ms() of the last sign of life */
	double last_pong_at;    /* the same in Unix seconds; 0: none yet */
	unsigned commands;      /* running now */
	unsigned failures;      /* starts that failed and deaths, in a row */
	bool failing;           /* it is down, or is tried again, and has not been READY since */
};

struct slot_view slot_view(const struct slot *slot);
/* What init and bwrap have said of this generation: lines with their time, the latest few KiB. */
enum slot_log { SLOT_LOG_INIT, SLOT_LOG_BWRAP, SLOT_LOG_COUNT };
void slot_log_render(const struct slot *slot, enum slot_log which, struct strbuf *out);
unsigned pool_slot_count(const struct pool *pool);
struct slot *pool_slot(const struct pool *pool, unsigned number); /* NULL when there is none */
unsigned pool_queue_length(const struct pool *pool);
bool pool_is_draining(const struct pool *pool);

/* One limit of a slot, for whoever shows it. Strings live for the call. */
struct slot_limit {
	const char *name;      /* as in the settings, where there is one */
	const char *value;     /* "2G"; "unlimited" */
	const char *mechanism; /* what enforces it; "" when nothing does */
	const char *why;       /* "" unless nothing does */
};

typedef void slot_limit_fn(void *data, const struct slot_limit *limit);
/* Every limit that there could be, in force or not, in the order to show them. */
void slot_each_limit(const struct slot *slot, slot_limit_fn *visit, void *data);
/* The same of those parts of its isolation that not every daemon or kernel can give; the value of
 * one that is not in force is "absent". */
void slot_each_isolation(const struct slot *slot, slot_limit_fn *visit, void *data);

/* The cgroup below which those of the slots are, "" when there are none; why not, "" when there
 * are. */
const char *pool_cgroups(const struct pool *pool);
const char *pool_cgroups_error(const struct pool *pool);

/* Files of a lent slot: see sandbox_root in providers/sandbox.h. -1 and 0 while it has no living
 * init. Borrowed. */
int slot_root_fd(const struct slot *slot);
int slot_pidfd(const struct slot *slot);
uid_t slot_host_uid(const struct slot *slot);
gid_t slot_host_gid(const struct slot *slot);
/* The first of its 65536 host ids, 0 to 65535 inside; 0: it has that uid and gid alone. */
uid_t slot_host_range(const struct slot *slot);

#endif
