/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "providers/lease-name.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

static const char digits[] = "0123456789ABCDEF";

static bool needs_escape(unsigned char c, bool first)
{
	return c == '%' || c == '/' || c < 0x20 || c == 0x7f || (c == '.' && first);
}

int lease_name_encode(const char *id, size_t size, char *ret_name, struct error *err)
{
	char name[LEASE_NAME_MAX + 4];
	size_t len = 0;

	if (!size || size > LEASE_NAME_MAX)
		return error_set(err, EINVAL, "a name has 1 to %d bytes, this has %zu",
			(int)LEASE_NAME_MAX, size);
	if (memchr(id, '\0', size) || !utf8_valid(id, size))
		return error_set(err, EINVAL, "a name is UTF-8 without NUL");
	for (size_t i = 0; i < size && len <= LEASE_NAME_MAX; i++) {
		unsigned char c = (unsigned char)id[i];

		if (!needs_escape(c, i == 0)) {
			name[len++] = (char)c;
			continue;
		}
		name[len++] = '%';
		name[len++] = digits[c >> 4];
		name[len++] = digits[c & 15];
	}
	if (len > LEASE_NAME_MAX)
		return error_set(err, EINVAL,
			"it is too long for a name in a directory, where '%%', '/' and control "
			"characters take three bytes");
	memcpy(ret_name, name, len);
	ret_name[len] = '\0';
	return 0;
}

/* The value of one upper-case hexadecimal digit, -1 for anything else. */
static int digit_value(char c)
{
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

int lease_name_decode(const char *name, char *ret_id, struct error *err)
{
	char id[LEASE_NAME_MAX + 1], again[LEASE_NAME_MAX + 1];
	size_t len = 0;
	int r;

	for (const char *p = name; *p; p++) {
		int high, low;

		if (len == LEASE_NAME_MAX)
			return error_set(err, EINVAL, "a lease's name has at most %d bytes",
				(int)LEASE_NAME_MAX);
		id[len++] = *p;
		if (*p != '%')
			continue;
		high = digit_value(p[1]);
		low = high < 0 ? -1 : digit_value(p[2]);
		if (low < 0)
			return error_set(err, EINVAL,
				"'%%' in a lease's name is followed by two digits of 0-9A-F; "
				"'%%' itself is written %%25");
		id[len - 1] = (char)(high << 4 | low);
		p += 2;
	}
	r = lease_name_encode(id, len, again, err);
	if (r < 0)
		return r;
	/* one name for each id: what could be written in another way is not one */
	if (strcmp(again, name) != 0)
		return error_set(err, EINVAL, "that trajectory id is written '%s'", again);
	memcpy(ret_id, id, len);
	ret_id[len] = '\0';
	return 0;
}
