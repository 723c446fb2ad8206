/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/mountpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mounts.h"
#include "base/program.h"
#include "base/strbuf.h"

#ifndef MOUNT_ATTR_NOSYMFOLLOW
#define MOUNT_ATTR_NOSYMFOLLOW 0x00200000
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif

extern char **environ;

/* The kernel's struct, which older headers lack. */
struct mount_attributes {
	uint64_t set, clear, propagation, userns_fd;
};

/* The last component may be a dead mount, which cannot be walked: only its parent is resolved then.
 */
static char *resolve(const char *path)
{
	CLEANUP(freep) char *whole = realpath(path, NULL), *copy = NULL, *parent = NULL;
	char *slash, *joined;

	if (whole)
		return take_ptr(&whole);
	copy = strdup(path);
	if (!copy)
		return NULL;
	for (size_t len = strlen(copy); len > 1 && copy[len - 1] == '/'; len--)
		copy[len - 1] = '\0';
	slash = strrchr(copy, '/');
	if (slash)
		*slash = '\0';
	parent = realpath(!slash ? "." : slash == copy ? "/" : copy, NULL);
	if (!parent)
		return NULL;
	if (asprintf(&joined, "%s/%s", strcmp(parent, "/") != 0 ? parent : "",
		    slash ? slash + 1 : copy) < 0)
		return NULL;
	return joined;
}

/* True when the topmost mount at exactly this path is one of ours. */
static bool is_ours(const char *path)
{
	CLEANUP(strbuf_fini) struct strbuf table = STRBUF_INIT;
	struct mount_line mount;
	bool ours = false;

	(void)read_text("/proc/self/mountinfo", &table);
	for (const char *at = table.data; mount_next(&at, &mount);)
		if (mount_is_at(&mount, path))
			ours = mount_is_dressage(&mount);
	return ours;
}

/* fusermount3 may detach what its caller mounted; root needs nobody's help. */
static int detach(const char *path, struct error *err)
{
	const char *const argv[] = {"fusermount3", "-u", "-z", "--", path, NULL};
	const struct spawn how = {
		.program = argv[0], .argv = (char *const *)argv, .environment = environ};
	int status = 0;
	pid_t pid;
	int r;

	if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		return 0;
	r = spawn_program(&how, &pid);
	if (r < 0)
		return error_errno(
			err, -r, "cannot run fusermount3 to detach the dead mount at '%s'", path);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_errno(err, errno, "cannot wait for fusermount3");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return error_set(err, EBUSY,
			"a dead mount is in the way at '%s' and fusermount3 -u -z cannot detach it; whoever mounted it must",
			path);
	return 0;
}

static int make(struct mountpoint *point, struct error *err)
{
	if (mkdir(point->path, 0755) < 0)
		return error_errno(err, errno, "cannot make the mountpoint '%s'", point->path);
	point->made = true;
	return 0;
}

static int refuse_living(const char *path, struct error *err)
{
	return error_set(err, EBUSY,
		"'%s' is mounted by a dressagefs that is alive; stop it (fusermount3 -u '%s') or choose another mountpoint",
		path, path);
}

static int detach_dead(const char *path, struct error *err)
{
	int r;

	if (!is_ours(path))
		return error_set(err, EBUSY,
			"a dead mount that is none of ours is in the way at '%s'; unmount it (fusermount3 -u '%s') or choose another mountpoint",
			path, path);
	r = detach(path, err);
	if (r == 0)
		log_warn("detached the mount that a dead daemon left at '%s'", path);
	return r;
}

static int look(struct mountpoint *point, struct error *err)
{
	struct stat st;
	int r = mount_look(point->path, &st);

	for (int tries = 0; mount_is_dead(r) && tries < 16;
		tries++) { /* dead mounts may be stacked */
		r = detach_dead(point->path, err);
		if (r < 0)
			return r;
		r = mount_look(point->path, &st);
	}
	if (r == -ENOENT)
		return make(point, err);
	if (r < 0)
		return error_errno(err, -r, "cannot use the mountpoint '%s'", point->path);
	if (!S_ISDIR(st.st_mode))
		return error_set(err, ENOTDIR, "the mountpoint '%s' is no directory", point->path);
	return is_ours(point->path) ? refuse_living(point->path, err) : 0;
}

int mountpoint_check(const char *path, struct error *err)
{
	CLEANUP(freep) char *real = resolve(path);
	struct stat st;

	if (!real || !is_ours(real) || mount_is_dead(mount_look(real, &st)))
		return 0;
	return refuse_living(real, err);
}

static bool lies_below(const char *path, const char *top)
{
	CLEANUP(freep) char *real = resolve(path);
	size_t len = strlen(top);

	return real && !strncmp(real, top, len) && (real[len] == '\0' || real[len] == '/');
}

int mountpoint_prepare(const char *path, const char *state_dir, struct mountpoint *ret_mountpoint,
	struct error *err)
{
	struct mountpoint point = {.path = resolve(path)};
	int r;

	if (!point.path)
		return error_errno(
			err, errno ? errno : ENOMEM, "cannot use the mountpoint '%s'", path);
	if (lies_below(state_dir, point.path))
		r = error_set(err, EINVAL,
			"the state directory '%s' lies below the mountpoint '%s', where the daemon would wait for itself; move one of them",
			state_dir, point.path);
	else
		r = look(&point, err);
	if (r < 0) {
		mountpoint_fini(&point);
		return r;
	}
	*ret_mountpoint = point;
	return 0;
}

void mountpoint_fini(struct mountpoint *mountpoint)
{
	struct stat st;

	/* an aborted connection leaves its mount behind, dead */
	if (mountpoint->path && mount_is_dead(mount_look(mountpoint->path, &st)) &&
		is_ours(mountpoint->path))
		(void)detach(mountpoint->path, NULL);
	if (mountpoint->made && rmdir(mountpoint->path) < 0)
		log_debug("left the mountpoint '%s': %s", mountpoint->path, strerrordesc_np(errno));
	free(mountpoint->path);
	*mountpoint = (struct mountpoint){0};
}

int mountpoint_forbid_links(const char *path, struct error *err)
{
	struct mount_attributes attributes = {.set = MOUNT_ATTR_NOSYMFOLLOW};

	if (syscall(SYS_mount_setattr, AT_FDCWD, path, 0, &attributes, sizeof(attributes)) < 0)
		return error_errno(err, errno,
			"[mount] symlinks = raw needs nosymfollow on the mount, which cannot be set");
	return 0;
}
