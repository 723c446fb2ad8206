/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The host's memory, through file systems that live in it, and other things that are counted for
 * the whole host. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/security/hostile.h"

enum { MIB = 1024 * 1024, TOO_MUCH = 100 }; /* /dev/shm has 64 MiB */

static int fill(const char *path)
{
	static char block[MIB];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int mib = 0;

	memset(block, 'x', sizeof(block));
	while (fd >= 0 && mib < TOO_MUCH &&
		write(fd, block, sizeof(block)) == (ssize_t)sizeof(block))
		mib++;
	(void)close(fd);
	(void)unlink(path);
	return mib;
}

static const char *fill_memory(const struct decoys *decoys)
{
	static const char *const dirs[] = {"", "/dev", "/dev/shm", "/dev/pts", "/run", "/var",
		"/home", "/proc", "/workspace_sandbox", "/etc", "/usr", NULL};
	char path[64];

	for (const char *const *dir = dirs; *dir; dir++) {
		(void)snprintf(path, sizeof(path), "%s/fill", *dir);
		if (fill(path) >= TOO_MUCH)
			return got("%d MiB in %s/", TOO_MUCH, *dir);
	}
	return NULL;
}

static const char *fill_inodes(const struct decoys *decoys)
{
	char path[64];
	int made = 0;

	for (; made < 20000; made++) {
		(void)snprintf(path, sizeof(path), "/dev/shm/i%d", made);
		if (mkdir(path, 0700) < 0)
			break;
	}
	for (int i = 0; i < made; i++) {
		(void)snprintf(path, sizeof(path), "/dev/shm/i%d", i);
		(void)rmdir(path);
	}
	return made >= 5000 ? got("%d directories", made) : NULL;
}

static const char *take_terminals(const struct decoys *decoys)
{
	int taken = 0;

	while (taken < 400 && posix_openpt(O_RDWR | O_NOCTTY) >= 0)
		taken++;
	return taken > 64   ? got("%d pseudo-terminals", taken)
	       : taken == 0 ? got("none at all")
			    : NULL;
}

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Whatever else may be mounted: a tmpfs that can be written has a size. */
static const char *find_boundless_tmpfs(const struct decoys *decoys)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	const char *answer = NULL;
	char line[4096];

	if (!mounts)
		return got("no mountinfo");
	while (!answer && fgets(line, sizeof(line), mounts)) {
		const char *type = strstr(line, " - ");
		char point[256], options[256];

		if (!type || strncmp(type, " - tmpfs ", 9) != 0 ||
			sscanf(line, "%*d %*d %*s %*s %255s %255s", point, options) != 2)
			continue;
		/* a single device node bound from the host's /dev is no place to write */
		if (is_directory(point) && strncmp(options, "rw", 2) == 0 && !strstr(type, "size="))
			answer = got("%s", point);
	}
	(void)fclose(mounts);
	return answer;
}

const struct attempt memory_attempts[] = {
	{"memory_cannot_be_filled_through_root_dev_or_shm", fill_memory},
	{"memory_cannot_be_filled_with_inodes", fill_inodes},
	{"the_hosts_pseudo_terminals_cannot_be_used_up", take_terminals},
	{"every_writable_tmpfs_has_a_size", find_boundless_tmpfs},
	{NULL, NULL},
};
