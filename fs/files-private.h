/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * files-private.h: what the files-*.c share. One rule for all of them: an operation gets its node
 * with files_node(), which refuses when the lease has ended, and answers a failure with
 * files_fail(), which looks again whether it has. Threads: any FUSE worker.
 */
#ifndef FS_FILES_PRIVATE_H
#define FS_FILES_PRIVATE_H

#include "fs/backing.h"
#include "fs/evictor.h"
#include "fs/file-node.h"
#include "fs/files.h"

struct lock_waiters;
struct sweeper;

struct files {
	const struct config *config;
	struct backing backing;
	struct file_node_table *nodes;
	struct evictor *evictor; /* this and lock_waiters from files_attach() on */
	size_t max_nodes;        /* above it the kernel is asked to forget some */
	/* Of every file, to be able to name it to the kernel; set before the first request. */
	bool keeps_names;
	struct lock_waiters *lock_waiters;
	struct sweeper *sweeper;
	pthread_mutex_t lock; /* guards loans; taken before any other */
	struct loan *loans;   /* of leases that have not ended, one reference each */
};

static inline void loan_unrefp(struct loan **loan)
{
	loan_unref(*loan);
}

/* files.c */
struct files *files_of(fuse_req_t req);
/* -ESTALE for a number that is not a node (any more), or the reason why its lease is over. The
 * reference is the caller's. */
int files_node(fuse_req_t req, fuse_ino_t ino, struct file_node **ret_node);
/* The same for a directory in which names may be changed. */
int files_parent(fuse_req_t req, fuse_ino_t ino, struct file_node **ret_node);
void files_fail(fuse_req_t req, struct file_node *node, int r);
/* Replies 0 or the failure. */
void files_done(fuse_req_t req, struct file_node *node, int r);
/* Finds what fd is and fills the entry that tells the kernel. A lookup is counted, so a reply that
 * fails must be forgotten. */
int files_tell(struct files *files, struct file_node *parent, const char *name, int fd,
	struct fuse_entry_param *ret_entry);
/* files_tell() and the reply. */
void files_reply_entry(fuse_req_t req, struct file_node *parent, const char *name, int fd);
/* Opens the file of that name for looking only. */
int files_find(struct file_node *parent, const char *name, int *ret_fd);

/* files-end.c: leases begin, and are let go of on a thread of its own */
int sweeper_create(struct files *files, struct sweeper **ret_sweeper); /* -errno */
void sweeper_stop(struct sweeper *sweeper);    /* ends the thread; harmless twice */
void sweeper_destroy(struct sweeper *sweeper); /* accepts NULL */
/* The lease's loan, made at the first use; a reference of the caller's. -ESTALE; -ENOMEM. */
int files_loan(struct files *files, struct sandbox_root *root, struct loan **ret_loan);

/* files-attr.c */
void files_fill_stat(struct files *files, struct file_node *node, const struct statx *from,
	struct stat *ret_stat);
/* A link is as long as what readlink(2) gives: programs make room for that. */
void files_fit_link(struct files *files, struct file_node *node, int fd, struct stat *stat);
uint64_t files_shown_ino(uint32_t dev_major, uint32_t dev_minor, uint64_t ino);
void files_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void files_setattr(
	fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi);
void files_readlink(fuse_req_t req, fuse_ino_t ino);
void files_statfs(fuse_req_t req, fuse_ino_t ino);

/* files-make.c */
/* Makes a new regular file; -EEXIST when the name is taken. Also without a name (O_TMPFILE in
 * flags). */
int files_make_regular(fuse_req_t req, struct file_node *parent, int dir, const char *name,
	int flags, mode_t mode, int *ret_fd);
void files_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void files_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void files_symlink(fuse_req_t req, const char *text, fuse_ino_t parent, const char *name);

/* files-name.c */
void files_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void files_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void files_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
	const char *new_name, unsigned flags);
void files_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name);

/* files-dir.c */
struct dir_reader;
void dir_reader_destroy(struct dir_reader *reader);
void files_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void files_readdir(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void files_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);

/* files-io.c */
struct opened *files_opened(const struct fuse_file_info *fi);
/* Takes fd and reader, also when it fails. */
int files_remember_opened(struct file_node *node, int owned_fd, int flags,
	struct dir_reader *owned_reader, struct fuse_file_info *fi);
void files_forget_opened(struct fuse_file_info *fi);
/* Between these two the file's descriptor may be used. 0, or why it cannot be opened again. */
int opened_begin(struct opened *opened);
void opened_end(struct opened *opened);
void files_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void files_create_file(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	struct fuse_file_info *fi);
void files_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *fi);
void files_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void files_read(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void files_write_buf(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *in, off_t offset,
	struct fuse_file_info *fi);
void files_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void files_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void files_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
	struct fuse_file_info *fi);
void files_lseek(
	fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi);
void files_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t offset_in,
	struct fuse_file_info *fi_in, fuse_ino_t ino_out, off_t offset_out,
	struct fuse_file_info *fi_out, size_t size, int flags);

/* files-lock.c: those who wait for a flock(2) that somebody else has, on a thread of their own. */
int lock_waiters_create(struct lock_waiters **ret_waiters); /* -ENOMEM */
void lock_waiters_stop(
	struct lock_waiters *waiters); /* answers all, ends the thread; harmless twice */
void lock_waiters_destroy(struct lock_waiters *waiters); /* accepts NULL */
void files_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int op);

#endif
