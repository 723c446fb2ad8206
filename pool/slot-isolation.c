/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What of a slot's isolation depends on who and where the daemon is. The rest is the same for every
 * slot, since init's start fails when a step does. */
#include <grp.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "config/settings.h"
#include "pool/bubble.h"
#include "pool/pool-private.h"

enum { GROUPS_MAX = 64 };

struct fact {
	char value[32];        /* "": it is absent, and why says it */
	const char *mechanism; /* "" when absent */
	char why[400];
};

static void tell_host_uid(const struct slot *slot, struct fact *fact)
{
	(void)snprintf(fact->why, sizeof(fact->why),
		"an ordinary user's daemon has uid %u alone, for all its slots",
		(unsigned)geteuid());
	if (geteuid() != 0)
		return;
	(void)snprintf(fact->value, sizeof(fact->value), "%u", (unsigned)slot_host_uid(slot));
	fact->mechanism = "setresuid";
}

/* Beside the daemon's own: what a file of theirs that is bound into the slot can be read by. */
static void list_groups(struct fact *fact, const gid_t *groups, int count)
{
	int length = 0, others = 0;

	for (int i = 0; i < count && length < (int)sizeof(fact->why) - 16; i++) {
		if (groups[i] == getegid())
			continue;
		if (others++ == 0)
			length = snprintf(fact->why, sizeof(fact->why),
				"an ordinary user's daemon cannot leave its groups:");
		length += snprintf(fact->why + length, sizeof(fact->why) - (size_t)length, " %u",
			(unsigned)groups[i]);
	}
}

static void tell_groups(const struct slot *slot, struct fact *fact)
{
	gid_t groups[GROUPS_MAX];
	int count = geteuid() == 0 ? 0 : getgroups(GROUPS_MAX, groups);

	if (count < 0)
		(void)snprintf(fact->why, sizeof(fact->why),
			"an ordinary user's daemon cannot leave its groups, more than %d",
			GROUPS_MAX);
	else
		list_groups(fact, groups, count);
	if (*fact->why)
		return;
	(void)snprintf(fact->value, sizeof(fact->value), "none");
	fact->mechanism = geteuid() == 0 ? "setgroups" : "the daemon has none";
}

static void tell_network(const struct slot *slot, struct fact *fact)
{
	(void)snprintf(fact->why, sizeof(fact->why), "slot.network is host");
	if (slot->pool->config->slot.network == NETWORK_HOST)
		return;
	(void)snprintf(fact->value, sizeof(fact->value), "own");
	fact->mechanism = "namespace";
}

static void tell_landlock(const struct slot *slot, struct fact *fact)
{
	int abi = slot->booted ? bubble_landlock_abi(slot->bubble) : 0;

	(void)snprintf(fact->why, sizeof(fact->why), "%s",
		slot->booted ? "the kernel has none that scopes signals and abstract sockets "
			       "(Linux 6.12)"
			     : "no init runs");
	if (abi == 0)
		return;
	(void)snprintf(fact->value, sizeof(fact->value), "%d", abi);
	fact->mechanism = "signals and abstract sockets";
}

static const struct {
	const char *name;
	void (*tell)(const struct slot *slot, struct fact *fact);
} rows[] = {
	{"host_uid", tell_host_uid},
	{"host_groups", tell_groups},
	{"network_namespace", tell_network},
	{"landlock", tell_landlock},
};

void slot_each_isolation(const struct slot *slot, slot_limit_fn *visit, void *data)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct fact fact = {.mechanism = ""};
		struct slot_limit limit = {.name = rows[i].name};

		rows[i].tell(slot, &fact);
		limit.value = *fact.value ? fact.value : "absent";
		limit.mechanism = fact.mechanism;
		limit.why = *fact.value ? "" : fact.why;
		visit(data, &limit);
	}
}
