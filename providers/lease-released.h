/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * lease-released.h: the leases that have ended within the last day, so that a second terminate is
 * told the truth.
 *
 * At most RELEASED_MAX are kept: a daemon with more ends a day forgets the oldest earlier. Threads:
 * loop.
 */
#ifndef PROVIDERS_LEASE_RELEASED_H
#define PROVIDERS_LEASE_RELEASED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct released_leases;

enum { RELEASED_MAX = 65536 };

struct released_lease {
	const char *lease_id, *trajectory_id;
	unsigned slot; /* UINT_MAX: none */
	uint32_t generation;
	bool reusable; /* its sandbox is gone */
};

struct released_leases *released_create(size_t max, uint64_t keep_ms); /* NULL: no memory */
void released_destroy(struct released_leases *released);               /* accepts NULL */

/* Remembers one (copied). Without memory it is forgotten at once. */
void released_add(
	struct released_leases *released, const struct released_lease *lease, uint64_t now_ms);
/* Its sandbox is gone now. */
void released_set_reusable(struct released_leases *released, const char *lease_id);
/* By lease id, else the latest of the trajectory; NULL: never heard of, or forgotten. Valid until
 * the next call. */
const struct released_lease *released_find(
	struct released_leases *released, const char *id, uint64_t now_ms);
size_t released_count(const struct released_leases *released);

#endif
