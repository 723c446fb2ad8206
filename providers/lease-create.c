/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/settings.h"
#include "pool/events.h"
#include "pool/metrics.h"
#include "providers/lease-table.h"

/* answers that were known at once */

static void answer_free(struct lease_answer *answer)
{
	DL_DELETE(answer->table->answers, answer);
	lease_unref(answer->lease);
	free(answer);
}

static void count_create(
	const struct lease_table *table, int r, const struct error *err, uint64_t waited_ms)
{
	metrics_add_create(
		events_metrics(table->events), r, r < 0 ? err->reason : REASON_NONE, waited_ms);
}

static void answer_tell(void *data)
{
	struct lease_answer *answer = data;
	struct lease_table *table = answer->table;
	const struct error *err = answer->r < 0 ? &answer->err : NULL;

	if (answer->acquired)
		count_create(table, answer->r, err, 0);
	if (answer->ended)
		answer->ended(answer->data, answer->r, NULL, err);
	else
		answer->acquired(answer->data, answer->r, answer->lease, err);
	answer_free(answer);
	lease_table_check_stopped(table);
}

static void answer_cancel(struct operation *op)
{
	(void)op; /* its end is on its way */
}

struct operation *lease_answer_later(struct lease_table *table, const struct lease_answer *answer)
{
	struct lease_answer *kept = malloc(sizeof(*kept));

	if (!kept)
		return NULL;
	*kept = *answer;
	kept->table = table;
	kept->op.cancel = answer_cancel;
	kept->task = (struct loop_task){.fn = answer_tell, .data = kept};
	if (kept->lease)
		lease_ref(kept->lease);
	DL_APPEND(table->answers, kept);
	loop_post(table->loop, &kept->task);
	return &kept->op;
}

/* waiters */

static struct lease_waiter **waiter_list(struct lease_waiter *waiter)
{
	return waiter->creation ? &waiter->creation->waiters : &waiter->table->cancelled;
}

static void waiter_free(struct lease_waiter *waiter)
{
	DL_DELETE(*waiter_list(waiter), waiter);
	loop_timer_stop(waiter->timer);
	free(waiter);
}

static void waiter_tell(
	struct lease_waiter *waiter, int r, struct lease *lease, const struct error *err)
{
	lease_acquired_fn *done = waiter->done;
	void *data = waiter->data;

	count_create(waiter->table, r, err, loop_now_ms() - waiter->asked_ms);
	waiter_free(waiter);
	done(data, r, lease, err);
}

/* When nobody wants it any more, what is half made is undone: at once, or when the provider has
 * answered. */
static void cancel_if_unwanted(struct lease_creation *creation)
{
	if (!creation->waiters && creation->op)
		operation_cancel(creation->op);
}

static void waiter_cancel(struct operation *op)
{
	struct lease_waiter *waiter = (struct lease_waiter *)op;
	struct lease_creation *creation = waiter->creation;

	if (!creation)
		return; /* cancelled before */
	DL_DELETE(creation->waiters, waiter);
	waiter->creation = NULL;
	DL_APPEND(waiter->table->cancelled, waiter);
	loop_timer_restart(waiter->timer, 0);
	cancel_if_unwanted(creation);
}

/* Its time has passed, or it was cancelled. */
static void handle_waiter_timer(void *data)
{
	struct lease_waiter *waiter = data;
	struct lease_creation *creation = waiter->creation;
	struct lease_table *table = waiter->table;
	struct error err = ERROR_NONE;

	if (!creation)
		error_reason(&err, ECANCELED, REASON_CANCELLED, "the request was cancelled");
	else if (waiter->wait_ms)
		error_reason(&err, ETIMEDOUT, REASON_POOL_EXHAUSTED,
			"no sandbox came free within %g s", (double)waiter->wait_ms / 1000);
	else
		error_reason(&err, EAGAIN, REASON_POOL_EXHAUSTED,
			"no sandbox is free; others wait in line");
	waiter_tell(waiter, -err.code, NULL, &err);
	if (creation)
		cancel_if_unwanted(creation);
	else
		lease_table_check_stopped(table);
}

/* Lets the waiter wait for the creation. Only one who came later needs a clock when it does not
 * want to wait. */
static struct lease_waiter *waiter_add(
	struct lease_creation *creation, const struct lease_waiter *like, uint64_t timer_ms)
{
	struct lease_waiter *waiter = malloc(sizeof(*waiter));

	if (!waiter)
		return NULL;
	*waiter = *like;
	waiter->op.cancel = waiter_cancel;
	waiter->creation = creation;
	if (loop_timer_start(waiter->table->loop, timer_ms, handle_waiter_timer, waiter,
		    &waiter->timer, NULL) < 0) {
		free(waiter);
		return NULL;
	}
	DL_APPEND(creation->waiters, waiter);
	return waiter;
}

/* creations */

static void creation_free(struct lease_creation *creation)
{
	sandbox_spec_fini(&creation->spec);
	free(creation->trajectory);
	lease_unref(creation->lease);
	free(creation);
}

static void tell_waiter(struct lease_waiter *waiter, struct lease *lease)
{
	struct error err = ERROR_NONE;
	int r = lease_check_active(lease, &err); /* one who was told before may have ended it */

	if (r == 0 && waiter->exclusive && !waiter->first)
		r = error_set(&err, EEXIST, "there is a lease of '%.100s' already",
			lease->spec.trajectory_id);
	waiter_tell(waiter, r, r < 0 ? NULL : lease, r < 0 ? &err : NULL);
}

/* The creation is over: everyone hears of it. From here on a new request begins a new one. */
static void creation_finish(struct lease_creation *creation, int r, const struct error *err)
{
	struct lease_table *table = creation->table;

	HASH_DEL(table->creations, creation);
	while (creation->waiters) {
		if (r < 0)
			waiter_tell(creation->waiters, r, NULL, err);
		else
			tell_waiter(creation->waiters, creation->lease);
	}
	creation_free(creation);
	lease_table_check_stopped(table);
}

static void creation_finish_stopping(struct lease_creation *creation)
{
	struct error err = ERROR_NONE;
	int r = error_reason(&err, EBUSY, REASON_STOPPING, "the daemon is stopping");

	creation_finish(creation, r, &err);
}

static void handle_committed(void *data, int r, const struct error *failure)
{
	struct lease_creation *creation = data;
	struct error err = failure ? *failure : ERROR_NONE;

	if (creation->table->stopping) {
		creation_finish_stopping(creation);
		return;
	}
	if (r < 0) {
		lease_end(creation->lease, REASON_DISK_FULL, NULL);
		(void)error_wrap(&err, "the lease could not be written down");
	} else if (!creation->waiters) {
		lease_end(creation->lease, REASON_CANCELLED, NULL);
	}
	creation_finish(creation, r, &err);
}

/* The sandbox is here: a lease is made of it, and told once its row is committed. */
static int creation_take(struct lease_creation *creation, struct sandbox *box, struct error *err)
{
	struct lease_table *table = creation->table;
	struct lease *former = lease_find(table, creation->trajectory);
	struct lease_waiter *waiter;
	int r;

	if (former)
		lease_end(former, REASON_TERMINATED, NULL);
	r = lease_make(table, &creation->spec, box, &creation->lease, err);
	if (r < 0)
		return r;
	lease_ref(creation->lease);
	DL_FOREACH (creation->waiters, waiter)
		loop_timer_restart(waiter->timer, SANDBOX_WAIT);
	lease_write_row(creation->lease, handle_committed, creation);
	return 0;
}

static bool has_patience(const struct lease_creation *creation)
{
	const struct lease_waiter *waiter;

	DL_FOREACH (creation->waiters, waiter)
		if (waiter->wait_ms)
			return true;
	return false;
}

/* Those who did not want to wait are told so; true when others stay. */
static bool dismiss_impatient(struct lease_creation *creation, int r, const struct error *err)
{
	bool any;

	do {
		struct lease_waiter *waiter;

		any = false;
		DL_FOREACH (creation->waiters, waiter) {
			if (waiter->wait_ms)
				continue;
			waiter_tell(waiter, r, NULL, err);
			any = true; /* telling may have changed the list */
			break;
		}
	} while (any);
	return creation->waiters != NULL;
}

static int creation_ask(struct lease_creation *creation, struct error *err);

static void creation_ask_again(struct lease_creation *creation)
{
	struct error err = ERROR_NONE;
	int r = creation_ask(creation, &err);

	if (r < 0)
		creation_finish(creation, r, &err);
}

/* True when somebody is left whom this refusal does not concern: one who has patience, or who came
 * when the creation had been cancelled already. */
static bool must_ask_again(struct lease_creation *creation, int r, const struct error *err)
{
	if (r == -EAGAIN && has_patience(creation))
		return dismiss_impatient(creation, r, err);
	return r == -ECANCELED && creation->waiters;
}

static void handle_created(void *data, int r, struct sandbox *box, const struct error *failure)
{
	struct lease_creation *creation = data;
	struct lease_table *table = creation->table;
	struct error err = failure ? *failure : ERROR_NONE;

	creation->op = NULL;
	if (box && (table->stopping || !creation->waiters)) {
		table->ops->destroy(box, REASON_CANCELLED, NULL, NULL);
		r = error_reason(&err, ECANCELED, REASON_CANCELLED, "the request was cancelled");
	} else if (box) {
		r = creation_take(creation, box, &err);
		if (r == 0)
			return;
		table->ops->destroy(box, REASON_CANCELLED, NULL, NULL);
	}
	if (table->stopping)
		creation_finish_stopping(creation);
	else if (must_ask_again(creation, r, &err))
		creation_ask_again(creation);
	else
		creation_finish(creation, r, &err);
}

static int creation_ask(struct lease_creation *creation, struct error *err)
{
	struct lease_table *table = creation->table;

	creation->in_line = has_patience(creation);
	creation->op = table->ops->create(table->provider, &creation->spec,
		creation->in_line ? SANDBOX_WAIT : 0, handle_created, creation);
	if (!creation->op)
		return error_set(err, ENOMEM, "no memory for a sandbox");
	return 0;
}

/* Makes and asks. NULL with err: nothing was begun. */
static struct operation *creation_begin(struct lease_table *table, const struct sandbox_spec *spec,
	struct lease_waiter *first, struct error *err)
{
	struct lease_creation *creation = calloc(1, sizeof(*creation));
	struct lease_waiter *waiter;

	if (!creation)
		goto no_memory;
	creation->table = table;
	creation->trajectory = strdup(spec->trajectory_id);
	if (!creation->trajectory || sandbox_spec_copy(spec, &creation->spec, err) < 0)
		goto free_creation;
	first->first = true;
	waiter = waiter_add(creation, first, first->wait_ms ? first->wait_ms : SANDBOX_WAIT);
	if (!waiter)
		goto free_creation;
	HASH_ADD_KEYPTR(
		hh, table->creations, creation->trajectory, strlen(creation->trajectory), creation);
	if (!creation->hh.tbl)
		goto free_waiter;
	if (creation_ask(creation, err) < 0)
		goto forget;
	return &waiter->op;
forget:
	HASH_DEL(table->creations, creation);
free_waiter:
	waiter_free(waiter);
free_creation:
	creation_free(creation);
no_memory:
	error_set(err, ENOMEM, "no memory for a lease");
	return NULL;
}

/* requests */

static int check_same(
	const struct sandbox_spec *live, const struct sandbox_spec *asked, struct error *err)
{
	const char *field = sandbox_spec_difference(live, asked);

	if (!field)
		return 0;
	return error_reason(err, EEXIST, REASON_SPEC_DIFFERS,
		"the lease of '%.100s' was made with another '%s'; end it first, or leave that out",
		asked->trajectory_id, field);
}

static struct operation *join(struct lease_creation *creation, const struct sandbox_spec *spec,
	const struct lease_waiter *waiter, struct error *err)
{
	const struct sandbox_spec *live =
		creation->lease ? &creation->lease->spec : &creation->spec;
	bool at_once = creation->lease || (!creation->in_line && !waiter->wait_ms);
	struct lease_waiter *added;

	if (!waiter->exclusive && check_same(live, spec, err) < 0)
		return NULL;
	added = waiter_add(creation, waiter, at_once ? SANDBOX_WAIT : waiter->wait_ms);
	if (added)
		return &added->op;
	error_set(err, ENOMEM, "no memory for a lease");
	return NULL;
}

static int check_exclusive(const struct lease *lease, struct error *err)
{
	const char *state = lease_state_name(lease->state);

	if (lease->state == LEASE_ACTIVE || lease->state == LEASE_STARTING)
		return error_set(err, EEXIST, "there is a lease of '%.100s' already",
			lease->spec.trajectory_id);
	return error_reason(err, EEXIST, lease->reason,
		"the %s lease of '%.100s' is still here to be looked at: end it, or take it again with create",
		state, lease->spec.trajectory_id);
}

/* What can be said without asking the provider: 1: nothing, a sandbox is needed; 0: this lease;
 * negative: no. */
static int try_at_once(struct lease_table *table, const struct sandbox_spec *spec, bool exclusive,
	struct lease **ret_lease, struct error *err)
{
	struct lease *lease = lease_find(table, spec->trajectory_id);
	int r;

	if (lease && exclusive)
		return check_exclusive(lease, err);
	if (lease && (lease->state == LEASE_ACTIVE || lease->state == LEASE_STARTING)) {
		r = check_same(&lease->spec, spec, err);
		if (r == 0)
			*ret_lease = lease;
		return r;
	}
	if (table->draining)
		return error_reason(err, EBUSY, REASON_DRAINING,
			"the pool is draining and takes no new leases (control: undrain)");
	/* its sandbox is needed; an EXPIRED one has none any more and stays until there is another
	 */
	if (lease && lease->state == LEASE_LOST)
		lease_end(lease, REASON_TERMINATED, NULL);
	return 1;
}

static int check_request(
	struct lease_table *table, const struct sandbox_spec *spec, struct error *err)
{
	if (table->stopping)
		return error_reason(err, EBUSY, REASON_STOPPING, "the daemon is stopping");
	return table->ops->check ? table->ops->check(table->provider, spec, err) : 0;
}

/* A lease that is over and is taken again is what it was, but for what is asked for. */
static int complete(struct lease_table *table, const struct sandbox_spec *asked, bool exclusive,
	struct sandbox_spec *ret_spec, struct error *err)
{
	const struct lease *former = lease_find(table, asked->trajectory_id);

	if (former && !exclusive && (former->state == LEASE_LOST || former->state == LEASE_EXPIRED))
		return sandbox_spec_complete(asked, &former->spec, ret_spec, err);
	return sandbox_spec_copy(asked, ret_spec, err);
}

/* 1: a creation has begun that tells the waiter; else as try_at_once(). */
static int take(struct lease_table *table, const struct sandbox_spec *asked,
	struct lease_waiter *waiter, struct lease_answer *answer, struct operation **ret_op)
{
	struct sandbox_spec spec;
	int r = complete(table, asked, waiter->exclusive, &spec, &answer->err);

	if (r < 0)
		return r;
	r = try_at_once(table, &spec, waiter->exclusive, &answer->lease, &answer->err);
	if (r > 0)
		*ret_op = creation_begin(table, &spec, waiter, &answer->err);
	sandbox_spec_fini(&spec);
	return r > 0 && !*ret_op ? -answer->err.code : r;
}

static struct operation *request(
	struct lease_table *table, const struct sandbox_spec *spec, struct lease_waiter *waiter)
{
	struct lease_answer answer = {.acquired = waiter->done, .data = waiter->data};
	struct operation *op = NULL;
	struct lease_creation *creation;

	waiter->table = table;
	waiter->asked_ms = loop_now_ms();
	answer.r = check_request(table, spec, &answer.err);
	if (answer.r < 0)
		return lease_answer_later(table, &answer);
	HASH_FIND_STR(table->creations, spec->trajectory_id, creation);
	if (creation) {
		op = join(creation, spec, waiter, &answer.err);
		answer.r = -answer.err.code;
	} else {
		answer.r = take(table, spec, waiter, &answer, &op);
	}
	return op ? op : lease_answer_later(table, &answer);
}

struct operation *lease_create(struct lease_table *table, const struct sandbox_spec *spec,
	lease_acquired_fn *done, void *data)
{
	struct lease_waiter waiter = {
		.wait_ms = table->config->pool.acquire_timeout_ms,
		.done = done,
		.data = data,
	};

	if (spec->wait_sec >= 0)
		waiter.wait_ms = (uint64_t)ceil(spec->wait_sec * 1000);
	return request(table, spec, &waiter);
}

struct operation *lease_create_now(struct lease_table *table, const struct sandbox_spec *spec,
	lease_acquired_fn *done, void *data)
{
	struct lease_waiter waiter = {.exclusive = true, .done = done, .data = data};

	return request(table, spec, &waiter);
}

void lease_creations_stop(struct lease_table *table)
{
	struct lease_creation *creation, *next;

	HASH_ITER (hh, table->creations, creation, next)
		operation_cancel(creation->op);
}

void lease_creations_free(struct lease_table *table)
{
	struct lease_creation *creation, *next;

	HASH_ITER (hh, table->creations, creation, next) {
		HASH_DEL(table->creations, creation);
		while (creation->waiters)
			waiter_free(creation->waiters);
		creation_free(creation);
	}
	while (table->cancelled)
		waiter_free(table->cancelled);
	while (table->answers)
		answer_free(table->answers);
}
