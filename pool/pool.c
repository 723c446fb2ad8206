/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/pool.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "config/settings.h"
#include "pool/bubble.h"
#include "pool/cgroup.h"
#include "pool/events.h"
#include "pool/net.h"
#include "pool/pool-private.h"
#include "pool/slot-limits.h"
#include "pool/state-dir.h"
#include "pool/trash.h"
#include "pool/uid-map.h"

enum { HOST_IDS_PER_SLOT = 65536 };

void random_word(char word[RANDOM_WORD])
{
	unsigned char bytes[(RANDOM_WORD - 1) / 2] = {0};

	(void)getrandom(bytes, sizeof(bytes), 0);
	for (size_t i = 0; i < sizeof(bytes); i++)
		(void)snprintf(word + 2 * i, 3, "%02x", bytes[i]);
}

void pool_wake(struct pool *pool)
{
	loop_timer_restart(pool->turn, 0);
}

/* ---- Start ---- */

static void tell_started(struct pool *pool, int r, const struct error *err)
{
	pool_done_fn *started = pool->started;

	pool->started = NULL;
	started(pool->started_data, r, err);
}

static void check_started(struct pool *pool)
{
	struct error err = pool->start_error;
	int r;

	if (!pool->started)
		return;
	if (pool->stopping) {
		r = error_reason(
			&err, EBUSY, REASON_STOPPING, "the pool was stopped while it started");
		tell_started(pool, r, &err);
		return;
	}
	for (unsigned i = 0; i < pool->slot_count; i++)
		if (!pool->slots[i]->tried)
			return;
	if (pool->start_failures == 0) {
		tell_started(pool, 0, NULL);
		return;
	}
	r = error_wrap(
		&err, "%u of %u slots did not start", pool->start_failures, pool->slot_count);
	tell_started(pool, r, &err);
}

static void handle_start_timeout(void *data)
{
	struct pool *pool = data;
	struct error err;
	unsigned ready = 0;
	int r;

	if (!pool->started)
		return;
	for (unsigned i = 0; i < pool->slot_count; i++)
		ready += pool->slots[i]->booted;
	r = error_set(&err, ETIMEDOUT,
		"%u of %u slots are ready after the time allowed (wait_ready_timeout)", ready,
		pool->slot_count);
	tell_started(pool, r, &err);
}

void pool_start(struct pool *pool, pool_done_fn *started, void *data)
{
	pool->started = started;
	pool->started_data = data;
	loop_timer_restart(pool->start_timer, pool->config->pool.wait_ready_timeout_ms);
	for (unsigned i = 0; i < pool->slot_count; i++)
		slot_want_start(pool->slots[i]);
	pool_wake(pool);
}

/* ---- Stop ---- */

static void tell_stopped(struct pool *pool)
{
	pool_done_fn *stopped = pool->stopped;
	struct error err = pool->stop_error;

	pool->stopped = NULL;
	stopped(pool->stopped_data, -err.code, err.code ? &err : NULL);
}

static void handle_trash_empty(void *data, int r, const struct error *err)
{
	struct pool *pool = data;

	if (r < 0 && pool->stop_error.code == 0)
		pool->stop_error = *err;
	if (pool->stop_error.code ==
		0) { /* else they are not empty, or on a file system that hangs */
		(void)rmdir(pool->trash_dir);
		(void)rmdir(pool->slots_dir); /* stays where archives are */
	}
	tell_stopped(pool);
}

/* The file system does not answer, or there is very much. */
static void give_up_trash(struct pool *pool)
{
	trash_give_up(pool->trash);
	if (pool->stop_error.code == 0)
		(void)error_set(&pool->stop_error, ETIMEDOUT,
			"what slots left in '%s' is not removed within %llu ms: the next start goes on with it",
			pool->trash_dir, (unsigned long long)pool->times.stop_trash);
	tell_stopped(pool);
}

static void clear_trash(struct pool *pool)
{
	pool->clearing_trash = true;
	loop_timer_restart(pool->stop_timer, pool->times.stop_trash);
	trash_wake(pool->trash);
	trash_on_empty(pool->trash, handle_trash_empty, pool);
}

static unsigned count_unstopped(const struct pool *pool, const struct slot **ret_first)
{
	unsigned count = 0;

	for (unsigned i = 0; i < pool->slot_count; i++) {
		if (pool->slots[i]->state == SLOT_EMPTY)
			continue;
		if (count++ == 0)
			*ret_first = pool->slots[i];
	}
	return count;
}

/* What still lives stays in the journal; the next start will try again. */
static void give_up_slots(struct pool *pool)
{
	const struct slot *first = NULL;
	unsigned count = count_unstopped(pool, &first);

	pool->gave_up_slots = true;
	if (count > 0)
		(void)error_reason(&pool->stop_error, EBUSY, REASON_KILL_INCOMPLETE,
			"%u slots have not ended in %llu ms, the first is %s: %s", count,
			(unsigned long long)pool->times.stop_slots, first->name,
			first->last_error.text);
}

static unsigned cgroups_left(const struct pool *pool)
{
	return limits_leaving(pool->limits) + (pool->cgroups ? cgroups_leaving(pool->cgroups) : 0);
}

static void give_up_cgroups(struct pool *pool)
{
	if (pool->stop_error.code == 0)
		(void)error_reason(&pool->stop_error, EBUSY, REASON_KILL_INCOMPLETE,
			"%u cgroups of slots are still populated", cgroups_left(pool));
	clear_trash(pool);
}

static void handle_stop_timeout(void *data)
{
	struct pool *pool = data;

	if (!pool->stopping || !pool->stopped)
		return;
	if (pool->clearing_trash)
		give_up_trash(pool);
	else if (pool->awaiting_cgroups)
		give_up_cgroups(pool);
	else
		give_up_slots(pool);
	pool_wake(pool);
}

static void check_stopped(struct pool *pool)
{
	const struct slot *first;

	if (!pool->stopping || pool->clearing_trash)
		return;
	if (!pool->gave_up_slots && count_unstopped(pool, &first) > 0)
		return;
	if (cgroups_left(pool) > 0) {
		if (!pool->awaiting_cgroups)
			loop_timer_restart(pool->stop_timer, STOP_CGROUPS_MS);
		pool->awaiting_cgroups = true;
		return;
	}
	clear_trash(pool);
}

static void handle_cgroups_gone(void *data)
{
	pool_wake(data);
}

void pool_stop(struct pool *pool, pool_done_fn *stopped, void *data)
{
	assert(!pool->stopping);
	pool->stopping = true;
	pool->stopped = stopped;
	pool->stopped_data = data;
	pool_wake(pool);
	pool->start_first = NULL;
	pool->start_last = &pool->start_first;
	loop_timer_restart(pool->stop_timer, pool->times.stop_slots);
	for (unsigned i = 0; i < pool->slot_count; i++)
		slot_begin_stop(pool->slots[i]);
}

static void handle_turn(void *data)
{
	struct pool *pool = data;

	lending_serve(pool);
	runs_serve(pool);
	check_started(pool);
	check_stopped(pool);
}

/* ---- Create and destroy ---- */

static void slot_free(struct slot *slot)
{
	if (!slot)
		return;
	loop_timer_stop(slot->retry);
	slot_notes_fini(&slot->notes);
	slot_net_destroy(slot->net);
	bubble_destroy(slot->bubble);
	slot_cgroup_discard(slot->pool->cgroups, slot->cgroup);
	slot_limits_free(slot->limits);
	free(slot->dir);
	free(slot->holder);
	free(slot->former);
	free(slot);
}

void pool_destroy(struct pool *pool)
{
	if (!pool)
		return;
	supervisor_stop(pool);
	slot_cycle_fini(pool);
	runs_destroy(pool);
	for (unsigned i = 0; pool->slots && i < pool->slot_count; i++)
		slot_free(pool->slots[i]);
	free(pool->slots);
	lending_destroy(pool);
	loop_timer_stop(pool->turn);
	loop_timer_stop(pool->start_timer);
	loop_timer_stop(pool->stop_timer);
	cgroups_close(pool->cgroups);
	limits_close(pool->limits);
	trash_destroy(pool->trash);
	net_destroy(pool->net);
	bubble_kit_destroy(pool->kit);
	closep(&pool->slots_fd);
	free(pool->slots_dir);
	free(pool->trash_dir);
	free(pool);
}

static int slot_create(struct pool *pool, unsigned number, struct error *err)
{
	struct slot *slot = calloc(1, sizeof(*slot));

	if (!slot)
		return error_set(err, ENOMEM, "no memory for slot %u", number);
	pool->slots[number] = slot;
	slot->pool = pool;
	slot->number = number;
	slot->uid = geteuid();
	slot->gid = getegid();
	if (geteuid() == 0)
		slot->uid = slot->gid = pool->config->slot.uid_base + number * HOST_IDS_PER_SLOT;
	slot->user_uid = slot->uid;
	slot->user_gid = slot->gid;
	if (bubble_is_ranged(pool->config)) {
		slot->user_uid += pool->config->slot.uid;
		slot->user_gid += pool->config->slot.gid;
	}
	(void)snprintf(slot->name, sizeof(slot->name), "%04u", number);
	if (asprintf(&slot->dir, "%s/%s", pool->slots_dir, slot->name) < 0) {
		slot->dir = NULL;
		return error_set(err, ENOMEM, "no memory for slot %u", number);
	}
	return 0;
}

static int create_slots(struct pool *pool, struct error *err)
{
	const struct config *config = pool->config;
	unsigned count = config->pool.slots;
	int r = 0;

	if (count == 0)
		return error_set(err, EINVAL, "pool.slots is 0: there is nothing to lend");
	if ((uint64_t)config->slot.uid_base + (uint64_t)count * HOST_IDS_PER_SLOT > UINT32_MAX)
		return error_set(err, EINVAL,
			"slot.uid_base %u leaves no room for %u slots of %d uids each",
			config->slot.uid_base, count, HOST_IDS_PER_SLOT);
	if (geteuid() == 0)
		r = uid_map_check(config->slot.uid_base, (uint64_t)count * HOST_IDS_PER_SLOT, err);
	if (r < 0)
		return r;
	pool->slots = calloc(count, sizeof(struct slot *));
	if (!pool->slots)
		return error_set(err, ENOMEM, "no memory for %u slots", count);
	pool->slot_count = count;
	for (unsigned i = 0; r == 0 && i < count; i++)
		r = slot_create(pool, i, err);
	return r;
}

static char *absolute(const char *dir, const char *name)
{
	CLEANUP(freep) char *real = realpath(dir, NULL);
	char *path = NULL;

	return real && asprintf(&path, "%s/%s", real, name) >= 0 ? path : NULL;
}

/* The disk fills, which nobody else would tell. */
static void handle_trash_trouble(void *data, const struct error *err)
{
	struct pool *pool = data;

	if (err)
		log_warn("'%s': %s", pool->trash_dir, err->text);
	events_add(pool->events, &(struct event){
					 .kind = "daemon",
					 .id = "trash",
					 .from = err ? "EMPTYING" : "STUCK",
					 .to = err ? "STUCK" : "EMPTYING",
					 .why = err ? err->text : "",
				 });
}

/* One pool a slot directory: another daemon with a state directory of its own may be told to use
 * the same. */
static int open_places(struct pool *pool, struct error *err)
{
	int r = make_directories(pool->config->pool.slot_dir, err);

	if (r < 0)
		return r;
	pool->slots_dir = absolute(pool->config->pool.slot_dir, "slots");
	pool->trash_dir = absolute(pool->config->pool.slot_dir, "trash");
	if (!pool->slots_dir || !pool->trash_dir)
		return error_errno(
			err, errno, "cannot use slot_dir '%s'", pool->config->pool.slot_dir);
	r = make_directories(pool->slots_dir, err);
	if (r < 0)
		return r;
	pool->slots_fd = open(pool->slots_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (pool->slots_fd < 0)
		return error_errno(err, errno, "cannot open '%s'", pool->slots_dir);
	if (flock(pool->slots_fd, LOCK_EX | LOCK_NB) < 0)
		return error_set(err, EBUSY,
			"'%s' is in use by another daemon; choose another slot_dir",
			pool->slots_dir);
	r = trash_create(pool->loop, pool->trash_dir, &pool->trash, err);
	if (r == 0)
		trash_on_trouble(pool->trash, handle_trash_trouble, pool);
	return r;
}

static int open_kit(struct pool *pool, struct error *err)
{
	CLEANUP(freep) char *etc_path = absolute(pool->config->dressage.state_dir, "etc");

	if (!etc_path)
		return error_errno(
			err, errno, "cannot use state_dir '%s'", pool->config->dressage.state_dir);
	return bubble_kit_create(pool->config, etc_path, &pool->kit, err);
}

static int open_cgroups(struct pool *pool, struct error *err)
{
	int r;

	if (cgroups_open(pool->loop, pool->config->dressage.state_dir, &pool->cgroups,
		    &pool->cgroups_error) < 0) {
		log_warn("no cgroups: %s; a process more for each command keeps its tree together",
			pool->cgroups_error.text);
	} else {
		cgroups_on_gone(pool->cgroups, handle_cgroups_gone, pool);
	}
	r = limits_open(pool->loop, pool->config, pool->cgroups, &pool->limits, err);
	if (r == 0)
		limits_on_gone(pool->limits, handle_cgroups_gone, pool);
	return r;
}

/* All at once, so that no start and no stop can be short of memory for one. */
static int make_timers(struct pool *pool, struct error *err)
{
	int r = loop_timer_start(pool->loop, 0, handle_turn, pool, &pool->turn, err);

	if (r == 0)
		r = loop_timer_start(
			pool->loop, 0, handle_start_timeout, pool, &pool->start_timer, err);
	if (r == 0)
		r = loop_timer_start(
			pool->loop, 0, handle_stop_timeout, pool, &pool->stop_timer, err);
	return r;
}

static int pool_fill(struct pool *pool, struct error *err)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int r = make_timers(pool, err);

	pool->starting_max = cpus > 0 ? 2 * (unsigned)cpus : 2;
	pool->overdue_max = 16 * pool->starting_max;
	pool->times = POOL_TIMES;
	random_word(pool->run_id);
	if (r == 0)
		r = slot_cycle_init(pool, err);
	if (r == 0)
		r = open_places(pool, err);
	if (r == 0)
		r = create_slots(pool, err);
	if (r == 0)
		r = pool_open_net(pool, err);
	if (r == 0)
		r = open_cgroups(pool, err);
	if (r == 0)
		r = leftovers_clear(pool, err);
	if (r == 0)
		r = open_kit(pool, err);
	if (r == 0)
		r = supervisor_start(pool, err);
	return r;
}

int pool_create(struct loop *loop, const struct config *config, struct journal *journal,
	struct events *events, const struct pool_hooks *hooks, struct pool **ret_pool,
	struct error *err)
{
	struct pool *pool = calloc(1, sizeof(*pool));
	int r;

	if (!pool)
		return error_set(err, ENOMEM, "no memory for the pool");
	pool->loop = loop;
	pool->config = config;
	pool->journal = journal;
	pool->events = events;
	pool->hooks = *hooks;
	pool->slots_fd = -1;
	pool->finished_last = &pool->finished;
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN},
		NULL); /* a command need not read its input */
	r = pool_fill(pool, err);
	if (r < 0) {
		pool_destroy(pool);
		return r;
	}
	*ret_pool = pool;
	return 0;
}

/* ---- Views ---- */

struct slot_view slot_view(const struct slot *slot)
{
	return (struct slot_view){
		.number = slot->number,
		.generation = slot->generation,
		.state = slot->state,
		.pid = slot->booted ? bubble_pid(slot->bubble) : 0,
		.holder = slot->holder ? slot->holder : "",
		.last_error = slot->last_error.text,
		.since = slot->since,
		.last_pong_ms = slot->last_pong_ms,
		.last_pong_at = slot->last_pong_at,
		.commands = slot->run_count - slot->late_runs,
		.failures = slot->failures,
		.failing = slot->failures > 0 && !slot->ready_ms,
	};
}

unsigned pool_slot_count(const struct pool *pool)
{
	return pool->slot_count;
}

struct slot *pool_slot(const struct pool *pool, unsigned number)
{
	return number < pool->slot_count ? pool->slots[number] : NULL;
}

unsigned pool_queue_length(const struct pool *pool)
{
	return pool->queue.count;
}

bool pool_is_draining(const struct pool *pool)
{
	return pool->draining;
}

const char *pool_cgroups(const struct pool *pool)
{
	return pool->cgroups ? cgroups_path(pool->cgroups) : "";
}

const char *pool_cgroups_error(const struct pool *pool)
{
	return pool->cgroups ? "" : pool->cgroups_error.text;
}

int slot_root_fd(const struct slot *slot)
{
	return slot->booted ? bubble_root_fd(slot->bubble) : -1;
}

int slot_pidfd(const struct slot *slot)
{
	return slot->booted ? bubble_pidfd(slot->bubble) : -1;
}

uid_t slot_host_uid(const struct slot *slot)
{
	return slot->user_uid;
}

uid_t slot_host_range(const struct slot *slot)
{
	return bubble_is_ranged(slot->pool->config) ? slot->uid : 0;
}

gid_t slot_host_gid(const struct slot *slot)
{
	return slot->user_gid;
}
