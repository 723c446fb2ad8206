/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/fd-cache.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(kept)                                                                  \
	do {                                                                                       \
		(void)close((kept)->fd);                                                           \
		free(kept);                                                                        \
	} while (0)
#include <uthash.h>

struct kept {
	const void *key, *group;
	int fd;
	UT_hash_handle hh;
};

struct fd_cache {
	pthread_mutex_t lock;
	size_t max_count;
	struct kept *kept; /* oldest first: uthash keeps the order of insertion */
};

int fd_cache_create(size_t max_count, struct fd_cache **ret_cache)
{
	struct fd_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -ENOMEM;
	pthread_mutex_init(&cache->lock, NULL);
	cache->max_count = max_count;
	*ret_cache = cache;
	return 0;
}

static void remove_locked(struct fd_cache *cache, struct kept *kept)
{
	HASH_DEL(cache->kept, kept);
	(void)close(kept->fd);
	free(kept);
}

void fd_cache_destroy(struct fd_cache *cache)
{
	if (!cache)
		return;
	while (cache->kept)
		remove_locked(cache, cache->kept);
	pthread_mutex_destroy(&cache->lock);
	free(cache);
}

int fd_cache_get(struct fd_cache *cache, const void *key)
{
	struct kept *kept;
	int fd = -1;

	pthread_mutex_lock(&cache->lock);
	HASH_FIND_PTR(cache->kept, &key, kept);
	if (kept) {
		fd = fcntl(kept->fd, F_DUPFD_CLOEXEC, 0);
		HASH_DEL(cache->kept, kept);
		HASH_ADD_PTR(cache->kept, key, kept);
	}
	pthread_mutex_unlock(&cache->lock);
	return fd;
}

static void add_locked(struct fd_cache *cache, struct kept *kept)
{
	struct kept *before;

	HASH_FIND_PTR(cache->kept, &kept->key, before);
	if (before)
		remove_locked(cache, before);
	while (cache->kept && HASH_COUNT(cache->kept) >= cache->max_count)
		remove_locked(cache, cache->kept);
	HASH_ADD_PTR(cache->kept, key, kept);
}

void fd_cache_put(struct fd_cache *cache, const void *key, const void *group, int fd)
{
	struct kept *kept = calloc(1, sizeof(*kept));

	if (!kept)
		return;
	kept->key = key;
	kept->group = group;
	kept->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (kept->fd < 0) {
		free(kept);
		return;
	}
	pthread_mutex_lock(&cache->lock);
	add_locked(cache, kept);
	pthread_mutex_unlock(&cache->lock);
}

void fd_cache_drop(struct fd_cache *cache, const void *key)
{
	struct kept *kept;

	pthread_mutex_lock(&cache->lock);
	HASH_FIND_PTR(cache->kept, &key, kept);
	if (kept)
		remove_locked(cache, kept);
	pthread_mutex_unlock(&cache->lock);
}

void fd_cache_drop_group(struct fd_cache *cache, const void *group)
{
	struct kept *kept, *next;

	pthread_mutex_lock(&cache->lock);
	HASH_ITER (hh, cache->kept, kept, next) {
		if (kept->group == group)
			remove_locked(cache, kept);
	}
	pthread_mutex_unlock(&cache->lock);
}
