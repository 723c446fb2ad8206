/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "config/settings.h"
#include "pool/bubble.h"
#include "pool/cgroup.h"
#include "pool/environment.h"
#include "pool/events.h"
#include "pool/exec.h"
#include "pool/metrics.h"
#include "pool/pool-private.h"
#include "pool/slot-limits.h"

/* A command of a slot, from slot_run() until nobody holds its pipes any more. */
struct run {
	struct operation op; /* first */
	struct run *prev, *next;
	struct slot *slot;
	struct exec *exec;
	struct command_cgroup *cgroup;
	command_ended_fn *ended; /* NULL: it has run */
	void (*can_feed)(void *data);
	void *data;
	uint32_t id;
	struct limits_met met; /* before it */
	bool alone;            /* nothing else of the slot lived while it ran, as far as is known */
};

static void append(struct slot *slot, struct run *run)
{
	run->prev = slot->runs_last;
	if (slot->runs_last)
		slot->runs_last->next = run;
	else
		slot->runs = run;
	slot->runs_last = run;
	slot->run_count++;
}

static void unlink_run(struct slot *slot, struct run *run)
{
	if (run->prev)
		run->prev->next = run->next;
	else
		slot->runs = run->next;
	if (run->next)
		run->next->prev = run->prev;
	else
		slot->runs_last = run->prev;
	slot->run_count--;
}

static void run_free(struct run *run)
{
	if (!run->ended)
		run->slot->late_runs--;
	unlink_run(run->slot, run);
	command_cgroup_give(run->cgroup);
	free(run);
}

/* A lease could start servers without end, and each holds the pipes of its two outputs: the oldest
 * lose their readers. */
static void bound_late_runs(struct slot *slot)
{
	struct run *next;

	for (struct run *run = slot->runs; run && slot->late_runs > LATE_RUNS_MAX; run = next) {
		next = run->next;
		if (run->ended || !run->exec)
			continue;
		exec_abandon(take_ptr(&run->exec), REASON_NONE);
		run_free(run);
	}
}

/* Limits are counted for the slot as a whole: who else could have met them? */
static void look_around(struct slot *slot, struct run *run)
{
	run->met = slot_limits_met(slot->limits);
	run->alone = slot->runs == NULL && !(slot->cgroup && slot_cgroup_lingers(slot->cgroup));
	for (struct run *other = slot->runs; other; other = other->next)
		other->alone = false;
}

static void name_limit(const struct run *run, struct command_result *result)
{
	if (result->reason == REASON_NONE && result->started && run->slot->limits)
		result->reason = limits_reason(run->met, slot_limits_met(run->slot->limits),
			run->alone, result->returncode);
}

/* What was met on the way; the command itself came to its own end. */
static bool is_remark(enum reason reason)
{
	return reason == REASON_DISK_FULL || reason == REASON_PIDS;
}

static void tell_event(const struct run *run, const struct command_result *result)
{
	const struct slot *slot = run->slot;
	char id[sizeof(slot->name) + 16], why[32] = "";
	const char *to = "EXITED";

	if (result->start_error[0])
		to = "FAILED";
	else if (result->infra_failure)
		to = "LOST";
	else if (result->reason != REASON_NONE && !is_remark(result->reason))
		to = "KILLED";
	else if (result->returncode != 0)
		(void)snprintf(why, sizeof(why), "returncode %d", result->returncode);
	(void)snprintf(id, sizeof(id), "%s/%u", slot->name, run->id);
	events_add(slot->pool->events, &(struct event){
					       .kind = "exec",
					       .id = id,
					       .from = result->started ? "RUNNING" : "",
					       .to = to,
					       .reason = result->reason,
					       .generation = slot->generation,
					       .why = *why                ? why
						      : result->detail[0] ? result->detail
									  : result->start_error,
				       });
}

/* That it failed for want of room is not known, but nothing else could be written either: whoever
 * judges it should look twice. */
static void blame_storage(const struct slot *slot, struct command_result *result)
{
	if (result->reason == REASON_NONE && result->started && result->returncode != 0 &&
		slot_storage_is_full(slot))
		result->reason = REASON_DISK_FULL;
}

/* Where cgroups cannot help, only the end of the whole slot is sure to end what outran init. */
static void handle_survivors(struct run *run, struct command_result *result)
{
	struct slot *slot = run->slot;

	if (result->reason != REASON_KILL_INCOMPLETE)
		return;
	if (run->cgroup) {
		(void)snprintf(result->detail, sizeof(result->detail),
			"processes of the command live on in slot %s: the kernel has not ended them",
			slot->name);
		return;
	}
	(void)snprintf(result->detail, sizeof(result->detail),
		"processes of the command outran their kill: slot %s was killed with all in it",
		slot->name);
	(void)error_reason(&slot->kill_why, ENOTCONN, REASON_KILL_INCOMPLETE,
		"it was killed: processes of its command %u could not be killed alone", run->id);
	slot_kill(slot);
}

static void handle_ended(void *data, struct command_result *result)
{
	struct run *run = data;
	command_ended_fn *ended = run->ended;

	run->ended = NULL;
	if (++run->slot->late_runs > LATE_RUNS_MAX)
		pool_wake(run->slot->pool);
	result->exec_id = run->id;
	handle_survivors(run, result);
	name_limit(run, result);
	blame_storage(run->slot, result);
	tell_event(run, result);
	metrics_add_command(events_metrics(run->slot->pool->events), result, REASON_NONE);
	ended(run->data, 0, result, NULL);
}

static void handle_gone(void *data)
{
	run_free(data);
}

static void cancel(struct operation *op)
{
	struct run *run = (struct run *)op;

	if (run->exec)
		exec_cancel(run->exec);
}

static int build_environment(
	struct slot *slot, const struct command *command, char ***ret_env, struct error *err)
{
	const struct config *config = slot->pool->config;
	struct environment_options options = {
		.inherited = (const char *const *)environ,
		.pass = &config->slot.env_pass,
		.extra = (const char *const *)command->env,
		.slot = slot->number,
		.generation = slot->generation,
		.port = config->pool.base_port + slot->number,
		.slot_dir = slot->dir,
		.bind_host = config->pool.bind_host,
		.slot_token = slot->token,
		.run_id = slot->pool->run_id,
	};

	return environment_build(&options, ret_env, err);
}

static void handle_can_feed(void *data)
{
	struct run *run = data;

	if (run->can_feed)
		run->can_feed(run->data);
}

static int start(struct run *run, const struct command_run *what, struct error *err)
{
	static const struct exec_hooks hooks = {
		.ended = handle_ended, .can_feed = handle_can_feed, .gone = handle_gone};
	struct exec_hooks with_data = hooks;
	struct slot *slot = run->slot;
	struct exec_options options = {
		.loop = slot->pool->loop,
		.bubble = slot->bubble,
		.command = what->command,
		.shell = &slot->pool->config->exec.shell,
		.uid = slot->user_uid,
		.gid = slot->user_gid,
		.out = what->out,
		.err = what->err,
		.kill_grace_ms = slot->pool->config->exec.kill_grace_ms,
		.memory_is_short = slot_limits_memory_is_short(slot->limits),
	};
	char **env;
	int r;

	with_data.data = run;
	r = build_environment(slot, what->command, &env, err);
	if (r < 0)
		return r;
	look_around(slot, run);
	if (slot->cgroup)
		r = command_cgroup_take(slot->cgroup, &run->cgroup, err);
	options.env = (const char *const *)env;
	options.cgroup = run->cgroup;
	if (r == 0)
		r = exec_start(&options, &with_data, &run->exec, err);
	environment_free(env);
	if (r < 0)
		command_cgroup_give(take_ptr(&run->cgroup));
	return r;
}

static int check_can_run(const struct slot *slot, struct error *err)
{
	if (slot->state != SLOT_LEASED || !slot->booted)
		return error_reason(
			err, ENOTCONN, REASON_SLOT_LOST, "slot %s is not running", slot->name);
	if (slot->run_count - slot->late_runs >= RUNS_MAX)
		return error_reason(err, EAGAIN, REASON_PIDS, "slot %s runs %d commands already",
			slot->name, RUNS_MAX);
	return 0;
}

int slot_run(struct slot *slot, const struct command_run *what, struct operation **ret_op,
	struct error *err)
{
	struct run *run = calloc(1, sizeof(*run));
	int r;

	if (!run)
		return error_set(err, ENOMEM, "no memory for a command");
	run->op.cancel = cancel;
	run->slot = slot;
	run->id = what->number;
	run->ended = what->ended;
	run->can_feed = what->can_feed;
	run->data = what->data;
	r = check_can_run(slot, err);
	if (r == 0)
		r = start(run, what, err);
	if (r < 0) {
		metrics_add_command(events_metrics(slot->pool->events), NULL, err->reason);
		free(run);
		return r;
	}
	append(slot, run);
	*ret_op = &run->op;
	return 0;
}

ssize_t slot_run_feed(struct operation *op, const void *bytes, size_t size)
{
	return exec_feed(((struct run *)op)->exec, bytes, size);
}

void slot_run_feed_end(struct operation *op)
{
	exec_feed_end(((struct run *)op)->exec);
}

int slot_run_signal(struct operation *op, int number, bool leader_only, struct error *err)
{
	return exec_signal(((struct run *)op)->exec, number, leader_only, err);
}

int slot_run_resize(struct operation *op, uint16_t rows, uint16_t cols, struct error *err)
{
	return exec_resize(((struct run *)op)->exec, rows, cols, err);
}

void runs_serve(struct pool *pool)
{
	for (unsigned i = 0; i < pool->slot_count; i++)
		bound_late_runs(pool->slots[i]);
}

void runs_abandon(struct slot *slot, enum reason reason)
{
	while (slot->runs) {
		struct run *run = slot->runs;

		exec_abandon(take_ptr(&run->exec), reason);
		run_free(run);
	}
}

void runs_destroy(struct pool *pool)
{
	for (unsigned i = 0; pool->slots && i < pool->slot_count; i++) {
		struct slot *slot = pool->slots[i];

		while (slot && slot->runs) {
			exec_destroy(slot->runs->exec);
			run_free(slot->runs);
		}
	}
}
