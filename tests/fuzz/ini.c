/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* config/ini.h: whatever stands in a file is read or refused with its place. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "check.h"
#include "config/ini.h"

static int take_entry(void *data, const struct ini_entry *entry, struct error *err)
{
	unsigned *last_line = data;

	CHECK(entry->section && entry->key && entry->value);
	CHECK(entry->line >= *last_line);
	*last_line = entry->line;
	return strcmp(entry->key, "stop") ? 0 : error_set(err, ERANGE, "stopped");
}

static bool is_known(void *data, const char *section, const char *key)
{
	return !strcmp(key, "slots");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned last_line = 0;
	const struct ini_visitor visitor = {take_entry, is_known, &last_line};
	struct error err = ERROR_NONE;
	FILE *stream;
	int r;

	if (!size)
		return 0;
	stream = fmemopen((void *)data, size, "r");
	CHECK(stream);
	r = ini_read(stream, "fuzz.ini", &visitor, &err);
	(void)fclose(stream);
	CHECK(r == 0 || r == -EINVAL || r == -ERANGE);
	CHECK(r == 0 || err.text[0]);
	CHECK(r != -EINVAL || !strncmp(err.text, "fuzz.ini:", 9));
	return 0;
}
