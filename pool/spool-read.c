/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What there is of a spool, for any thread. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "pool/spool-private.h"

bool spool_pipe_closed(const struct spool *spool)
{
	return atomic_load(&spool->pipe_closed);
}

bool spool_finished(const struct spool *spool)
{
	return atomic_load(&spool->finished);
}

struct spool_counts spool_counts(const struct spool *spool)
{
	bool finished = atomic_load(&spool->finished); /* before the others, which only grow */
	struct spool_counts counts = {
		.kept = atomic_load(&spool->kept),
		.dropped = atomic_load(&spool->dropped),
		.error = atomic_load(&spool->error),
	};

	if (finished)
		counts.late = counts.kept + counts.dropped - spool_end_size(spool);
	return counts;
}

uint64_t spool_end_size(const struct spool *spool)
{
	return atomic_load(&spool->end_size);
}

uint64_t spool_size(const struct spool *spool)
{
	return atomic_load(&spool->kept);
}

double spool_changed_at(const struct spool *spool)
{
	return (double)atomic_load(&spool->changed_us) / 1e6;
}

bool spool_in_memory(const struct spool *spool)
{
	return !atomic_load(&spool->has_file);
}

struct spool_reader spool_reader(struct spool *spool)
{
	return (struct spool_reader){.spool = spool_ref(spool), .fd = -1};
}

void spool_reader_fini(struct spool_reader *reader)
{
	if (!reader)
		return;
	closep(&reader->fd);
	reader->fd = -1;
	spool_unref(take_ptr(&reader->spool));
}

/* Negative: it is not in memory. */
static ssize_t read_memory(struct spool *spool, void *buffer, size_t size, uint64_t offset)
{
	ssize_t n = -1;

	pthread_mutex_lock(&spool->lock);
	if (spool->head && !atomic_load(&spool->has_file)) {
		n = 0;
		if (offset < spool->head_size) {
			size_t there = spool->head_size - (size_t)offset;

			n = (ssize_t)(size < there ? size : there);
			memcpy(buffer, spool->head + offset, (size_t)n);
		}
	}
	pthread_mutex_unlock(&spool->lock);
	return n;
}

int spool_reader_fd(struct spool_reader *reader)
{
	const struct spool *spool = reader->spool;

	if (reader->fd < 0 && atomic_load(&spool->has_file))
		reader->fd = openat(
			spool->spooler->dir_fd, spool->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return reader->fd;
}

ssize_t spool_read(struct spool_reader *reader, void *buffer, size_t size, uint64_t offset)
{
	ssize_t n = read_memory(reader->spool, buffer, size, offset);
	int fd;

	if (n >= 0)
		return n;
	if (!atomic_load(&reader->spool->has_file))
		return 0;
	fd = spool_reader_fd(reader);
	n = fd < 0 ? -1 : pread(fd, buffer, size, (off_t)offset);
	return n < 0 ? -errno : n;
}

int spool_read_head(struct spool *spool, size_t size, struct strbuf *out)
{
	CLEANUP(spool_reader_fini) struct spool_reader reader = spool_reader(spool);
	uint64_t offset = 0, kept = spool_size(spool);

	if (size > kept)
		size = (size_t)kept;
	while (offset < size) {
		size_t left = size - (size_t)offset;
		char *room = strbuf_room(out, left);
		ssize_t n = room ? spool_read(&reader, room, left, offset) : -ENOMEM;

		if (n <= 0)
			return n < 0 ? (int)n : -EIO;
		strbuf_grown(out, (size_t)n);
		offset += (uint64_t)n;
	}
	return 0;
}
