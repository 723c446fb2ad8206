/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "providers/lease-released.h"

#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

struct entry {
	struct released_lease lease; /* its ids stand behind the entry */
	uint64_t at_ms;
	bool latest; /* of its trajectory: it stands in that hash */
	UT_hash_handle by_id, by_trajectory;
	struct entry *prev, *next;
	char ids[];
};

struct released_leases {
	size_t max;
	uint64_t keep_ms;
	struct entry *entries; /* oldest first */
	struct entry *by_id, *by_trajectory;
};

struct released_leases *released_create(size_t max, uint64_t keep_ms)
{
	struct released_leases *released = calloc(1, sizeof(*released));

	if (!released)
		return NULL;
	released->max = max;
	released->keep_ms = keep_ms;
	return released;
}

static void drop(struct released_leases *released, struct entry *entry)
{
	DL_DELETE(released->entries, entry);
	HASH_DELETE(by_id, released->by_id, entry);
	if (entry->latest)
		HASH_DELETE(by_trajectory, released->by_trajectory, entry);
	free(entry);
}

void released_destroy(struct released_leases *released)
{
	if (!released)
		return;
	while (released->entries)
		drop(released, released->entries);
	free(released);
}

static void prune(struct released_leases *released, uint64_t now_ms)
{
	while (released->entries && now_ms - released->entries->at_ms >= released->keep_ms)
		drop(released, released->entries);
	while (released_count(released) > released->max)
		drop(released, released->entries);
}

static struct entry *make_entry(const struct released_lease *lease, uint64_t now_ms)
{
	size_t size = strlen(lease->lease_id) + 1 + strlen(lease->trajectory_id) + 1;
	struct entry *entry = calloc(1, sizeof(*entry) + size);

	if (!entry)
		return NULL;
	entry->lease = *lease;
	entry->lease.lease_id = entry->ids;
	entry->lease.trajectory_id = stpcpy(entry->ids, lease->lease_id) + 1;
	(void)stpcpy((char *)entry->lease.trajectory_id, lease->trajectory_id);
	entry->at_ms = now_ms;
	return entry;
}

static void become_latest(struct released_leases *released, struct entry *entry)
{
	size_t len = strlen(entry->lease.trajectory_id);
	struct entry *former;

	HASH_FIND(by_trajectory, released->by_trajectory, entry->lease.trajectory_id, len, former);
	if (former) {
		HASH_DELETE(by_trajectory, released->by_trajectory, former);
		former->latest = false;
	}
	HASH_ADD_KEYPTR(
		by_trajectory, released->by_trajectory, entry->lease.trajectory_id, len, entry);
	entry->latest = entry->by_trajectory.tbl != NULL;
}

void released_add(
	struct released_leases *released, const struct released_lease *lease, uint64_t now_ms)
{
	struct entry *entry = make_entry(lease, now_ms);

	if (!entry)
		return;
	HASH_ADD_KEYPTR(by_id, released->by_id, entry->lease.lease_id,
		strlen(entry->lease.lease_id), entry);
	if (!entry->by_id.tbl) {
		free(entry);
		return;
	}
	DL_APPEND(released->entries, entry);
	become_latest(released, entry);
	prune(released, now_ms);
}

void released_set_reusable(struct released_leases *released, const char *lease_id)
{
	struct entry *entry;

	HASH_FIND(by_id, released->by_id, lease_id, strlen(lease_id), entry);
	if (entry)
		entry->lease.reusable = true;
}

const struct released_lease *released_find(
	struct released_leases *released, const char *id, uint64_t now_ms)
{
	struct entry *entry;

	prune(released, now_ms);
	HASH_FIND(by_id, released->by_id, id, strlen(id), entry);
	if (!entry)
		HASH_FIND(by_trajectory, released->by_trajectory, id, strlen(id), entry);
	return entry ? &entry->lease : NULL;
}

size_t released_count(const struct released_leases *released)
{
	return HASH_CNT(by_id, released->by_id);
}
