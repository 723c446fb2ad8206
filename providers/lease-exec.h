/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * lease-exec.h: the commands of a lease, running and ended: what exec/ shows.
 *
 * Every command has a number, from 1, and stays to be looked at until it is removed, the lease is
 * gone, or [exec] keep others have ended after it; or when its output stands in the way of the
 * lease's spool_budget. Threads: loop, except the spools, which say their own.
 */
#ifndef PROVIDERS_LEASE_EXEC_H
#define PROVIDERS_LEASE_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "providers/lease.h"

struct lease_exec;
struct spool;

enum lease_exec_state {
	LEASE_EXEC_RUNNING,
	LEASE_EXEC_EXITED, /* by itself; also what could not be started (126, 127) */
	LEASE_EXEC_KILLED, /* by a signal, whoever sent it */
	LEASE_EXEC_LOST,   /* with its sandbox */
};
const char *lease_exec_state_name(enum lease_exec_state state);

enum lease_exec_stream { LEASE_EXEC_STDOUT, LEASE_EXEC_STDERR, LEASE_EXEC_STREAM_COUNT };

/* What lease_hooks.exec_changed() tells; several at once may be. */
enum lease_exec_change {
	LEASE_EXEC_CAME = 1u << 0,
	LEASE_EXEC_WENT = 1u << 1, /* removed: it is found no longer */
	LEASE_EXEC_OUT = 1u << 2,  /* stdout has grown, or has its end */
	LEASE_EXEC_ERR = 1u << 3,  /* the same of stderr */
	LEASE_EXEC_ENDED =
		1u << 4, /* state is final, both outputs are finished, the result is there */
	LEASE_EXEC_CAN_FEED = 1u << 5, /* after lease_exec_feed() gave -EAGAIN: try again */
};

/*
 * Starts a command, which is then found by its number at once; one that cannot execute shows that
 * as its end. The exec is borrowed: lease_exec_ref() it to keep it. -ENOTCONN, -ESTALE (the lease
 * can do nothing more), -EAGAIN (too many run), -ENOMEM, -EMFILE.
 */
int lease_exec_start(struct lease *lease, const struct command *command,
	struct lease_exec **ret_exec, struct error *err);
/* Kills its tree; the result then has reason cancelled. Harmless after the end. */
void lease_exec_cancel(struct lease_exec *exec);
/* Sends a signal to all of its tree (where it has no cgroup, to its leader's process group), or to
 * its leader alone. -ESRCH: it has ended. */
int lease_exec_signal(struct lease_exec *exec, int number, bool leader_only, struct error *err);
/* Of its terminal. -ENOTTY: it has none; -ESRCH: it has ended. */
int lease_exec_resize(struct lease_exec *exec, uint16_t rows, uint16_t cols, struct error *err);
/* Removes one that has ended. Who has it open may go on reading. -EBUSY: it runs. */
int lease_exec_remove(struct lease_exec *exec, struct error *err);

/*
 * Feeds its standard input, if it was started with command.stdin_pipe: how many bytes it took, or
 * -EAGAIN: none now, LEASE_EXEC_CAN_FEED follows; -EPIPE: it does not read, or has no such input,
 * or that has been closed.
 */
ssize_t lease_exec_feed(struct lease_exec *exec, const void *bytes, size_t size);
/* Its input ends here. Harmless twice. */
void lease_exec_feed_end(struct lease_exec *exec);
bool lease_exec_can_be_fed(const struct lease_exec *exec); /* there is an input that is open */

/* NULL when there is none. A serial is never used again by this daemon: for nodes. */
struct lease_exec *lease_exec_find(const struct lease *lease, uint32_t number);
struct lease_exec *lease_exec_find_serial(const struct lease_table *table, uint64_t serial);
/* All of a lease in order of their numbers: start with NULL. */
struct lease_exec *lease_exec_next(const struct lease *lease, const struct lease_exec *after);

/* A reference keeps the lease too, and the output. */
struct lease_exec *lease_exec_ref(struct lease_exec *exec);
void lease_exec_unref(struct lease_exec *exec);

struct lease *lease_exec_lease(const struct lease_exec *exec);
uint32_t lease_exec_number(const struct lease_exec *exec);
uint64_t lease_exec_serial(const struct lease_exec *exec);
/* As it was asked for, without its input and environment. */
const struct command *lease_exec_command(const struct lease_exec *exec);
enum lease_exec_state lease_exec_state(const struct lease_exec *exec);
double lease_exec_started_at(const struct lease_exec *exec); /* Unix seconds */
double lease_exec_ended_at(const struct lease_exec *exec);   /* 0: it runs */
/* Borrowed. */
struct spool *lease_exec_spool(const struct lease_exec *exec, enum lease_exec_stream which);

/* Appends `status`: one line of JSON. */
void lease_exec_render_status(const struct lease_exec *exec, struct strbuf *out);
/*
 * Renders the CommandResult of one that has ended, with the first max_output bytes of each stream.
 * done() runs once, before the call returns when that is little, else later, and then even after
 * the lease's end; a stop waits for it. The exec is kept until then. Not while it runs.
 */
void lease_exec_render_result(struct lease_exec *exec, lease_rendered_fn *done, void *data);

#endif
