/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * file-node-private.h: the table of nodes from inside, for the file-node*.c. Whatever is called
 * _locked is called with the lock of the node's shard held.
 */
#ifndef FS_FILE_NODE_PRIVATE_H
#define FS_FILE_NODE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "fs/file-node.h"

enum { SHARD_BITS = 6, SHARD_COUNT = 1 << SHARD_BITS };

struct file_node_shard {
	struct file_node_table *table;
	pthread_mutex_t lock;
	uint64_t last; /* how many nodes there ever were */
	size_t count;
	size_t slot_count; /* of each index; 0 or a power of two */
	struct file_node **slots[FILE_NODE_INDEX_COUNT];
};

struct file_node_table {
	size_t max_nodes;
	uint64_t seed; /* names are hostile: their hash must not be foreseeable */
	file_node_gone_fn *gone;
	atomic_size_t count;
	size_t hand_shard, hand_slot; /* of file_node_table_pick_idle(), where it goes on */
	struct file_node_shard shards[SHARD_COUNT];
};

/* file-node-index.c: three hash tables a shard */
uint32_t file_node_hash_id(uint64_t id);
uint32_t file_node_hash_file(
	const struct file_node_table *table, uint64_t serial, const struct file_identity *identity);
uint32_t file_node_hash_place(const struct file_node_table *table, uint64_t serial,
	const struct file_node *parent, const char *name);
void file_node_index_add_locked(struct file_node *node, enum file_node_index index, uint32_t hash);
void file_node_index_remove_locked(
	struct file_node *node, enum file_node_index index);   /* harmless when it is not in */
int file_node_make_room_locked(struct file_node_shard *shard); /* for one more; -ENOMEM */
struct file_node *file_node_find_id_locked(struct file_node_shard *shard, uint64_t id);
struct file_node *file_node_find_file_locked(struct file_node_shard *shard, uint64_t serial,
	const struct file_identity *identity, uint32_t hash);
struct file_node *file_node_find_place_locked(struct file_node_shard *shard, uint64_t serial,
	const struct file_node *parent, const char *name, uint32_t hash);

/* file-node.c */
/* Directories and links: what has a node for each place. */
bool file_node_has_one_place(uint32_t type);
/*
 * Takes the node out when nothing counts on it any more, and its parents with it. They are
 * chained by next[FILE_NODE_BY_ID] for file_node_free_dead(), which is for whoever has
 * unlocked.
 */
void file_node_collect_locked(struct file_node *node, struct file_node **ret_dead);
void file_node_free_dead(struct file_node_table *table, struct file_node *dead);

/* file-node-place.c */
void file_node_place_locked(struct file_node *node, struct file_node *parent, char *owned_name,
	struct file_node **ret_dead);
/* The client's kernel may have it anywhere now. */
void file_node_set_adrift_locked(struct file_node *node);

#endif
