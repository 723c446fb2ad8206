/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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

int files_remember_opened(struct node *node, int owned_fd, int flags,
	struct dir_reader *owned_reader, struct fuse_file_info *fi)
{
	struct opened *opened = calloc(1, sizeof(*opened));

	if (!opened) {
		(void)close(owned_fd);
		dir_reader_destroy(owned_reader);
		return -ENOMEM;
	}
	opened->node = node_ref(node);
	opened->fd = owned_fd;
	opened->flags = flags;
	opened->reader = owned_reader;
	opened_add(node->loan, opened);
	fi->fh = (uintptr_t)opened;
	return 0;
}

void files_forget_opened(struct fuse_file_info *fi)
{
	struct opened *opened = files_opened(fi);

	opened_remove(opened->node->loan, opened);
	(void)close(opened->fd);
	dir_reader_destroy(opened->reader);
	node_put(opened->node);
	free(opened);
}

void files_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	CLEANUP(node_putp) struct node *node = NULL;
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
static int open_existing(struct node *parent, const char *name, int flags, int *ret_fd)
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

static int open_or_make(fuse_req_t req, struct node *parent, const char *name, mode_t mode,
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
static void reply_created(fuse_req_t req, struct node *parent, const char *name, int owned_fd,
	struct fuse_file_info *fi)
{
	struct files *files = files_of(req);
	CLEANUP(node_putp) struct node *node = NULL;
	CLEANUP(closep) int fd = owned_fd;
	struct fuse_entry_param entry;
	int r = files_tell(files, parent, name, fd, &entry);

	if (r < 0) {
		files_fail(req, parent, r);
		return;
	}
	node = node_get(files->nodes, entry.ino);
	r = files_remember_opened(node, take_fd(&fd), fi->flags & KEPT_FLAGS, NULL, fi);
	if (r < 0) {
		files_fail(req, parent, r);
		node_forget(files->nodes, entry.ino, 1);
	} else if (fuse_reply_create(req, &entry, fi) < 0) {
		files_forget_opened(fi);
		node_forget(files->nodes, entry.ino, 1);
	}
}

void files_create_file(
	fuse_req_t req, fuse_ino_t ino, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	CLEANUP(node_putp) struct node *parent = NULL;
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
	CLEANUP(node_putp) struct node *parent = NULL;
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

void files_read(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct fuse_bufvec data = FUSE_BUFVEC_INIT(size);
	CLEANUP(node_putp) struct node *node = NULL;
	int r = files_node(req, ino, &node);

	if (r < 0) {
		files_fail(req, node, r);
		return;
	}
	data.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
	data.buf[0].fd = files_opened(fi)->fd;
	data.buf[0].pos = offset;
	(void)fuse_reply_data(req, &data, FUSE_BUF_SPLICE_MOVE);
}

void files_write_buf(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *in, off_t offset,
	struct fuse_file_info *fi)
{
	struct fuse_bufvec out = FUSE_BUFVEC_INIT(fuse_buf_size(in));
	struct opened *opened = files_opened(fi);
	CLEANUP(node_putp) struct node *node = NULL;
	int r = files_node(req, ino, &node);
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
	if (written < 0)
		files_fail(req, node, (int)written);
	else
		(void)fuse_reply_write(req, (size_t)written);
}

/* Nothing is held back, so there is nothing to flush. Not ENOSYS, which would silence it for the
 * control files too. */
void files_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)fuse_reply_err(req, 0);
}

void files_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	CLEANUP(node_putp) struct node *node = NULL;
	int fd = files_opened(fi)->fd;
	int r = files_node(req, ino, &node);

	if (r == 0 && (datasync ? fdatasync(fd) : fsync(fd)) < 0)
		r = -errno;
	files_done(req, node, r);
}

void files_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
	struct fuse_file_info *fi)
{
	CLEANUP(node_putp) struct node *node = NULL;
	int r = files_node(req, ino, &node);

	if (r == 0 && fallocate(files_opened(fi)->fd, mode, offset, length) < 0)
		r = -errno;
	files_done(req, node, r);
}

void files_lseek(
	fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi)
{
	CLEANUP(node_putp) struct node *node = NULL;
	int r = files_node(req, ino, &node);
	off_t found = 0;

	if (r == 0) {
		found = lseek(files_opened(fi)->fd, offset, whence);
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
	CLEANUP(node_putp) struct node *from = NULL;
	CLEANUP(node_putp) struct node *to = NULL;
	int r = files_node(req, ino_in, &from);
	ssize_t copied = 0;

	if (r == 0)
		r = files_node(req, ino_out, &to);
	if (r == 0 && from->loan != to->loan)
		r = -EXDEV; /* the client's kernel copies by reading and writing then */
	if (r == 0) {
		copied = copy_file_range(files_opened(fi_in)->fd, &offset_in,
			files_opened(fi_out)->fd, &offset_out, size, (unsigned)flags);
		r = copied < 0 ? -errno : 0;
	}
	if (r < 0)
		files_fail(req, from, r);
	else
		(void)fuse_reply_write(req, (size_t)copied);
}

void files_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int op)
{
	CLEANUP(node_putp) struct node *node = NULL;
	int r = files_node(req, ino, &node);

	if (r == 0 && flock(files_opened(fi)->fd, op | LOCK_NB) < 0)
		r = -errno;
	files_done(req, node, r);
}
