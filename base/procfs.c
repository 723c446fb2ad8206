/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/procfs.h"

#include <stdbool.h>
#include <string.h>

#include "base/strbuf.h"

enum { FIRST_FIELD = 3 }; /* behind the name, which ends with the last ')' */

const char *procfs_stat_field(const char *stat, unsigned number)
{
	const char *at = strrchr(stat, ')');

	at = at ? at + 1 : NULL;
	for (unsigned field = FIRST_FIELD; at && *at == ' '; field++) {
		if (field == number)
			return at + 1;
		at = strchr(at + 1, ' ');
	}
	return NULL;
}

static bool is_octal(const char *text)
{
	for (unsigned i = 0; i < 3; i++)
		if (text[i] < '0' || text[i] > '7')
			return false;
	return true;
}

void procfs_add_path(struct strbuf *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] != '\\' || len - i < 4 || !is_octal(text + i + 1)) {
			strbuf_addc(out, text[i]);
			continue;
		}
		strbuf_addc(out, (char)((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
					 (text[i + 3] - '0')));
		i += 3;
	}
}
