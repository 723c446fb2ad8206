/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The commands of a lease, from their start until they are removed. */
#include "providers/lease-exec.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "config/settings.h"
#include "pool/events.h"
#include "pool/metrics.h"
#include "providers/lease-exec-private.h"

static const char *const state_names[] = {
	[LEASE_EXEC_RUNNING] = "running",
	[LEASE_EXEC_EXITED] = "exited",
	[LEASE_EXEC_KILLED] = "killed",
	[LEASE_EXEC_LOST] = "lost",
};

const char *lease_exec_state_name(enum lease_exec_state state)
{
	return state_names[state];
}

struct lease_exec *lease_exec_ref(struct lease_exec *exec)
{
	exec->refs++;
	(void)lease_ref(exec->lease);
	return exec;
}

static void exec_free(struct lease_exec *exec)
{
	for (unsigned i = 0; i < LEASE_EXEC_STREAM_COUNT; i++) {
		spool_ignore(&exec->streams[i].listener);
		spool_unref(exec->streams[i].spool);
	}
	command_fini(&exec->command);
	command_result_fini(&exec->result);
	free(exec);
}

void lease_exec_unref(struct lease_exec *exec)
{
	struct lease *lease;

	if (!exec)
		return;
	lease = exec->lease;
	if (--exec->refs == 0)
		exec_free(exec);
	lease_unref(lease);
}

static void tell(struct lease_exec *exec, unsigned changes)
{
	const struct lease_hooks *hooks = &exec->lease->table->hooks;

	if (hooks->exec_changed)
		hooks->exec_changed(hooks->data, exec, changes);
}

/* its place in the lease */

/* Before it is run, since this may fail. */
static int index_exec(struct lease_exec *exec, struct error *err)
{
	HASH_ADD(hh, exec->lease->table->execs, serial, sizeof(exec->serial), exec);
	if (!exec->hh.tbl)
		return error_set(err, ENOMEM, "no memory for a command");
	return 0;
}

static void show(struct lease_exec *exec)
{
	exec->shown = true;
	(void)lease_exec_ref(exec);
	DL_APPEND(exec->lease->execs, exec);
	tell(exec, LEASE_EXEC_CAME);
}

static void hide(struct lease_exec *exec)
{
	struct lease *lease = exec->lease;

	if (!exec->shown)
		return;
	exec->shown = false;
	DL_DELETE(lease->execs, exec);
	HASH_DEL(lease->table->execs, exec);
	if (exec->complete)
		lease->execs_ended--;
	for (unsigned i = 0; i < LEASE_EXEC_STREAM_COUNT; i++)
		spool_drop(exec->streams[i].spool);
	tell(exec, LEASE_EXEC_WENT);
	lease_exec_unref(exec);
}

static struct lease_exec *oldest_ended(const struct lease *lease)
{
	struct lease_exec *exec, *oldest = NULL;

	DL_FOREACH (lease->execs, exec)
		if (exec->complete && (!oldest || exec->ended_order < oldest->ended_order))
			oldest = exec;
	return oldest;
}

static void keep_few(struct lease *lease)
{
	while (lease->execs_ended > lease->table->config->exec.keep)
		hide(oldest_ended(lease));
}

static bool owns(const struct lease_exec *exec, const struct spool *spool)
{
	for (unsigned i = 0; i < LEASE_EXEC_STREAM_COUNT; i++)
		if (exec->streams[i].spool == spool)
			return true;
	return false;
}

static bool keeps_something(const struct lease_exec *exec)
{
	for (unsigned i = 0; i < LEASE_EXEC_STREAM_COUNT; i++)
		if (spool_size(exec->streams[i].spool) > 0)
			return true;
	return false;
}

/* The oldest of those that have ended goes. One that said nothing would make no room. */
static bool make_room(void *data, struct spool *spool)
{
	struct lease *lease = data;
	struct lease_exec *exec, *oldest = NULL;

	DL_FOREACH (lease->execs, exec)
		if (exec->complete && !owns(exec, spool) && keeps_something(exec) &&
			(!oldest || exec->ended_order < oldest->ended_order))
			oldest = exec;
	if (!oldest)
		return false;
	hide(oldest);
	return true;
}

int lease_execs_begin(struct lease *lease, struct error *err)
{
	return spool_account_create(
		lease->table->config->exec.spool_budget, make_room, lease, &lease->account, err);
}

void lease_execs_drop(struct lease *lease)
{
	while (lease->execs)
		hide(lease->execs);
	spool_account_close(take_ptr(&lease->account));
}

/* its end */

static enum lease_exec_state end_state(const struct command_result *result)
{
	if (result->infra_failure)
		return LEASE_EXEC_LOST;
	return result->signal ? LEASE_EXEC_KILLED : LEASE_EXEC_EXITED;
}

/* Gives back the provider's reference. */
static void close_exec(struct lease_exec *exec)
{
	DL_DELETE2(exec->lease->table->open_execs, exec, prev_open, next_open);
	lease_exec_unref(exec);
}

void lease_execs_forget(struct lease_table *table)
{
	while (table->open_execs) {
		struct lease_exec *exec = table->open_execs;

		if (exec->run)
			lease_run_forget(take_ptr(&exec->run));
		close_exec(exec);
	}
}

static void complete(struct lease_exec *exec)
{
	struct lease *lease = exec->lease;
	struct lease_table *table = lease->table;
	struct command_result *result = &exec->result;

	exec->complete = true;
	exec->state = end_state(result);
	exec->ended_at = unix_now();
	exec->ended_order = ++lease->table->execs_ended;
	result->out_bytes = spool_end_size(exec->streams[LEASE_EXEC_STDOUT].spool);
	result->err_bytes = spool_end_size(exec->streams[LEASE_EXEC_STDERR].spool);
	metrics_add_output(events_metrics(lease->table->events), result);
	if (exec->shown)
		lease->execs_ended++;
	tell(exec, LEASE_EXEC_OUT | LEASE_EXEC_ERR | LEASE_EXEC_ENDED);
	if (exec->run)
		lease_run_end(take_ptr(&exec->run));
	keep_few(lease);
	close_exec(exec);
	lease_table_check_stopped(table);
}

static void check_complete(struct lease_exec *exec)
{
	if (exec->complete || !exec->provider_done)
		return;
	for (unsigned i = 0; i < LEASE_EXEC_STREAM_COUNT; i++)
		if (!spool_finished(exec->streams[i].spool))
			return;
	complete(exec);
}

static void handle_stream(struct lease_exec *exec, unsigned change)
{
	(void)lease_exec_ref(exec);
	tell(exec, change);
	check_complete(exec);
	lease_exec_unref(exec);
}

static void handle_out(void *data)
{
	handle_stream(data, LEASE_EXEC_OUT);
}

static void handle_err(void *data)
{
	handle_stream(data, LEASE_EXEC_ERR);
}

static void handle_ended(void *data, int r, struct command_result *result, const struct error *err)
{
	struct lease_exec *exec = data;

	exec->op = NULL;
	exec->provider_done = true;
	exec->result = *result;
	command_result_init(result);
	tell(exec, LEASE_EXEC_CAN_FEED); /* EPIPE, from now on */
	check_complete(exec);
}

static void handle_can_feed(void *data)
{
	tell(data, LEASE_EXEC_CAN_FEED);
}

/* its start */

static int make_streams(struct lease_exec *exec, struct error *err)
{
	static loop_fn *const changed[] = {
		[LEASE_EXEC_STDOUT] = handle_out, [LEASE_EXEC_STDERR] = handle_err};
	struct lease *lease = exec->lease;
	int r = 0;

	for (unsigned i = 0; i < LEASE_EXEC_STREAM_COUNT && r == 0; i++) {
		struct exec_stream *stream = &exec->streams[i];

		r = spool_create(lease->table->spooler, lease->account,
			lease->table->config->exec.max_spool, &stream->spool, err);
		if (r < 0)
			break;
		stream->listener = (struct spool_listener){.changed = changed[i], .data = exec};
		spool_listen(stream->spool, &stream->listener);
	}
	return r;
}

/* Input and environment are not looked at again, and may be large. */
static int copy_command(struct lease_exec *exec, const struct command *command, struct error *err)
{
	struct command lean = *command;

	lean.stdin_data = NULL;
	lean.stdin_size = 0;
	lean.env = NULL;
	return command_copy(&exec->command, &lean, err);
}

static int exec_create(struct lease *lease, const struct command *command,
	struct lease_exec **ret_exec, struct error *err)
{
	struct lease_exec *exec = calloc(1, sizeof(*exec));
	int r;

	if (!exec)
		return error_set(err, ENOMEM, "no memory for a command");
	exec->refs = 1;
	exec->lease = lease_ref(lease);
	exec->number = lease->last_exec + 1;
	exec->serial = ++lease->table->last_exec_serial;
	exec->started_at = unix_now();
	command_result_init(&exec->result);
	r = copy_command(exec, command, err);
	if (r == 0)
		r = make_streams(exec, err);
	if (r < 0) {
		lease_exec_unref(exec);
		return r;
	}
	*ret_exec = exec;
	return 0;
}

static int check_tty(const struct lease *lease, const struct command *command, struct error *err)
{
	if (!command->tty_rows || lease->table->ops->resize)
		return 0;
	return error_set(err, EOPNOTSUPP, "'tty': commands of this provider have no terminals");
}

int lease_exec_start(struct lease *lease, const struct command *command,
	struct lease_exec **ret_exec, struct error *err)
{
	struct command_run run = {
		.command = command, .ended = handle_ended, .can_feed = handle_can_feed};
	struct lease_exec *exec;
	int r = lease_check_active(lease, err);

	if (r == 0)
		r = check_tty(lease, command, err);
	if (r == 0)
		r = exec_create(lease, command, &exec, err);
	if (r < 0)
		return r;
	r = index_exec(exec, err);
	if (r < 0)
		goto unref;
	run.number = exec->number;
	run.out = exec->streams[LEASE_EXEC_STDOUT].spool;
	run.err = exec->streams[LEASE_EXEC_STDERR].spool;
	run.data = exec;
	r = lease_provider_run(lease, &run, &exec->op, err);
	if (r < 0)
		goto unindex;
	lease->last_exec = exec->number;
	DL_APPEND2(lease->table->open_execs, exec, prev_open, next_open);
	show(exec); /* the first reference is the provider's from now on */
	*ret_exec = exec;
	return 0;
unindex:
	HASH_DEL(lease->table->execs, exec);
unref:
	lease_exec_unref(exec);
	return r;
}

/* what may be done with it */

void lease_exec_cancel(struct lease_exec *exec)
{
	operation_cancel(exec->op);
}

int lease_exec_signal(struct lease_exec *exec, int number, bool leader_only, struct error *err)
{
	const struct sandbox_provider_ops *ops = exec->lease->table->ops;

	if (!exec->op)
		return error_set(err, ESRCH, "command %u has ended", exec->number);
	if (!ops->signal)
		return error_set(
			err, EOPNOTSUPP, "commands of this provider cannot be sent signals");
	return ops->signal(exec->op, number, leader_only, err);
}

int lease_exec_resize(struct lease_exec *exec, uint16_t rows, uint16_t cols, struct error *err)
{
	const struct sandbox_provider_ops *ops = exec->lease->table->ops;

	if (!exec->command.tty_rows || !ops->resize)
		return error_set(err, ENOTTY, "command %u has no terminal", exec->number);
	if (!exec->op)
		return error_set(err, ESRCH, "command %u has ended", exec->number);
	return ops->resize(exec->op, rows, cols, err);
}

int lease_exec_remove(struct lease_exec *exec, struct error *err)
{
	if (!exec->complete)
		return error_set(err, EBUSY,
			"command %u runs: wait for its end, or write KILL to its signal",
			exec->number);
	hide(exec);
	return 0;
}

ssize_t lease_exec_feed(struct lease_exec *exec, const void *bytes, size_t size)
{
	const struct sandbox_provider_ops *ops = exec->lease->table->ops;

	if (!exec->op || !exec->command.stdin_pipe || !ops->feed)
		return -EPIPE;
	return ops->feed(exec->op, bytes, size);
}

void lease_exec_feed_end(struct lease_exec *exec)
{
	const struct sandbox_provider_ops *ops = exec->lease->table->ops;

	exec->fed = true;
	if (exec->op && exec->command.stdin_pipe && ops->feed_end)
		ops->feed_end(exec->op);
}

bool lease_exec_can_be_fed(const struct lease_exec *exec)
{
	return exec->op && exec->command.stdin_pipe && !exec->fed && exec->lease->table->ops->feed;
}

/* looking up */

struct lease_exec *lease_exec_find(const struct lease *lease, uint32_t number)
{
	struct lease_exec *exec;

	DL_FOREACH (lease->execs, exec)
		if (exec->number == number)
			return exec;
	return NULL;
}

struct lease_exec *lease_exec_find_serial(const struct lease_table *table, uint64_t serial)
{
	struct lease_exec *exec;

	HASH_FIND(hh, table->execs, &serial, sizeof(serial), exec);
	return exec;
}

struct lease_exec *lease_exec_next(const struct lease *lease, const struct lease_exec *after)
{
	struct lease_exec *exec;

	if (!after)
		return lease->execs;
	if (after->shown)
		return after->next;
	DL_FOREACH (lease->execs, exec)
		if (exec->number > after->number)
			return exec;
	return NULL;
}

struct lease *lease_exec_lease(const struct lease_exec *exec)
{
	return exec->lease;
}

uint32_t lease_exec_number(const struct lease_exec *exec)
{
	return exec->number;
}

uint64_t lease_exec_serial(const struct lease_exec *exec)
{
	return exec->serial;
}

const struct command *lease_exec_command(const struct lease_exec *exec)
{
	return &exec->command;
}

enum lease_exec_state lease_exec_state(const struct lease_exec *exec)
{
	return exec->state;
}

double lease_exec_started_at(const struct lease_exec *exec)
{
	return exec->started_at;
}

double lease_exec_ended_at(const struct lease_exec *exec)
{
	return exec->ended_at;
}

struct spool *lease_exec_spool(const struct lease_exec *exec, enum lease_exec_stream which)
{
	return exec->streams[which].spool;
}
