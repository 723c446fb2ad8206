/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/node.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

enum { SHARD_BITS = 6, SHARD_COUNT = 1 << SHARD_BITS, FIRST_SLOTS = 32, NAME_SIZE = 256 };

struct node_shard {
	struct node_table *table;
	pthread_mutex_t lock;
	uint64_t last; /* how many nodes there ever were */
	size_t count;
	size_t slot_count; /* of each index; 0 or a power of two */
	struct node **slots[NODE_INDEX_COUNT];
};

struct node_table {
	size_t max_nodes;
	uint64_t seed; /* names are hostile: their hash must not be foreseeable */
	node_gone_fn *gone;
	atomic_size_t count;
	struct node_shard shards[SHARD_COUNT];
};

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

static uint32_t hash_id(uint64_t id)
{
	return (uint32_t)(id >> SHARD_BITS);
}

static uint32_t hash_file(
	const struct node_table *table, uint64_t serial, const struct node_identity *identity)
{
	uint64_t hash = mix(table->seed ^ serial) ^ identity->mount;

	return (uint32_t)hash_bytes(hash, identity->bytes, identity->size);
}

static uint32_t hash_place(const struct node_table *table, uint64_t serial,
	const struct node *parent, const char *name)
{
	uint64_t hash = mix(table->seed ^ serial) ^ (parent ? parent->id : 0);

	return (uint32_t)hash_bytes(hash, name, strlen(name));
}

static bool has_one_place(uint32_t type)
{
	return S_ISDIR(type) || S_ISLNK(type);
}

/* ---- the three indexes of a shard ---- */

static void index_add_locked(struct node *node, enum node_index index, uint32_t hash)
{
	struct node_shard *shard = node->shard;
	struct node **slot = &shard->slots[index][hash & (shard->slot_count - 1)];

	node->hash[index] = hash;
	node->next[index] = *slot;
	node->indexed[index] = true;
	*slot = node;
}

static void index_remove_locked(struct node *node, enum node_index index)
{
	struct node_shard *shard = node->shard;
	struct node **link;

	if (!node->indexed[index])
		return;
	link = &shard->slots[index][node->hash[index] & (shard->slot_count - 1)];
	while (*link != node)
		link = &(*link)->next[index];
	*link = node->next[index];
	node->indexed[index] = false;
}

static void rehash_locked(
	struct node_shard *shard, enum node_index index, struct node **slots, size_t slot_count)
{
	struct node *node, *next, **slot;
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

static int make_room_locked(struct node_shard *shard)
{
	size_t slot_count = shard->slot_count ? 2 * shard->slot_count : FIRST_SLOTS;
	struct node **slots[NODE_INDEX_COUNT] = {NULL};
	int index;

	if (shard->count < shard->slot_count)
		return 0;
	for (index = 0; index < NODE_INDEX_COUNT; index++)
		slots[index] = calloc(slot_count, sizeof(struct node *));
	for (index = 0; index < NODE_INDEX_COUNT && slots[index]; index++)
		;
	if (index < NODE_INDEX_COUNT) {
		for (index = 0; index < NODE_INDEX_COUNT; index++)
			free(slots[index]);
		return shard->slot_count ? 0 : -ENOMEM;
	}
	for (index = 0; index < NODE_INDEX_COUNT; index++)
		rehash_locked(shard, index, slots[index], slot_count);
	shard->slot_count = slot_count;
	return 0;
}

static struct node *find_id_locked(struct node_shard *shard, uint64_t id)
{
	struct node *node;

	if (shard->slot_count == 0)
		return NULL;
	node = shard->slots[NODE_BY_ID][hash_id(id) & (shard->slot_count - 1)];
	while (node && node->id != id)
		node = node->next[NODE_BY_ID];
	return node;
}

static struct node *find_file_locked(struct node_shard *shard, uint64_t serial,
	const struct node_identity *identity, uint32_t hash)
{
	struct node *node;

	if (shard->slot_count == 0)
		return NULL;
	node = shard->slots[NODE_BY_FILE][hash & (shard->slot_count - 1)];
	while (node && (node->serial != serial || !node_is(node, identity)))
		node = node->next[NODE_BY_FILE];
	return node;
}

static struct node *find_place_locked(struct node_shard *shard, uint64_t serial,
	const struct node *parent, const char *name, uint32_t hash)
{
	struct node *node;

	if (shard->slot_count == 0)
		return NULL;
	node = shard->slots[NODE_BY_PLACE][hash & (shard->slot_count - 1)];
	while (node &&
		(node->serial != serial || node->parent != parent || strcmp(node->name, name) != 0))
		node = node->next[NODE_BY_PLACE];
	return node;
}

/* ---- life ---- */

int node_table_create(size_t max_nodes, node_gone_fn *gone, struct node_table **ret_table)
{
	struct node_table *table = calloc(1, sizeof(*table));
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

static void node_free(struct node_table *table, struct node *node)
{
	atomic_fetch_sub(&table->count, 1);
	if (table->gone)
		table->gone(node);
	free(node->name);
	free(node);
}

static void shard_fini(struct node_shard *shard)
{
	struct node *node, *next;
	size_t i;
	int index;

	for (i = 0; i < shard->slot_count; i++) {
		for (node = shard->slots[NODE_BY_ID][i]; node; node = next) {
			next = node->next[NODE_BY_ID];
			node_free(shard->table, node);
		}
	}
	for (index = 0; index < NODE_INDEX_COUNT; index++)
		free(shard->slots[index]);
	pthread_mutex_destroy(&shard->lock);
}

void node_table_destroy(struct node_table *table)
{
	int i;

	if (!table)
		return;
	for (i = 0; i < SHARD_COUNT; i++)
		shard_fini(&table->shards[i]);
	free(table);
}

size_t node_table_count(struct node_table *table)
{
	return atomic_load(&table->count);
}

/*
 * Takes the node out when nothing counts on it any more, and its parents with it. They are chained
 * by next[NODE_BY_ID] and are freed by whoever unlocks.
 */
static void collect_locked(struct node *node, struct node **ret_dead)
{
	struct node *parent;
	int index;

	for (; node && node->refs == 0 && node->lookups == 0; node = parent) {
		parent = node->parent;
		for (index = 0; index < NODE_INDEX_COUNT; index++)
			index_remove_locked(node, index);
		node->shard->count--;
		node->next[NODE_BY_ID] = *ret_dead;
		*ret_dead = node;
		if (parent)
			parent->refs--;
	}
}

static void free_dead(struct node_table *table, struct node *dead)
{
	struct node *next;

	for (; dead; dead = next) {
		next = dead->next[NODE_BY_ID];
		node_free(table, dead);
	}
}

static struct node_shard *shard_of_id(struct node_table *table, uint64_t id)
{
	return &table->shards[id & (SHARD_COUNT - 1)];
}

struct node *node_get(struct node_table *table, uint64_t id)
{
	struct node_shard *shard = shard_of_id(table, id);
	struct node *node;

	pthread_mutex_lock(&shard->lock);
	node = find_id_locked(shard, id);
	if (node)
		node->refs++;
	pthread_mutex_unlock(&shard->lock);
	return node;
}

struct node *node_ref(struct node *node)
{
	pthread_mutex_lock(&node->shard->lock);
	node->refs++;
	pthread_mutex_unlock(&node->shard->lock);
	return node;
}

void node_put(struct node *node)
{
	struct node_shard *shard;
	struct node *dead = NULL;

	if (!node)
		return;
	shard = node->shard;
	pthread_mutex_lock(&shard->lock);
	assert(node->refs > 0);
	node->refs--;
	collect_locked(node, &dead);
	pthread_mutex_unlock(&shard->lock);
	free_dead(shard->table, dead);
}

void node_forget(struct node_table *table, uint64_t id, uint64_t count)
{
	struct node_shard *shard = shard_of_id(table, id);
	struct node *node, *dead = NULL;

	pthread_mutex_lock(&shard->lock);
	node = find_id_locked(shard, id);
	if (node) {
		node->lookups -= count < node->lookups ? count : node->lookups;
		collect_locked(node, &dead);
	}
	pthread_mutex_unlock(&shard->lock);
	free_dead(table, dead);
}

bool node_is(const struct node *node, const struct node_identity *identity)
{
	return node->mount == identity->mount && node->type == identity->type &&
	       node->handle_type == identity->handle_type && node->handle_size == identity->size &&
	       memcmp(node->handle, identity->bytes, identity->size) == 0;
}

/* ---- places ---- */

static void place_locked(
	struct node *node, struct node *parent, char *owned_name, struct node **ret_dead)
{
	struct node *before = node->parent;

	free(node->name);
	node->name = owned_name;
	node->parent = parent;
	if (parent)
		parent->refs++;
	if (before) {
		before->refs--;
		collect_locked(before, ret_dead);
	}
	index_add_locked(node, NODE_BY_PLACE,
		hash_place(node->shard->table, node->serial, parent, owned_name));
}

/* The client's kernel may have it anywhere now. */
static void set_adrift_locked(struct node *node)
{
	index_remove_locked(node, NODE_BY_PLACE);
	node->depth_cap = 0;
}

/* How many steps it is from the lease's root, and never more than that has been since it was told.
 */
static unsigned level_locked(const struct node *node, unsigned *ret_chain)
{
	unsigned steps = 0, level = UINT32_MAX;

	for (; node->parent; node = node->parent, steps++) {
		if (node->depth_cap < UINT32_MAX - steps && node->depth_cap + steps < level)
			level = node->depth_cap + steps;
	}
	*ret_chain = steps;
	return level < steps ? level : steps;
}

static struct node *node_new(struct node_shard *shard, const struct node_told *told)
{
	const struct node_identity *identity = told->identity;
	struct node *node = calloc(1, sizeof(*node) + identity->size);

	if (!node)
		return NULL;
	node->serial = told->serial;
	node->shard = shard;
	node->loan = told->loan;
	node->branch = told->branch;
	node->type = identity->type;
	node->hollow = told->hollow;
	node->is_root = !told->parent;
	node->depth_cap = UINT32_MAX;
	node->mount = identity->mount;
	node->handle_type = identity->handle_type;
	node->handle_size = identity->size;
	memcpy(node->handle, identity->bytes, identity->size);
	return node;
}

static int add_locked(struct node_shard *shard, struct node *node)
{
	struct node_table *table = shard->table;
	int r;

	if (atomic_load(&table->count) >= table->max_nodes)
		return -ENFILE;
	r = make_room_locked(shard);
	if (r < 0)
		return r;
	atomic_fetch_add(&table->count, 1);
	shard->count++;
	node->id = NODE_ID_BIT | (++shard->last << SHARD_BITS) | (uint64_t)(shard - table->shards);
	index_add_locked(node, NODE_BY_ID, hash_id(node->id));
	return 0;
}

/* The node that the file has already: the one of this place, or, for what may have many names, any.
 */
static struct node *find_told_locked(
	struct node_shard *shard, const struct node_told *told, uint32_t place, uint32_t file)
{
	struct node *node = find_place_locked(shard, told->serial, told->parent, told->name, place);

	if (node && node_is(node, told->identity))
		return node;
	if (node && has_one_place(node->type))
		set_adrift_locked(node);
	else if (node)
		index_remove_locked(node, NODE_BY_PLACE);
	if (has_one_place(told->identity->type))
		return NULL;
	return find_file_locked(shard, told->serial, told->identity, file);
}

/* Takes *name and *fresh when it needs them. */
static int tell_locked(const struct node_told *told, char **name, struct node **fresh,
	struct node **ret_node, struct node **ret_dead)
{
	struct node_shard *shard = (*fresh)->shard;
	uint32_t place = hash_place(shard->table, told->serial, told->parent, told->name);
	uint32_t file = hash_file(shard->table, told->serial, told->identity);
	struct node *node = find_told_locked(shard, told, place, file);
	int r;

	if (!node) {
		r = add_locked(shard, *fresh);
		if (r < 0)
			return r;
		node = *fresh;
		*fresh = NULL;
		if (!has_one_place(node->type))
			index_add_locked(node, NODE_BY_FILE, file);
	}
	if (*name && !(node->indexed[NODE_BY_PLACE] && node->parent == told->parent &&
			     strcmp(node->name, *name) == 0)) {
		index_remove_locked(node, NODE_BY_PLACE);
		place_locked(node, told->parent, *name, ret_dead);
		*name = NULL;
	}
	node->lookups++;
	node->refs++;
	*ret_node = node;
	return 0;
}

int node_tell(struct node_table *table, const struct node_told *told, struct node **ret_node,
	bool *ret_is_new)
{
	struct node_shard *shard = &table->shards[told->serial & (SHARD_COUNT - 1)];
	bool placed = told->keep_name || has_one_place(told->identity->type);
	char *name = placed ? strdup(told->name) : NULL;
	struct node *fresh = node_new(shard, told), *dead = NULL;
	int r = -ENOMEM;

	assert(!told->parent || told->parent->serial == told->serial);
	if (fresh && (name || !placed)) {
		pthread_mutex_lock(&shard->lock);
		r = tell_locked(told, &name, &fresh, ret_node, &dead);
		pthread_mutex_unlock(&shard->lock);
	}
	if (r == 0)
		*ret_is_new = !fresh;
	free_dead(table, dead);
	free(fresh);
	free(name);
	return r;
}

static struct node *find_at_locked(const struct node *parent, const char *name)
{
	struct node_shard *shard = parent->shard;

	return find_place_locked(shard, parent->serial, parent, name,
		hash_place(shard->table, parent->serial, parent, name));
}

void node_removed(struct node *parent, const char *name)
{
	struct node_shard *shard = parent->shard;
	struct node *node;

	pthread_mutex_lock(&shard->lock);
	node = find_at_locked(parent, name);
	if (node)
		index_remove_locked(node, NODE_BY_PLACE);
	pthread_mutex_unlock(&shard->lock);
}

static bool is_below_locked(const struct node *node, const struct node *above)
{
	while (node && node != above)
		node = node->parent;
	return node;
}

/* owned_name NULL: there was no memory for it. */
static void move_locked(
	struct node *node, struct node *parent, char *owned_name, struct node **ret_dead)
{
	unsigned chain, level = level_locked(node, &chain);
	unsigned beside = level_locked(parent, &chain) + 1;

	index_remove_locked(node, NODE_BY_PLACE);
	/* a kernel moves nothing below itself: then it moved something else */
	if (!owned_name || is_below_locked(parent, node)) {
		free(owned_name);
		set_adrift_locked(node);
		return;
	}
	node->depth_cap = level < beside ? level : beside;
	place_locked(node, parent, owned_name, ret_dead);
}

void node_renamed(struct node *parent, const char *name, struct node *new_parent,
	const char *new_name, bool exchanged)
{
	struct node_shard *shard = parent->shard;
	char *there = strdup(new_name), *back = exchanged ? strdup(name) : NULL;
	struct node *moved, *met, *dead = NULL;

	pthread_mutex_lock(&shard->lock);
	moved = find_at_locked(parent, name);
	met = find_at_locked(new_parent, new_name);
	if (met && met != moved)
		index_remove_locked(met, NODE_BY_PLACE);
	if (moved && met != moved) {
		move_locked(moved, new_parent, there, &dead);
		there = NULL;
	}
	if (met && met != moved && exchanged) {
		move_locked(met, parent, back, &dead);
		back = NULL;
	}
	pthread_mutex_unlock(&shard->lock);
	free_dead(shard->table, dead);
	free(there);
	free(back);
}

bool node_place(struct node *node, struct node **ret_parent, char *ret_name)
{
	bool known;

	pthread_mutex_lock(&node->shard->lock);
	known = node->indexed[NODE_BY_PLACE] && node->parent && strlen(node->name) < NAME_SIZE;
	if (known) {
		node->parent->refs++;
		*ret_parent = node->parent;
		memcpy(ret_name, node->name, strlen(node->name) + 1);
	}
	pthread_mutex_unlock(&node->shard->lock);
	return known;
}

unsigned node_depth(struct node *node, bool *ret_exact)
{
	unsigned chain, level;

	pthread_mutex_lock(&node->shard->lock);
	level = level_locked(node, &chain);
	pthread_mutex_unlock(&node->shard->lock);
	*ret_exact = level == chain;
	return level > 0 ? level - 1 : 0;
}

bool node_renew(struct node *node)
{
	unsigned chain;
	bool any = false;

	pthread_mutex_lock(&node->shard->lock);
	(void)level_locked(node, &chain);
	for (; node->parent; node = node->parent, chain--) {
		if (node->depth_cap < chain && node->indexed[NODE_BY_PLACE]) {
			set_adrift_locked(node);
			any = true;
		}
	}
	pthread_mutex_unlock(&node->shard->lock);
	return any;
}
