/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* providers/lease-name.h: each id has one name, each name at most one id. */
#include <string.h>

#include "base/error.h"
#include "check.h"
#include "providers/lease-name.h"

static void check_id(const char *id, size_t size)
{
	char name[LEASE_NAME_MAX + 1], back[LEASE_NAME_MAX + 1];
	struct error err = ERROR_NONE;

	if (lease_name_encode(id, size, name, &err) < 0) {
		CHECK(err.text[0]);
		return;
	}
	CHECK(name[0] && name[0] != '.' && !strchr(name, '/'));
	CHECK(lease_name_decode(name, back, &err) == 0);
	CHECK(strlen(back) == size && !memcmp(back, id, size));
}

static void check_name(const char *name)
{
	char id[LEASE_NAME_MAX + 1], again[LEASE_NAME_MAX + 1];
	struct error err = ERROR_NONE;

	if (lease_name_decode(name, id, &err) < 0) {
		CHECK(err.text[0]);
		return;
	}
	CHECK(lease_name_encode(id, strlen(id), again, &err) == 0);
	CHECK(!strcmp(again, name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *name = strndup((const char *)data, size);

	CHECK(name);
	check_id((const char *)data, size);
	check_name(name);
	free(name);
	return 0;
}
