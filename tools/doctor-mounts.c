/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is mounted, and whether it answers. Whatever may hang is asked by a process of its own. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mounts.h"
#include "base/procfs.h"
#include "tools/client.h"
#include "tools/doctor.h"

enum { LOOK_MS = 5000 };

int doctor_look_apart(const char *path)
{
	CLEANUP(strbuf_fini) struct strbuf output = STRBUF_INIT;
	const char *const argv[] = {"/proc/self/exe", "doctor", "--look", path, NULL};
	int r = doctor_spawn(argv, LOOK_MS, &output);

	return r > 0 ? -r : r;
}

/* A mount of any dressagefs, or of a part of one. */
struct found {
	struct strbuf point, root;
};

static void found_fini(struct found *found)
{
	strbuf_fini(&found->point);
	strbuf_fini(&found->root);
}

/* Without "." and "..", by the letters alone: what lies on the way may be the mount, and hang. */
static void clean(const char *path, char ret_path[PATH_MAX])
{
	size_t size = 0;

	for (size_t len; path += strspn(path, "/"), (len = strcspn(path, "/")); path += len) {
		if (len == 1 && path[0] == '.')
			continue;
		if (len == 2 && path[0] == '.' && path[1] == '.') {
			while (size > 0 && ret_path[--size] != '/')
				;
			continue;
		}
		if (size + len + 2 > PATH_MAX)
			break;
		ret_path[size++] = '/';
		memcpy(ret_path + size, path, len);
		size += len;
	}
	ret_path[size] = '\0';
}

/* Replaces the directory that it is in by its real name. readlink(2) asks no file system that is
 * mounted there. */
static bool follow(char path[PATH_MAX])
{
	char parent[PATH_MAX], link[PATH_MAX], joined[2 * PATH_MAX];
	char *name = strrchr(path, '/');
	ssize_t size;

	if (!name)
		return false;
	*name = '\0';
	if (!realpath(*path ? path : "/", parent)) {
		*name = '/';
		return false;
	}
	*name = '/';
	size = readlink(path, link, sizeof(link) - 1);
	link[size > 0 ? size : 0] = '\0';
	(void)snprintf(joined, sizeof(joined), "%s/%s", link[0] == '/' ? "" : parent,
		size > 0 ? link : name + 1);
	clean(joined, path);
	return size > 0;
}

static bool is_at(const char *point, const char *mountpoint)
{
	char path[PATH_MAX];

	clean(mountpoint, path);
	if (strcmp(point, path) == 0)
		return true;
	for (unsigned links = 0; links < 8 && follow(path); links++)
		;
	return strcmp(point, path) == 0;
}

static void tell_of_dead(struct doctor *doctor, const struct found *found)
{
	CLEANUP(strbuf_fini) struct strbuf remedy = STRBUF_INIT;
	bool part = strcmp(found->root.data, "/") != 0;

	strbuf_addf(&remedy, part ? "umount -l '%s'" : "fusermount3 -uz '%s'", found->point.data);
	doctor_warn(doctor, remedy.data, "'%s' is a dead %s: its daemon has gone",
		found->point.data, part ? "bind mount of a part of a dressagefs" : "mount");
}

static void look_at(struct doctor *doctor, const struct found *found, unsigned *alive)
{
	CLEANUP(strbuf_fini) struct strbuf remedy = STRBUF_INIT;
	int r = doctor->look(found->point.data);

	strbuf_addf(&remedy, "umount -l '%s'", found->point.data);
	if (mount_is_dead(r)) {
		tell_of_dead(doctor, found);
	} else if (r == -ESTALE) {
		doctor_warn(doctor, remedy.data, "'%s' is a bind mount of a lease that has ended",
			found->point.data);
	} else if (r == -ETIMEDOUT) {
		doctor_fail(doctor,
			"look at its daemon's log; kill -9 that daemon and start it anew",
			"'%s' does not answer within %d s", found->point.data, LOOK_MS / 1000);
	} else { /* EACCES: another user's, which answers him */
		++*alive;
		if (is_at(found->point.data, doctor->mountpoint))
			doctor->mounted = true;
	}
}

void check_mounts(struct doctor *doctor)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	unsigned alive = 0, all = 0;
	struct mount_line mount;

	(void)doctor_read(doctor, "/proc/self/mountinfo", &text);
	for (const char *at = text.data; mount_next(&at, &mount);) {
		CLEANUP(found_fini) struct found found = {STRBUF_INIT, STRBUF_INIT};

		if (!mount_is_dressage(&mount))
			continue;
		procfs_add_path(&found.root, mount.root, mount.root_len);
		procfs_add_path(&found.point, mount.point, mount.point_len);
		all++;
		look_at(doctor, &found, &alive);
	}
	if (alive == all)
		doctor_ok(doctor, "%u of dressagefs, all of which answer", all);
}

void check_daemon(struct doctor *doctor)
{
	CLEANUP(strbuf_fini) struct strbuf output = STRBUF_INIT;
	const char *const argv[] = {
		"/proc/self/exe", "--mount", doctor->mountpoint, "status", NULL};
	int r;

	if (!doctor->mounted) {
		doctor_ok(doctor, "none runs at '%s'", doctor->mountpoint);
		return;
	}
	r = doctor_spawn(argv, LOOK_MS, &output);
	strbuf_cut(&output, strcspn(output.data, "\n"));
	if (r == EXIT_DONE)
		doctor_ok(doctor, "%s", output.data);
	else if (r == EXIT_DEGRADED)
		doctor_warn(doctor, "dressage status; cat slots/*/last_error",
			"slots have failed or are lost: %s", output.data);
	else
		doctor_fail(doctor, "look at its log",
			"the daemon at '%s' does not tell its state: %s", doctor->mountpoint,
			r == -ETIMEDOUT ? "no answer" : output.data);
}
