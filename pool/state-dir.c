/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/state-dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"

static int make_one(const char *path, struct error *err)
{
	/* slots run as other uids, which must pass through but not look around; the umask has no
	 * say */
	if (mkdir(path, 0711) == 0)
		return chmod(path, 0711) < 0 ? error_errno(err, errno, "cannot chmod '%s'", path)
					     : 0;
	if (errno == EEXIST)
		return 0;
	return error_errno(err, errno, "cannot make directory '%s'", path);
}

int make_directories(const char *path, struct error *err)
{
	CLEANUP(freep) char *copy = strdup(path);
	struct stat st;
	int r;

	if (!copy)
		return error_set(err, ENOMEM, "no memory for a path");
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		r = make_one(copy, err);
		if (r < 0)
			return r;
		*slash = '/';
	}
	return make_one(copy, err);
}

/* The state directory as it was found: ours, and passable for the uids of slots when we can give
 * them such. */
static int check_dir(int fd, const char *path, struct error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "cannot stat state directory '%s'", path);
	if (st.st_uid != geteuid())
		return error_set(err, EPERM,
			"state directory '%s' belongs to uid %u, not to us (uid %u)", path,
			(unsigned)st.st_uid, (unsigned)geteuid());
	if (geteuid() == 0 && (st.st_mode & 0011) != 0011 &&
		fchmod(fd, (st.st_mode & 07777) | 0011) < 0)
		return error_errno(err, errno, "cannot make state directory '%s' passable", path);
	return 0;
}

static long lock_holder(int fd)
{
	char text[32] = "";

	if (pread(fd, text, sizeof(text) - 1, 0) <= 0)
		return 0;
	return strtol(text, NULL, 10);
}

static int write_holder(int fd, const char *path, struct error *err)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());

	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)len, 0) < 0)
		return error_errno(err, errno, "cannot write '%s/lock'", path);
	return 0;
}

static int take_lock(int dir_fd, const char *path, int *ret_fd, struct error *err)
{
	CLEANUP(closep)
	int fd = openat(
		dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	int r;

	if (fd < 0)
		return error_errno(err, errno, "cannot open '%s/lock'", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return error_errno(err, errno, "cannot lock '%s/lock'", path);
		return error_set(err, EBUSY,
			"state directory '%s' is in use by the daemon with pid %ld; stop that one, or choose another state_dir",
			path, lock_holder(fd));
	}
	r = write_holder(fd, path, err);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}

int state_dir_open(const char *path, int *ret_dir_fd, int *ret_lock_fd, struct error *err)
{
	CLEANUP(closep) int dir_fd = -1;
	int r = make_directories(path, err);

	if (r < 0)
		return r;
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return error_errno(err, errno, "cannot open state directory '%s'", path);
	r = check_dir(dir_fd, path, err);
	if (r < 0)
		return r;
	r = take_lock(dir_fd, path, ret_lock_fd, err);
	if (r < 0)
		return r;
	*ret_dir_fd = take_fd(&dir_fd);
	return 0;
}
