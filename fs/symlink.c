/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/symlink.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* One part of a path: its text without slashes. False at the end. */
static bool next_part(const char **text, const char **ret_part, size_t *ret_size)
{
	const char *start = *text + strspn(*text, "/");
	size_t size = strcspn(start, "/");

	*ret_part = start;
	*ret_size = size;
	*text = start + size;
	return size > 0;
}

enum symlink_kind symlink_classify(const char *text, unsigned *ret_climbs)
{
	bool absolute = text[0] == '/', named = false;
	const char *part;
	unsigned climbs = 0;
	size_t size;

	*ret_climbs = 0;
	if (text[0] == '\0')
		return SYMLINK_REFUSED;
	while (next_part(&text, &part, &size)) {
		if (size == 1 && part[0] == '.')
			continue;
		if (size != 2 || memcmp(part, "..", 2) != 0)
			named = true;
		else if (absolute || named)
			return SYMLINK_REFUSED;
		else
			climbs++;
	}
	if (absolute)
		return SYMLINK_ABSOLUTE;
	*ret_climbs = climbs;
	return SYMLINK_RELATIVE;
}

static int show_absolute(const char *text, unsigned depth, char *ret_shown)
{
	const char *rest = text + strspn(text, "/");
	size_t size = strlen(rest), at = 0;
	unsigned i;

	/* every climb is three bytes; the last loses its slash when nothing follows */
	if (depth >= SYMLINK_TEXT_SIZE / 3 || 3 * (size_t)depth + size >= SYMLINK_TEXT_SIZE)
		return -ENAMETOOLONG;
	for (i = 0; i < depth; i++, at += 3)
		memcpy(ret_shown + at, "../", 3);
	if (size == 0 && depth == 0)
		ret_shown[at++] = '.';
	else if (size == 0)
		at--;
	memcpy(ret_shown + at, rest, size);
	ret_shown[at + size] = '\0';
	return 0;
}

int symlink_show(const char *text, unsigned depth, char *ret_shown)
{
	size_t size = strlen(text);
	unsigned climbs;

	switch (symlink_classify(text, &climbs)) {
	case SYMLINK_REFUSED:
		return -EPERM;
	case SYMLINK_ABSOLUTE:
		return show_absolute(text, depth, ret_shown);
	case SYMLINK_RELATIVE:
		break;
	}
	if (climbs > depth)
		return -EPERM;
	if (size >= SYMLINK_TEXT_SIZE)
		return -ENAMETOOLONG;
	memcpy(ret_shown, text, size + 1);
	return 0;
}

size_t symlink_rest(const char *text)
{
	return strlen(text + strspn(text, "/"));
}

size_t symlink_shown_size(size_t rest, unsigned depth)
{
	if (rest == 0)
		return depth == 0 ? 1 : 3 * (size_t)depth - 1;
	return 3 * (size_t)depth + rest;
}
