/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <inttypes.h>
#include <stdio.h>

#include "config/settings.h"
#include "pool/bubble.h"
#include "pool/net.h"
#include "pool/pool-private.h"
#include "pool/slot-limits.h"

/* What a row tells. */
struct fact {
	char value[32];        /* "": there is no limit, and why says it */
	const char *mechanism; /* "" with an empty value */
	const char *why;
};

/* The largest unit that leaves a whole number, as the configuration writes sizes. */
static void size_value(struct fact *fact, uint64_t bytes, const char *mechanism)
{
	static const char units[] = {'K', 'M', 'G', 'T'};
	int unit = -1;

	while (unit < 3 && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	if (unit < 0)
		(void)snprintf(fact->value, sizeof(fact->value), "%" PRIu64, bytes);
	else
		(void)snprintf(
			fact->value, sizeof(fact->value), "%" PRIu64 "%c", bytes, units[unit]);
	fact->mechanism = mechanism;
}

static void count_value(struct fact *fact, uint64_t count, const char *mechanism)
{
	(void)snprintf(fact->value, sizeof(fact->value), "%" PRIu64, count);
	fact->mechanism = mechanism;
}

/* NULL: nothing limits, and the fact says why. */
static const char *mechanism_of(
	const struct slot *slot, enum controller controller, struct fact *fact)
{
	switch (limits_mechanism(slot->pool->limits, controller, &fact->why)) {
	case LIMIT_CGROUP2:
		return "cgroup2";
	case LIMIT_CGROUP1:
		return "cgroup1";
	case LIMIT_RLIMIT:
		return "rlimit";
	case LIMIT_NOT:
		break;
	}
	return NULL;
}

static void tell_memory_max(const struct slot *slot, struct fact *fact)
{
	uint64_t bytes = slot->pool->config->slot.memory_max;
	const char *mechanism = mechanism_of(slot, CONTROLLER_MEMORY, fact);

	if (bytes == 0)
		fact->why = "slot.memory_max is 0";
	else if (mechanism)
		size_value(fact, bytes, mechanism);
}

static void tell_memory_high(const struct slot *slot, struct fact *fact)
{
	uint64_t bytes = slot->pool->config->slot.memory_high;
	const char *why;
	enum limit_mechanism mechanism =
		limits_mechanism(slot->pool->limits, CONTROLLER_MEMORY, &why);

	fact->why = why;
	if (bytes == 0)
		fact->why = "slot.memory_high is 0";
	else if (mechanism == LIMIT_CGROUP2)
		size_value(fact, bytes, "cgroup2");
	else if (mechanism == LIMIT_CGROUP1)
		fact->why = "cgroup v1 ends processes but slows none down";
}

/* An rlimit is each user's: who can be any of them has none. */
static bool is_many_users(const struct slot *slot)
{
	const char *why;

	return bubble_is_ranged(slot->pool->config) && slot->pool->config->slot.uid == 0 &&
	       limits_mechanism(slot->pool->limits, CONTROLLER_PIDS, &why) == LIMIT_RLIMIT;
}

static void tell_pids_max(const struct slot *slot, struct fact *fact)
{
	const char *mechanism = mechanism_of(slot, CONTROLLER_PIDS, fact);

	if (slot->pool->config->slot.pids_max == 0)
		fact->why = "slot.pids_max is 0";
	else if (is_many_users(slot))
		fact->why = "an rlimit is each user's, and root inside can be all of them; only a "
			    "cgroup would hold";
	else if (mechanism)
		count_value(fact, slot->pool->config->slot.pids_max, mechanism);
}

static void tell_cpu_weight(const struct slot *slot, struct fact *fact)
{
	uint32_t weight = slot->pool->config->slot.cpu_weight;
	const char *mechanism = mechanism_of(slot, CONTROLLER_CPU, fact);

	if (weight == 0)
		fact->why = "slot.cpu_weight is not set";
	else if (mechanism)
		count_value(fact, weight, mechanism);
}

static void tell_nofile(const struct slot *slot, struct fact *fact)
{
	if (slot->pool->config->slot.nofile > 0)
		count_value(fact, slot->pool->config->slot.nofile, "rlimit");
	else
		fact->why = "the daemon's own limit holds";
}

static void tell_file_size(const struct slot *slot, struct fact *fact)
{
	if (slot->pool->config->slot.file_size > 0)
		size_value(fact, slot->pool->config->slot.file_size, "rlimit");
	else
		fact->why = "slot.file_size is not set";
}

static void tell_timeout(const struct slot *slot, struct fact *fact)
{
	uint64_t ms = slot->pool->config->exec.timeout_max_ms;

	fact->why = "exec.timeout_max is 0";
	if (ms == 0)
		return;
	(void)snprintf(fact->value, sizeof(fact->value), "%gs", (double)ms / 1000);
	fact->mechanism = "kill";
}

static void tell_size(const struct slot *slot, struct fact *fact)
{
	if (slot->pool->config->slot.storage == STORAGE_TMPFS)
		size_value(fact, slot->pool->config->slot.size, "tmpfs");
	else
		fact->why = "slot.storage is directories, which share the disk";
}

static void tell_inodes(const struct slot *slot, struct fact *fact)
{
	if (slot->pool->config->slot.storage == STORAGE_TMPFS)
		count_value(fact, slot->pool->config->slot.inodes, "tmpfs");
	else
		fact->why = "slot.storage is directories, which share the disk";
}

/* At a time, in each direction. */
static void tell_connections(const struct slot *slot, struct fact *fact)
{
	switch (slot->pool->config->slot.network) {
	case NETWORK_NONE:
		count_value(fact, 0, "namespace");
		break;
	case NETWORK_FORWARD:
		count_value(fact, NET_LINKS_MAX, "daemon");
		break;
	case NETWORK_NAT:
		fact->why = "slot.network is nat, where slirp4netns carries what goes out";
		break;
	case NETWORK_HOST:
		fact->why = "slot.network is host";
		break;
	}
}

static const struct {
	const char *name;
	void (*tell)(const struct slot *slot, struct fact *fact);
} rows[] = {
	{"memory_max", tell_memory_max},
	{"memory_high", tell_memory_high},
	{"pids_max", tell_pids_max},
	{"cpu_weight", tell_cpu_weight},
	{"nofile", tell_nofile},
	{"file_size", tell_file_size},
	{"timeout_max", tell_timeout},
	{"size", tell_size},
	{"inodes", tell_inodes},
	{"connections", tell_connections},
};

void slot_each_limit(const struct slot *slot, slot_limit_fn *visit, void *data)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct fact fact = {.mechanism = "", .why = ""};
		struct slot_limit limit = {.name = rows[i].name};

		rows[i].tell(slot, &fact);
		limit.value = *fact.value ? fact.value : "unlimited";
		limit.mechanism = fact.mechanism;
		limit.why = *fact.value ? "" : fact.why;
		visit(data, &limit);
	}
}
