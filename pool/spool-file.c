/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The file of a spool, as its thread writes it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "pool/spool-private.h"

enum {
	FILE_TRIES = 10000 / SPOOL_REST_MS, /* to open it, before it is given up */
};

void spool_give_up_file(struct spool *spool, int code)
{
	atomic_store(&spool->error, code);
	atomic_store(&spool->cut, true);
}

int spool_write_at(int fd, const char *bytes, size_t size, uint64_t at)
{
	while (size > 0) {
		ssize_t n = pwrite(fd, bytes, size, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		bytes += n;
		size -= (size_t)n;
		at += (uint64_t)n;
	}
	return 0;
}

/* What was kept in memory becomes the file's beginning. */
static int make_file(struct spool *spool)
{
	CLEANUP(closep)
	int fd = openat(spool->spooler->dir_fd, spool->name,
		O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r = fd < 0 ? -errno : 0;

	if (r == 0 && spool->head_size > 0)
		r = spool_write_at(fd, spool->head, spool->head_size, 0);
	if (r < 0) {
		if (fd >= 0)
			(void)unlinkat(spool->spooler->dir_fd, spool->name, 0);
		return r;
	}
	pthread_mutex_lock(&spool->lock);
	atomic_store(&spool->has_file, true);
	free(take_ptr(&spool->head));
	pthread_mutex_unlock(&spool->lock);
	spool->file_fd = take_fd(&fd);
	return 0;
}

static int open_file(struct spool *spool)
{
	spool->file_fd =
		openat(spool->spooler->dir_fd, spool->name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	return spool->file_fd < 0 ? -errno : 0;
}

int spool_have_file(struct spool *spool, bool patient)
{
	int r = 0;

	if (spool->file_fd < 0)
		r = atomic_load(&spool->has_file) ? open_file(spool) : make_file(spool);
	if (patient && (r == -EMFILE || r == -ENFILE || r == -ENOMEM) &&
		++spool->file_tries < FILE_TRIES)
		return -EAGAIN;
	spool->file_tries = 0;
	if (r < 0)
		spool_give_up_file(spool, -r);
	return r;
}

void spool_close_file(struct spool *spool)
{
	closep(&spool->file_fd);
	spool->file_fd = -1;
}
