/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/uid-map.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "base/strbuf.h"

/* How many ids from this one on the map has in one line of it. */
static uint64_t mapped_from(const char *text, uint64_t id)
{
	for (const char *line = text; *line;) {
		unsigned long long inside, outside, count;

		if (sscanf(line, "%llu %llu %llu", &inside, &outside, &count) == 3 &&
			id >= inside && id - inside < count)
			return count - (id - inside);
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return 0;
}

bool uid_map_has(const char *text, uint32_t first, uint64_t count)
{
	uint64_t id = first, end = id + count;

	while (id < end) {
		uint64_t run = mapped_from(text, id);

		if (run == 0)
			return false;
		id += run;
	}
	return true;
}

int uid_map_check(uint32_t first, uint64_t count, struct error *err)
{
	static const char *const paths[] = {"/proc/self/uid_map", "/proc/self/gid_map"};

	for (unsigned i = 0; i < 2; i++) {
		CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

		if (read_text(paths[i], &text) < 0 || uid_map_has(text.data, first, count))
			continue;
		return error_set(err, EINVAL,
			"slot.uid_base: %llu ids from %u on are not all there in this user namespace (%s); set it to ids that are, or run the daemon as a plain user",
			(unsigned long long)count, first, paths[i]);
	}
	return 0;
}
