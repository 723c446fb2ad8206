/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * strbuf.h: bytes that grow.
 *
 * Invariants: data is always a valid C string (data[size] is NUL even when size is 0 and nothing
 * was allocated); the bytes before it may hold NULs of their own. When memory runs out, the buffer
 * turns failed: it keeps what it has, later appends do nothing, and strbuf_failed() says so; check
 * it once, after the last append.
 *
 *	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
 *
 * Threads: any; a buffer belongs to one thread at a time.
 */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct strbuf {
	char *data;      /* never NULL */
	size_t size;     /* bytes, without the closing NUL */
	size_t capacity; /* bytes allocated; 0: data is the shared empty string */
	bool failed;
};

extern char strbuf_empty[1];
#define STRBUF_INIT ((struct strbuf){.data = strbuf_empty})

void strbuf_init(struct strbuf *buf);
/* Frees the bytes; the buffer is empty and usable afterwards. Accepts NULL and a zeroed one. */
void strbuf_fini(struct strbuf *buf);
/* Empties the buffer, keeping its memory, and forgets a failure. */
void strbuf_clear(struct strbuf *buf);

void strbuf_add(struct strbuf *buf, const void *bytes, size_t size);
void strbuf_adds(struct strbuf *buf, const char *text);
void strbuf_addc(struct strbuf *buf, char c);
void strbuf_addf(struct strbuf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void strbuf_vaddf(struct strbuf *buf, const char *fmt, va_list args)
	__attribute__((format(printf, 2, 0)));
/* Room for `more` bytes behind the present ones, NULL when there is no memory; strbuf_grown() then
 * counts what was written. */
char *strbuf_room(struct strbuf *buf, size_t more);
void strbuf_grown(struct strbuf *buf, size_t by);
/* Drops the first `size` bytes. */
void strbuf_drop(struct strbuf *buf, size_t size);
/* Keeps no more than the first `size` bytes. */
void strbuf_cut(struct strbuf *buf, size_t size);

/* Moves the bytes out; free() them. NULL when failed. The buffer is empty afterwards. */
char *strbuf_take(struct strbuf *buf, size_t *ret_size);

static inline bool strbuf_failed(const struct strbuf *buf)
{
	return buf->failed;
}

#endif
