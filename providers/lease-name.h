/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * lease-name.h: a trajectory id as a directory name, and back.
 *
 * `%`, `/`, control bytes (below 0x20, and 0x7f) and a leading `.` are written %XX, upper case;
 * nothing else is. So each id has exactly one name and each name at most one id. Threads: any.
 */
#ifndef PROVIDERS_LEASE_NAME_H
#define PROVIDERS_LEASE_NAME_H

#include <stddef.h>

struct error;

enum { LEASE_NAME_MAX = 255 };

/* -EINVAL: empty, not UTF-8, longer than 255 bytes, or its name would be. ret_name has
 * LEASE_NAME_MAX + 1 bytes. */
int lease_name_encode(const char *id, size_t size, char *ret_name, struct error *err);
/* -EINVAL: not exactly the encoding of an id (a raw control byte, %41, lower-case hex, %00). ret_id
 * has LEASE_NAME_MAX + 1 bytes. */
int lease_name_decode(const char *name, char *ret_id, struct error *err);

#endif
