/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * utf8.h: UTF-8 as RFC 3629 has it (no surrogates, no overlong forms, nothing above U+10FFFF).
 * Threads: any.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

struct strbuf;

/* Bytes of the well-formed sequence that begins here (1 to 4); 0 when it is not one. A NUL byte is
 * a sequence of 1. */
size_t utf8_sequence(const char *bytes, size_t size);

/* The number of leading bytes that are well-formed; equal to size when all are. */
size_t utf8_valid_prefix(const char *bytes, size_t size);

static inline bool utf8_valid(const char *bytes, size_t size)
{
	return utf8_valid_prefix(bytes, size) == size;
}

/* Like utf8_valid_prefix(), but a sequence that only lacks its end counts as well-formed so far:
 * for text still arriving. */
bool utf8_valid_so_far(const char *bytes, size_t size);

/* Appends the bytes with U+FFFD in place of each byte that belongs to no well-formed sequence. */
void utf8_add_repaired(struct strbuf *out, const char *bytes, size_t size);

#endif
