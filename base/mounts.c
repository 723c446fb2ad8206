/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/mounts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/cleanup.h"
#include "base/procfs.h"
#include "base/strbuf.h"

enum { FIELD_ROOT = 3, FIELD_POINT = 4, FIELDS = 6 };

/* Fields of a line: id parent major:minor root mountpoint options... - type source options. */
static bool read_line(const char *line, const char *end, struct mount_line *ret)
{
	const char *at = line, *dash = memmem(line, (size_t)(end - line), " - ", 3);
	const char *fields[FIELDS];

	if (!dash)
		return false;
	for (unsigned i = 0; i < FIELDS; i++) {
		fields[i] = at;
		at = memchr(at, ' ', (size_t)(end - at));
		if (!at || at > dash)
			return false;
		at++;
	}
	*ret = (struct mount_line){
		.id = strtoul(line, NULL, 10),
		.root = fields[FIELD_ROOT],
		.root_len = (size_t)(fields[FIELD_ROOT + 1] - fields[FIELD_ROOT] - 1),
		.point = fields[FIELD_POINT],
		.point_len = (size_t)(fields[FIELD_POINT + 1] - fields[FIELD_POINT] - 1),
		.type = dash + 3,
		.end = end,
	};
	return true;
}

bool mount_next(const char **at, struct mount_line *ret_mount)
{
	bool found = false;

	while (!found && **at) {
		const char *end = *at + strcspn(*at, "\n");

		found = read_line(*at, end, ret_mount);
		*at = *end ? end + 1 : end;
	}
	return found;
}

bool mount_is_at(const struct mount_line *mount, const char *path)
{
	CLEANUP(strbuf_fini) struct strbuf point = STRBUF_INIT;

	procfs_add_path(&point, mount->point, mount->point_len);
	return !strcmp(point.data, path);
}

bool mount_is_dressage(const struct mount_line *mount)
{
	return !strncmp(mount->type, "fuse.dressage ", 14);
}

/* What stat(2) says of a dead mount the kernel may remember; statfs(2) is asked each time. */
int mount_look(const char *path, struct stat *ret_st)
{
	struct statfs space;

	return stat(path, ret_st) < 0 || statfs(path, &space) < 0 ? -errno : 0;
}

bool mount_is_dead(int r)
{
	return r == -ENOTCONN || r == -ECONNABORTED || r == -ESHUTDOWN;
}
