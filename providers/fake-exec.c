/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"
#include "pool/spool.h"
#include "providers/fake-private.h"

enum { WORDS_MAX = 64 };

/* What it has said so far. */
static void flush_one(struct strbuf *bytes, struct spool *spool)
{
	if (spool)
		spool_put(spool, bytes->data, bytes->size);
	strbuf_clear(bytes);
}

static void flush(struct fake_exec *exec)
{
	flush_one(&exec->result.out, exec->out);
	flush_one(&exec->result.err, exec->err);
	exec->result.out_bytes = exec->result.err_bytes = 0;
}

static void finish_output(struct spool *spool)
{
	if (spool)
		spool_finish(spool);
}

static void exec_destroy(struct fake_exec *exec)
{
	finish_output(exec->out);
	finish_output(exec->err);
	spool_unref(exec->out);
	spool_unref(exec->err);
	if (exec->box)
		DL_DELETE(exec->box->execs, exec);
	loop_timer_stop(exec->timer);
	command_fini(&exec->command);
	command_result_fini(&exec->result);
	free(exec);
}

static void exec_end(struct fake_exec *exec)
{
	struct command_result *result = &exec->result;

	result->duration_sec = unix_now() - result->started_at;
	result->has_returncode = !exec->lost;
	result->infra_failure = exec->lost;
	if (exec->lost) {
		result->reason = exec->lost_reason;
	} else if (exec->cancelled || exec->timed_out) {
		result->reason = exec->cancelled ? REASON_CANCELLED : REASON_TIMEOUT;
		result->timed_out = !exec->cancelled;
		result->signal = SIGKILL;
		result->returncode = -SIGKILL;
	}
	flush(exec);
	finish_output(exec->out);
	finish_output(exec->err);
	exec->done(exec->data, 0, result, NULL);
	exec_destroy(exec);
}

/* The box dies under its lease. Its commands, this one among them, end at the next turn. */
void fake_box_lose(struct fake_box *box)
{
	struct error why = ERROR_NONE;
	struct fake_exec *exec;

	if (box->dead)
		return;
	box->dead = true;
	DL_FOREACH (box->execs, exec) {
		exec->lost = true;
		exec->lost_reason = REASON_SLOT_LOST;
		loop_timer_restart(exec->timer, 0);
	}
	error_reason(&why, ENOTCONN, REASON_SLOT_LOST, "the fake sandbox was told to die");
	box->fake->env.lost(box->fake->env.data, &box->base, &why);
}

static enum fake_step run_words(struct fake_exec *exec, uint64_t *ret_sleep_ms)
{
	char *words[WORDS_MAX];
	size_t count = 0;
	enum fake_step step;

	if (exec->command.argv) {
		while (exec->command.argv[count] && count < WORDS_MAX)
			count++;
		if (!exec->position)
			return FAKE_END;
		exec->position = NULL;
		return fake_run_statement(
			&exec->command, exec->command.argv, count, &exec->result, ret_sleep_ms);
	}
	if (!fake_next_statement(&exec->position, words, WORDS_MAX, &count))
		return FAKE_END;
	step = fake_run_statement(&exec->command, words, count, &exec->result, ret_sleep_ms);
	for (size_t i = 0; i < count; i++)
		free(words[i]);
	return step;
}

/* Lets the command sleep, no longer than its time allows. */
static void exec_sleep(struct fake_exec *exec, uint64_t sleep_ms)
{
	uint64_t now = loop_now_ms();

	exec->wake_ms = now + sleep_ms;
	if (exec->deadline_ms && exec->deadline_ms < exec->wake_ms)
		loop_timer_restart(
			exec->timer, exec->deadline_ms > now ? exec->deadline_ms - now : 0);
	else
		loop_timer_restart(exec->timer, sleep_ms);
}

static void exec_step(void *data)
{
	struct fake_exec *exec = data;
	enum fake_step step = FAKE_NEXT;
	uint64_t sleep_ms = 0;

	exec->timed_out = exec->deadline_ms && loop_now_ms() >= exec->deadline_ms;
	if (exec->lost || exec->cancelled || exec->timed_out) {
		exec_end(exec);
		return;
	}
	while (step == FAKE_NEXT)
		step = run_words(exec, &sleep_ms);
	flush(exec);
	if (step == FAKE_SLEEP)
		exec_sleep(exec, sleep_ms);
	else if (step == FAKE_LOSE)
		fake_box_lose(exec->box);
	else
		exec_end(exec);
}

static void exec_cancel(struct operation *op)
{
	struct fake_exec *exec = (struct fake_exec *)op;

	exec->cancelled = true;
	loop_timer_restart(exec->timer, 0);
}

int fake_run(struct sandbox *base, const struct command_run *run, struct operation **ret_op,
	struct error *err)
{
	struct fake_box *box = (struct fake_box *)base;
	const struct command *command = run->command;
	struct fake_exec *exec = calloc(1, sizeof(*exec));

	if (!exec)
		return error_set(err, ENOMEM, "no memory for a fake command");
	if (command_copy(&exec->command, command, NULL) < 0 ||
		loop_timer_start(box->fake->env.loop, 0, exec_step, exec, &exec->timer, NULL) < 0) {
		exec_destroy(exec);
		return error_set(err, ENOMEM, "no memory for a fake command");
	}
	exec->op.cancel = exec_cancel;
	exec->fake = box->fake;
	exec->box = box;
	exec->position = command->argv ? "" : exec->command.script;
	command_result_init(&exec->result);
	exec->out = run->out ? spool_ref(run->out) : NULL;
	exec->err = run->err ? spool_ref(run->err) : NULL;
	exec->result.started = true;
	exec->result.started_at = unix_now();
	exec->result.exec_id = run->number;
	exec->deadline_ms = command->timeout_ms ? loop_now_ms() + command->timeout_ms : 0;
	exec->lost = box->dead;
	exec->lost_reason = REASON_SLOT_LOST;
	exec->done = run->ended;
	exec->data = run->data;
	DL_APPEND(box->execs, exec);
	*ret_op = &exec->op;
	return 0;
}
