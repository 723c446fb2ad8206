/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * exec.h: one command in a bubble: its pipes, its time, its end, its output.
 *
 *	exec_start() -> ended(result) -> gone()
 *
 * A command has ended when its leader was reaped and both output pipes are closed, or
 * EXEC_SETTLE_MS after the leader: a background child may hold them for ever. From then on its
 * spools are told that it has ended, and go on reading what comes late, until the child closes them
 * (gone) or the slot ends (exec_abandon()). Out of time, or cancelled, the whole
 * tree is killed: by its cgroup, else by init, which hunts for it (pool/init/hunt.c). When
 * something of it may have survived the result says kill_incomplete. Threads: loop.
 */
#ifndef POOL_EXEC_H
#define POOL_EXEC_H

#include <stdint.h>
#include <sys/types.h>

#include "pool/command.h"

struct bubble;
struct command_cgroup;
struct error;
struct exec;
struct loop;
struct spool;
struct word_list;

enum {
	EXEC_SETTLE_MS = 250,
	EXEC_GIVE_UP_MS = 5000, /* a killed command is reported after so long, dead or not; */
	EXEC_HUNT_MS = 900,     /* where there is no cgroup, after so long */
};

struct exec_options {
	struct loop *loop;
	struct bubble *bubble;
	const struct command *command; /* borrowed for the call */
	const char *const *env;        /* whole; borrowed for the call */
	const struct word_list *shell; /* borrowed for the call */
	/* empty, borrowed until gone() or exec_abandon(); NULL: none */
	struct command_cgroup *cgroup;
	bool memory_is_short; /* of its slot: it may be ended before it executes */
	uid_t uid;            /* who owns the pipes, so that /dev/stdout can be opened inside */
	gid_t gid;
	struct spool *out, *err; /* where its output goes; referenced; NULL: nowhere */
	/* TERM so long before KILL when it runs out of time; 0: KILL at once */
	uint64_t kill_grace_ms;
};

struct exec_hooks {
	/* Runs once. The result is the callee's as command_ended_fn says. */
	void (*ended)(void *data, struct command_result *result);
	/* After exec_feed() gave -EAGAIN: try again. Not after ended(). May be NULL. */
	void (*can_feed)(void *data);
	/* Nothing of it is left here; the exec is freed by whoever calls this. Not after
	 * exec_abandon(). */
	void (*gone)(void *data);
	void *data;
};

/* -errno: nothing runs, no hook is called. */
int exec_start(const struct exec_options *options, const struct exec_hooks *hooks,
	struct exec **ret_exec, struct error *err);
/* Kills the tree; ended() follows, later. Harmless after the end. */
void exec_cancel(struct exec *exec);
/*
 * More for its standard input, if the command has a stdin_pipe: how many bytes it took; -EAGAIN:
 * none now, can_feed() follows; -EPIPE: nobody reads it, or it has been ended.
 */
ssize_t exec_feed(struct exec *exec, const void *bytes, size_t size);
/* Its input ends behind what it was fed. Harmless twice. */
void exec_feed_end(struct exec *exec);
/* To its whole tree; without a cgroup to the process group of its leader. Or to the leader alone.
 * -ESRCH: it has ended. */
int exec_signal(struct exec *exec, int number, bool leader_only, struct error *err);
/* -ENOTTY: it has no terminal. */
int exec_resize(struct exec *exec, uint16_t rows, uint16_t cols, struct error *err);
/* The bubble is dead, or nobody waits any longer: ended() runs now if it has not yet, with the
 * output so far and this reason; the exec is freed. Accepts NULL. */
void exec_abandon(struct exec *exec, enum reason reason);
/* The same, telling nobody. Accepts NULL. */
void exec_destroy(struct exec *exec);

#endif
