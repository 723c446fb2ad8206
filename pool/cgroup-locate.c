/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/procfs.h"
#include "base/strbuf.h"
#include "pool/cgroup.h"

struct mount_line {
	const char *root, *point;
	size_t root_len, point_len;
};

/* Fields of a line of mountinfo: id parent major:minor root mountpoint options... - type source
 * options. */
static bool read_mount_line(const char *line, const char *end, struct mount_line *ret)
{
	const char *at = line, *dash = memmem(line, (size_t)(end - line), " - ", 3);
	const char *fields[6];

	if (!dash || (size_t)(end - dash) < 11 || strncmp(dash, " - cgroup2 ", 11) != 0)
		return false;
	for (unsigned i = 0; i < 6; i++) {
		fields[i] = at;
		at = memchr(at, ' ', (size_t)(end - at));
		if (!at || at > dash)
			return false;
		at++;
	}
	*ret = (struct mount_line){fields[3], fields[4], (size_t)(fields[4] - fields[3] - 1),
		(size_t)(fields[5] - fields[4] - 1)};
	return true;
}

/* The part of our path that is below the mount's root; NULL when we are not in what is mounted. */
static const char *below_root(const char *own, size_t own_len, const struct mount_line *mount)
{
	if (mount->root_len == 1)
		return own;
	if (own_len < mount->root_len || strncmp(own, mount->root, mount->root_len) != 0)
		return NULL;
	return own[mount->root_len] == '/' || own_len == mount->root_len ? own + mount->root_len
									 : NULL;
}

static const char *own_path(const char *self_cgroup, size_t *ret_len)
{
	const char *at =
		!strncmp(self_cgroup, "0::/", 4) ? self_cgroup : strstr(self_cgroup, "\n0::/");

	if (!at)
		return NULL;
	at = strchr(at, '/');
	*ret_len = strcspn(at, "\n");
	return !strncmp(at, "/..", 3) ? NULL : at;
}

int cgroup_locate(
	const char *mountinfo, const char *self_cgroup, struct strbuf *out, struct error *err)
{
	size_t own_len = 0;
	const char *own = own_path(self_cgroup, &own_len), *next, *below;
	struct mount_line mount;

	if (!own)
		return error_set(err, ENOENT, "this process is in no cgroup v2");
	for (const char *line = mountinfo; *line; line = *next ? next + 1 : next) {
		next = line + strcspn(line, "\n");
		if (!read_mount_line(line, next, &mount))
			continue;
		below = below_root(own, own_len, &mount);
		if (!below)
			continue;
		procfs_add_path(out, mount.point, mount.point_len);
		if (own_len > 1 && below < own + own_len)
			strbuf_add(out, below, (size_t)(own + own_len - below));
		return strbuf_failed(out) ? error_set(err, ENOMEM, "no memory") : 0;
	}
	return error_set(err, ENOENT, "no cgroup v2 is mounted");
}
