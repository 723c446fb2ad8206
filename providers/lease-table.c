/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "providers/lease-table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "config/settings.h"
#include "pool/events.h"
#include "pool/spool.h"

#define DRAINING_MARK "draining"

static int open_provider(struct lease_table *table, struct error *err)
{
	struct sandbox_provider_env env = {
		.loop = table->loop,
		.config = table->config,
		.journal = table->journal,
		.events = table->events,
		.lost = lease_handle_lost,
		.data = table,
	};
	const char *name = table->config->dressage.provider;

	table->ops = sandbox_provider_find(name);
	if (!table->ops)
		return error_set(err, EINVAL, "this version has no provider '%s'", name);
	return table->ops->open(&env, &table->provider, err);
}

/* Who took the node out of service has not put it back by starting the daemon again. */
static int drain_as_before(struct lease_table *table, struct error *err)
{
	int r = journal_has_mark(table->journal, DRAINING_MARK, &table->draining, err);

	if (r == 0 && table->draining && table->ops->drain)
		table->ops->drain(table->provider, true);
	return r;
}

static int open_spooler(struct lease_table *table, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;

	strbuf_addf(&path, "%s/spools", table->config->dressage.state_dir);
	if (strbuf_failed(&path))
		return error_set(err, ENOMEM, "no memory for a path");
	return spooler_create(table->loop, path.data, &table->spooler, err);
}

int lease_table_create(struct loop *loop, const struct config *config, struct journal *journal,
	struct events *events, const struct lease_hooks *hooks, struct lease_table **ret_table,
	struct error *err)
{
	struct lease_table *table = calloc(1, sizeof(*table));
	int r;

	if (!table)
		return error_set(err, ENOMEM, "no memory for the leases");
	table->loop = loop;
	table->config = config;
	table->journal = journal;
	table->events = events;
	if (hooks)
		table->hooks = *hooks;
	node_id(table->node_id);
	table->node_ip = config->pool.advertise_ip[0] ? config->pool.advertise_ip : "127.0.0.1";
	table->released = released_create(RELEASED_MAX, LEASE_REMEMBER_RELEASED_MS);
	if (!table->released)
		r = error_set(err, ENOMEM, "no memory for the leases");
	else
		r = lease_end_former(table, err);
	if (r == 0)
		r = open_spooler(table, err);
	if (r == 0)
		r = open_provider(table, err);
	if (r == 0)
		r = drain_as_before(table, err);
	if (r < 0) {
		lease_table_destroy(table);
		return r;
	}
	*ret_table = table;
	return 0;
}

void lease_table_destroy(struct lease_table *table)
{
	struct lease *lease, *next;

	if (!table)
		return;
	lease_creations_free(table);
	DL_FOREACH_SAFE (table->shown, lease, next)
		lease_forget(lease);
	if (table->ops)
		table->ops->close(table->provider);
	lease_execs_forget(table);
	DL_FOREACH_SAFE (table->ending, lease, next)
		lease_unref(lease); /* the provider's */
	spooler_destroy(table->spooler);
	released_destroy(table->released);
	free(table);
}

/* start and stop */

static void tell_started(struct lease_table *table, int r, const struct error *err)
{
	lease_done_fn *started = table->started;

	table->started = NULL;
	if (started)
		started(table->started_data, r, err);
}

static void handle_started(void *data, int r, const struct error *err)
{
	tell_started(data, r, err);
}

void lease_table_start(struct lease_table *table, lease_done_fn *started, void *data)
{
	table->started = started;
	table->started_data = data;
	table->ops->start(table->provider, handle_started, table);
}

static void handle_stopped(void *data, int r, const struct error *err)
{
	struct lease_table *table = data;
	lease_done_fn *done = table->done;

	table->provider_stopped = true;
	if (r < 0) {
		table->done = NULL;
		done(table->done_data, r, err);
		return;
	}
	lease_table_check_stopped(table);
}

void lease_table_check_stopped(struct lease_table *table)
{
	lease_done_fn *done = table->done;
	struct error err = ERROR_NONE;

	if (!table->stopping || table->creations || !done)
		return;
	if (!table->provider_told) {
		table->provider_told = true;
		table->ops->stop(table->provider, handle_stopped, table);
		return;
	}
	if (!table->provider_stopped || table->answers || table->cancelled || table->renderings ||
		table->open_execs)
		return;
	(void)error_reason(&err, EBUSY, REASON_STOPPING, "the daemon is stopping");
	tell_started(table, -EBUSY, &err); /* one that was still under way */
	table->done = NULL;
	done(table->done_data, 0, NULL);
}

void lease_table_stop(struct lease_table *table, lease_done_fn *stopped, void *data)
{
	assert(!table->stopping);
	table->stopping = true;
	table->done = stopped;
	table->done_data = data;
	lease_creations_stop(table);
	while (table->shown)
		lease_end(table->shown, REASON_STOPPING, NULL);
	lease_table_check_stopped(table);
}

/* drain */

static void handle_mark_written(void *data, int r, const struct error *err)
{
	(void)data;
	if (r < 0)
		log_warn("the next daemon will not know whether this one drained: %s", err->text);
}

void lease_table_drain(struct lease_table *table, bool drain)
{
	if (table->draining == drain || table->stopping)
		return;
	table->draining = drain;
	events_add(table->events, &(struct event){
					  .kind = "daemon",
					  .id = "dressagefs",
					  .from = drain ? "READY" : "DRAINING",
					  .to = drain ? "DRAINING" : "READY",
					  .reason = drain ? REASON_DRAINING : REASON_NONE,
				  });
	if (table->ops->drain)
		table->ops->drain(table->provider, drain);
	journal_put_mark(table->journal, DRAINING_MARK, drain, handle_mark_written, NULL);
}

bool lease_table_is_draining(const struct lease_table *table)
{
	return table->draining;
}

/* looking up */

struct pool *lease_table_pool(const struct lease_table *table)
{
	return table->ops->pool ? table->ops->pool(table->provider) : NULL;
}

const char *lease_table_node_id(const struct lease_table *table)
{
	return table->node_id;
}

struct lease *lease_find(const struct lease_table *table, const char *trajectory_id)
{
	struct lease *lease;

	HASH_FIND(by_trajectory, table->by_trajectory, trajectory_id, strlen(trajectory_id), lease);
	return lease;
}

struct lease *lease_find_id(const struct lease_table *table, const char *id)
{
	struct lease *lease = lease_find(table, id);

	if (lease)
		return lease;
	DL_FOREACH (table->shown, lease)
		if (!strcmp(lease->id, id))
			return lease;
	return NULL;
}

struct lease *lease_find_name(const struct lease_table *table, const char *name)
{
	char id[LEASE_NAME_MAX + 1];

	if (lease_name_decode(name, id, NULL) < 0)
		return NULL;
	return lease_find(table, id);
}

struct lease *lease_find_serial(const struct lease_table *table, uint64_t serial)
{
	struct lease *lease;

	HASH_FIND(by_serial, table->by_serial, &serial, sizeof(serial), lease);
	return lease;
}

struct lease *lease_next(const struct lease_table *table, const struct lease *after)
{
	struct lease *lease;

	if (!after)
		return table->shown;
	if (after->shown)
		return after->next;
	/* it has gone meanwhile: the first that is younger */
	DL_FOREACH (table->shown, lease)
		if (lease->serial > after->serial)
			return lease;
	return NULL;
}

unsigned lease_count_shown(const struct lease_table *table)
{
	return HASH_CNT(by_serial, table->by_serial);
}

unsigned lease_count(const struct lease_table *table, enum lease_state state)
{
	size_t remembered = released_count(table->released); /* with those still being reset */

	if (state != LEASE_RELEASED)
		return table->counts[state];
	if (remembered <= table->counts[LEASE_RELEASING])
		return 0;
	return (unsigned)remembered - table->counts[LEASE_RELEASING];
}

/* what a lease is */

uint64_t lease_serial(const struct lease *lease)
{
	return lease->serial;
}

const char *lease_id(const struct lease *lease)
{
	return lease->id;
}

const char *lease_trajectory(const struct lease *lease)
{
	return lease->spec.trajectory_id;
}

const char *lease_name(const struct lease *lease)
{
	return lease->name;
}

enum lease_state lease_state(const struct lease *lease)
{
	return lease->state;
}

enum reason lease_reason(const struct lease *lease)
{
	return lease->reason;
}

double lease_created_at(const struct lease *lease)
{
	return lease->created_at;
}

double lease_changed_at(const struct lease *lease)
{
	return lease->changed_at;
}

struct sandbox_root *lease_root(const struct lease *lease)
{
	return lease->box ? lease->box->root : NULL;
}
