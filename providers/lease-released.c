/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "providers/lease-released.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/cleanup.h"

enum { PLACES_AT_FIRST = 64, BLOCK_SIZE = 512 << 10 };

struct entry {
	uint64_t at_ms;
	unsigned slot;
	uint32_t generation;
	bool reusable;
	char ids[]; /* of the lease, then of its trajectory */
};

/* Entries go in the order in which they came. In blocks that are mappings of their own they do not
 * hold the heap apart, where all else comes and goes within seconds. */
struct block {
	struct block *next; /* newer */
	size_t used;
	unsigned live;
	_Alignas(struct entry) char bytes[];
};

/* Few ask for a lease that has ended, and most for one of the last: a table of hashes that is read
 * from its end costs a quarter of the memory of an index. */
struct place {
	uint32_t id_hash, trajectory_hash;
	struct entry *entry;
};

struct released_leases {
	size_t max;
	uint64_t keep_ms;
	struct place *places; /* a ring, oldest first */
	size_t capacity;      /* a power of two */
	size_t first, count;
	struct block *oldest, *newest;
	struct released_lease found;
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

static struct place *place_at(const struct released_leases *released, size_t n)
{
	return &released->places[(released->first + n) & (released->capacity - 1)];
}

static void drop_oldest(struct released_leases *released)
{
	struct block *block = released->oldest;

	released->first++;
	released->count--;
	if (--block->live > 0)
		return;
	released->oldest = block->next;
	if (!released->oldest)
		released->newest = NULL;
	free(block);
}

void released_destroy(struct released_leases *released)
{
	if (!released)
		return;
	while (released->count > 0)
		drop_oldest(released);
	free(released->places);
	free(released);
}

static void prune(struct released_leases *released, uint64_t now_ms)
{
	while (released->count > 0 &&
		now_ms - place_at(released, 0)->entry->at_ms >= released->keep_ms)
		drop_oldest(released);
	while (released->count > released->max)
		drop_oldest(released);
}

static bool make_room(struct released_leases *released)
{
	size_t capacity = released->capacity > 0 ? 2 * released->capacity : PLACES_AT_FIRST;
	struct place *places;

	if (released->count < released->capacity)
		return true;
	places = calloc(capacity, sizeof(*places));
	if (!places)
		return false;
	for (size_t i = 0; i < released->count; i++)
		places[i] = *place_at(released, i);
	free(released->places);
	released->places = places;
	released->capacity = capacity;
	released->first = 0;
	return true;
}

static uint32_t hash(const char *id)
{
	uint32_t value;

	HASH_VALUE(id, strlen(id), value);
	return value;
}

static const char *trajectory_of(const struct entry *entry)
{
	return entry->ids + strlen(entry->ids) + 1;
}

static struct block *add_block(struct released_leases *released)
{
	struct block *block = malloc(sizeof(*block) + BLOCK_SIZE);

	if (!block)
		return NULL;
	block->next = NULL;
	block->used = block->live = 0;
	if (released->newest)
		released->newest->next = block;
	else
		released->oldest = block;
	released->newest = block;
	return block;
}

static struct entry *allocate(struct released_leases *released, size_t size)
{
	struct block *block = released->newest;
	struct entry *entry;

	size = (size + _Alignof(struct entry) - 1) / _Alignof(struct entry) *
	       _Alignof(struct entry);
	if (!block || size > BLOCK_SIZE - block->used)
		block = add_block(released);
	if (!block)
		return NULL;
	entry = (struct entry *)(void *)(block->bytes + block->used);
	block->used += size;
	block->live++;
	return entry;
}

static struct entry *make_entry(
	struct released_leases *released, const struct released_lease *lease, uint64_t now_ms)
{
	size_t size = strlen(lease->lease_id) + 1 + strlen(lease->trajectory_id) + 1;
	struct entry *entry = allocate(released, sizeof(*entry) + size);

	if (!entry)
		return NULL;
	*entry = (struct entry){.at_ms = now_ms,
		.slot = lease->slot,
		.generation = lease->generation,
		.reusable = lease->reusable};
	(void)stpcpy(stpcpy(entry->ids, lease->lease_id) + 1, lease->trajectory_id);
	return entry;
}

void released_add(
	struct released_leases *released, const struct released_lease *lease, uint64_t now_ms)
{
	struct entry *entry = make_room(released) ? make_entry(released, lease, now_ms) : NULL;

	if (!entry)
		return;
	released->count++;
	*place_at(released, released->count - 1) = (struct place){.id_hash = hash(lease->lease_id),
		.trajectory_hash = hash(lease->trajectory_id),
		.entry = entry};
	prune(released, now_ms);
}

static struct entry *find_lease(const struct released_leases *released, const char *lease_id)
{
	uint32_t wanted = hash(lease_id);

	for (size_t i = released->count; i-- > 0;) {
		const struct place *place = place_at(released, i);

		if (place->id_hash == wanted && strcmp(place->entry->ids, lease_id) == 0)
			return place->entry;
	}
	return NULL;
}

static struct entry *find_latest(const struct released_leases *released, const char *trajectory_id)
{
	uint32_t wanted = hash(trajectory_id);

	for (size_t i = released->count; i-- > 0;) {
		const struct place *place = place_at(released, i);

		if (place->trajectory_hash == wanted &&
			strcmp(trajectory_of(place->entry), trajectory_id) == 0)
			return place->entry;
	}
	return NULL;
}

void released_set_reusable(struct released_leases *released, const char *lease_id)
{
	struct entry *entry = find_lease(released, lease_id);

	if (entry)
		entry->reusable = true;
}

const struct released_lease *released_find(
	struct released_leases *released, const char *id, uint64_t now_ms)
{
	const struct entry *entry;

	prune(released, now_ms);
	entry = find_lease(released, id);
	if (!entry)
		entry = find_latest(released, id);
	if (!entry)
		return NULL;
	released->found = (struct released_lease){.lease_id = entry->ids,
		.trajectory_id = trajectory_of(entry),
		.slot = entry->slot,
		.generation = entry->generation,
		.reusable = entry->reusable};
	return &released->found;
}

size_t released_count(const struct released_leases *released)
{
	return released->count;
}
