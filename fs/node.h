/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * node.h: what the kernel has been told of the files of all leases.
 *
 * A node is one number that the kernel knows. Files that are not directories or links have one node
 *each, however many names they have. A directory or link has one node for each *place* (parent and
 *name) it was told at, so that a node's chain of parents is the client's own `..` chain, whatever
 *the sandbox moves behind the mount. That is what the depth of a symbolic link rests on:
 *
 *	- A lookup that finds another file at a place, or a file at another place, makes a new node;
 *the one which was at the place before is adrift: it keeps working, but counts as deep as the root.
 *	- A rename through the mount moves the node, as the client's kernel does, and caps its depth
 *at the smallest it ever had. Links that need more get a new node at their next lookup
 *(node_renew()).
 *
 * Depth is never over-estimated. Node numbers have the top bit set and are never used again.
 *
 * Life: node_tell() counts one lookup and one reference. The kernel gives lookups back with
 *node_forget(), the caller references with node_put(); a node with neither, and without children,
 *is gone.
 *
 * Threads: any. The table is sharded by lease; shard->lock guards everything in a node that is not
 *said to be fixed. It is a leaf: nothing is locked or called under it, and `gone` runs without it.
 */
#ifndef FS_NODE_H
#define FS_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct branch;
struct loan;
struct node;
struct node_shard;
struct node_table;

enum { NODE_HANDLE_MAX = 128, NODE_BY_INODE = -1 };

#define NODE_TABLE_MAX (1u << 20)
#define NODE_ID_BIT    (UINT64_C(1) << 63)

/* What a file is, whatever its name. Equal for one file, unequal for two that ever lived, as far as
 * its file system can tell. */
struct node_identity {
	uint64_t mount; /* it was reached through: a handle alone is the superblock's, which two
			   mounts may share */
	uint32_t type;	/* S_IFMT bits */
	int32_t handle_type; /* of name_to_handle_at(2), or NODE_BY_INODE: the bytes are st_dev and
				st_ino */
	uint32_t size;
	unsigned char bytes[NODE_HANDLE_MAX];
};

enum node_index { NODE_BY_ID, NODE_BY_FILE, NODE_BY_PLACE, NODE_INDEX_COUNT };

struct node {
	/* fixed while the node lives */
	uint64_t id;
	uint64_t serial; /* of the lease */
	struct node_shard *shard;
	struct loan *loan;     /* the lease, kept by whoever told the node */
	struct branch *branch; /* the mount */
	uint32_t type;
	bool hollow;  /* a directory whose content is not shown */
	bool is_root; /* of the lease */
	/* guarded by shard->lock */
	bool indexed[NODE_INDEX_COUNT];
	uint32_t hash[NODE_INDEX_COUNT];
	struct node *next[NODE_INDEX_COUNT];
	struct node *parent; /* one reference; NULL for the lease's root */
	char *name;	     /* in parent; NULL where nobody needs it */
	uint64_t lookups;
	uint32_t refs;
	uint32_t depth_cap;
	/* fixed */
	uint64_t mount;
	int32_t handle_type;
	uint32_t handle_size;
	unsigned char handle[];
};

/* Runs once for each node that goes, without any lock; node is valid until it returns. */
typedef void node_gone_fn(struct node *node);

int node_table_create(size_t max_nodes, node_gone_fn *gone, struct node_table **ret_table);
/* Frees every node, whatever its counts. Accepts NULL. */
void node_table_destroy(struct node_table *table);
size_t node_table_count(struct node_table *table);

/* What a reply is about to tell the kernel. */
struct node_told {
	struct node *parent; /* NULL: the root of the lease */
	const char *name;
	uint64_t serial;
	struct loan *loan;
	struct branch *branch;
	const struct node_identity *identity;
	bool hollow;
	bool keep_name; /* remember the place of a file that is neither directory nor link, to find
			   it again by walking */
};

/*
 * The node for it, old or new, with one more lookup and one more reference. *ret_is_new: the
 * caller's loan and branch are now kept by the node until gone(). -ENOMEM; -ENFILE above max_nodes.
 */
int node_tell(struct node_table *table, const struct node_told *told, struct node **ret_node,
	bool *ret_is_new);

/* The node with one more reference; NULL for a number that is not (any more) known. */
struct node *node_get(struct node_table *table, uint64_t id);
struct node *node_ref(struct node *node);
void node_put(struct node *node); /* accepts NULL */
static inline void node_putp(struct node **node)
{
	node_put(*node);
}
void node_forget(struct node_table *table, uint64_t id, uint64_t count);

/* The file at a place was removed by the client. */
void node_removed(struct node *parent, const char *name);
/* The client's rename was done and is about to be answered. All of one lease. */
void node_renamed(struct node *parent, const char *name, struct node *new_parent,
	const char *new_name, bool exchanged);

/* Where to find it by walking: *ret_parent (a reference of the caller's) and its name, 256 bytes.
 * False: nobody knows. */
bool node_place(struct node *node, struct node **ret_parent, char *ret_name);

/*
 * How many directories stand between the lease's root and the node; never more than the client's
 * kernel counts at any time. *ret_exact: not fewer, either.
 */
unsigned node_depth(struct node *node, bool *ret_exact);
/* Sets adrift whatever makes the depth inexact, so that the next lookup gives a new node. False:
 * there was nothing left to renew. */
bool node_renew(struct node *node);

/* True when the node is this file. */
bool node_is(const struct node *node, const struct node_identity *identity);

#endif
