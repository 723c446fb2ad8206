/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Slots of this machine's pool as sandboxes: everything that matters is in pool/. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/operation.h"
#include "base/strbuf.h"
#include "pool/pool.h"
#include "providers/sandbox-provider.h"

struct local {
	struct sandbox_provider_env env;
	struct pool *pool;
	struct local_box *
		*boxes; /* by slot; one that was given back stays until its slot is reusable */
	unsigned slot_count;
	uint64_t last_serial;
};

struct local_box {
	struct sandbox base; /* first */
	struct local *local;
	struct slot *slot;
	bool given_back;
	sandbox_gone_fn *gone;
	void *gone_data;
};

struct local_create {
	struct operation op; /* first */
	struct operation *lend;
	struct local *local;
	struct local_box
		*box; /* made beforehand, so that a slot that was lent is never without one */
	bool cancelled;
	sandbox_created_fn *done;
	void *data;
	unsigned port_count;
	uint16_t ports[]; /* of the spec's services */
};

/* what the pool says */

static void handle_slot_lost(void *data, struct slot *slot, const struct error *why)
{
	struct local *local = data;
	struct local_box *box = local->boxes[slot_view(slot).number];

	if (box && !box->given_back)
		local->env.lost(local->env.data, &box->base, why);
}

static bool is_being_reset(enum slot_state state)
{
	switch (state) {
	case SLOT_LEASED:
	case SLOT_LOST:
	case SLOT_RELEASING:
	case SLOT_RESETTING:
	case SLOT_RESTARTING:
		return true;
	case SLOT_EMPTY:
	case SLOT_STARTING:
	case SLOT_READY:
	case SLOT_FAILED:
	case SLOT_DEAD:
		break;
	}
	return false;
}

static void handle_slot_changed(void *data, struct slot *slot)
{
	struct local *local = data;
	struct slot_view view = slot_view(slot);
	struct local_box *box = local->boxes ? local->boxes[view.number] : NULL;

	if (!box || !box->given_back || is_being_reset(view.state))
		return;
	local->boxes[view.number] = NULL;
	if (box->gone)
		box->gone(box->gone_data);
	free(box);
}

/* a slot becomes a sandbox */

static int open_root(
	struct local *local, struct slot *slot, struct sandbox_root **ret_root, struct error *err)
{
	int r;

	if (slot_view(slot).state != SLOT_LEASED)
		return error_reason(err, ENOTCONN, REASON_SLOT_LOST,
			"slot %u died when it was lent", slot_view(slot).number);
	r = sandbox_root_create(slot_root_fd(slot), slot_pidfd(slot), slot_host_uid(slot),
		slot_host_gid(slot), ++local->last_serial, ret_root, err);
	if (r == 0)
		(*ret_root)->range = slot_host_range(slot);
	return r;
}

static int open_ports(const struct local_create *create, struct slot *slot, struct error *err)
{
	int r = 0;

	for (unsigned i = 0; i < create->port_count && r == 0; i++) {
		CLEANUP(strbuf_fini) struct strbuf url = STRBUF_INIT;

		r = slot_url(slot, create->ports[i], &url, err);
	}
	return r;
}

static int fill_box(const struct local_create *create, struct slot *slot, struct error *err)
{
	struct local_box *box = create->box;
	struct slot_view view = slot_view(slot);
	int r = open_ports(create, slot, err);

	if (r == 0)
		r = open_root(box->local, slot, &box->base.root, err);
	if (r < 0)
		return r;
	box->base.port = slot_own_port(slot);
	box->base.ops = &local_bwrap_ops;
	box->base.slot = view.number;
	box->base.generation = view.generation;
	box->slot = slot;
	return 0;
}

static void create_end(struct local_create *create, int r, const struct error *err)
{
	struct sandbox *box = r == 0 ? &create->box->base : NULL;

	if (r < 0)
		free(create->box);
	create->done(create->data, r, box, err);
	free(create);
}

static void handle_lent(void *data, int r, struct slot *slot, const struct error *failure)
{
	struct local_create *create = data;
	struct local *local = create->local;
	struct error err = failure ? *failure : ERROR_NONE;

	if (r == 0 && create->cancelled)
		r = error_reason(&err, ECANCELED, REASON_CANCELLED, "the request was cancelled");
	else if (r == 0)
		r = fill_box(create, slot, &err);
	if (r == 0)
		local->boxes[create->box->base.slot] = create->box;
	else if (slot)
		pool_return(local->pool, slot, err.reason ? err.reason : REASON_CANCELLED);
	create_end(create, r, r < 0 ? &err : NULL);
}

static void create_cancel(struct operation *op)
{
	struct local_create *create = (struct local_create *)op;

	create->cancelled = true;
	operation_cancel(create->lend);
}

static struct operation *local_bwrap_create(void *self, const struct sandbox_spec *spec,
	uint64_t wait_ms, sandbox_created_fn *done, void *data)
{
	struct local *local = self;
	struct local_create *create =
		calloc(1, sizeof(*create) + spec->service_count * sizeof(create->ports[0]));
	struct local_box *box = calloc(1, sizeof(*box));

	if (!create || !box)
		goto no_memory;
	box->local = local;
	create->op.cancel = create_cancel;
	create->local = local;
	create->box = box;
	create->done = done;
	create->data = data;
	for (; create->port_count < spec->service_count; create->port_count++)
		create->ports[create->port_count] = spec->services[create->port_count].port;
	create->lend = pool_lend(local->pool, spec->trajectory_id, sandbox_spec_image(spec),
		wait_ms, handle_lent, create);
	if (create->lend)
		return &create->op;
no_memory:
	free(create);
	free(box);
	return NULL;
}

static int local_bwrap_run(struct sandbox *base, const struct command_run *run,
	struct operation **ret_op, struct error *err)
{
	return slot_run(((struct local_box *)base)->slot, run, ret_op, err);
}

static void local_bwrap_destroy(
	struct sandbox *base, enum reason reason, sandbox_gone_fn *gone, void *data)
{
	struct local_box *box = (struct local_box *)base;

	if (!box)
		return;
	sandbox_root_unref(take_ptr(&box->base.root));
	box->base.lease = NULL;
	box->given_back = true;
	box->gone = gone;
	box->gone_data = data;
	pool_return(box->local->pool, box->slot, reason);
}

static int local_bwrap_url(
	struct sandbox *base, uint16_t port, struct strbuf *out, struct error *err)
{
	return slot_url(((struct local_box *)base)->slot, port, out, err);
}

/* the provider */

static void local_bwrap_close(void *self)
{
	struct local *local = self;

	if (!local)
		return;
	for (unsigned i = 0; local->boxes && i < local->slot_count; i++) {
		if (local->boxes[i])
			sandbox_root_unref(local->boxes[i]->base.root);
		free(local->boxes[i]);
	}
	free(local->boxes);
	local->boxes = NULL;
	pool_destroy(local->pool);
	free(local);
}

static int local_bwrap_open(
	const struct sandbox_provider_env *env, void **ret_self, struct error *err)
{
	struct pool_hooks hooks = {
		.slot_lost = handle_slot_lost,
		.slot_changed = handle_slot_changed,
	};
	struct local *local = calloc(1, sizeof(*local));
	int r;

	if (!local)
		return error_set(err, ENOMEM, "no memory for the pool");
	local->env = *env;
	hooks.data = local;
	r = pool_create(
		env->loop, env->config, env->journal, env->events, &hooks, &local->pool, err);
	if (r < 0)
		goto close;
	local->slot_count = pool_slot_count(local->pool);
	local->boxes = calloc(local->slot_count, sizeof(struct local_box *));
	if (!local->boxes) {
		r = error_set(err, ENOMEM, "no memory for the pool");
		goto close;
	}
	*ret_self = local;
	return 0;
close:
	local_bwrap_close(local);
	return r;
}

static void local_bwrap_start(void *self, provider_done_fn *started, void *data)
{
	pool_start(((struct local *)self)->pool, started, data);
}

static void local_bwrap_stop(void *self, provider_done_fn *stopped, void *data)
{
	pool_stop(((struct local *)self)->pool, stopped, data);
}

static void local_bwrap_drain(void *self, bool drain)
{
	pool_drain(((struct local *)self)->pool, drain);
}

static int local_bwrap_check(void *self, const struct sandbox_spec *spec, struct error *err)
{
	return sandbox_spec_check_local(spec, ((struct local *)self)->env.config, err);
}

static void local_bwrap_log(struct sandbox *base, enum slot_log which, struct strbuf *out)
{
	slot_log_render(((struct local_box *)base)->slot, which, out);
}

static struct pool *local_bwrap_pool(void *self)
{
	return ((struct local *)self)->pool;
}

const struct sandbox_provider_ops local_bwrap_ops = {
	.name = "local_bwrap",
	.capabilities = SANDBOX_COMMAND | SANDBOX_FILE,
	.open = local_bwrap_open,
	.close = local_bwrap_close,
	.start = local_bwrap_start,
	.stop = local_bwrap_stop,
	.drain = local_bwrap_drain,
	.check = local_bwrap_check,
	.create = local_bwrap_create,
	.run = local_bwrap_run,
	.feed = slot_run_feed,
	.feed_end = slot_run_feed_end,
	.signal = slot_run_signal,
	.resize = slot_run_resize,
	.destroy = local_bwrap_destroy,
	.log = local_bwrap_log,
	.url = local_bwrap_url,
	.pool = local_bwrap_pool,
};
