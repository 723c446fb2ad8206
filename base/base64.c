/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The base64 half of json.h. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Up to three bytes as four characters. */
static void encode_group(const unsigned char *bytes, size_t count, char *ret)
{
	unsigned long bits = (unsigned long)bytes[0] << 16;

	bits |= count > 1 ? (unsigned long)bytes[1] << 8 : 0;
	bits |= count > 2 ? bytes[2] : 0;
	ret[0] = alphabet[bits >> 18];
	ret[1] = alphabet[bits >> 12 & 63];
	ret[2] = alphabet[bits >> 6 & 63];
	ret[3] = alphabet[bits & 63];
	if (count < 3)
		memset(ret + 1 + count, '=', 3 - count);
}

void json_add_base64(struct strbuf *out, const char *bytes, size_t size)
{
	size_t encoded = (size + 2) / 3 * 4;
	char *room = strbuf_room(out, encoded + 2);

	if (!room)
		return;
	*room++ = '"';
	for (size_t at = 0; at < size; at += 3, room += 4)
		encode_group((const unsigned char *)bytes + at, size - at, room);
	*room = '"';
	strbuf_grown(out, encoded + 2);
}

/* Four characters as up to three bytes; returns how many, 0 when they are no such group. */
static size_t decode_group(const char *text, bool last, unsigned char *ret)
{
	size_t count = !last || text[3] != '=' ? 3 : text[2] != '=' ? 2 : 1;
	unsigned long bits = 0;

	for (size_t i = 0; i < count + 1; i++) {
		const char *digit = text[i] ? strchr(alphabet, text[i]) : NULL;

		if (!digit)
			return 0;
		bits |= (unsigned long)(digit - alphabet) << (18 - 6 * i);
	}
	if (bits & ((1ul << (24 - 8 * count)) - 1))
		return 0; /* bits that belong to no byte */
	for (size_t i = 0; i < count; i++)
		ret[i] = (unsigned char)(bits >> (16 - 8 * i));
	return count;
}

int base64_decode(const char *text, size_t size, struct strbuf *out, struct error *err)
{
	size_t before = out->size;

	if (size % 4)
		return error_set(err, EINVAL, "not base64: its length is no multiple of 4");
	for (size_t at = 0; at < size; at += 4) {
		unsigned char bytes[3];
		size_t count = decode_group(text + at, at + 4 == size, bytes);

		if (!count) {
			strbuf_cut(out, before);
			return error_set(err, EINVAL, "not base64: character %zu", at + 1);
		}
		strbuf_add(out, bytes, count);
	}
	return strbuf_failed(out) ? error_set(err, ENOMEM, "no memory to decode base64") : 0;
}
