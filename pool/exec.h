/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * exec.h: one command in a bubble: its pipes, its time, its end, its output.
 *
 *	exec_start() -> ended(result) -> gone()
 *
 * A command has ended when its leader was reaped and both output pipes are closed, or
 * EXEC_SETTLE_MS after the leader: a background child may hold them for ever. From then on what
 * still comes is dropped, so that the child goes on, if slowly, and does not die of SIGPIPE, until
 * it closes them (gone) or the slot ends (exec_abandon()). Out of time, or cancelled, the whole
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
struct word_list;

enum {
	EXEC_SETTLE_MS = 250,
	EXEC_GIVE_UP_MS = 5000, /* a killed command is reported after so long, dead or not; */
	EXEC_HUNT_MS = 900,     /* where there is no cgroup, after so long */
	EXEC_REST_MS = 50,      /* between two reads, of 64 KiB, of what comes after the end */
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
	uint64_t *output_budget; /* bytes that the running commands which share it may still keep */
	/* TERM so long before KILL when it runs out of time; 0: KILL at once */
	uint64_t kill_grace_ms;
};

struct exec_hooks {
	/* Runs once. The result is the callee's as command_ended_fn says. */
	void (*ended)(void *data, struct command_result *result);
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
/* The bubble is dead, or nobody waits any longer: ended() runs now if it has not yet, with the
 * output so far and this reason; the exec is freed. Accepts NULL. */
void exec_abandon(struct exec *exec, enum reason reason);
/* The same, telling nobody. Accepts NULL. */
void exec_destroy(struct exec *exec);

#endif
