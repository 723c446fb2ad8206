/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/strbuf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char strbuf_empty[1] = "";

void strbuf_init(struct strbuf *buf)
{
	*buf = STRBUF_INIT;
}

void strbuf_fini(struct strbuf *buf)
{
	if (!buf)
		return;
	if (buf->capacity)
		free(buf->data);
	strbuf_init(buf);
}

void strbuf_clear(struct strbuf *buf)
{
	buf->size = 0;
	buf->failed = false;
	if (buf->capacity)
		buf->data[0] = '\0';
}

char *strbuf_room(struct strbuf *buf, size_t more)
{
	size_t need = buf->size + more + 1, capacity = buf->capacity ? buf->capacity : 64;
	char *data;

	if (buf->failed || more > SIZE_MAX / 4)
		goto failed;
	if (need <= buf->capacity)
		return buf->data + buf->size;
	while (capacity < need)
		capacity *= 2;
	data = realloc(buf->capacity ? buf->data : NULL, capacity);
	if (!data)
		goto failed;
	data[buf->size] = '\0';
	buf->data = data;
	buf->capacity = capacity;
	return data + buf->size;
failed:
	buf->failed = true;
	return NULL;
}

void strbuf_grown(struct strbuf *buf, size_t by)
{
	if (!by)
		return;
	buf->size += by;
	buf->data[buf->size] = '\0';
}

void strbuf_add(struct strbuf *buf, const void *bytes, size_t size)
{
	char *room = strbuf_room(buf, size);

	if (!room)
		return;
	if (size)
		memcpy(room, bytes, size);
	strbuf_grown(buf, size);
}

void strbuf_adds(struct strbuf *buf, const char *text)
{
	strbuf_add(buf, text, strlen(text));
}

void strbuf_addc(struct strbuf *buf, char c)
{
	strbuf_add(buf, &c, 1);
}

void strbuf_vaddf(struct strbuf *buf, const char *fmt, va_list args)
{
	va_list again;
	int size;
	char *room;

	va_copy(again, args);
	size = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (size < 0) {
		buf->failed = true;
		return;
	}
	room = strbuf_room(buf, (size_t)size);
	if (!room)
		return;
	(void)vsnprintf(room, (size_t)size + 1, fmt, args);
	strbuf_grown(buf, (size_t)size);
}

void strbuf_addf(struct strbuf *buf, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	strbuf_vaddf(buf, fmt, args);
	va_end(args);
}

void strbuf_drop(struct strbuf *buf, size_t size)
{
	if (size > buf->size)
		size = buf->size;
	if (!size)
		return;
	memmove(buf->data, buf->data + size, buf->size - size + 1);
	buf->size -= size;
}

void strbuf_cut(struct strbuf *buf, size_t size)
{
	if (size >= buf->size)
		return;
	buf->size = size;
	buf->data[size] = '\0';
}

char *strbuf_take(struct strbuf *buf, size_t *ret_size)
{
	char *data = buf->failed ? NULL : buf->capacity ? buf->data : strdup("");

	if (buf->failed)
		strbuf_fini(buf);
	if (ret_size)
		*ret_size = data ? buf->size : 0;
	strbuf_init(buf);
	return data;
}
