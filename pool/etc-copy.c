/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "pool/etc-private.h"

enum { DEPTH_MAX = 4 };

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

int etc_remove(const char *path)
{
	if (nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}

/* Modes are set, not asked for: the daemon's umask may be any. */
int etc_create_file(int dir, const char *name)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		return -errno;
	(void)fchmod(fd, 0644);
	return fd;
}

int etc_create_directory(int parent, const char *name)
{
	int fd;

	if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	(void)fchmod(fd, 0755);
	return fd;
}

static int copy_file(int from_dir, int to_dir, const char *name)
{
	CLEANUP(closep) int from = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	CLEANUP(closep) int to = -1;
	struct stat st;
	ssize_t n;

	if (from < 0)
		return -errno;
	if (fstat(from, &st) < 0)
		return -errno;
	to = etc_create_file(to_dir, name);
	if (to < 0)
		return to;
	(void)fchmod(to, 0644 | (st.st_mode & 0111));
	do
		n = sendfile(to, from, NULL, 1 << 20);
	while (n > 0);
	return n < 0 ? -errno : 0;
}

int etc_copy_link(int from_dir, int to_dir, const char *name)
{
	char target[4096];
	ssize_t n = readlinkat(from_dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	return symlinkat(target, to_dir, name) < 0 ? -errno : 0;
}

static int copy_directory(int from_dir, int to_dir, const char *name, int depth)
{
	CLEANUP(closep) int to = -1;
	CLEANUP(closedirp) DIR *entries = NULL;
	struct dirent *entry;
	int from = openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = 0;

	if (from < 0)
		return -errno;
	entries = fdopendir(from); /* owns `from` */
	if (!entries) {
		(void)close(from);
		return -ENOMEM;
	}
	to = etc_create_directory(to_dir, name);
	if (to < 0)
		return to;
	while (r == 0 && (entry = readdir(entries))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = etc_copy_entry(from, to, entry->d_name, depth + 1);
	}
	return r;
}

/* Passes over whatever "others" may not read on the host: a root daemon would open it for
 * everybody. */
int etc_copy_entry(int from_dir, int to_dir, const char *name, int depth)
{
	struct stat st;

	if (fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -errno;
	if (S_ISLNK(st.st_mode))
		return etc_copy_link(from_dir, to_dir, name);
	if (S_ISREG(st.st_mode) && (st.st_mode & S_IROTH))
		return copy_file(from_dir, to_dir, name);
	if (S_ISDIR(st.st_mode) && (st.st_mode & (S_IROTH | S_IXOTH)) == (S_IROTH | S_IXOTH) &&
		depth < DEPTH_MAX)
		return copy_directory(from_dir, to_dir, name, depth);
	return 0;
}
