/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fake-private.h: what fake.c (slots, sandboxes) and fake-exec.c (their commands) share.
 */
#ifndef PROVIDERS_FAKE_PRIVATE_H
#define PROVIDERS_FAKE_PRIVATE_H

#include "base/operation.h"
#include "providers/fake.h"
#include "providers/sandbox-provider.h"

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
	struct spool *out, *err;
	uint64_t deadline_ms; /* 0: none */
	uint64_t wake_ms;
	bool cancelled, timed_out, lost;
	enum reason lost_reason;
	struct loop_timer *timer;
	command_ended_fn *done;
	void *data;
	struct fake_exec *prev, *next;
};

/* The box dies under its lease. Its commands end at the next turn. */
void fake_box_lose(struct fake_box *box);
/* The provider's run(). */
int fake_run(struct sandbox *base, const struct command_run *run, struct operation **ret_op,
	struct error *err);

#endif
