/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * endpoints.h: `leases/T/endpoints/`: a file a service, and one for any port when it is asked for.
 * Each holds the URL. Looking a port up opens it, until the lease's end. Threads: loop.
 */
#ifndef FS_ENDPOINTS_H
#define FS_ENDPOINTS_H

#include "fs/tree.h"

struct error;

/* An endpoint's object is its lease's serial and the port inside. */
static inline uint64_t endpoint_serial(uint64_t object)
{
	return object >> 16;
}

/* A service's name, as lease-name.h has it, or a port. -ENOENT; -ENOTCONN, -ESTALE, -EMFILE as
 * lease_url(). */
int endpoints_find(const struct node *parent, const char *name, struct node *ret_node);
/* Whether an endpoint that was found has a URL still: the kernel remembers names for a while.
 * Errors as lease_url(). */
int endpoints_check(const struct node *node, struct error *err);
/* The services. */
void endpoints_each(const struct node *parent, tree_visit_fn *visit, void *data);

#endif
