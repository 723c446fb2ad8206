/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * backing.h: a lease's files as the daemon holds them: the sandbox's root, its mounts, and a node's
 * descriptor.
 *
 * A node is not a descriptor (thousands of nodes, and 20,000 descriptors): it is opened for each
 * operation. By its file handle, through a really opened directory of its *own* mount, where
 * CAP_DAC_READ_SEARCH allows that: a handle is good for every mount of its superblock, and through
 * the wrong one a read-only file could be written. Else by walking from its parent, one component
 * at a time, never following a link, and looking whether it is still the same file.
 *
 * Threads: any. Locks: loan->lock guards its lists; a leaf, but that a node may be referenced under
 * it.
 */
#ifndef FS_BACKING_H
#define FS_BACKING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct fd_cache;
struct node;
struct node_identity;
struct opened;
struct sandbox_root;

/* What a whole daemon shares. */
struct backing {
	int proc_fd; /* O_PATH of /proc/self/fd */
	int void_fd; /* an end of nothing: takes the place of descriptors whose lease has ended */
	bool by_handle;
	bool privileged; /* root: made files are given to the sandbox's user */
	struct fd_cache *cache;
};

/* One mount of a sandbox. Fixed once it is in the list. */
struct branch {
	struct branch *next;
	uint64_t id;
	int fd;	      /* a really opened directory of it; -1: nodes are found by walking */
	bool handles; /* its files have handles, be it only to tell them apart */
	bool hollow;  /* of the kernel's making: proc and the like */
	atomic_bool passthrough_refused;
};

/* One lease, from its first look-up of fs/ until its last node is forgotten. */
struct loan {
	struct loan *next; /* of the files' list, guarded by its lock */
	struct backing *backing;
	struct sandbox_root *root;
	atomic_uint refs;
	pthread_mutex_t lock;
	struct branch *branches;
	struct opened *opened; /* newest first */
};

/* One open file or directory of a client. */
struct opened {
	struct opened *next, *previous; /* guarded by loan->lock */
	struct node *node;		/* a reference */
	int fd;
	int flags;		   /* of open(2) */
	struct dir_reader *reader; /* directories only */
	int backing_id;		   /* of the kernel's passthrough; 0: none */
};

int backing_init(struct backing *backing);
void backing_fini(struct backing *backing);

/* Takes a reference of root. -ENOMEM. */
int loan_create(struct backing *backing, struct sandbox_root *root, struct loan **ret_loan);
struct loan *loan_ref(struct loan *loan);
void loan_unref(struct loan *loan);
/* 0, or the reason why nothing of it may be touched any more: -ESTALE, -ENOTCONN. */
int loan_check(struct loan *loan);
/* r, unless it is a failure which the lease's end explains better. */
int loan_explain(struct loan *loan, int r);
/* Lets go of every descriptor of the lease. Open files of clients turn into nothing. */
void loan_end(struct loan *loan);

void opened_add(struct loan *loan, struct opened *opened);
void opened_remove(struct loan *loan, struct opened *opened);

/*
 * What the descriptor is. near: the branch of the directory it was found in, or NULL. The branch is
 * the loan's. ret_stat has STATX_BASIC_STATS.
 */
int backing_identify(struct loan *loan, struct branch *near, int fd, struct statx *ret_stat,
	struct branch **ret_branch, struct node_identity *ret_identity);

/* An O_PATH descriptor, the caller's. -ESTALE: it is not where it was. */
int backing_path(struct node *node, int *ret_fd);
/* Really opens a regular file or a directory; -ENXIO for anything else. Close-on-exec, never
 * blocking, no terminal. */
int backing_open(struct node *node, int flags, int *ret_fd);
/* The same for what an O_PATH descriptor of that type refers to. */
int backing_reopen(struct backing *backing, int path_fd, uint32_t type, int flags, int *ret_fd);

#endif
