/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * loan.h: one lease as its files see it: the sandbox's root, its mounts, what clients have
 * open; and how all that is let go of at its end, whatever the kernel still remembers.
 *
 * Threads: any. Locks: loan->lock guards what stands after it, loan->branch_fds each branch's
 * fd; both are leaves, but that descriptors are opened and duplicated under them.
 */
#ifndef FS_LOAN_H
#define FS_LOAN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct dir_reader;
struct fd_cache;
struct file_node;
struct sandbox_root;

/* What a whole daemon shares. */
struct backing {
	int proc_fd; /* O_PATH of /proc/self/fd */
	int void_fd; /* an end of nothing: takes the place of descriptors whose lease has ended */
	bool by_handle;
	bool privileged; /* root: made files are given to the sandbox's user */
	struct fd_cache *cache;
};

/* One mount of a sandbox. Fixed once it is in the list, but for fd. */
struct branch {
	struct branch *next;
	uint64_t id;
	bool opens_handles; /* else its nodes are found by walking */
	bool handles;       /* its files have handles, be it only to tell them apart */
	bool hollow;        /* of the kernel's making: proc and the like */
	/* If opens_handles: a really opened directory of it; -1 after the lease's end. Under the
	 * loan's branch_fds. */
	int fd;
};

/* One lease, from its first look-up of fs/ until its last node is forgotten. */
struct loan {
	struct loan *next; /* of the files' list; this and `over` are guarded by its lock */
	bool over;         /* it has ended, or is ending */
	struct backing *backing;
	uint64_t serial;
	uid_t uid; /* of the sandbox's user, on the host */
	gid_t gid;
	uid_t range; /* as in struct sandbox_root */
	pid_t init;  /* pid 1, seen from here; 0: not known */
	atomic_uint refs;
	struct branch *_Atomic root_branch; /* of the sandbox's `/`; NULL before its first lookup */
	pthread_rwlock_t branch_fds;        /* read while a branch's fd is used; a leaf */
	pthread_mutex_t lock;               /* guards every field after it */
	struct sandbox_root *root;          /* NULL: the lease has ended */
	struct branch *branches;
	struct opened *opened; /* newest first */
};

/* One open file or directory of a client. */
struct opened {
	struct opened *next, *previous; /* guarded by loan->lock */
	struct file_node *node;         /* a reference */
	int fd;
	int flags;                 /* of open(2) */
	struct dir_reader *reader; /* directories only */
	pthread_mutex_t lock;      /* guards every field after it */
	unsigned users;            /* operations that use fd now */
	bool park;                 /* to be parked when nobody uses it */
	bool parked;               /* fd is an O_PATH descriptor for the time being */
	bool released;             /* the client has closed it */
	bool locked;               /* by flock(2), which fd alone holds */
};

/* Takes a reference of root. -ENOMEM. */
int loan_create(struct backing *backing, struct sandbox_root *root, struct loan **ret_loan);
struct loan *loan_ref(struct loan *loan);
void loan_unref(struct loan *loan);
/* A reference of the caller's; NULL when the lease has ended. */
struct sandbox_root *loan_root(struct loan *loan);
/* 0, or the reason why nothing of it may be touched any more: -ESTALE, -ENOTCONN. */
int loan_check(struct loan *loan);
/*
 * The same for what a walk across mounts did not find: pid 1's mounts go a moment before its death
 * shows. Reads /proc.
 */
int loan_check_mounts(struct loan *loan);
/* r, unless it is a failure which the lease's end explains better. */
int loan_explain(struct loan *loan, int r);
/* Lets go of every descriptor of the lease. Open files of clients turn into nothing. */
void loan_end(struct loan *loan);

void opened_add(struct loan *loan, struct opened *opened);
/* Frees it, but not its hold of a node. Implemented in files-io.c. */
void opened_discard(struct opened *opened);
/* The number leads to what fd does from now on; fd stays the caller's. -ESTALE: the lease is over,
 * and it leads nowhere. */
int opened_exchange_fd(struct loan *loan, struct opened *opened, int fd);
void opened_remove(struct loan *loan, struct opened *opened);

#endif
