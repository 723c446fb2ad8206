/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * lease.h: who has which sandbox, until when. One table for all providers.
 *
 * A lease belongs to one trajectory. Its life: (STARTING ->) ACTIVE -> RELEASING -> RELEASED, or
 * ACTIVE -> EXPIRED (its TTL passed) or LOST (its sandbox died). A released lease is gone from the
 * tree at once; EXPIRED and LOST ones stay to be looked at (an EXPIRED one for
 * LEASE_KEEP_EXPIRED_MS) until they are terminated or their trajectory is created again. Threads:
 * loop. No call blocks.
 */
#ifndef PROVIDERS_LEASE_H
#define PROVIDERS_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/pool.h"
#include "providers/sandbox.h"

struct config;
struct error;
struct events;
struct journal;
struct lease;
struct lease_exec;
struct lease_table;
struct loop;
struct operation;
struct pool;

enum { LEASE_KEEP_EXPIRED_MS = 600 * 1000, LEASE_REMEMBER_RELEASED_MS = 24 * 3600 * 1000 };

enum lease_state {
	LEASE_STARTING,
	LEASE_ACTIVE,
	LEASE_RELEASING,
	LEASE_RELEASED,
	LEASE_EXPIRED,
	LEASE_LOST
};
const char *lease_state_name(enum lease_state state);

struct lease_hooks {
	/* The lease appeared, changed state or went. May be NULL. */
	void (*changed)(void *data, struct lease *lease);
	/* A command of it: enum lease_exec_change, lease-exec.h. May be NULL. */
	void (*exec_changed)(void *data, struct lease_exec *exec, unsigned changes);
	void *data;
};

/* Ends, in events and memory, the leases that a daemon that died has left in the journal (reason
 * daemon_lost), and opens the provider that the configuration names (fake only in tests). */
int lease_table_create(struct loop *loop, const struct config *config, struct journal *journal,
	struct events *events, const struct lease_hooks *hooks, struct lease_table **ret_table,
	struct error *err);
/* After lease_table_stop(), or with the loop no longer running. References are given back before.
 * Accepts NULL. */
void lease_table_destroy(struct lease_table *table);

typedef void lease_done_fn(void *data, int r, const struct error *err);
void lease_table_start(struct lease_table *table, lease_done_fn *started, void *data);
/* Ends every lease (reason stopping), then the provider. */
void lease_table_stop(struct lease_table *table, lease_done_fn *stopped, void *data);
/* While it drains no new lease is made (-EBUSY, draining), those in line are told so, and leases
 * that are there go on. The journal remembers it: the next table on it begins so. Twice is
 * harmless. */
void lease_table_drain(struct lease_table *table, bool drain);
bool lease_table_is_draining(const struct lease_table *table);
struct pool *lease_table_pool(
	const struct lease_table *table); /* NULL when the provider has none */
/* This machine's, as in lease.json. */
const char *lease_table_node_id(const struct lease_table *table);

/* What went wrong, on r < 0, is in err. The lease is borrowed: lease_ref() it to keep it. */
typedef void lease_acquired_fn(void *data, int r, struct lease *lease, const struct error *err);

/*
 * `create`: the live lease of the spec's trajectory, or a new one. done() runs once, later, after
 * the journal has it: 0; -EEXIST (spec_differs); -EPROTOTYPE (mode_mismatch); -EINVAL
 * (unknown_image); -EAGAIN, -ETIMEDOUT, -EBUSY, -ECANCELED as pool_lend(). spec is borrowed for the
 * call.
 */
struct operation *lease_create(struct lease_table *table, const struct sandbox_spec *spec,
	lease_acquired_fn *done, void *data);
/* mkdir: a new lease now, or -EEXIST, -EAGAIN; never queues. */
struct operation *lease_create_now(struct lease_table *table, const struct sandbox_spec *spec,
	lease_acquired_fn *done, void *data);

/*
 * Ends a lease; a second end is harmless. The lease leaves the tree before the call returns.
 * Appends the JSON reply of `terminate` to reply (may be NULL).
 */
void lease_end(struct lease *lease, enum reason reason, struct strbuf *reply);
/* Why it is about to end, in its user's words (UTF-8; the first 255 bytes are kept): for the events
 * of that end. */
void lease_note_why(struct lease *lease, const char *why);
/* The same by trajectory or lease id: 0; -ENOENT for one never heard of; one released within the
 * last 24 h answers already_released. */
int lease_end_by_id(struct lease_table *table, const char *id, enum reason reason,
	struct strbuf *reply, struct error *err);

/* Seconds left; negative: no end, as while somebody holds it. */
double lease_seconds_left(const struct lease *lease);
double lease_deadline(const struct lease *lease); /* the same in Unix seconds; 0: no end */
/* Sets the end to now + seconds; does nothing while somebody holds the lease. -EINVAL unless > 0;
 * -ENOTCONN for a LOST lease, -ESTALE for one that has ended. */
int lease_renew(struct lease *lease, double seconds, struct error *err);

/*
 * Somebody holds the lease: until the last holder lets go it has no end of its own, whatever TTL it
 * had, and then it is released (hold_released) after [pool] hold_grace, unless it is held or
 * renewed again before. Errors as lease_check_active(). Pairs with lease_let_go(), which is
 * harmless for a lease that has ended meanwhile.
 */
int lease_hold(struct lease *lease, struct error *err);
void lease_let_go(struct lease *lease);
unsigned lease_holders(const struct lease *lease);

/* The services of its spec, from 0; NULL behind the last one. */
const struct sandbox_service *lease_service(const struct lease *lease, unsigned number);
/*
 * Appends the URL under which a port inside is reached, and opens it if it is not open yet, until
 * the lease's end. -EOPNOTSUPP: the sandbox has no network; as lease_check_active(); -EMFILE.
 */
int lease_url(struct lease *lease, uint16_t port, struct strbuf *out, struct error *err);

/* Why the lease can do nothing more: -ENOTCONN (LOST), -ESTALE (ended); 0 when it can. */
int lease_check_active(const struct lease *lease, struct error *err);
/* Runs a command. Errors as slot_run(), and -ESTALE (ended), -ENOTCONN (LOST, with the reason). */
struct operation *lease_run(
	struct lease *lease, const struct command *command, command_ended_fn *done, void *data);
/* Appends CommandResult JSON and a newline. */
void lease_render_result(const struct lease *lease, const struct command *command,
	const struct command_result *result, struct strbuf *out);
/* r 0, or -ENOMEM with err filled. The reply may be moved out of *reply. */
typedef void lease_rendered_fn(void *data, int r, struct strbuf *reply, const struct error *err);
/*
 * The same without keeping the loop: done() runs once, before the call returns when the result is
 * small, else later. A stop waits for it. Command and result are taken over (emptied) if so.
 */
void lease_render_result_later(struct lease *lease, struct command *command,
	struct command_result *result, lease_rendered_fn *done, void *data);

/* Lookups give NULL when there is none. By serial is for nodes: a serial is never used again. */
struct lease *lease_find(const struct lease_table *table, const char *trajectory_id);
/* By trajectory or lease id. */
struct lease *lease_find_id(const struct lease_table *table, const char *id);
struct lease *lease_find_name(const struct lease_table *table, const char *name);
struct lease *lease_find_serial(const struct lease_table *table, uint64_t serial);
/* All that show in leases/, in order of creation: start with NULL. */
struct lease *lease_next(const struct lease_table *table, const struct lease *after);
/* How many these are. */
unsigned lease_count_shown(const struct lease_table *table);
unsigned lease_count(const struct lease_table *table, enum lease_state state);

/* Counted references, so that an open control file can deliver its reply after the lease's end. */
struct lease *lease_ref(struct lease *lease);
void lease_unref(struct lease *lease);

uint64_t lease_serial(const struct lease *lease);
const char *lease_id(const struct lease *lease);
const char *lease_trajectory(const struct lease *lease);
const char *lease_name(const struct lease *lease); /* directory name: lease-name.h */
enum lease_state lease_state(const struct lease *lease);
enum reason lease_reason(const struct lease *lease);
double lease_created_at(const struct lease *lease);         /* Unix seconds */
double lease_changed_at(const struct lease *lease);         /* of its last change of state */
struct sandbox_root *lease_root(const struct lease *lease); /* borrowed; NULL: none (any more) */
/* Appends what init and bwrap said of its sandbox, up to its end. */
void lease_render_log(const struct lease *lease, enum slot_log which, struct strbuf *out);
/* Appends lease.json. */
void lease_render(const struct lease *lease, struct strbuf *out);

#endif
