/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdlib.h>
#include <string.h>

#include "fs/file-node-private.h"

enum { NAME_SIZE = 256 };

void file_node_place_locked(struct file_node *node, struct file_node *parent, char *owned_name,
	struct file_node **ret_dead)
{
	struct file_node *before = node->parent;

	free(node->name);
	node->name = owned_name;
	node->parent = parent;
	if (parent)
		parent->refs++;
	if (before) {
		before->refs--;
		file_node_collect_locked(before, ret_dead);
	}
	file_node_index_add_locked(node, FILE_NODE_BY_PLACE,
		file_node_hash_place(node->shard->table, node->serial, parent, owned_name));
}

/* The client's kernel may have it anywhere now. */
void file_node_set_adrift_locked(struct file_node *node)
{
	file_node_index_remove_locked(node, FILE_NODE_BY_PLACE);
	node->depth_cap = 0;
}

/* How many steps it is from the lease's root, and never more than that has been since it was told.
 */
static unsigned level_locked(const struct file_node *node, unsigned *ret_chain)
{
	unsigned steps = 0, level = UINT32_MAX;

	for (; node->parent; node = node->parent, steps++) {
		if (node->depth_cap < UINT32_MAX - steps && node->depth_cap + steps < level)
			level = node->depth_cap + steps;
	}
	*ret_chain = steps;
	return level < steps ? level : steps;
}

static struct file_node *find_at_locked(const struct file_node *parent, const char *name)
{
	struct file_node_shard *shard = parent->shard;

	return file_node_find_place_locked(shard, parent->serial, parent, name,
		file_node_hash_place(shard->table, parent->serial, parent, name));
}

void file_node_removed(struct file_node *parent, const char *name)
{
	struct file_node_shard *shard = parent->shard;
	struct file_node *node;

	pthread_mutex_lock(&shard->lock);
	node = find_at_locked(parent, name);
	if (node)
		file_node_index_remove_locked(node, FILE_NODE_BY_PLACE);
	pthread_mutex_unlock(&shard->lock);
}

static bool is_below_locked(const struct file_node *node, const struct file_node *above)
{
	while (node && node != above)
		node = node->parent;
	return node;
}

/* owned_name NULL: there was no memory for it. */
static void move_locked(struct file_node *node, struct file_node *parent, char *owned_name,
	struct file_node **ret_dead)
{
	unsigned chain, level = level_locked(node, &chain);
	unsigned beside = level_locked(parent, &chain) + 1;

	file_node_index_remove_locked(node, FILE_NODE_BY_PLACE);
	/* a kernel moves nothing below itself: then it moved something else */
	if (!owned_name || is_below_locked(parent, node)) {
		free(owned_name);
		file_node_set_adrift_locked(node);
		return;
	}
	node->depth_cap = level < beside ? level : beside;
	file_node_place_locked(node, parent, owned_name, ret_dead);
}

void file_node_renamed(struct file_node *parent, const char *name, struct file_node *new_parent,
	const char *new_name, bool exchanged)
{
	struct file_node_shard *shard = parent->shard;
	char *there = strdup(new_name), *back = exchanged ? strdup(name) : NULL;
	struct file_node *moved, *met, *dead = NULL;

	pthread_mutex_lock(&shard->lock);
	moved = find_at_locked(parent, name);
	met = find_at_locked(new_parent, new_name);
	if (met && met != moved)
		file_node_index_remove_locked(met, FILE_NODE_BY_PLACE);
	if (moved && met != moved) {
		move_locked(moved, new_parent, there, &dead);
		there = NULL;
	}
	if (met && met != moved && exchanged) {
		move_locked(met, parent, back, &dead);
		back = NULL;
	}
	pthread_mutex_unlock(&shard->lock);
	file_node_free_dead(shard->table, dead);
	free(there);
	free(back);
}

bool file_node_place(struct file_node *node, struct file_node **ret_parent, char *ret_name)
{
	bool known;

	pthread_mutex_lock(&node->shard->lock);
	known = node->indexed[FILE_NODE_BY_PLACE] && node->parent && strlen(node->name) < NAME_SIZE;
	if (known) {
		node->parent->refs++;
		*ret_parent = node->parent;
		memcpy(ret_name, node->name, strlen(node->name) + 1);
	}
	pthread_mutex_unlock(&node->shard->lock);
	return known;
}

unsigned file_node_depth(struct file_node *node, bool *ret_exact)
{
	unsigned chain, level;

	pthread_mutex_lock(&node->shard->lock);
	level = level_locked(node, &chain);
	pthread_mutex_unlock(&node->shard->lock);
	*ret_exact = level == chain;
	return level > 0 ? level - 1 : 0;
}

bool file_node_renew(struct file_node *node)
{
	unsigned chain;
	bool any = false;

	pthread_mutex_lock(&node->shard->lock);
	(void)level_locked(node, &chain);
	for (; node->parent; node = node->parent, chain--) {
		if (node->depth_cap < chain && node->indexed[FILE_NODE_BY_PLACE]) {
			file_node_set_adrift_locked(node);
			any = true;
		}
	}
	pthread_mutex_unlock(&node->shard->lock);
	return any;
}
