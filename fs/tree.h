/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * tree.h: which control nodes there are, in one table (tree.c): name, place, kind, what reading and
 * writing do.
 *
 * A node's number is computed from its kind and its object (a lease's serial or a slot's number),
 * is never used again for another one, and needs no memory: FORGET is nothing. Numbers with the top
 * bit are the other half's (files.h). Threads: loop, but for the inline functions and node_type(),
 * which any thread may call.
 */
#ifndef FS_TREE_H
#define FS_TREE_H

#define FUSE_USE_VERSION 318
#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <sys/stat.h>

struct control;
struct lease;
struct lease_exec;
struct slot;
struct strbuf;
struct stream;
struct verb;

enum node_kind {
	NODE_NONE,
	NODE_ROOT = FUSE_ROOT_ID,
	NODE_CREATE,
	NODE_TERMINATE,
	NODE_CONTROL,
	NODE_STATUS,
	NODE_STATUS_JSON,
	NODE_METRICS,
	NODE_CONFIG,
	NODE_EVENTS,
	NODE_EVENTS_FOLLOW,
	NODE_LAST_ERROR,
	NODE_LEASES,
	NODE_SLOTS,
	NODE_LEASE,
	NODE_LEASE_JSON,
	NODE_LEASE_STATE,
	NODE_RUN_COMMAND,
	NODE_LEASE_TERMINATE,
	NODE_TTL,
	NODE_HOLD,
	NODE_WAIT,
	NODE_ENDPOINTS,
	NODE_ENDPOINT, /* its object has the port too: endpoints.h */
	NODE_EXECS,
	NODE_EXEC_NEW,
	NODE_EXEC, /* from here to NODE_EXEC_SIGNAL the object is a command's serial: commands.h */
	NODE_EXEC_ARGV,
	NODE_EXEC_STDIN,
	NODE_EXEC_STDOUT,
	NODE_EXEC_STDERR,
	NODE_EXEC_STATUS,
	NODE_EXEC_WAIT,
	NODE_EXEC_SIGNAL,
	NODE_LEASE_LAST_ERROR,
	NODE_LEASE_LOG,
	NODE_LEASE_LOG_INIT,
	NODE_LEASE_LOG_BWRAP,
	NODE_FS, /* only its name is ours: files_enter() makes the node */
	NODE_SLOT,
	NODE_SLOT_STATE,
	NODE_SLOT_GENERATION,
	NODE_SLOT_LEASE,
	NODE_SLOT_PID,
	NODE_SLOT_LIMITS,
	NODE_SLOT_HEALTH,
	NODE_SLOT_LOG,
	NODE_SLOT_LOG_INIT,
	NODE_SLOT_LOG_BWRAP,
	NODE_SLOT_LAST_ERROR,
	NODE_KIND_COUNT
};

/* A node as the loop sees it just now; pointers are borrowed and good until the next turn of the
 * loop. */
struct node {
	enum node_kind kind;
	uint64_t object;
	struct lease *lease;     /* NULL unless it is one of a lease */
	struct lease_exec *exec; /* NULL unless it is one of a command of that lease */
	struct slot *slot;       /* NULL unless it is one of a slot */
};

struct node_type {
	const char *name; /* NULL: a lease's, a command's or a slot's own */
	enum node_kind parent;
	mode_t mode; /* type and the most that [mount] mode may leave of it */
	/* A snapshot file: appends its text. NULL: a directory, or a request file that has no text
	 * of its own. */
	void (*render)(struct control *control, const struct node *node, struct strbuf *out);
	const struct verb *verb;     /* a request file; NULL: cannot be written */
	bool holds;                  /* open for writing holds its lease: handle.h */
	bool fed;                    /* a command's input: input.h */
	const struct stream *stream; /* whoever reads it may have to wait: stream.h */
	bool grows;                  /* rendered at open, and others append to it: growing.h */
};

const struct node_type *node_type(enum node_kind kind);

static inline fuse_ino_t node_ino(enum node_kind kind, uint64_t object)
{
	return object << 8 | (fuse_ino_t)kind;
}

static inline bool node_of_lease(enum node_kind kind)
{
	return kind >= NODE_LEASE && kind <= NODE_FS;
}

static inline bool node_of_exec(enum node_kind kind)
{
	return kind >= NODE_EXEC && kind <= NODE_EXEC_SIGNAL;
}

static inline bool node_of_slot(enum node_kind kind)
{
	return kind >= NODE_SLOT && kind <= NODE_SLOT_LAST_ERROR;
}

static inline bool node_is_directory(enum node_kind kind)
{
	return S_ISDIR(node_type(kind)->mode);
}

/* The node of that number. -ESTALE: its lease has ended (and nobody has it open), or there never
 * was one. */
int tree_node(const struct control *control, fuse_ino_t ino, struct node *ret_node);
/* The child of that name. -ENOENT, -ENOTDIR. */
int tree_child(const struct control *control, const struct node *parent, const char *name,
	struct node *ret_node);

typedef void tree_visit_fn(void *data, const char *name, const struct node *node);
/* What `ls` shows of a directory. */
void tree_each_child(
	const struct control *control, const struct node *parent, tree_visit_fn *visit, void *data);

/* Of a request file while a reply is on its way: nobody cuts what he reads at this size. */
enum { UNSETTLED_SIZE = 256 * 1024 * 1024 };

/* The size of a file, as stat shows it now. */
off_t tree_size(struct control *control, const struct node *node);
/* All of it: exact size, owner, mode, real times. */
void tree_stat(struct control *control, const struct node *node, struct stat *ret_st);

#endif
