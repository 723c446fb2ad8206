/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/files-private.h"

enum { BLOCK_SIZE = 32 * 1024 };

/* A stream of entries with the backing directory's own offsets, so that a seek, or a removal in
 * between, loses none. */
struct dir_reader {
	pthread_mutex_t lock; /* guards everything after it */
	uint32_t dev_major, dev_minor;
	off_t offset;   /* of the entry at `at` */
	size_t at, end; /* in block */
	_Alignas(struct dirent64) char block[BLOCK_SIZE];
};

void dir_reader_destroy(struct dir_reader *reader)
{
	if (!reader)
		return;
	pthread_mutex_destroy(&reader->lock);
	free(reader);
}

static int dir_reader_create(int fd, struct dir_reader **ret_reader)
{
	struct dir_reader *reader;
	struct statx stat;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO, &stat) < 0)
		return -errno;
	reader = malloc(sizeof(*reader));
	if (!reader)
		return -ENOMEM;
	pthread_mutex_init(&reader->lock, NULL);
	reader->dev_major = stat.stx_dev_major;
	reader->dev_minor = stat.stx_dev_minor;
	reader->offset = 0;
	reader->at = reader->end = 0;
	*ret_reader = reader;
	return 0;
}

void files_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	CLEANUP(closep) int fd = -1;
	struct dir_reader *reader = NULL;
	int r = files_node(req, ino, &node);

	if (r == 0 && !S_ISDIR(node->type))
		r = -ENOTDIR;
	if (r == 0)
		r = backing_open(node, O_RDONLY | O_DIRECTORY, &fd);
	if (r == 0)
		r = dir_reader_create(fd, &reader);
	if (r == 0)
		r = files_remember_opened(node, take_fd(&fd), O_RDONLY | O_DIRECTORY, reader, fi);
	if (r < 0)
		files_fail(req, node, r);
	else if (fuse_reply_open(req, fi) < 0)
		files_forget_opened(fi);
}

static int seek_locked(struct dir_reader *reader, int fd, off_t offset)
{
	if (offset == reader->offset && offset != 0)
		return 0;
	if (lseek(fd, offset, SEEK_SET) < 0)
		return -errno;
	reader->offset = offset;
	reader->at = reader->end = 0;
	return 0;
}

/* The entry at the reader's place, or NULL at the end. */
static int peek_locked(struct dir_reader *reader, int fd, const struct dirent64 **ret_entry)
{
	ssize_t size;

	if (reader->at >= reader->end) {
		size = getdents64(fd, reader->block, sizeof(reader->block));
		if (size < 0)
			return errno == ENOENT ? (*ret_entry = NULL, 0)
					       : -errno; /* removed meanwhile */
		reader->at = 0;
		reader->end = (size_t)size;
	}
	*ret_entry = reader->at < reader->end
			     ? (const struct dirent64 *)(const void *)(reader->block + reader->at)
			     : NULL;
	return 0;
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* *ret_size: how much of buffer was filled. Fails only when nothing was. */
static int fill_locked(
	fuse_req_t req, const struct opened *opened, char *buffer, size_t size, size_t *ret_size)
{
	struct dir_reader *reader = opened->reader;
	const struct dirent64 *entry = NULL;
	struct stat stat;
	size_t filled = 0, need;
	int r;

	memset(&stat, 0, sizeof(stat));
	for (;;) {
		r = peek_locked(reader, opened->fd, &entry);
		if (r < 0 && filled == 0)
			return r;
		if (r < 0 || !entry)
			break;
		stat.st_ino = files_shown_ino(reader->dev_major, reader->dev_minor, entry->d_ino);
		stat.st_mode = DTTOIF(entry->d_type);
		if (!opened->node->hollow || is_dots(entry->d_name)) {
			need = fuse_add_direntry(req, buffer + filled, size - filled, entry->d_name,
				&stat, entry->d_off);
			if (need > size - filled)
				break;
			filled += need;
		}
		reader->at += entry->d_reclen;
		reader->offset = entry->d_off;
	}
	*ret_size = filled;
	return 0;
}

void files_readdir(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	struct opened *opened = files_opened(fi);
	struct dir_reader *reader = opened->reader;
	CLEANUP(freep) char *buffer = malloc(size);
	size_t filled = 0;
	int r = files_node(req, ino, &node);

	if (r == 0 && !buffer)
		r = -ENOMEM;
	if (r == 0) {
		pthread_mutex_lock(&reader->lock);
		r = seek_locked(reader, opened->fd, offset);
		if (r == 0)
			r = fill_locked(req, opened, buffer, size, &filled);
		pthread_mutex_unlock(&reader->lock);
	}
	if (r < 0)
		files_fail(req, node, r);
	else
		(void)fuse_reply_buf(req, buffer, filled);
}

void files_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	files_fsync(req, ino, datasync, fi);
}
