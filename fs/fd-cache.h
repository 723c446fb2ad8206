/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fd-cache.h: a bounded number of descriptors that are worth keeping, the least recently used going
 * first.
 *
 * Only for files that cannot be opened again by their handle (a plain user's daemon, an overlay).
 * Keys are addresses. Threads: any. Lock: cache->lock, a leaf.
 */
#ifndef FS_FD_CACHE_H
#define FS_FD_CACHE_H

#include <stddef.h>

struct fd_cache;

int fd_cache_create(size_t max_count, struct fd_cache **ret_cache); /* -ENOMEM */
void fd_cache_destroy(struct fd_cache *cache);                      /* accepts NULL */

/* A duplicate of what is kept for the key, the caller's; -1 when nothing is. */
int fd_cache_get(struct fd_cache *cache, const void *key);
/* Keeps a duplicate of fd. That it may fail to is no failure. group: whose end ends it too. */
void fd_cache_put(struct fd_cache *cache, const void *key, const void *group, int fd);
void fd_cache_drop(struct fd_cache *cache, const void *key);
void fd_cache_drop_group(struct fd_cache *cache, const void *group);

#endif
