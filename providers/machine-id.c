/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/strbuf.h"
#include "providers/lease-table.h"

/* machine-id(5) asks that the id itself is never shown; a hash with a word of our own is. */
static uint64_t hash(const char *text)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (const char *words[] = {"dressage", text}, **word = words; word < words + 2; word++)
		for (const char *c = *word; *c; c++)
			sum = (sum ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
	return sum;
}

void node_id(char ret_id[17])
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	char host[256] = "localhost";

	/* shorter: empty or "uninitialized", as in images */
	if (read_text("/etc/machine-id", &text) < 0 || text.size < 32) {
		(void)gethostname(host, sizeof(host) - 1);
		strbuf_clear(&text);
		strbuf_adds(&text, host);
	}
	(void)snprintf(ret_id, 17, "%016" PRIx64, hash(text.data));
}
