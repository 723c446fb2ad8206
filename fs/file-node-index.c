/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/file-node-private.h"

enum { FIRST_SLOTS = 32 };

static uint64_t mix(uint64_t x)
{
	x ^= x >> 32;
	x *= UINT64_C(0xe9846af9b1a615d);
	x ^= x >> 32;
	x *= UINT64_C(0xe9846af9b1a615d);
	return x ^ (x >> 28);
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
	const unsigned char *bytes = data;
	uint64_t word;
	size_t n;

	for (; size > 0; bytes += n, size -= n) {
		n = size < sizeof(word) ? size : sizeof(word);
		word = 0;
		memcpy(&word, bytes, n);
		hash = mix(hash ^ word) + n;
	}
	return hash;
}

uint32_t file_node_hash_id(uint64_t id)
{
	return (uint32_t)(id >> SHARD_BITS);
}

uint32_t file_node_hash_file(
	const struct file_node_table *table, uint64_t serial, const struct file_identity *identity)
{
	uint64_t hash = mix(table->seed ^ serial) ^ identity->mount;

	return (uint32_t)hash_bytes(hash, identity->bytes, identity->size);
}

uint32_t file_node_hash_place(const struct file_node_table *table, uint64_t serial,
	const struct file_node *parent, const char *name)
{
	uint64_t hash = mix(table->seed ^ serial) ^ (parent ? parent->id : 0);

	return (uint32_t)hash_bytes(hash, name, strlen(name));
}

bool file_node_has_one_place(uint32_t type)
{
	return S_ISDIR(type) || S_ISLNK(type);
}

void file_node_index_add_locked(struct file_node *node, enum file_node_index index, uint32_t hash)
{
	struct file_node_shard *shard = node->shard;
	struct file_node **slot = &shard->slots[index][hash & (shard->slot_count - 1)];

	node->hash[index] = hash;
	node->next[index] = *slot;
	node->indexed[index] = true;
	*slot = node;
}

void file_node_index_remove_locked(struct file_node *node, enum file_node_index index)
{
	struct file_node_shard *shard = node->shard;
	struct file_node **link;

	if (!node->indexed[index])
		return;
	link = &shard->slots[index][node->hash[index] & (shard->slot_count - 1)];
	while (*link != node)
		link = &(*link)->next[index];
	*link = node->next[index];
	node->indexed[index] = false;
}

static void rehash_locked(struct file_node_shard *shard, enum file_node_index index,
	struct file_node **slots, size_t slot_count)
{
	struct file_node *node, *next, **slot;
	size_t i;

	for (i = 0; i < shard->slot_count; i++) {
		for (node = shard->slots[index][i]; node; node = next) {
			next = node->next[index];
			slot = &slots[node->hash[index] & (slot_count - 1)];
			node->next[index] = *slot;
			*slot = node;
		}
	}
	free(shard->slots[index]);
	shard->slots[index] = slots;
}

int file_node_make_room_locked(struct file_node_shard *shard)
{
	size_t slot_count = shard->slot_count ? 2 * shard->slot_count : FIRST_SLOTS;
	struct file_node **slots[FILE_NODE_INDEX_COUNT] = {NULL};
	int index;

	if (shard->count < shard->slot_count)
		return 0;
	for (index = 0; index < FILE_NODE_INDEX_COUNT; index++)
		slots[index] = calloc(slot_count, sizeof(struct file_node *));
	for (index = 0; index < FILE_NODE_INDEX_COUNT && slots[index]; index++)
		;
	if (index < FILE_NODE_INDEX_COUNT) {
		for (index = 0; index < FILE_NODE_INDEX_COUNT; index++)
			free(slots[index]);
		return shard->slot_count ? 0 : -ENOMEM;
	}
	for (index = 0; index < FILE_NODE_INDEX_COUNT; index++)
		rehash_locked(shard, index, slots[index], slot_count);
	shard->slot_count = slot_count;
	return 0;
}

struct file_node *file_node_find_id_locked(struct file_node_shard *shard, uint64_t id)
{
	struct file_node *node;

	if (shard->slot_count == 0)
		return NULL;
	node = shard->slots[FILE_NODE_BY_ID][file_node_hash_id(id) & (shard->slot_count - 1)];
	while (node && node->id != id)
		node = node->next[FILE_NODE_BY_ID];
	return node;
}

struct file_node *file_node_find_file_locked(struct file_node_shard *shard, uint64_t serial,
	const struct file_identity *identity, uint32_t hash)
{
	struct file_node *node;

	if (shard->slot_count == 0)
		return NULL;
	node = shard->slots[FILE_NODE_BY_FILE][hash & (shard->slot_count - 1)];
	while (node && (node->serial != serial || !file_node_is(node, identity)))
		node = node->next[FILE_NODE_BY_FILE];
	return node;
}

struct file_node *file_node_find_place_locked(struct file_node_shard *shard, uint64_t serial,
	const struct file_node *parent, const char *name, uint32_t hash)
{
	struct file_node *node;

	if (shard->slot_count == 0)
		return NULL;
	node = shard->slots[FILE_NODE_BY_PLACE][hash & (shard->slot_count - 1)];
	while (node &&
		(node->serial != serial || node->parent != parent || strcmp(node->name, name) != 0))
		node = node->next[FILE_NODE_BY_PLACE];
	return node;
}
