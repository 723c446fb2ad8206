/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "providers/lease.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "pool/events.h"
#include "pool/metrics.h"
#include "pool/spool.h"
#include "providers/lease-exec-private.h"
#include "providers/lease-table.h"

static const char *const state_names[] = {
	[LEASE_STARTING] = "STARTING",
	[LEASE_ACTIVE] = "ACTIVE",
	[LEASE_RELEASING] = "RELEASING",
	[LEASE_RELEASED] = "RELEASED",
	[LEASE_EXPIRED] = "EXPIRED",
	[LEASE_LOST] = "LOST",
};

const char *lease_state_name(enum lease_state state)
{
	return state_names[state];
}

struct lease *lease_ref(struct lease *lease)
{
	lease->refs++;
	return lease;
}

void lease_unref(struct lease *lease)
{
	if (!lease || --lease->refs)
		return;
	loop_timer_stop(lease->timer);
	sandbox_spec_fini(&lease->spec);
	lease_drop_logs(lease);
	spool_account_close(lease->account); /* of one that was never shown */
	free(lease->spec_text);
	free(lease);
}

/* the row, the events, the state */

void lease_write_row(struct lease *lease, journal_committed_fn *committed, void *data)
{
	struct journal_lease row = {
		.lease_id = lease->id,
		.trajectory_id = lease->spec.trajectory_id,
		.state = lease_state_name(lease->state),
		.reason = reason_word(lease->reason),
		.slot = lease->slot,
		.generation = lease->generation,
		.created_at = lease->created_at,
		.deadline = lease->deadline,
		.spec = lease->spec_text,
	};

	journal_put_lease(lease->table->journal, &row, committed, data);
}

static void tell(const struct lease *lease, const char *from)
{
	struct event event = {
		.kind = "lease",
		.id = lease->id,
		.from = from,
		.to = lease_state_name(lease->state),
		.reason = lease->reason,
		.generation = lease->generation,
		.why = lease->why,
	};

	events_add(lease->table->events, &event);
	if (lease->table->hooks.changed)
		lease->table->hooks.changed(lease->table->hooks.data, (struct lease *)lease);
}

void lease_set_state(struct lease *lease, enum lease_state to, enum reason reason)
{
	const char *from = lease_state_name(lease->state);

	lease->table->counts[lease->state]--;
	lease->table->counts[to]++;
	if (lease->state == LEASE_ACTIVE)
		events_metrics(lease->table->events)->lease_ends[reason]++;
	lease->state = to;
	lease->reason = reason;
	lease->changed_at = unix_now();
	if (to == LEASE_RELEASED)
		journal_drop_lease(lease->table->journal, lease->id, NULL, NULL);
	else
		lease_write_row(lease, NULL, NULL);
	tell(lease, from);
}

/* its end */

static struct released_lease memory_of(const struct lease *lease)
{
	return (struct released_lease){
		.lease_id = lease->id,
		.trajectory_id = lease->spec.trajectory_id,
		.slot = lease->slot,
		.generation = lease->generation,
		.reusable = lease->reusable,
	};
}

static void hide(struct lease *lease)
{
	struct lease_table *table = lease->table;
	struct released_lease memory = memory_of(lease);

	HASH_DELETE(by_trajectory, table->by_trajectory, lease);
	HASH_DELETE(by_serial, table->by_serial, lease);
	DL_DELETE(table->shown, lease);
	lease->shown = false;
	if (!lease->reusable)
		DL_APPEND(table->ending, lease);
	released_add(table->released, &memory, lease_clock_ms(table));
}

static void handle_gone(void *data)
{
	struct lease *lease = data;

	lease->reusable = true;
	if (!lease->shown)
		DL_DELETE(lease->table->ending, lease);
	released_set_reusable(lease->table->released, lease->id);
	if (lease->state == LEASE_RELEASING)
		lease_set_state(lease, LEASE_RELEASED, lease->reason);
	lease_unref(lease);
}

void lease_give_back(struct lease *lease, enum reason reason)
{
	struct sandbox *box = lease->box;

	lease_keep_logs(lease);
	lease->box = NULL;
	if (box->root)
		atomic_store(&box->root->ended, true);
	lease->table->ops->destroy(box, reason, handle_gone, lease_ref(lease));
}

/* Takes a shown lease out of the tree and out of use. */
static void end_shown(struct lease *lease, enum reason reason)
{
	loop_timer_stop(lease->timer);
	lease->timer = NULL;
	hide(lease);
	if (lease->box) {
		lease_set_state(lease, LEASE_RELEASING, reason);
		lease_give_back(lease, reason);
	} else {
		lease_set_state(lease, LEASE_RELEASED, lease->reason);
	}
	lease_execs_drop(lease);
}

void lease_forget(struct lease *lease)
{
	struct sandbox *box = take_ptr(&lease->box);

	if (box && box->root)
		atomic_store(&box->root->ended, true);
	lease->table->ops->destroy(box, REASON_STOPPING, NULL, NULL);
	lease->reusable = lease->reusable || box; /* nobody tells us */
	hide(lease);
	lease_execs_drop(lease);
	lease_unref(lease);
}

void lease_end(struct lease *lease, enum reason reason, struct strbuf *reply)
{
	bool already = !lease->box;
	struct released_lease memory = memory_of(lease);

	if (reply)
		lease_render_end(lease->table, &memory, already, reply);
	if (!lease->shown)
		return;
	end_shown(lease, reason);
	lease_unref(lease); /* the table's */
}

void lease_note_why(struct lease *lease, const char *why)
{
	size_t size = strnlen(why, sizeof(lease->why) - 1);

	if (!lease->shown)
		return;
	size = utf8_valid_prefix(why, size); /* not cut within a character */
	memcpy(lease->why, why, size);
	lease->why[size] = '\0';
}

int lease_end_by_id(struct lease_table *table, const char *id, enum reason reason,
	struct strbuf *reply, struct error *err)
{
	struct lease *lease = lease_find_id(table, id);
	const struct released_lease *released;

	if (lease) {
		lease_end(lease, reason, reply);
		return 0;
	}
	released = released_find(table->released, id, lease_clock_ms(table));
	if (!released)
		return error_set(err, ENOENT,
			"no lease '%.300s': no trajectory or lease id that is live or ended within "
			"the last 24 hours",
			id);
	if (reply)
		lease_render_end(table, released, true, reply);
	return 0;
}

/* its loss */

void lease_handle_lost(void *data, struct sandbox *box, const struct error *why)
{
	struct lease *lease = box->lease;

	(void)data;
	if (!lease || lease->state != LEASE_ACTIVE)
		return;
	(void)snprintf(lease->why, sizeof(lease->why), "%.255s", why->text);
	lease_set_state(lease, LEASE_LOST, why->reason ? why->reason : REASON_SLOT_LOST);
}

int lease_check_active(const struct lease *lease, struct error *err)
{
	switch (lease->state) {
	case LEASE_STARTING:
	case LEASE_ACTIVE:
		return 0;
	case LEASE_LOST:
		return error_reason(err, ENOTCONN, lease->reason,
			"the sandbox of '%.100s' is lost: %s; end the lease to get a new one",
			lease->spec.trajectory_id, lease->why);
	case LEASE_RELEASING:
	case LEASE_RELEASED:
	case LEASE_EXPIRED:
		break;
	}
	return error_reason(err, ESTALE, lease->reason, "the lease of '%.100s' has ended: %s",
		lease->spec.trajectory_id, reason_meaning(lease->reason));
}

/* its beginning */

static void safe_copy(const char *text, size_t max, char *ret_copy)
{
	size_t i;

	for (i = 0; i < max && text[i]; i++) {
		char c = text[i];
		bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			    (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';

		ret_copy[i] = '_';
		if (safe)
			ret_copy[i] = c;
	}
	ret_copy[i] = '\0';
}

static void make_id(struct lease *lease)
{
	char trajectory[33];
	uint32_t random = 0;

	safe_copy(lease->spec.trajectory_id, sizeof(trajectory) - 1, trajectory);
	(void)getrandom(&random, sizeof(random), 0);
	(void)snprintf(lease->id, sizeof(lease->id), "lease-%.12s-%04u-gen%u-%s-%08x",
		lease->table->node_id, lease->slot == UINT32_MAX ? 0 : lease->slot,
		lease->generation, trajectory, random);
}

static int show(struct lease *lease, struct error *err)
{
	struct lease_table *table = lease->table;
	const char *trajectory = lease->spec.trajectory_id;

	HASH_ADD_KEYPTR(by_trajectory, table->by_trajectory, trajectory, strlen(trajectory), lease);
	if (!lease->by_trajectory.tbl)
		return error_set(err, ENOMEM, "no memory for the lease");
	HASH_ADD(by_serial, table->by_serial, serial, sizeof(lease->serial), lease);
	if (!lease->by_serial.tbl) {
		HASH_DELETE(by_trajectory, table->by_trajectory, lease);
		return error_set(err, ENOMEM, "no memory for the lease");
	}
	DL_APPEND(table->shown, lease);
	lease->shown = true;
	return 0;
}

/* Everything that can fail. The lease has its spec already. */
static int prepare(struct lease *lease, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	const char *trajectory = lease->spec.trajectory_id;
	int r;

	r = lease_name_encode(trajectory, strlen(trajectory), lease->name, err);
	if (r < 0)
		return r;
	sandbox_spec_render(&lease->spec, &text);
	lease->spec_text = strbuf_take(&text, NULL);
	if (!lease->spec_text)
		return error_set(err, ENOMEM, "no memory for the lease");
	r = lease_execs_begin(lease, err);
	if (r == 0)
		r = lease_time_begin(lease, err);
	if (r < 0)
		return r;
	return show(lease, err);
}

int lease_make(struct lease_table *table, struct sandbox_spec *spec, struct sandbox *box,
	struct lease **ret_lease, struct error *err)
{
	struct lease *lease = calloc(1, sizeof(*lease));
	int r;

	if (!lease)
		return error_set(err, ENOMEM, "no memory for the lease");
	lease->refs = 1;
	lease->table = table;
	lease->serial = ++table->last_serial;
	lease->spec = *spec;
	*spec = (struct sandbox_spec){0};
	(void)snprintf(lease->sandbox_id, sizeof(lease->sandbox_id), "%s", box->sandbox_id);
	lease->slot = box->slot;
	lease->generation = box->generation;
	lease->port = box->port;
	lease->state = LEASE_ACTIVE;
	lease->created_at = lease->changed_at = unix_now();
	make_id(lease);
	r = prepare(lease, err);
	if (r < 0) {
		lease_unref(lease);
		return r;
	}
	lease->box = box;
	box->lease = lease;
	table->counts[LEASE_ACTIVE]++;
	tell(lease, "");
	*ret_lease = lease;
	return 0;
}

/* running commands in it */

static size_t count_env(const struct sandbox_spec *spec, char *const *own)
{
	size_t count = (size_t)(spec->env ? cJSON_GetArraySize(spec->env) : 0);

	while (own && *own++)
		count++;
	return count;
}

/* The spec's variables, then the command's own, which come last and so override them. Only the
 * former are copies. */
static int merge_env(const struct sandbox_spec *spec, const struct command *command,
	char ***ret_env, size_t *ret_copies)
{
	char **env = calloc(count_env(spec, command->env) + 1, sizeof(*env));
	size_t count = 0;
	const cJSON *item;

	*ret_copies = 0;
	*ret_env = env;
	if (!env)
		return -ENOMEM;
	cJSON_ArrayForEach (item, spec->env) {
		if (asprintf(&env[count], "%s=%s", item->string, item->valuestring) < 0)
			return -ENOMEM;
		*ret_copies = ++count;
	}
	for (char *const *own = command->env; own && *own; own++)
		env[count++] = *own;
	return 0;
}

int lease_provider_run(struct lease *lease, const struct command_run *run,
	struct operation **ret_op, struct error *err)
{
	struct command full = *run->command;
	struct command_run with_env = *run;
	size_t copies;
	int r;

	if (!lease->spec.env)
		return lease->table->ops->run(lease->box, run, ret_op, err);
	r = merge_env(&lease->spec, run->command, &full.env, &copies);
	with_env.command = &full;
	if (r == 0)
		r = lease->table->ops->run(lease->box, &with_env, ret_op, err);
	else
		(void)error_set(err, ENOMEM, "no memory for a command's environment");
	for (size_t i = 0; i < copies; i++)
		free(full.env[i]);
	free(full.env);
	return r;
}
