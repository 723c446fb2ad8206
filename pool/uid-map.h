/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * uid-map.h: which ids there are in a user namespace, as /proc/PID/uid_map and gid_map say it. In a
 * container root may have few. Threads: any.
 */
#ifndef POOL_UID_MAP_H
#define POOL_UID_MAP_H

#include <stdbool.h>
#include <stdint.h>

struct error;

/* Whether every id from first on, count of them, is mapped. An empty text maps nothing. */
bool uid_map_has(const char *text, uint32_t first, uint64_t count);
/* Looks at this process's own maps. -EINVAL: not all of these host ids are there. */
int uid_map_check(uint32_t first, uint64_t count, struct error *err);

#endif
