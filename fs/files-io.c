/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/files-private.h"

/* What of a client's flags is passed on; O_DIRECT is served by its own kernel. */
enum { KEPT_FLAGS = O_ACCMODE | O_APPEND | O_TRUNC | O_SYNC | O_DSYNC };

/* ---- opening and closing ---- */

struct opened *files_opened(const struct fuse_file_info *fi)
{
	return (struct opened *)(uintptr_t)fi->fh;
}

int files_remember_opened(struct file_node *node, int owned_fd, int flags,
	struct dir_reader *owned_reader, struct fuse_file_info *fi)
{
	struct opened *opened = calloc(1, sizeof(*opened));

	if (!opened) {
		(void)close(owned_fd);
		dir_reader_destroy(owned_reader);
		return -ENOMEM;
	}
	opened->node = file_node_ref(node);
	opened->fd = owned_fd;
	opened->flags = flags;
	opened->reader = owned_reader;
	pthread_mutex_init(&opened->lock, NULL);
	opened_add(node->loan, opened);
	fi->fh = (uintptr_t)opened;
	return 0;
}

void opened_discard(struct opened *opened)
{
	(void)close(opened->fd);
	pthread_mutex_destroy(&opened->lock);
	dir_reader_destroy(opened->reader);
	free(opened);
}

static void opened_free(struct opened *opened)
{
	struct file_node *node = opened->node;

	opened_discard(opened);
	file_node_put(node);
}

/* An operation whose answer is out already may still be on its way back: whoever is last frees. */
void files_forget_opened(struct fuse_file_info *fi)
{
	struct opened *opened = files_opened(fi);
	bool last;

	opened_remove(opened->node->loan, opened);
	pthread_mutex_lock(&opened->lock);
	opened->released = true;
	last = opened->users == 0;
	pthread_mutex_unlock(&opened->lock);
	if (last)
		opened_free(opened);
}

/* Another thread may be using the number, so it stays what it was. */
static int exchange_fd(struct opened *opened, int flags)
{
	CLEANUP(closep) int fd = -1;
	char name[16];

	(void)snprintf(name, sizeof(name), "%d", opened->fd);
	fd = openat(opened->node->loan->backing->proc_fd, name, flags | O_CLOEXEC);
	return fd < 0 ? -errno : opened_exchange_fd(opened->node->loan, opened, fd);
}

/*
 * A file that anybody has open for writing cannot be executed, and a client's kernel tells us
 * of a close(2) only after it has returned: `cp tool DIR` and then a command that runs it would
 * fail now and then. So what was open for writing is parked at its flush, which close(2) waits
 * for, until somebody who has it open too uses it again.
 */
static void park_locked(struct opened *opened)
{
	mode_t needed = (opened->flags & O_ACCMODE) == O_RDWR ? 0600 : 0200;
	bool root = opened->node->loan->backing->privileged;
	struct stat stat;

	opened->park = false;
	if (opened->parked || opened->locked || fstat(opened->fd, &stat) < 0)
		return;
	/* a plain user could not open it again */
	if (root || (stat.st_mode & needed) == needed)
		opened->parked = exchange_fd(opened, O_PATH) == 0;
}

static void park(struct opened *opened)
{
	pthread_mutex_lock(&opened->lock);
	if (opened->users == 0)
		park_locked(opened);
	else
		opened->park = true;
	pthread_mutex_unlock(&opened->lock);
}

int opened_begin(struct opened *opened)
{
	int r = 0;

	pthread_mutex_lock(&opened->lock);
	if (opened->parked)
		r = exchange_fd(opened, (opened->flags & ~O_TRUNC) | O_NONBLOCK | O_NOCTTY);
	if (r == 0) {
		opened->park = opened->parked = false;
		opened->users++;
	}
	pthread_mutex_unlock(&opened->lock);
	return r;
}

void opened_end(struct opened *opened)
{
	bool last;

	pthread_mutex_lock(&opened->lock);
	opened->users--;
	last = opened->users == 0 && opened->released;
	if (opened->users == 0 && opened->park && !last)
		park_locked(opened);
	pthread_mutex_unlock(&opened->lock);
	if (last)
		opened_free(opened);
}

void files_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	int fd = -1, flags = fi->flags & KEPT_FLAGS;
	int r = files_node(req, ino, &node);

	if (r == 0)
		r = S_ISDIR(node->type) ? -EISDIR : backing_open(node, flags, &fd);
	if (r == 0)
		r = files_remember_opened(node, fd, flags, NULL, fi);
	if (r < 0)
		files_fail(req, node, r);
	else if (fuse_reply_open(req, fi) < 0)
		files_forget_opened(fi);
}

/* Somebody else made it first, and the client does not mind. */
static int open_existing(struct file_node *parent, const char *name, int flags, int *ret_fd)
{
	CLEANUP(closep) int path = -1;
	struct stat stat;
	int r = files_find(parent, name, &path);

	if (r < 0)
		return r;
	if (fstat(path, &stat) < 0)
		return -errno;
	if (S_ISLNK(stat.st_mode))
		return -ELOOP;
	if (S_ISDIR(stat.st_mode))
		return -EISDIR;
	return backing_reopen(parent->loan->backing, path, stat.st_mode & S_IFMT, flags, ret_fd);
}

static int open_or_make(fuse_req_t req, struct file_node *parent, const char *name, mode_t mode,
	int client_flags, int *ret_fd)
{
	CLEANUP(closep) int dir = -1;
	int flags = client_flags & KEPT_FLAGS;
	int r = backing_path(parent, &dir);

	if (r < 0)
		return r;
	r = files_make_regular(req, parent, dir, name, flags & ~O_TRUNC, mode, ret_fd);
	if (r == -EEXIST && !(client_flags & O_EXCL))
		r = open_existing(parent, name, flags, ret_fd);
	return r;
}

/* Takes fd. */
static void reply_created(fuse_req_t req, struct file_node *parent, const char *name, int owned_fd,
	struct fuse_file_info *fi)
{
	struct files *files = files_of(req);
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	CLEANUP(closep) int fd = owned_fd;
	struct fuse_entry_param entry;
	int r = files_tell(files, parent, name, fd, &entry);

	if (r < 0) {
		files_fail(req, parent, r);
		return;
	}
	node = file_node_get(files->nodes, entry.ino);
	r = files_remember_opened(node, take_fd(&fd), fi->flags & KEPT_FLAGS, NULL, fi);
	if (r < 0) {
		files_fail(req, parent, r);
		file_node_forget(files->nodes, entry.ino, 1);
	} else if (fuse_reply_create(req, &entry, fi) < 0) {
		files_forget_opened(fi);
		file_node_forget(files->nodes, entry.ino, 1);
	}
}

void files_create_file(
	fuse_req_t req, fuse_ino_t ino, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	CLEANUP(file_node_putp) struct file_node *parent = NULL;
	int fd = -1, r = files_parent(req, ino, &parent);

	if (r == 0)
		r = open_or_make(req, parent, name, mode, fi->flags, &fd);
	if (r < 0)
		files_fail(req, parent, r);
	else
		reply_created(req, parent, name, fd, fi);
}

void files_tmpfile(fuse_req_t req, fuse_ino_t ino, mode_t mode, struct fuse_file_info *fi)
{
	CLEANUP(file_node_putp) struct file_node *parent = NULL;
	CLEANUP(closep) int dir = -1;
	int fd = -1, flags = (fi->flags & KEPT_FLAGS & ~O_TRUNC) | O_TMPFILE | (fi->flags & O_EXCL);
	int r = files_parent(req, ino, &parent);

	if (r == 0)
		r = backing_path(parent, &dir);
	if (r == 0)
		r = files_make_regular(req, parent, dir, ".", flags, mode, &fd);
	if (r < 0)
		files_fail(req, parent, r);
	else
		reply_created(req, parent, "", fd, fi);
}

void files_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	files_forget_opened(fi);
	(void)fuse_reply_err(req, 0);
}

/* ---- content ---- */

/* The open file, ready to be used until end(): see opened_begin(). */
static int begin(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
	struct file_node **ret_node, struct opened **ret_opened)
{
	struct opened *opened = files_opened(fi);
	int r = files_node(req, ino, ret_node);

	if (r == 0)
		r = opened_begin(opened);
	if (r == 0)
		*ret_opened = opened;
	return r;
}

static void endp(struct opened **opened)
{
	if (*opened)
		opened_end(*opened);
	*opened = NULL;
}

void files_read(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct fuse_bufvec data = FUSE_BUFVEC_INIT(size);
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	CLEANUP(endp) struct opened *opened = NULL;
	int r = begin(req, ino, fi, &node, &opened);

	if (r < 0) {
		files_fail(req, node, r);
		return;
	}
	data.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
	data.buf[0].fd = opened->fd;
	data.buf[0].pos = offset;
	(void)fuse_reply_data(req, &data, FUSE_BUF_SPLICE_MOVE);
}

void files_write_buf(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *in, off_t offset,
	struct fuse_file_info *fi)
{
	struct fuse_bufvec out = FUSE_BUFVEC_INIT(fuse_buf_size(in));
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	CLEANUP(endp) struct opened *opened = NULL;
	int r = begin(req, ino, fi, &node, &opened);
	ssize_t written;

	if (r < 0) {
		files_fail(req, node, r);
		return;
	}
	out.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
	out.buf[0].fd = opened->fd;
	out.buf[0].pos = offset;
	/* a splice at an offset is refused where the file appends */
	written = fuse_buf_copy(&out, in, opened->flags & O_APPEND ? FUSE_BUF_NO_SPLICE : 0);
	endp(&opened); /* before the answer: a flush may follow at once */
	if (written < 0)
		files_fail(req, node, (int)written);
	else
		(void)fuse_reply_write(req, (size_t)written);
}

/* Not ENOSYS, which would silence it for the control files too. */
void files_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct opened *opened = files_opened(fi);

	if ((opened->flags & O_ACCMODE) != O_RDONLY)
		park(opened);
	(void)fuse_reply_err(req, 0);
}

void files_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	CLEANUP(endp) struct opened *opened = NULL;
	int r = begin(req, ino, fi, &node, &opened);

	if (r == 0 && (datasync ? fdatasync(opened->fd) : fsync(opened->fd)) < 0)
		r = -errno;
	endp(&opened);
	files_done(req, node, r);
}

void files_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
	struct fuse_file_info *fi)
{
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	CLEANUP(endp) struct opened *opened = NULL;
	int r = begin(req, ino, fi, &node, &opened);

	if (r == 0 && fallocate(opened->fd, mode, offset, length) < 0)
		r = -errno;
	endp(&opened);
	files_done(req, node, r);
}

void files_lseek(
	fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi)
{
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	CLEANUP(endp) struct opened *opened = NULL;
	int r = begin(req, ino, fi, &node, &opened);
	off_t found = 0;

	if (r == 0) {
		found = lseek(opened->fd, offset, whence);
		r = found < 0 ? -errno : 0;
	}
	if (r < 0)
		files_fail(req, node, r);
	else
		(void)fuse_reply_lseek(req, found);
}

void files_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t offset_in,
	struct fuse_file_info *fi_in, fuse_ino_t ino_out, off_t offset_out,
	struct fuse_file_info *fi_out, size_t size, int flags)
{
	CLEANUP(file_node_putp) struct file_node *from = NULL;
	CLEANUP(file_node_putp) struct file_node *to = NULL;
	CLEANUP(endp) struct opened *in = NULL;
	CLEANUP(endp) struct opened *out = NULL;
	int r = begin(req, ino_in, fi_in, &from, &in);
	ssize_t copied = 0;

	if (r == 0)
		r = begin(req, ino_out, fi_out, &to, &out);
	if (r == 0 && from->loan != to->loan)
		r = -EXDEV; /* the client's kernel copies by reading and writing then */
	if (r == 0) {
		copied = copy_file_range(
			in->fd, &offset_in, out->fd, &offset_out, size, (unsigned)flags);
		r = copied < 0 ? -errno : 0;
	}
	endp(&in);
	endp(&out);
	if (r < 0)
		files_fail(req, from, r);
	else
		(void)fuse_reply_write(req, (size_t)copied);
}
