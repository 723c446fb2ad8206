/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A start is: wait for a turn (so many at once, else a thousand bwraps fight for two processors;
 * one that hangs loses its turn to others), make directories and cgroup on a worker, spawn the
 * bubble, hear READY. A reset is: kill, hear of the death, then a start. A stop ends with the
 * directories thrown away instead.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "config/settings.h"
#include "pool/bubble.h"
#include "pool/cgroup.h"
#include "pool/events.h"
#include "pool/journal.h"
#include "pool/net.h"
#include "pool/pool-private.h"
#include "pool/process.h"
#include "pool/slot-dirs.h"
#include "pool/slot-limits.h"
#include "pool/trash.h"

/* Lets the pool's end wait until no worker uses what the pool owns. */
struct work_gate {
	pthread_mutex_t lock; /* guards every field after it; leaf */
	pthread_cond_t idle;
	unsigned count;
};

/* What a worker does to a slot's place on disk. */
struct prepare {
	struct prepare *prev, *next; /* pool::preparing */
	struct slot *slot;           /* NULL: the pool is gone */
	bool remove;                 /* throw away; else make fresh */
	const struct pool *pool; /* the worker's: its trash, cgroups and gate, which wait for it */
	unsigned number;
	uint32_t generation;
	struct slot_dirs_wish wish;
	int r;
	struct error err;
	struct slot_cgroup *cgroup;
	struct slot_limits *limits;
	char dir[];
};

static void start_next(struct pool *pool);

int slot_cycle_init(struct pool *pool, struct error *err)
{
	pool->start_last = &pool->start_first;
	pool->gate = calloc(1, sizeof(*pool->gate));
	if (!pool->gate)
		return error_set(err, ENOMEM, "no memory for the pool");
	pthread_mutex_init(&pool->gate->lock, NULL);
	pthread_cond_init(&pool->gate->idle, NULL);
	return 0;
}

static void gate_add(struct work_gate *gate, int by)
{
	pthread_mutex_lock(&gate->lock);
	gate->count += (unsigned)by;
	if (gate->count == 0)
		pthread_cond_signal(&gate->idle);
	pthread_mutex_unlock(&gate->lock);
}

/* What the workers made meanwhile is freed by handle_prepared(), if the loop goes on. */
void slot_cycle_fini(struct pool *pool)
{
	if (!pool->gate)
		return;
	pthread_mutex_lock(&pool->gate->lock);
	while (pool->gate->count > 0)
		pthread_cond_wait(&pool->gate->idle, &pool->gate->lock);
	pthread_mutex_unlock(&pool->gate->lock);
	for (struct prepare *prepare = pool->preparing; prepare; prepare = prepare->next) {
		slot_cgroup_discard(pool->cgroups, take_ptr(&prepare->cgroup));
		slot_limits_free(take_ptr(&prepare->limits));
		prepare->slot = NULL;
	}
	pthread_cond_destroy(&pool->gate->idle);
	pthread_mutex_destroy(&pool->gate->lock);
	free(pool->gate);
}

/* The slot goes on: what it costs is that a next daemon may not know of it. */
static void handle_committed(void *data, int r, const struct error *err)
{
	if (r < 0)
		log_warn("a slot's state is not in the journal: %s", err->text);
}

/* The cgroups of both versions, one a line. */
static void add_cgroups(const struct slot *slot, struct strbuf *out)
{
	if (slot->cgroup)
		strbuf_adds(out, slot_cgroup_path(slot->cgroup));
	if (slot->limits)
		slot_limits_add_paths(slot->limits, out);
}

static void put_in_journal(const struct slot *slot)
{
	CLEANUP(strbuf_fini) struct strbuf cgroups = STRBUF_INIT;
	pid_t pid = slot->booted ? bubble_pid(slot->bubble) : 0;
	struct journal_slot row = {
		.slot = slot->number,
		.generation = slot->generation,
		.state = slot_state_name(slot->state),
		.pid = pid,
		.pid_starttime = pid ? process_starttime(pid) : 0,
		.dir = slot->dir,
	};

	add_cgroups(slot, &cgroups);
	row.cgroup = cgroups.data;
	journal_put_slot(slot->pool->journal, &row, handle_committed, NULL);
}

bool slot_step(struct slot *slot, enum slot_event on, enum reason reason)
{
	struct pool *pool = slot->pool;
	enum slot_state from = slot->state;

	if (!slot_next_state(from, on, &slot->state)) {
		log_error("slot %s: no move from %s on %s", slot->name, slot_state_name(from),
			slot_event_name(on));
		return false;
	}
	slot->since = unix_now();
	slot_note_step(slot, from);
	events_add(pool->events,
		&(struct event){
			.kind = "slot",
			.id = slot->name,
			.from = slot_state_name(from),
			.to = slot_state_name(slot->state),
			.reason = reason,
			.generation = slot->generation,
			.why = on == SLOT_DIED || on == SLOT_BROKE ? slot->last_error.text : "",
		});
	put_in_journal(slot);
	if (pool->hooks.slot_changed)
		pool->hooks.slot_changed(pool->hooks.data, slot);
	pool_wake(pool);
	return true;
}

static void leave_turn(struct slot *slot)
{
	struct pool *pool = slot->pool;

	if (!slot->in_turn)
		return;
	slot->in_turn = false;
	if (slot->overdue)
		pool->overdue_count--;
	else
		pool->starting_count--;
	slot->overdue = false;
	start_next(pool);
	if (pool->starting_count == 0)
		slot_cycle_empty_trash(pool);
}

/* Removing five thousand files beside a start doubles its time, and nobody waits for them. */
void slot_cycle_empty_trash(struct pool *pool)
{
	if (pool->trash_waits)
		trash_wake(pool->trash);
	pool->trash_waits = false;
}

void slot_lose_turn(struct slot *slot)
{
	struct pool *pool = slot->pool;

	if (pool->overdue_count == pool->overdue_max)
		return;
	slot->overdue = true;
	pool->overdue_count++;
	pool->starting_count--;
	start_next(pool);
}

static void begin_step(struct slot *slot)
{
	slot->step_ms = loop_now_ms();
	slot->step_said = false;
}

static void end_step(struct slot *slot)
{
	slot->step_ms = 0;
}

void slot_kill(struct slot *slot)
{
	begin_step(slot);
	bubble_kill(slot->bubble);
}

/* A start that did not come to READY: it is tried again, later. */
static void fail_start(struct slot *slot, const struct error *why)
{
	struct pool *pool = slot->pool;

	slot->last_error = *why;
	log_warn("slot %s did not start: %s", slot->name, why->text);
	slot_note(slot, SLOT_LOG_INIT, why->text);
	if (!slot->tried && pool->start_failures++ == 0)
		pool->start_error = *why;
	(void)slot_step(slot, SLOT_BROKE, why->reason);
	slot->tried = true;
	slot_forget_former(slot);
	slot_forget_image(slot, why);
	leave_turn(slot);
	if (slot->started_image) /* the image's failure: the default is next */
		slot->failures = 0;
	supervisor_retry(slot);
}

static void begin_reset(struct slot *slot);

/* Nothing of it lives. */
static void handle_killed(struct slot *slot)
{
	(void)slot_step(slot, SLOT_KILLED, slot->end_reason);
	begin_reset(slot);
}

static void handle_crash(struct slot *slot, const struct error *why)
{
	struct pool *pool = slot->pool;

	slot->last_error = *why;
	log_warn("slot %s died: %s", slot->name, why->text);
	slot_note(slot, SLOT_LOG_INIT, why->text);
	(void)slot_step(slot, SLOT_DIED, REASON_SLOT_LOST);
	if (slot->state == SLOT_DEAD)
		supervisor_retry(slot);
	else if (pool->hooks.slot_lost)
		pool->hooks.slot_lost(pool->hooks.data, slot, why);
}

static void discard_cgroups(struct slot *slot)
{
	slot_cgroup_discard(slot->pool->cgroups, take_ptr(&slot->cgroup));
	slot_limits_discard(slot->pool->limits, take_ptr(&slot->limits));
}

static void handle_died(void *data, const struct error *bubble_why)
{
	struct slot *slot = data;
	struct error why = slot->kill_why.code ? slot->kill_why : *bubble_why;

	end_step(slot);
	slot->booted = false;
	slot->ping_pending = false;
	slot->kill_why = ERROR_NONE;
	runs_abandon(slot, slot->end_reason ? slot->end_reason : REASON_SLOT_LOST);
	slot_net_detach(slot->net);
	bubble_destroy(take_ptr(&slot->bubble));
	discard_cgroups(slot);
	switch (slot->state) {
	case SLOT_STARTING:
	case SLOT_RESTARTING:
		fail_start(slot, &why);
		break;
	case SLOT_READY:
	case SLOT_LEASED:
		handle_crash(slot, &why);
		break;
	case SLOT_RELEASING:
		handle_killed(slot);
		break;
	case SLOT_EMPTY:
	case SLOT_RESETTING:
	case SLOT_FAILED:
	case SLOT_DEAD:
	case SLOT_LOST:
		break; /* these have no bubble */
	}
}

static void handle_network_up(void *data)
{
	struct slot *slot = data;

	if (slot->state != SLOT_STARTING && slot->state != SLOT_RESTARTING)
		return; /* it is being killed */
	slot->tried = true;
	slot_forget_former(slot);
	slot->end_reason = REASON_NONE;
	slot->last_error = ERROR_NONE; /* what was wrong is not any more; events tell of it */
	(void)slot_step(slot, SLOT_BOOTED, REASON_NONE);
	leave_turn(slot);
}

static void handle_network_failed(void *data, const struct error *why)
{
	struct slot *slot = data;

	slot->kill_why = *why;
	slot_kill(slot);
}

void slot_note_life(struct slot *slot)
{
	slot->last_pong_ms = loop_now_ms();
	slot->last_pong_at = unix_now();
}

static void handle_ready(void *data)
{
	struct slot *slot = data;

	slot->booted = true;
	slot_note_life(slot);
	slot->ready_ms = slot->last_pong_ms;
	slot_net_attach(slot->net, slot->bubble, slot->uid, slot->gid,
		&(struct slot_net_hooks){
			.up = handle_network_up, .failed = handle_network_failed, .data = slot});
}

static void handle_said(void *data, enum bubble_voice voice, const char *line)
{
	slot_note(data, voice == BUBBLE_BWRAP ? SLOT_LOG_BWRAP : SLOT_LOG_INIT, line);
}

static void spawn(struct slot *slot)
{
	struct pool *pool = slot->pool;
	struct bubble_options options = {
		.slot = slot->number,
		.generation = slot->generation,
		.image = slot->image,
		.dir = slot->dir,
		.host_uid = slot->uid,
		.host_gid = slot->gid,
		.cgroup_fd = slot->cgroup ? slot_cgroup_fd(slot->cgroup) : -1,
		.start_timeout_ms = pool->times.start_timeout,
	};
	const struct bubble_hooks hooks = {
		.ready = handle_ready, .died = handle_died, .said = handle_said, .data = slot};
	struct error err = ERROR_NONE;

	if (slot->state == SLOT_RESETTING)
		(void)slot_step(slot, SLOT_SPAWN, REASON_NONE);
	slot->started_image = slot->image;
	options.join_fds = slot_limits_joins(slot->limits, &options.join_count);
	options.counts_forks = slot_limits_count_forks(slot->limits);
	if (bubble_spawn(pool->loop, pool->kit, &options, &hooks, &slot->bubble, &err) < 0) {
		discard_cgroups(slot);
		fail_start(slot, &err);
		return;
	}
	slot_limits_joined(slot->limits);
	slot_limits_watch(pool->limits, slot->limits);
	bubble_join_commands(slot->bubble, slot_limits_commands_fd(slot->limits));
}

/* ---- The place on disk, made and thrown away by a worker ---- */

static unsigned wanted_dirs(const struct config *config)
{
	unsigned kinds = config->slot.storage == STORAGE_TMPFS ? 0 : SLOT_DIRS_FILES;

	return config->slot.overlay ? kinds | SLOT_DIRS_LAYERS : kinds;
}

static void prepare_work(void *data)
{
	struct prepare *prepare = data;
	const struct pool *pool = prepare->pool;

	if (prepare->remove)
		prepare->r = slot_dirs_remove(prepare->dir, pool->trash, &prepare->err);
	else
		prepare->r =
			slot_dirs_replace(prepare->dir, pool->trash, &prepare->wish, &prepare->err);
	if (prepare->r == 0 && !prepare->remove && pool->cgroups)
		prepare->r = slot_cgroup_create(pool->cgroups, prepare->number, prepare->generation,
			prepare->wish.user_uid, &prepare->cgroup, &prepare->err);
	if (prepare->r == 0 && !prepare->remove)
		prepare->r = slot_limits_create(pool->limits, prepare->number, prepare->generation,
			prepare->cgroup, &prepare->limits, &prepare->err);
	gate_add(pool->gate, -1);
}

static void handle_cleared(struct slot *slot, const struct prepare *prepare)
{
	struct pool *pool = slot->pool;

	if (prepare->r < 0) {
		slot->last_error = prepare->err;
		pool->stop_error = prepare->err;
	}
	trash_wake(pool->trash);
	leave_turn(slot);
	(void)slot_step(slot, SLOT_CLEARED, REASON_NONE);
}

static void handle_made(struct slot *slot, struct prepare *prepare)
{
	struct pool *pool = slot->pool;

	pool->trash_waits = true;
	slot->cgroup = take_ptr(&prepare->cgroup);
	slot->limits = take_ptr(&prepare->limits);
	if (pool->stopping) {
		discard_cgroups(slot);
		leave_turn(slot);
		if (slot->state == SLOT_RELEASING)
			(void)slot_step(slot, SLOT_KILLED, REASON_STOPPING);
		begin_reset(slot);
	} else if (prepare->r < 0) {
		discard_cgroups(slot);
		fail_start(slot, &prepare->err);
	} else {
		spawn(slot);
	}
}

static void unlink_prepare(struct pool *pool, struct prepare *prepare)
{
	if (prepare->prev)
		prepare->prev->next = prepare->next;
	else
		pool->preparing = prepare->next;
	if (prepare->next)
		prepare->next->prev = prepare->prev;
}

static void handle_prepared(void *data)
{
	struct prepare *prepare = data;
	struct slot *slot = prepare->slot;

	if (slot) {
		unlink_prepare(slot->pool, prepare);
		slot->preparing = false;
		end_step(slot);
		if (prepare->remove)
			handle_cleared(slot, prepare);
		else
			handle_made(slot, prepare);
	}
	free(prepare);
}

/* Nothing can be done on disk for want of memory. */
static void fail_submit(struct slot *slot, bool remove, const struct error *why)
{
	if (!remove) {
		fail_start(slot, why);
		return;
	}
	slot->pool->stop_error = *why;
	(void)slot_step(slot, SLOT_CLEARED, REASON_NONE);
}

static void submit(struct slot *slot, bool remove)
{
	struct pool *pool = slot->pool;
	size_t size = strlen(slot->dir) + 1;
	struct prepare *prepare = calloc(1, sizeof(*prepare) + size);
	struct error err = ERROR_NONE;

	if (!prepare) {
		(void)error_set(&err, ENOMEM, "no memory to prepare a slot");
		fail_submit(slot, remove, &err);
		return;
	}
	memcpy(prepare->dir, slot->dir, size);
	prepare->slot = slot;
	prepare->pool = pool;
	prepare->remove = remove;
	prepare->number = slot->number;
	prepare->generation = slot->generation;
	prepare->wish = (struct slot_dirs_wish){
		.kinds = wanted_dirs(pool->config),
		.uid = slot->uid,
		.gid = slot->gid,
		.user_uid = slot->user_uid,
		.user_gid = slot->user_gid,
	};
	gate_add(pool->gate, 1);
	if (loop_work(pool->loop, prepare_work, handle_prepared, prepare, &err) < 0) {
		gate_add(pool->gate, -1);
		free(prepare);
		fail_submit(slot, remove, &err);
		return;
	}
	slot->preparing = true;
	begin_step(slot);
	prepare->next = pool->preparing;
	if (pool->preparing)
		pool->preparing->prev = prepare;
	pool->preparing = prepare;
}

/* ---- Turns ---- */

static void begin_start(struct slot *slot)
{
	slot->in_turn = true;
	slot->turn_ms = loop_now_ms();
	slot->pool->starting_count++;
	slot->generation++;
	random_word(slot->token);
	if (slot->state != SLOT_RESETTING)
		(void)slot_step(slot, SLOT_SPAWN, REASON_NONE);
	submit(slot, false);
}

static void start_next(struct pool *pool)
{
	while (pool->start_first && pool->starting_count < pool->starting_max && !pool->stopping) {
		struct slot *slot = pool->start_first;

		pool->start_first = slot->next_start;
		if (!pool->start_first)
			pool->start_last = &pool->start_first;
		slot->waits_for_turn = false;
		begin_start(slot);
	}
}

void slot_want_start(struct slot *slot)
{
	struct pool *pool = slot->pool;

	if (slot->waits_for_turn || slot->in_turn || pool->stopping)
		return;
	slot->waits_for_turn = true;
	slot->next_start = NULL;
	*pool->start_last = slot;
	pool->start_last = &slot->next_start;
	start_next(pool);
}

static void begin_reset(struct slot *slot)
{
	if (slot->pool->stopping)
		submit(slot, true);
	else
		slot_want_start(slot);
}

void slot_begin_release(struct slot *slot, enum reason reason)
{
	slot->end_reason = reason;
	if (!slot_step(slot, SLOT_RELEASE, reason))
		return;
	slot_net_take_back(slot->net);
	if (slot->bubble)
		slot_kill(slot);
	else
		begin_reset(slot); /* LOST: it is dead already */
}

void slot_begin_stop(struct slot *slot)
{
	loop_timer_stop(take_ptr(&slot->retry));
	slot->waits_for_turn = false;
	if (slot->state != SLOT_RELEASING)
		slot->end_reason = REASON_STOPPING;
	switch (slot->state) {
	case SLOT_EMPTY:
	case SLOT_RELEASING:
		return; /* as it should be, or on its way */
	case SLOT_RESETTING:
		break;
	case SLOT_STARTING:
	case SLOT_READY:
	case SLOT_LEASED:
	case SLOT_RESTARTING:
	case SLOT_FAILED:
	case SLOT_DEAD:
	case SLOT_LOST:
		(void)slot_step(slot, SLOT_STOP, REASON_STOPPING);
		break;
	}
	if (slot->bubble)
		slot_kill(slot);
	else if (!slot->preparing)
		begin_reset(slot);
}
