/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "providers/request.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

static int error_at(const char *text, size_t offset, const char *why, struct error *err)
{
	size_t line = 1, column = 1;

	for (size_t i = 0; i < offset; i++) {
		column++;
		if (text[i] == '\n') {
			line++;
			column = 1;
		}
	}
	return error_set(err, EINVAL, "line %zu column %zu: %s", line, column, why);
}

int request_check_text(const char *text, size_t size, const char *what, struct error *err)
{
	const char *nul = memchr(text, '\0', size);
	size_t valid = utf8_valid_prefix(text, size);
	size_t blanks = 0;

	if (nul && (size_t)(nul - text) < valid)
		return error_at(text, (size_t)(nul - text), "a NUL byte", err);
	if (valid != size)
		return error_at(text, valid, "bytes that are not UTF-8", err);
	while (blanks < size && strchr(" \t\r\n", text[blanks]))
		blanks++;
	if (blanks == size)
		return error_set(err, EINVAL, "%s is empty", what);
	return 0;
}

int request_check_env(const cJSON *map, struct error *err)
{
	const cJSON *item;

	if (!map)
		return 0;
	cJSON_ArrayForEach (item, map) {
		if (!item->string[0])
			return error_set(err, EINVAL, "'env': the name of a variable is empty");
		if (strchr(item->string, '='))
			return error_set(err, EINVAL,
				"'env': the name of a variable cannot hold '=': '%.40s'",
				item->string);
	}
	return 0;
}
