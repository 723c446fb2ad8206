/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "providers/fake-private.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/error.h"
#include "base/loop.h"
#include "base/operation.h"
#include "config/settings.h"

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
	fake_box_lose(data);
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
