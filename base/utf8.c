/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

#include "base/strbuf.h"

/* What the first byte says: how long the sequence is and between what the second byte must lie. */
static const struct {
	unsigned char first, last, size, second_min, second_max;
} leads[] = {
	{0x00, 0x7f, 1, 0, 0},
	{0xc2, 0xdf, 2, 0x80, 0xbf},
	{0xe0, 0xe0, 3, 0xa0, 0xbf},
	{0xe1, 0xec, 3, 0x80, 0xbf},
	{0xed, 0xed, 3, 0x80, 0x9f},
	{0xee, 0xef, 3, 0x80, 0xbf},
	{0xf0, 0xf0, 4, 0x90, 0xbf},
	{0xf1, 0xf3, 4, 0x80, 0xbf},
	{0xf4, 0xf4, 4, 0x80, 0x8f},
};

/* The sequence's size; *ret_have is how many of its bytes are there and right. 0 when no sequence
 * can begin so. */
static size_t measure(const unsigned char *bytes, size_t size, size_t *ret_have)
{
	for (size_t i = 0; i < sizeof(leads) / sizeof(leads[0]); i++) {
		size_t have = 1;

		if (bytes[0] < leads[i].first || bytes[0] > leads[i].last)
			continue;
		for (; have < leads[i].size && have < size; have++) {
			unsigned char min = have == 1 ? leads[i].second_min : 0x80;
			unsigned char max = have == 1 ? leads[i].second_max : 0xbf;

			if (bytes[have] < min || bytes[have] > max)
				return 0;
		}
		*ret_have = have;
		return leads[i].size;
	}
	return 0;
}

size_t utf8_sequence(const char *bytes, size_t size)
{
	size_t have = 0, whole;

	if (!size)
		return 0;
	whole = measure((const unsigned char *)bytes, size, &have);
	return have == whole ? whole : 0;
}

/* Bytes from here on that are ASCII, found eight at a time: most text is nothing else. */
static size_t ascii_run(const char *bytes, size_t size)
{
	size_t at = 0;
	uint64_t eight;

	for (; size - at >= sizeof(eight); at += sizeof(eight)) {
		memcpy(&eight, bytes + at, sizeof(eight));
		if (eight & UINT64_C(0x8080808080808080))
			break;
	}
	while (at < size && !(bytes[at] & 0x80))
		at++;
	return at;
}

size_t utf8_valid_prefix(const char *bytes, size_t size)
{
	size_t at = 0;

	while (at < size) {
		size_t sequence;

		at += ascii_run(bytes + at, size - at);
		sequence = utf8_sequence(bytes + at, size - at);
		if (!sequence)
			break;
		at += sequence;
	}
	return at;
}

bool utf8_valid_so_far(const char *bytes, size_t size)
{
	size_t at = utf8_valid_prefix(bytes, size), have = 0;

	return at == size ||
	       (measure((const unsigned char *)bytes + at, size - at, &have) && have == size - at);
}

void utf8_add_repaired(struct strbuf *out, const char *bytes, size_t size)
{
	while (size) {
		size_t good = utf8_valid_prefix(bytes, size);

		strbuf_add(out, bytes, good);
		if (good == size)
			break;
		strbuf_adds(out, "\xef\xbf\xbd");
		bytes += good + 1;
		size -= good + 1;
	}
}
