/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "providers/fake.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/operation.h"
#include "config/settings.h"
#include "providers/sandbox-provider.h"

enum { WORDS_MAX = 64 };

enum fake_slot_state { FAKE_FREE, FAKE_LENT, FAKE_RESETTING };

struct fake_slot {
	struct fake *fake;
	enum fake_slot_state state;
	uint32_t generation;
	char *holder; /* the last one */
	struct loop_timer *reset;
	uint64_t reset_delay_ms;
	sandbox_gone_fn *gone;
	void *gone_data;
};

struct fake_notice {
	struct loop_timer *timer;
	provider_done_fn *done;
	void *data;
};

struct fake {
	struct sandbox_provider_env env;
	struct fake_slot *slots;
	unsigned slot_count;
	bool stopping, draining;
	struct fake_create *creates; /* in order of asking */
	struct fake_box *boxes;
	struct fake_notice started, stopped;
};

struct fake_script {
	uint64_t create_delay_ms, lost_after_ms, reset_delay_ms;
	bool lost;
	int create_fails; /* errno; 0: it does not */
};

struct fake_create {
	struct operation op;
	struct fake *fake;
	char *holder;
	uint64_t wait_ms;
	struct fake_script script;
	struct fake_slot *slot; /* NULL: still in line */
	bool cancelled, tried;
	struct loop_timer *timer;
	sandbox_created_fn *done;
	void *data;
	struct fake_create *prev, *next;
};

struct fake_box {
	struct sandbox base;
	struct fake *fake;
	struct fake_slot *slot;
	bool dead;
	uint32_t exec_count;
	struct loop_timer *lose;
	struct fake_exec *execs;
	struct fake_box *prev, *next;
};

struct fake_exec {
	struct operation op;
	struct fake *fake;
	struct fake_box *box; /* NULL: destroyed before */
	struct command command;
	const char *position;
	struct command_result result;
	uint64_t deadline_ms; /* 0: none */
	uint64_t wake_ms;
	bool cancelled, timed_out, lost;
	enum reason lost_reason;
	struct loop_timer *timer;
	command_ended_fn *done;
	void *data;
	struct fake_exec *prev, *next;
};

/* commands */

static void exec_destroy(struct fake_exec *exec)
{
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
	exec->done(exec->data, 0, result, NULL);
	exec_destroy(exec);
}

/* The box dies under its lease. Its commands, this one among them, end at the next turn. */
static void box_lose(struct fake_box *box)
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
	if (step == FAKE_SLEEP)
		exec_sleep(exec, sleep_ms);
	else if (step == FAKE_LOSE)
		box_lose(exec->box);
	else
		exec_end(exec);
}

static void exec_cancel(struct operation *op)
{
	struct fake_exec *exec = (struct fake_exec *)op;

	exec->cancelled = true;
	loop_timer_restart(exec->timer, 0);
}

static struct operation *fake_run(
	struct sandbox *base, const struct command *command, command_ended_fn *done, void *data)
{
	struct fake_box *box = (struct fake_box *)base;
	struct fake_exec *exec = calloc(1, sizeof(*exec));

	if (!exec)
		return NULL;
	if (command_copy(&exec->command, command, NULL) < 0 ||
		loop_timer_start(box->fake->env.loop, 0, exec_step, exec, &exec->timer, NULL) < 0) {
		exec_destroy(exec);
		return NULL;
	}
	exec->op.cancel = exec_cancel;
	exec->fake = box->fake;
	exec->box = box;
	exec->position = command->argv ? "" : exec->command.script;
	command_result_init(&exec->result);
	exec->result.started = true;
	exec->result.started_at = unix_now();
	exec->result.exec_id = ++box->exec_count;
	exec->deadline_ms = command->timeout_ms ? loop_now_ms() + command->timeout_ms : 0;
	exec->lost = box->dead;
	exec->lost_reason = REASON_SLOT_LOST;
	exec->done = done;
	exec->data = data;
	DL_APPEND(box->execs, exec);
	return &exec->op;
}

/* slots */

static void serve(struct fake *fake);

static void handle_reset(void *data)
{
	struct fake_slot *slot = data;

	slot->state = FAKE_FREE;
	slot->generation++;
	if (slot->gone)
		slot->gone(slot->gone_data);
	slot->gone = NULL;
	serve(slot->fake);
}

static void slot_give_back(struct fake_slot *slot)
{
	slot->state = FAKE_RESETTING;
	loop_timer_restart(slot->reset, slot->reset_delay_ms);
}

static void fake_destroy(
	struct sandbox *base, enum reason reason, sandbox_gone_fn *gone, void *data)
{
	struct fake_box *box = (struct fake_box *)base;
	struct fake_exec *exec, *next;

	if (!box)
		return;
	DL_FOREACH_SAFE (box->execs, exec, next) {
		DL_DELETE(box->execs, exec);
		exec->box = NULL;
		exec->lost = true;
		exec->lost_reason = reason;
		loop_timer_restart(exec->timer, 0);
	}
	loop_timer_stop(box->lose);
	box->slot->gone = gone;
	box->slot->gone_data = data;
	slot_give_back(box->slot);
	DL_DELETE(box->fake->boxes, box);
	free(box);
}

/* creation */

static void create_end(
	struct fake_create *create, int r, struct sandbox *box, const struct error *err)
{
	if (create->slot && r < 0)
		slot_give_back(create->slot);
	DL_DELETE(create->fake->creates, create);
	create->done(create->data, r, box, err);
	loop_timer_stop(create->timer);
	free(create->holder);
	free(create);
}

static void create_fail(struct fake_create *create, int code, enum reason reason, const char *text)
{
	struct error err = ERROR_NONE;

	create_end(create, error_reason(&err, code, reason, "%s", text), NULL, &err);
}

static void handle_lose(void *data)
{
	box_lose(data);
}

static void create_deliver(struct fake_create *create)
{
	struct fake *fake = create->fake;
	struct fake_box *box = calloc(1, sizeof(*box));

	if (!box || (create->script.lost &&
			    loop_timer_start(fake->env.loop, create->script.lost_after_ms,
				    handle_lose, box, &box->lose, NULL) < 0)) {
		free(box);
		create_fail(create, ENOMEM, REASON_NONE, "no memory for a fake sandbox");
		return;
	}
	box->base.ops = &fake_ops;
	box->base.slot = (unsigned)(create->slot - fake->slots);
	box->base.generation = create->slot->generation;
	box->fake = fake;
	box->slot = create->slot;
	DL_APPEND(fake->boxes, box);
	create_end(create, 0, &box->base, NULL);
}

static bool former_slot_is_resetting(const struct fake *fake, const char *holder)
{
	for (unsigned i = 0; i < fake->slot_count; i++)
		if (fake->slots[i].state == FAKE_RESETTING && fake->slots[i].holder &&
			!strcmp(fake->slots[i].holder, holder))
			return true;
	return false;
}

static struct fake_slot *free_slot(struct fake *fake)
{
	for (unsigned i = 0; i < fake->slot_count; i++)
		if (fake->slots[i].state == FAKE_FREE)
			return &fake->slots[i];
	return NULL;
}

/* Gives free slots to those in line. Their own timers carry them on, so nothing is called back from
 * here. */
static void serve(struct fake *fake)
{
	struct fake_create *create;

	DL_FOREACH (fake->creates, create) {
		struct fake_slot *slot;

		if (create->slot || create->cancelled || !create->tried)
			continue;
		if (create->wait_ms && former_slot_is_resetting(fake, create->holder))
			continue;
		slot = free_slot(fake);
		if (!slot)
			continue;
		slot->state = FAKE_LENT;
		free(slot->holder);
		slot->holder = strdup(create->holder);
		slot->reset_delay_ms = create->script.reset_delay_ms;
		create->slot = slot;
		loop_timer_restart(create->timer, create->script.create_delay_ms);
	}
}

static void create_step(void *data)
{
	struct fake_create *create = data;

	if (create->cancelled)
		create_fail(create, ECANCELED, REASON_CANCELLED, "cancelled");
	else if (create->fake->stopping)
		create_fail(create, EBUSY, REASON_STOPPING, "the fake provider is stopping");
	else if (create->fake->draining && !create->slot)
		create_fail(create, EBUSY, REASON_DRAINING, "the fake provider is draining");
	else if (create->slot && create->script.create_fails)
		create_fail(create, create->script.create_fails, REASON_NONE,
			"the fake was told to fail");
	else if (create->slot)
		create_deliver(create);
	else if (!create->tried) {
		create->tried = true;
		serve(create->fake);
		if (!create->slot && create->wait_ms == 0)
			create_fail(create, EAGAIN, REASON_POOL_EXHAUSTED, "no fake slot is free");
	}
}

static void create_cancel(struct operation *op)
{
	struct fake_create *create = (struct fake_create *)op;

	create->cancelled = true;
	loop_timer_restart(create->timer, 0);
}

static uint64_t script_ms(const cJSON *script, const char *key)
{
	const cJSON *value = cJSON_GetObjectItemCaseSensitive(script, key);

	return cJSON_IsNumber(value) ? (uint64_t)value->valuedouble : 0;
}

static struct fake_script read_script(const struct sandbox_spec *spec)
{
	const cJSON *script = cJSON_GetObjectItemCaseSensitive(spec->env_args, "fake");
	const char *fails =
		cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(script, "create_fails"));
	struct fake_script out = {
		.create_delay_ms = script_ms(script, "create_delay_ms"),
		.lost_after_ms = script_ms(script, "lost_after_ms"),
		.reset_delay_ms = script_ms(script, "reset_delay_ms"),
		.lost = cJSON_HasObjectItem(script, "lost_after_ms"),
	};

	for (int code = 1; fails && !out.create_fails && code < 200; code++)
		if (!strcmp(error_name(code), fails))
			out.create_fails = code;
	return out;
}

static struct operation *fake_create(void *self, const struct sandbox_spec *spec, uint64_t wait_ms,
	sandbox_created_fn *done, void *data)
{
	struct fake *fake = self;
	struct fake_create *create = calloc(1, sizeof(*create));

	if (!create)
		return NULL;
	create->holder = strdup(spec->trajectory_id);
	if (!create->holder || loop_timer_start(fake->env.loop, 0, create_step, create,
				       &create->timer, NULL) < 0) {
		free(create->holder);
		free(create);
		return NULL;
	}
	create->op.cancel = create_cancel;
	create->fake = fake;
	create->wait_ms = wait_ms;
	create->script = read_script(spec);
	create->done = done;
	create->data = data;
	DL_APPEND(fake->creates, create);
	return &create->op;
}

/* the provider */

static void fake_close(void *self)
{
	struct fake *fake = self;
	struct fake_create *create, *next;

	if (!fake)
		return;
	while (fake->boxes)
		fake_destroy(&fake->boxes->base, REASON_STOPPING, NULL, NULL);
	DL_FOREACH_SAFE (fake->creates, create, next) {
		loop_timer_stop(create->timer);
		free(create->holder);
		free(create);
	}
	for (unsigned i = 0; i < fake->slot_count; i++) {
		loop_timer_stop(fake->slots[i].reset);
		free(fake->slots[i].holder);
	}
	loop_timer_stop(fake->started.timer);
	loop_timer_stop(fake->stopped.timer);
	free(fake->slots);
	free(fake);
}

static void handle_notice(void *data)
{
	struct fake_notice *notice = data;

	notice->done(notice->data, 0, NULL);
}

/* Everything that needs memory is made here, so that starting and stopping cannot fail. */
static int make_parts(struct fake *fake, struct error *err)
{
	struct loop *loop = fake->env.loop;
	int r = loop_timer_start(
		loop, SANDBOX_WAIT, handle_notice, &fake->started, &fake->started.timer, err);

	if (r == 0)
		r = loop_timer_start(loop, SANDBOX_WAIT, handle_notice, &fake->stopped,
			&fake->stopped.timer, err);
	if (r < 0)
		return r;
	fake->slots = calloc(fake->env.config->pool.slots, sizeof(fake->slots[0]));
	if (!fake->slots)
		return error_set(err, ENOMEM, "no memory for the fake slots");
	while (fake->slot_count < fake->env.config->pool.slots) {
		struct fake_slot *slot = &fake->slots[fake->slot_count];

		*slot = (struct fake_slot){.fake = fake, .generation = 1};
		r = loop_timer_start(loop, SANDBOX_WAIT, handle_reset, slot, &slot->reset, err);
		if (r < 0)
			return r;
		fake->slot_count++;
	}
	return 0;
}

static int fake_open(const struct sandbox_provider_env *env, void **ret_self, struct error *err)
{
	struct fake *fake = calloc(1, sizeof(*fake));
	int r;

	if (!fake)
		return error_set(err, ENOMEM, "no memory for the fake provider");
	fake->env = *env;
	r = make_parts(fake, err);
	if (r < 0) {
		fake_close(fake);
		return r;
	}
	*ret_self = fake;
	return 0;
}

/* Tells at the loop's next turn. */
static void notice_later(struct fake_notice *notice, provider_done_fn *done, void *data)
{
	notice->done = done;
	notice->data = data;
	loop_timer_restart(notice->timer, 0);
}

static void fake_start(void *self, provider_done_fn *started, void *data)
{
	struct fake *fake = self;

	notice_later(&fake->started, started, data);
}

static void fake_stop(void *self, provider_done_fn *stopped, void *data)
{
	struct fake *fake = self;
	struct fake_create *create;

	fake->stopping = true;
	DL_FOREACH (fake->creates, create)
		loop_timer_restart(create->timer, 0);
	for (unsigned i = 0; i < fake->slot_count; i++)
		if (fake->slots[i].state == FAKE_RESETTING)
			loop_timer_restart(fake->slots[i].reset, 0);
	notice_later(&fake->stopped, stopped, data);
}

static void fake_drain(void *self, bool drain)
{
	struct fake *fake = self;
	struct fake_create *create;

	fake->draining = drain;
	DL_FOREACH (fake->creates, create)
		if (drain && !create->slot)
			loop_timer_restart(create->timer, 0);
}

static int fake_check(void *self, const struct sandbox_spec *spec, struct error *err)
{
	const struct fake *fake = self;

	return sandbox_spec_check_local(spec, fake->env.config, err);
}

const struct sandbox_provider_ops fake_ops = {
	.name = "fake",
	.capabilities = SANDBOX_COMMAND,
	.open = fake_open,
	.close = fake_close,
	.start = fake_start,
	.stop = fake_stop,
	.drain = fake_drain,
	.check = fake_check,
	.create = fake_create,
	.run = fake_run,
	.destroy = fake_destroy,
};
