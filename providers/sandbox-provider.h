/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sandbox-provider.h: one way of running sandboxes. Implementers read this; callers read sandbox.h
 * and lease.h.
 *
 *	open -> start -> { create -> run ... -> destroy } ... -> stop -> close
 *
 * Every call is made and completed on the loop and returns at once; nothing here blocks. A done()
 * runs once, later, never inside the call that was given it. An operation may be cancelled
 * (base/operation.h): what was half made is destroyed.
 */
#ifndef PROVIDERS_SANDBOX_PROVIDER_H
#define PROVIDERS_SANDBOX_PROVIDER_H

#include "pool/pool.h"
#include "providers/sandbox.h"

struct config;
struct error;
struct events;
struct journal;
struct loop;
struct operation;
struct pool;
struct sandbox;
struct sandbox_provider_ops;

/* What a provider is given at open; borrowed until close. */
struct sandbox_provider_env {
	struct loop *loop;
	const struct config *config;
	struct journal *journal;
	struct events *events;
	/* The sandbox has died under its lease. It stays the lease's until destroy. */
	void (*lost)(void *data, struct sandbox *box, const struct error *why);
	void *data;
};

/* First member of an implementation's own struct. */
struct sandbox {
	const struct sandbox_provider_ops *ops;
	char sandbox_id[256];      /* of a remote sandbox; "": the lease id is used */
	unsigned slot;             /* local only; UINT_MAX: none */
	uint32_t generation;       /* local only; 0: none */
	uint16_t port;             /* local only: its own on the host; 0: none */
	struct sandbox_root *root; /* NULL: its files are not on this machine */
	void *lease;               /* the lease table's */
};

/* A wait without an end of its own; added to a time it does not overflow. */
#define SANDBOX_WAIT ((uint64_t)INT64_MAX)

typedef void provider_done_fn(void *data, int r, const struct error *err);
typedef void sandbox_created_fn(void *data, int r, struct sandbox *box, const struct error *err);
typedef void sandbox_gone_fn(void *data);

struct sandbox_provider_ops {
	const char *name;      /* as written in the configuration */
	unsigned capabilities; /* enum sandbox_capability bits: data, not a failing call */

	int (*open)(const struct sandbox_provider_env *env, void **ret_self, struct error *err);
	void (*close)(void *self); /* accepts NULL */
	void (*start)(void *self, provider_done_fn *started, void *data);
	/* Every sandbox has been destroyed before; gone() of those still being reset runs before
	 * stopped(). */
	void (*stop)(void *self, provider_done_fn *stopped, void *data);

	/*
	 * Optional: while it drains it makes no new sandbox, and tells so (-EBUSY, draining) those
	 * that are in line; sandboxes that were made go on. The lease table asks for none then.
	 */
	void (*drain)(void *self, bool drain);

	/* Optional: refuses a spec that it can never serve, before anything is taken. */
	int (*check)(void *self, const struct sandbox_spec *spec, struct error *err);

	/*
	 * Makes a sandbox for the spec (borrowed for the call). wait_ms is 0 (now, or -EAGAIN) or
	 * SANDBOX_WAIT (in line, until it is cancelled; the lease table keeps the time). On success
	 * the box is the caller's until destroy; a box that comes after a cancel is destroyed by
	 * the provider.
	 */
	struct operation *(*create)(void *self, const struct sandbox_spec *spec, uint64_t wait_ms,
		sandbox_created_fn *done, void *data);
	/* As slot_run(). run->number is its number within the lease; of a box that has died it
	 * may also end as lost. */
	int (*run)(struct sandbox *box, const struct command_run *run, struct operation **ret_op,
		struct error *err);
	/* Optional, for what run() gave, until it has ended: as slot_run_feed() and the others. */
	ssize_t (*feed)(struct operation *op, const void *bytes, size_t size);
	void (*feed_end)(struct operation *op);
	int (*signal)(struct operation *op, int number, bool leader_only, struct error *err);
	int (*resize)(struct operation *op, uint16_t rows, uint16_t cols, struct error *err);
	/*
	 * Gives it back. Cannot fail: what cannot be killed now is remembered. Commands still
	 * running end as lost, with this reason. gone (may be NULL) runs once, later, when it is
	 * reusable. Accepts NULL.
	 */
	void (*destroy)(struct sandbox *box, enum reason reason, sandbox_gone_fn *gone, void *data);

	/* Optional: appends what its init and bwrap have said so far. */
	void (*log)(struct sandbox *box, enum slot_log which, struct strbuf *out);

	/*
	 * Optional: appends the URL of a port inside, which works from now on until destroy; those
	 * of the spec's services did not fail at create. -EOPNOTSUPP, -ENOTCONN, -EMFILE.
	 */
	int (*url)(struct sandbox *box, uint16_t port, struct strbuf *out, struct error *err);

	/* Optional: the pool behind it, for slots/ and status; NULL: it has none. */
	struct pool *(*pool)(void *self);
};

/* The implementation of that name, or NULL. registry.c is the only file that names them. */
const struct sandbox_provider_ops *sandbox_provider_find(const char *name);

extern const struct sandbox_provider_ops local_bwrap_ops, fake_ops;

#endif
