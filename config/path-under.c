/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config/path-under.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SYMLINKS_MAX = 40 };

struct walk {
	char done[PATH_MAX];     /* without symlinks; "" is the root */
	char rest[2 * PATH_MAX]; /* still to be walked */
	unsigned symlinks;
	bool too_long;
};

static void pop(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash)
		*slash = '\0';
}

/* Puts a symlink's text before the rest of the way. */
static void follow(struct walk *walk, const char *target)
{
	char rest[sizeof(walk->rest)];

	(void)snprintf(rest, sizeof(rest), "%s", walk->rest);
	if (target[0] == '/')
		walk->done[0] = '\0';
	else
		pop(walk->done);
	walk->too_long = (size_t)snprintf(walk->rest, sizeof(walk->rest), "%s/%s", target, rest) >=
				 sizeof(walk->rest) ||
			 ++walk->symlinks > SYMLINKS_MAX;
}

/* Takes one component off the rest; false when none is left. */
static bool step(struct walk *walk)
{
	char name[NAME_MAX + 1], target[PATH_MAX];
	size_t skip = strspn(walk->rest, "/"), len = strcspn(walk->rest + skip, "/"),
	       have = strlen(walk->done);
	ssize_t size;

	if (!len || walk->too_long)
		return false;
	if (len > NAME_MAX || have + len + 2 > sizeof(walk->done)) {
		walk->too_long = true;
		return false;
	}
	memcpy(name, walk->rest + skip, len);
	name[len] = '\0';
	memmove(walk->rest, walk->rest + skip + len, strlen(walk->rest + skip + len) + 1);
	if (strcmp(name, ".") == 0)
		return true;
	if (strcmp(name, "..") == 0) {
		pop(walk->done);
		return true;
	}
	walk->done[have] = '/';
	memcpy(walk->done + have + 1, name, len + 1);
	size = readlink(walk->done, target, sizeof(target) - 1);
	if (size >= 0) {
		target[size] = '\0';
		follow(walk, target);
	}
	return true;
}

static void walk_begin(struct walk *walk, const char *path)
{
	walk->done[0] = '\0';
	walk->symlinks = 0;
	walk->too_long =
		(size_t)snprintf(walk->rest, sizeof(walk->rest), "%s", path) >= sizeof(walk->rest);
}

bool path_is_under(const char *path, const char *dir)
{
	struct walk to_dir, to_path;

	walk_begin(&to_dir, dir);
	while (step(&to_dir))
		;
	walk_begin(&to_path, path);
	do {
		if (strcmp(to_path.done, to_dir.done) == 0)
			return true;
	} while (step(&to_path));
	return false;
}
