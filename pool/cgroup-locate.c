/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/mounts.h"
#include "base/procfs.h"
#include "base/strbuf.h"
#include "pool/cgroup.h"
#include "pool/cgroup1.h"

/* Whether a list parted by commas, which ends where `end` says, has the word. */
static bool list_has(const char *list, const char *end, const char *word)
{
	size_t len = strlen(word);

	for (const char *next; list < end; list = next + 1) {
		next = memchr(list, ',', (size_t)(end - list));
		next = next ? next : end;
		if ((size_t)(next - list) == len && memcmp(list, word, len) == 0)
			return true;
	}
	return false;
}

/* The end of a line of mountinfo, "type source options", is of the hierarchy that is looked for. */
static bool is_hierarchy(const char *at, const char *end, const char *controller)
{
	const char *type = controller ? "cgroup " : "cgroup2 ";
	size_t len = strlen(type);
	const char *options;

	if ((size_t)(end - at) < len || strncmp(at, type, len) != 0)
		return false;
	options = memchr(at + len, ' ', (size_t)(end - at) - len);
	return !controller || (options && list_has(options + 1, end, controller));
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

/* The path of a line "number:controllers:path" of /proc/self/cgroup, if it has this controller;
 * empty is the second version's. */
static const char *path_of_line(const char *line, const char *end, const char *controller)
{
	const char *list = memchr(line, ':', (size_t)(end - line));
	const char *path = list ? memchr(list + 1, ':', (size_t)(end - list) - 1) : NULL;

	if (!path)
		return NULL;
	if (controller ? !list_has(list + 1, path, controller) : strncmp(line, "0::", 3) != 0)
		return NULL;
	return path + 1;
}

static const char *own_path(const char *self_cgroup, const char *controller, size_t *ret_len)
{
	for (const char *line = self_cgroup, *end; *line; line = *end ? end + 1 : end) {
		const char *path;

		end = line + strcspn(line, "\n");
		path = path_of_line(line, end, controller);
		if (!path)
			continue;
		*ret_len = (size_t)(end - path);
		return path[0] == '/' && strncmp(path, "/..", 3) != 0 ? path : NULL;
	}
	return NULL;
}

static int locate(const char *mountinfo, const char *self_cgroup, const char *controller,
	struct strbuf *out, struct error *err)
{
	const char *version = controller ? "v1 with controller " : "v2",
		   *what = controller ? controller : "";
	size_t own_len = 0;
	const char *own = own_path(self_cgroup, controller, &own_len), *below;
	struct mount_line mount;

	if (!own)
		return error_set(err, ENOENT, "this process is in no cgroup %s%s", version, what);
	while (mount_next(&mountinfo, &mount)) {
		if (!is_hierarchy(mount.type, mount.end, controller))
			continue;
		below = below_root(own, own_len, &mount);
		if (!below)
			continue;
		procfs_add_path(out, mount.point, mount.point_len);
		if (own_len > 1 && below < own + own_len)
			strbuf_add(out, below, (size_t)(own + own_len - below));
		return strbuf_failed(out) ? error_set(err, ENOMEM, "no memory") : 0;
	}
	return error_set(err, ENOENT, "no cgroup %s%s is mounted", version, what);
}

int cgroup_locate(
	const char *mountinfo, const char *self_cgroup, struct strbuf *out, struct error *err)
{
	return locate(mountinfo, self_cgroup, NULL, out, err);
}

int cgroup1_locate(const char *mountinfo, const char *self_cgroup, const char *controller,
	struct strbuf *out, struct error *err)
{
	return locate(mountinfo, self_cgroup, controller, out, err);
}
