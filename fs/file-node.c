/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "fs/file-node-private.h"

int file_node_table_create(
	size_t max_nodes, file_node_gone_fn *gone, struct file_node_table **ret_table)
{
	struct file_node_table *table = calloc(1, sizeof(*table));
	int i;

	if (!table)
		return -ENOMEM;
	if (getrandom(&table->seed, sizeof(table->seed), GRND_NONBLOCK) < 0)
		table->seed = (uintptr_t)table;
	table->max_nodes = max_nodes;
	table->gone = gone;
	atomic_init(&table->count, 0);
	for (i = 0; i < SHARD_COUNT; i++) {
		table->shards[i].table = table;
		pthread_mutex_init(&table->shards[i].lock, NULL);
	}
	*ret_table = table;
	return 0;
}

static void node_free(struct file_node_table *table, struct file_node *node)
{
	atomic_fetch_sub(&table->count, 1);
	if (table->gone)
		table->gone(node);
	free(node->name);
	free(node);
}

static void shard_fini(struct file_node_shard *shard)
{
	struct file_node *node, *next;
	size_t i;
	int index;

	for (i = 0; i < shard->slot_count; i++) {
		for (node = shard->slots[FILE_NODE_BY_ID][i]; node; node = next) {
			next = node->next[FILE_NODE_BY_ID];
			node_free(shard->table, node);
		}
	}
	for (index = 0; index < FILE_NODE_INDEX_COUNT; index++)
		free(shard->slots[index]);
	pthread_mutex_destroy(&shard->lock);
}

void file_node_table_destroy(struct file_node_table *table)
{
	int i;

	if (!table)
		return;
	for (i = 0; i < SHARD_COUNT; i++)
		shard_fini(&table->shards[i]);
	free(table);
}

size_t file_node_table_count(struct file_node_table *table)
{
	return atomic_load(&table->count);
}

/*
 * Takes the node out when nothing counts on it any more, and its parents with it. They are chained
 * by next[FILE_NODE_BY_ID] and are freed by whoever unlocks.
 */
void file_node_collect_locked(struct file_node *node, struct file_node **ret_dead)
{
	struct file_node *parent;
	int index;

	for (; node && node->refs == 0 && node->lookups == 0; node = parent) {
		parent = node->parent;
		for (index = 0; index < FILE_NODE_INDEX_COUNT; index++)
			file_node_index_remove_locked(node, index);
		node->shard->count--;
		node->next[FILE_NODE_BY_ID] = *ret_dead;
		*ret_dead = node;
		if (parent)
			parent->refs--;
	}
}

void file_node_free_dead(struct file_node_table *table, struct file_node *dead)
{
	struct file_node *next;

	for (; dead; dead = next) {
		next = dead->next[FILE_NODE_BY_ID];
		node_free(table, dead);
	}
}

static struct file_node_shard *shard_of_id(struct file_node_table *table, uint64_t id)
{
	return &table->shards[id & (SHARD_COUNT - 1)];
}

struct file_node *file_node_get(struct file_node_table *table, uint64_t id)
{
	struct file_node_shard *shard = shard_of_id(table, id);
	struct file_node *node;

	pthread_mutex_lock(&shard->lock);
	node = file_node_find_id_locked(shard, id);
	if (node) {
		node->refs++;
		node->recent = true;
	}
	pthread_mutex_unlock(&shard->lock);
	return node;
}

struct file_node *file_node_ref(struct file_node *node)
{
	pthread_mutex_lock(&node->shard->lock);
	node->refs++;
	pthread_mutex_unlock(&node->shard->lock);
	return node;
}

void file_node_put(struct file_node *node)
{
	struct file_node_shard *shard;
	struct file_node *dead = NULL;

	if (!node)
		return;
	shard = node->shard;
	pthread_mutex_lock(&shard->lock);
	assert(node->refs > 0);
	node->refs--;
	file_node_collect_locked(node, &dead);
	pthread_mutex_unlock(&shard->lock);
	file_node_free_dead(shard->table, dead);
}

void file_node_forget(struct file_node_table *table, uint64_t id, uint64_t count)
{
	struct file_node_shard *shard = shard_of_id(table, id);
	struct file_node *node, *dead = NULL;

	pthread_mutex_lock(&shard->lock);
	node = file_node_find_id_locked(shard, id);
	if (node) {
		node->lookups -= count < node->lookups ? count : node->lookups;
		file_node_collect_locked(node, &dead);
	}
	pthread_mutex_unlock(&shard->lock);
	file_node_free_dead(table, dead);
}

bool file_node_is(const struct file_node *node, const struct file_identity *identity)
{
	return node->mount == identity->mount && node->type == identity->type &&
	       node->handle_type == identity->handle_type && node->handle_size == identity->size &&
	       memcmp(node->handle, identity->bytes, identity->size) == 0;
}

/* ---- telling ---- */

static struct file_node *node_new(struct file_node_shard *shard, const struct file_node_told *told)
{
	const struct file_identity *identity = told->identity;
	struct file_node *node = calloc(1, sizeof(*node) + identity->size);

	if (!node)
		return NULL;
	node->serial = told->serial;
	node->shard = shard;
	node->loan = told->loan;
	node->branch = told->branch;
	node->type = identity->type;
	node->hollow = told->hollow;
	node->is_root = !told->parent;
	atomic_init(&node->link_rest, FILE_NODE_LINK_UNREAD);
	node->depth_cap = UINT32_MAX;
	node->mount = identity->mount;
	node->handle_type = identity->handle_type;
	node->handle_size = identity->size;
	memcpy(node->handle, identity->bytes, identity->size);
	return node;
}

static int add_locked(struct file_node_shard *shard, struct file_node *node)
{
	struct file_node_table *table = shard->table;
	int r;

	if (atomic_load(&table->count) >= table->max_nodes)
		return -ENFILE;
	r = file_node_make_room_locked(shard);
	if (r < 0)
		return r;
	atomic_fetch_add(&table->count, 1);
	shard->count++;
	node->id = FILE_NODE_ID_BIT | (++shard->last << SHARD_BITS) |
		   (uint64_t)(shard - table->shards);
	file_node_index_add_locked(node, FILE_NODE_BY_ID, file_node_hash_id(node->id));
	return 0;
}

/* The node that the file has already: the one of this place, or, for what may have many names, any.
 */
static struct file_node *find_told_locked(struct file_node_shard *shard,
	const struct file_node_told *told, uint32_t place, uint32_t file)
{
	struct file_node *node =
		file_node_find_place_locked(shard, told->serial, told->parent, told->name, place);

	if (node && file_node_is(node, told->identity))
		return node;
	if (node && file_node_has_one_place(node->type))
		file_node_set_adrift_locked(node);
	else if (node)
		file_node_index_remove_locked(node, FILE_NODE_BY_PLACE);
	if (file_node_has_one_place(told->identity->type))
		return NULL;
	return file_node_find_file_locked(shard, told->serial, told->identity, file);
}

/* Takes *name and *fresh when it needs them. */
static int tell_locked(const struct file_node_told *told, char **name, struct file_node **fresh,
	struct file_node **ret_node, struct file_node **ret_dead)
{
	struct file_node_shard *shard = (*fresh)->shard;
	uint32_t place = file_node_hash_place(shard->table, told->serial, told->parent, told->name);
	uint32_t file = file_node_hash_file(shard->table, told->serial, told->identity);
	struct file_node *node = find_told_locked(shard, told, place, file);
	int r;

	if (!node) {
		r = add_locked(shard, *fresh);
		if (r < 0)
			return r;
		node = *fresh;
		*fresh = NULL;
		if (!file_node_has_one_place(node->type))
			file_node_index_add_locked(node, FILE_NODE_BY_FILE, file);
	}
	if (*name && !(node->indexed[FILE_NODE_BY_PLACE] && node->parent == told->parent &&
			     strcmp(node->name, *name) == 0)) {
		file_node_index_remove_locked(node, FILE_NODE_BY_PLACE);
		file_node_place_locked(node, told->parent, *name, ret_dead);
		*name = NULL;
	}
	node->lookups++;
	node->refs++;
	node->recent = true;
	*ret_node = node;
	return 0;
}

int file_node_tell(struct file_node_table *table, const struct file_node_told *told,
	struct file_node **ret_node, bool *ret_is_new)
{
	struct file_node_shard *shard = &table->shards[told->serial & (SHARD_COUNT - 1)];
	bool placed = told->keep_name || file_node_has_one_place(told->identity->type);
	char *name = placed ? strdup(told->name) : NULL;
	struct file_node *fresh = node_new(shard, told), *dead = NULL;
	int r = -ENOMEM;

	assert(!told->parent || told->parent->serial == told->serial);
	if (fresh && (name || !placed)) {
		pthread_mutex_lock(&shard->lock);
		r = tell_locked(told, &name, &fresh, ret_node, &dead);
		pthread_mutex_unlock(&shard->lock);
	}
	if (r == 0)
		*ret_is_new = !fresh;
	file_node_free_dead(table, dead);
	free(fresh);
	free(name);
	return r;
}

/* ---- forgetting ---- */

static bool is_idle_locked(struct file_node *node)
{
	bool idle = !node->recent && node->refs == 0 && !node->is_root;

	node->recent = false;
	return idle;
}

static void describe_locked(const struct file_node *node, struct file_node_idle *ret_idle)
{
	bool named =
		node->indexed[FILE_NODE_BY_PLACE] && strlen(node->name) < sizeof(ret_idle->name);

	ret_idle->id = node->id;
	ret_idle->type = node->type;
	ret_idle->parent = named ? node->parent->id : 0;
	ret_idle->name[0] = '\0';
	if (named)
		memcpy(ret_idle->name, node->name, strlen(node->name) + 1);
}

/* Moves the hand over one slot. */
static size_t pick_in_slot_locked(struct file_node_table *table, struct file_node_shard *shard,
	struct file_node_idle *ret_idle, size_t max, size_t *seen)
{
	struct file_node *node;
	size_t count = 0;

	if (table->hand_slot >= shard->slot_count) {
		table->hand_slot = 0;
		table->hand_shard = (table->hand_shard + 1) % SHARD_COUNT;
		return 0;
	}
	for (node = shard->slots[FILE_NODE_BY_ID][table->hand_slot]; node;
		node = node->next[FILE_NODE_BY_ID]) {
		++*seen;
		if (count < max && is_idle_locked(node))
			describe_locked(node, &ret_idle[count++]);
	}
	table->hand_slot++;
	return count;
}

size_t file_node_table_pick_idle(struct file_node_table *table, struct file_node_idle *ret_idle,
	size_t max, size_t *ret_seen)
{
	struct file_node_shard *shard;
	size_t count = 0, seen = 0, empty_shards = 0, before;

	while (count < max && seen < 16 * max && empty_shards <= SHARD_COUNT) {
		before = table->hand_shard;
		shard = &table->shards[before];
		pthread_mutex_lock(&shard->lock);
		do {
			count += pick_in_slot_locked(
				table, shard, ret_idle + count, max - count, &seen);
		} while (table->hand_shard == before && count < max && seen < 16 * max);
		pthread_mutex_unlock(&shard->lock);
		empty_shards += table->hand_shard != before;
	}
	*ret_seen = seen;
	return count;
}
