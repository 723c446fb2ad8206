/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "config/settings.h"
#include "pool/cgroup.h"
#include "pool/cgroup1.h"
#include "pool/slot-limits-private.h"

enum {
	CLOSE_KILL_MS = 5000, /* when the pool was not stopped first */
	SHORT_MARGIN = 2 * 1024 * 1024,
	GONE_MS = 5000, /* an empty cgroup is removed at once; longer only if it is not */
};

/* ---- What can be had ---- */

static bool is_wanted(const struct config *config, enum controller controller)
{
	switch (controller) {
	case CONTROLLER_MEMORY:
		return config->slot.memory_max > 0 || config->slot.memory_high > 0;
	case CONTROLLER_PIDS:
		return config->slot.pids_max > 0;
	case CONTROLLER_CPU:
		return config->slot.cpu_weight > 0;
	case CONTROLLER_COUNT:
		break;
	}
	return false;
}

static unsigned wanted(const struct config *config)
{
	unsigned bits = 0;

	for (enum controller c = 0; c < CONTROLLER_COUNT; c++)
		if (is_wanted(config, c))
			bits |= 1u << c;
	return bits;
}

static void use_v2(struct limits *limits, struct cgroups *cgroups, struct error *why)
{
	unsigned given = 0;

	if (!cgroups)
		(void)error_set(why, ENOENT, "there is no cgroup v2 that this user may write in");
	else
		(void)delegation_open(cgroups_path(cgroups), wanted(limits->config),
			&limits->delegation, &given, why);
	for (enum controller c = 0; c < CONTROLLER_COUNT; c++)
		if (given & 1u << c)
			limits->by[c].mechanism = LIMIT_CGROUP2;
	if (given & 1u << CONTROLLER_MEMORY)
		cgroups_part(cgroups);
}

static void use_v1(struct limits *limits, enum controller controller, const struct error *v2_why)
{
	struct controlled *by = &limits->by[controller];
	struct error v1_why = ERROR_NONE;
	bool has_it = controller != CONTROLLER_MEMORY || limits->config->slot.memory_max > 0;

	if (!has_it)
		(void)error_set(&v1_why, ENOENT, "cgroup v1 has no such limit");
	else if (cgroup1_open(controller_name(controller), limits->config->dressage.state_dir,
			 &by->tree, &v1_why) == 0) {
		by->mechanism = LIMIT_CGROUP1;
		return;
	}
	(void)error_set(&by->why, v1_why.code, "%s; %s",
		v2_why->code ? v2_why->text : "not delegated", v1_why.text);
	if (controller == CONTROLLER_PIDS)
		by->mechanism = LIMIT_RLIMIT;
}

static void find_mechanisms(struct limits *limits, struct cgroups *cgroups)
{
	struct error v2_why = ERROR_NONE;

	use_v2(limits, cgroups, &v2_why);
	for (enum controller c = 0; c < CONTROLLER_COUNT; c++)
		if (is_wanted(limits->config, c) && limits->by[c].mechanism == LIMIT_NOT)
			use_v1(limits, c, &v2_why);
	for (enum controller c = 0; c < CONTROLLER_COUNT; c++)
		if (is_wanted(limits->config, c) && limits->by[c].mechanism == LIMIT_NOT)
			log_warn("the limit on %s of slots is not in force: %s", controller_name(c),
				limits->by[c].why.text);
}

int limits_open(struct loop *loop, const struct config *config, struct cgroups *cgroups,
	struct limits **ret_limits, struct error *err)
{
	struct limits *limits = calloc(1, sizeof(*limits));

	if (!limits)
		return error_set(err, ENOMEM, "no memory for limits");
	limits->loop = loop;
	limits->config = config;
	for (enum controller c = 0; c < CONTROLLER_COUNT; c++)
		strbuf_init(&limits->by[c].tree);
	find_mechanisms(limits, cgroups);
	*ret_limits = limits;
	return 0;
}

enum limit_mechanism limits_mechanism(
	const struct limits *limits, enum controller controller, const char **ret_why)
{
	*ret_why = limits->by[controller].why.text;
	return limits->by[controller].mechanism;
}

bool limits_has_tree(const struct limits *limits, const char *path)
{
	for (enum controller c = 0; c < CONTROLLER_COUNT; c++)
		if (!strcmp(limits->by[c].tree.data, path))
			return true;
	return false;
}

int limits_clear(struct limits *limits, unsigned *ret_count, struct error *err)
{
	int r = 0;

	for (enum controller c = 0; c < CONTROLLER_COUNT; c++)
		if (limits->by[c].mechanism == LIMIT_CGROUP1 &&
			cgroup1_clear_all(limits->by[c].tree.data, CLOSE_KILL_MS, ret_count, err) <
				0)
			r = -EBUSY;
	return r;
}

static void close_tree(struct controlled *by)
{
	struct error why = ERROR_NONE;
	unsigned count = 0;

	if (by->mechanism == LIMIT_CGROUP1 &&
		(cgroup1_clear_all(by->tree.data, CLOSE_KILL_MS, &count, &why) < 0 ||
			cgroup1_clear(by->tree.data, 0, &why) < 0))
		log_warn("%s; the next start will try again", why.text);
	strbuf_fini(&by->tree);
}

void limits_close(struct limits *limits)
{
	if (!limits)
		return;
	for (struct slot_limits *slot = limits->leaving; slot; slot = slot->next)
		slot->limits = NULL;
	for (enum controller c = 0; c < CONTROLLER_COUNT; c++)
		close_tree(&limits->by[c]);
	delegation_close(limits->delegation);
	free(limits);
}

/* ---- A slot's ---- */

void slot_limits_free(struct slot_limits *slot)
{
	if (!slot)
		return;
	slot_limits_unwatch(slot);
	slot_limits_joined(slot);
	closep(&slot->commands_fd);
	closep(&slot->oom_fd);
	closep(&slot->pids_fd);
	closep(&slot->usage_fd);
	closep(&slot->high_fd);
	for (enum controller c = 0; c < CONTROLLER_COUNT; c++)
		free(slot->paths[c]);
	free(slot);
}

static int make(struct slot_limits *slot, const struct limits *limits, const char *name,
	const struct slot_cgroup *cgroup, struct error *err)
{
	int r = 0;

	for (enum controller c = 0; c < CONTROLLER_COUNT && r == 0; c++) {
		if (limits->by[c].mechanism == LIMIT_CGROUP1)
			r = slot_limits_set1(slot, c, name, limits, err);
		else if (limits->by[c].mechanism == LIMIT_CGROUP2)
			r = slot_limits_set2(slot, c, cgroup, limits, err);
	}
	return r;
}

static bool remove_paths(struct slot_limits *slot)
{
	bool all = true;

	for (enum controller c = 0; c < CONTROLLER_COUNT; c++)
		if (slot->paths[c] && cgroup1_clear(slot->paths[c], GONE_MS, &slot->why) < 0)
			all = false;
	return all;
}

static uint64_t short_of(uint64_t max)
{
	uint64_t margin = max / 16 > SHORT_MARGIN ? max / 16 : SHORT_MARGIN;

	if (max == 0) /* no limit */
		return UINT64_MAX;
	return max > margin ? max - margin : 0;
}

int slot_limits_create(const struct limits *limits, unsigned slot, uint32_t generation,
	const struct slot_cgroup *cgroup, struct slot_limits **ret_limits, struct error *err)
{
	struct slot_limits *made = calloc(1, sizeof(*made));
	char name[48];
	int r;

	if (!made)
		return error_set(err, ENOMEM, "no memory for a slot's limits");
	made->commands_fd = made->oom_fd = made->pids_fd = made->usage_fd = made->high_fd = -1;
	made->short_of = short_of(limits->config->slot.memory_max);
	(void)snprintf(name, sizeof(name), "slot-%04u-g%u", slot, generation);
	r = make(made, limits, name, cgroup, err);
	if (r < 0) {
		(void)remove_paths(made);
		slot_limits_free(made);
		return r;
	}
	*ret_limits = made;
	return 0;
}

static void remove_work(void *data)
{
	struct slot_limits *slot = data;

	slot->left = !remove_paths(slot);
}

static void unlink_leaving(struct limits *limits, struct slot_limits *slot)
{
	if (slot->prev)
		slot->prev->next = slot->next;
	else
		limits->leaving = slot->next;
	if (slot->next)
		slot->next->prev = slot->prev;
	limits->leaving_count--;
}

static void handle_removed(void *data)
{
	struct slot_limits *slot = data;
	struct limits *limits = slot->limits;

	if (limits) {
		if (slot->left)
			log_warn("%s; the next start will try again", slot->why.text);
		unlink_leaving(limits, slot);
	}
	slot_limits_free(slot);
	if (limits && limits->leaving_count == 0 && limits->gone)
		limits->gone(limits->data);
}

static bool has_paths(const struct slot_limits *slot)
{
	for (enum controller c = 0; c < CONTROLLER_COUNT; c++)
		if (slot->paths[c])
			return true;
	return false;
}

void slot_limits_discard(struct limits *limits, struct slot_limits *slot)
{
	if (!slot)
		return;
	slot_limits_unwatch(slot);
	if (!has_paths(slot) ||
		loop_work(limits->loop, remove_work, handle_removed, slot, NULL) < 0) {
		(void)remove_paths(slot);
		slot_limits_free(slot);
		return;
	}
	slot->limits = limits;
	slot->next = limits->leaving;
	if (slot->next)
		slot->next->prev = slot;
	limits->leaving = slot;
	limits->leaving_count++;
}

unsigned limits_leaving(const struct limits *limits)
{
	return limits->leaving_count;
}

void limits_on_gone(struct limits *limits, loop_fn *fn, void *data)
{
	limits->gone = fn;
	limits->data = data;
}

const int *slot_limits_joins(const struct slot_limits *slot, unsigned *ret_count)
{
	*ret_count = slot->join_count;
	return slot->joins;
}

void slot_limits_joined(struct slot_limits *slot)
{
	while (slot->join_count > 0)
		(void)close(slot->joins[--slot->join_count]);
}

int slot_limits_commands_fd(const struct slot_limits *slot)
{
	return slot->commands_fd;
}

void slot_limits_add_paths(const struct slot_limits *slot, struct strbuf *out)
{
	for (enum controller c = 0; c < CONTROLLER_COUNT; c++)
		if (slot->paths[c])
			strbuf_addf(out, "\n%s", slot->paths[c]);
}
