/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ini.h: reading an INI file without inih's silences.
 *
 * inih as Debian ships it cuts a line at 199 bytes, a section name at 49 and a value at " ;", says
 * nothing of what stands behind a section's ], and takes an indented "key = value" for more of the
 * value before it. Here each of these is an error with file and line. A value goes on in indented
 * lines, joined by one blank. Threads: any.
 */
#ifndef CONFIG_INI_H
#define CONFIG_INI_H

#include <stdbool.h>
#include <stdio.h>

struct error;

enum { INI_LINE_MAX = 190 };

struct ini_entry {
	/* Never NULL; "" before the first section, or where nothing stands. */
	const char *section, *key, *value;
	unsigned line;    /* of the key */
	bool comment_cut; /* a line of it had " ;" and lost what stands behind */
};

struct ini_visitor {
	/* One setting, whole. Not 0: stop, and give it back. */
	int (*entry)(void *data, const struct ini_entry *entry, struct error *err);
	/* Whether a section has this key: an indented line that begins with one is refused. */
	bool (*known)(void *data, const char *section, const char *key);
	void *data;
};

/*
 * Reads to the end. `name` is the file's, for error texts. -EINVAL with "name:line: ..."; what
 * entry() gave; -EIO, -ENOMEM.
 */
int ini_read(FILE *stream, const char *name, const struct ini_visitor *visitor, struct error *err);

#endif
