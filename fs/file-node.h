/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * file-node.h: what the kernel has been told of the files of all leases.
 *
 * A node is one number that the kernel knows. Files that are not directories or links have one
 * node each, however many names they have. A directory or link has one node for each *place*
 * (parent and name) it was told at, so that a node's chain of parents is the client's own `..`
 * chain, whatever the sandbox moves behind the mount. That is what the depth of a symbolic link
 * rests on:
 *
 *	- A lookup that finds another file at a place, or a file at another place, makes a new
 *	  node; the one which was at the place before is adrift: it keeps working, but counts as
 *	  deep as the root.
 *	- A rename through the mount moves the node, as the client's kernel does, and caps its
 *	  depth at the smallest it ever had. Links that need more get a new node at their next
 *	  lookup (file_node_renew()).
 *
 * Depth is never over-estimated. Node numbers have the top bit set and are never used again.
 *
 * Life: file_node_tell() counts one lookup and one reference. The kernel gives lookups back
 * with file_node_forget(), the caller references with file_node_put(); a node with neither, and
 * without children, is gone.
 *
 * Threads: any. The table is sharded by lease; shard->lock guards everything in a node that is
 * not said to be fixed. It is a leaf: nothing is locked or called under it, and `gone` runs
 * without it.
 */
#ifndef FS_FILE_NODE_H
#define FS_FILE_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct branch;
struct loan;
struct file_node;
struct file_node_shard;
struct file_node_table;

enum { FILE_NODE_HANDLE_MAX = 128, FILE_NODE_BY_INODE = -1 };

#define FILE_NODE_TABLE_MAX (1u << 20)
#define FILE_NODE_ID_BIT    (UINT64_C(1) << 63)

/* What a file is, whatever its name. Equal for one file, unequal for two that ever lived, as far as
 * its file system can tell. */
struct file_identity {
	uint64_t mount; /* it was reached through: a handle alone is the superblock's, which two
			   mounts may share */
	uint32_t type;  /* S_IFMT bits */
	int32_t handle_type; /* of name_to_handle_at(2); FILE_NODE_BY_INODE: bytes are dev, ino */
	uint32_t size;
	unsigned char bytes[FILE_NODE_HANDLE_MAX];
};

enum { FILE_NODE_LINK_UNREAD = -2, FILE_NODE_LINK_RELATIVE = -1 };

enum file_node_index {
	FILE_NODE_BY_ID,
	FILE_NODE_BY_FILE,
	FILE_NODE_BY_PLACE,
	FILE_NODE_INDEX_COUNT
};

struct file_node {
	/* fixed while the node lives */
	uint64_t id;
	uint64_t serial; /* of the lease */
	struct file_node_shard *shard;
	struct loan *loan;     /* the lease, kept by whoever told the node */
	struct branch *branch; /* the mount */
	uint32_t type;
	bool hollow;  /* a directory whose content is not shown */
	bool is_root; /* of the lease */
	/*
	 * A link's text never changes: symlink_rest() of an absolute one, once somebody has
	 * read it.
	 */
	_Atomic int32_t link_rest;
	/* guarded by shard->lock */
	bool recent; /* used since the last look for nodes to be forgotten */
	bool indexed[FILE_NODE_INDEX_COUNT];
	uint32_t hash[FILE_NODE_INDEX_COUNT];
	struct file_node *next[FILE_NODE_INDEX_COUNT];
	struct file_node *parent; /* one reference; NULL for the lease's root */
	char *name;               /* in parent; NULL where nobody needs it */
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
typedef void file_node_gone_fn(struct file_node *node);

int file_node_table_create(
	size_t max_nodes, file_node_gone_fn *gone, struct file_node_table **ret_table);
/* Frees every node, whatever its counts. Accepts NULL. */
void file_node_table_destroy(struct file_node_table *table);
size_t file_node_table_count(struct file_node_table *table);

/* What a reply is about to tell the kernel. */
struct file_node_told {
	struct file_node *parent; /* NULL: the root of the lease */
	const char *name;
	uint64_t serial;
	struct loan *loan;
	struct branch *branch;
	const struct file_identity *identity;
	bool hollow;
	bool keep_name; /* remember the place of a file that is neither directory nor link, to find
			   it again by walking */
};

/*
 * The node for it, old or new, with one more lookup and one more reference. *ret_is_new: the
 * caller's loan and branch are now kept by the node until gone(). -ENOMEM; -ENFILE above max_nodes.
 */
int file_node_tell(struct file_node_table *table, const struct file_node_told *told,
	struct file_node **ret_node, bool *ret_is_new);

/* The node with one more reference; NULL for a number that is not (any more) known. */
struct file_node *file_node_get(struct file_node_table *table, uint64_t id);
struct file_node *file_node_ref(struct file_node *node);
void file_node_put(struct file_node *node); /* accepts NULL */
static inline void file_node_putp(struct file_node **node)
{
	file_node_put(*node);
}
void file_node_forget(struct file_node_table *table, uint64_t id, uint64_t count);

/* A node that the kernel could well forget. */
struct file_node_idle {
	uint64_t id, parent; /* parent 0: its name is not known */
	uint32_t type;
	char name[256];
};

/*
 * Looks at the next nodes of the table, each in its turn, and gives those that nobody here uses
 * and that were not used since the last look. Returns how many; *ret_seen: how many were looked
 * at. For one thread at a time.
 */
size_t file_node_table_pick_idle(struct file_node_table *table, struct file_node_idle *ret_idle,
	size_t max, size_t *ret_seen);

/* The file at a place was removed by the client. */
void file_node_removed(struct file_node *parent, const char *name);
/* The client's rename was done and is about to be answered. All of one lease. */
void file_node_renamed(struct file_node *parent, const char *name, struct file_node *new_parent,
	const char *new_name, bool exchanged);

/* Where to find it by walking: *ret_parent (a reference of the caller's) and its name, 256 bytes.
 * False: nobody knows. */
bool file_node_place(struct file_node *node, struct file_node **ret_parent, char *ret_name);

/*
 * How many directories stand between the lease's root and the node; never more than the client's
 * kernel counts at any time. *ret_exact: not fewer, either.
 */
unsigned file_node_depth(struct file_node *node, bool *ret_exact);
/* Sets adrift whatever makes the depth inexact, so that the next lookup gives a new node. False:
 * there was nothing left to renew. */
bool file_node_renew(struct file_node *node);

/* True when the node is this file. */
bool file_node_is(const struct file_node *node, const struct file_identity *identity);

#endif
