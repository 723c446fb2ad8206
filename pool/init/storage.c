/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/init/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/environment.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct place {
	const char *name, *inside;
	mode_t mode;
} places[] = {
	{"work", INSIDE_WORK, 0755},
	{"home", INSIDE_HOME, 0755},
	{"runtime", INSIDE_RUNTIME, 0755},
	{"tmp", INSIDE_TMP, 01777},
};

int storage_mount(const char *path, uint64_t size, uint64_t inodes)
{
	char options[80];

	(void)snprintf(options, sizeof(options), "mode=0700,size=%llu,nr_inodes=%llu",
		(unsigned long long)size, (unsigned long long)inodes);
	return mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0 ? -errno : 0;
}

int storage_make_directories(int dir, unsigned uid, unsigned gid)
{
	for (size_t i = 0; i < COUNT(places); i++) {
		if (mkdirat(dir, places[i].name, 0700) < 0 ||
			fchownat(dir, places[i].name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0 ||
			fchmodat(dir, places[i].name, places[i].mode, 0) < 0)
			return -errno;
	}
	return 0;
}

/* A mount of its own of that directory, not attached anywhere yet. */
static int clone_directory(int dir, const char *name)
{
	long fd = syscall(SYS_open_tree, dir, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

static int attach(int tree, const char *path)
{
	long r = syscall(SYS_move_mount, tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH);

	return r < 0 ? -errno : 0;
}

static void close_trees(const int *trees, size_t count)
{
	for (size_t i = 0; i < count; i++)
		(void)close(trees[i]);
}

/* Each of the four from the storage at dir, which is then let go of: only they are seen. */
static int spread(int dir, const char *storage)
{
	int trees[COUNT(places)];
	size_t count = 0;
	int r = 0;

	while (count < COUNT(places) && r >= 0) {
		r = clone_directory(dir, places[count].name);
		if (r >= 0)
			trees[count++] = r;
	}
	if (r >= 0)
		r = umount2(storage, MNT_DETACH) < 0 ? -errno : 0;
	for (size_t i = 0; i < count && r >= 0; i++)
		r = attach(trees[i], places[i].inside);
	close_trees(trees, count);
	return r < 0 ? r : 0;
}

/* Where it is mounted first does not matter: /tmp is there, and nothing is in it yet. */
int storage_create(uint64_t size, uint64_t inodes)
{
	int r = storage_mount(INSIDE_TMP, size, inodes);
	int dir;

	if (r < 0)
		return r;
	dir = open(INSIDE_TMP, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	r = storage_make_directories(dir, 0, 0);
	if (r == 0)
		r = spread(dir, INSIDE_TMP);
	(void)close(dir);
	return r;
}
