/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/as-user.h"
#include "fs/files-private.h"

/* One thing to make; which member counts follows from type. */
struct making {
	uint32_t type; /* S_IFMT bits */
	mode_t mode;
	int flags;        /* S_IFREG: of openat(2) */
	const char *text; /* S_IFLNK */
};

/* The modes of clients are used as they are: the umask they carry is their own, not this daemon's.
 */
static void drop_umask(void)
{
	static _Thread_local bool dropped;

	if (dropped)
		return;
	/* the umask is shared by all threads that share a working directory */
	(void)unshare(CLONE_FS);
	(void)umask(0);
	dropped = true;
}

/* ret_fd: a descriptor for S_IFREG, else untouched. */
static int make(int dir, const char *name, const struct making *making, int *ret_fd)
{
	int r;

	switch (making->type) {
	case S_IFREG:
		r = openat(dir, name, making->flags, making->mode);
		break;
	case S_IFDIR:
		r = mkdirat(dir, name, making->mode);
		break;
	case S_IFLNK:
		r = symlinkat(making->text, dir, name);
		break;
	default:
		r = mknodat(dir, name, making->type | making->mode, 0);
		break;
	}
	if (r < 0)
		return -errno;
	if (making->type == S_IFREG)
		*ret_fd = r;
	return 0;
}

static int open_made(int dir, const char *name, const struct making *making, int *fd)
{
	if (making->type == S_IFREG)
		return 0;
	*fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return *fd < 0 ? -errno : 0;
}

/* Where the sandbox's user may not, but the client may. */
static int make_anywhere(
	const struct loan *loan, int dir, const char *name, const struct making *making, int *fd)
{
	int r = -EACCES;

	if (as_user_begin_anywhere(loan->uid, loan->gid))
		r = make(dir, name, making, fd);
	as_user_end();
	return r;
}

static int make_as_user(
	const struct loan *loan, int dir, const char *name, const struct making *making, int *fd)
{
	int r;

	as_user_begin(loan->uid, loan->gid);
	r = make(dir, name, making, fd);
	as_user_end();
	if (r == -EACCES || r == -EPERM)
		r = make_anywhere(loan, dir, name, making, fd);
	return r;
}

/*
 * Makes it; *ret_fd is the open file, or an O_PATH descriptor of anything else. The client's own
 * permission has been checked by its kernel.
 */
static int make_owned(struct file_node *parent, int dir, const char *name,
	const struct making *making, int *ret_fd)
{
	const struct loan *loan = parent->loan;
	CLEANUP(closep) int fd = -1;
	int r;

	drop_umask();
	if (loan->backing->privileged && loan->uid != 0)
		r = make_as_user(loan, dir, name, making, &fd);
	else
		r = make(dir, name, making, &fd);
	if (r == 0)
		r = open_made(dir, name, making, &fd);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

int files_make_regular(fuse_req_t req, struct file_node *parent, int dir, const char *name,
	int flags, mode_t mode, int *ret_fd)
{
	struct making making = {
		.type = S_IFREG,
		.mode = mode & 01777 & ~fuse_req_ctx(req)->umask,
		.flags = flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
	};

	if ((flags & O_TMPFILE) != O_TMPFILE)
		making.flags |= O_CREAT | O_EXCL | O_NOFOLLOW;
	return make_owned(parent, dir, name, &making, ret_fd);
}

static void make_and_reply(
	fuse_req_t req, fuse_ino_t ino, const char *name, const struct making *making)
{
	CLEANUP(file_node_putp) struct file_node *parent = NULL;
	CLEANUP(closep) int dir = -1;
	CLEANUP(closep) int fd = -1;
	int r = files_parent(req, ino, &parent);

	if (r == 0)
		r = backing_path(parent, &dir);
	if (r == 0)
		r = make_owned(parent, dir, name, making, &fd);
	if (r < 0)
		files_fail(req, parent, r);
	else
		files_reply_entry(req, parent, name, fd);
}

/* Device nodes are nobody's to make. */
void files_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	struct making making = {
		.type = mode & S_IFMT,
		.mode = mode & 01777 & ~fuse_req_ctx(req)->umask,
		.flags = O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC | O_NONBLOCK,
	};

	if (!making.type)
		making.type = S_IFREG;
	if (S_ISREG(making.type) || S_ISFIFO(making.type) || S_ISSOCK(making.type))
		make_and_reply(req, parent, name, &making);
	else
		(void)fuse_reply_err(req, EPERM);
}

void files_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct making making = {
		.type = S_IFDIR,
		.mode = mode & 01777 & ~fuse_req_ctx(req)->umask,
	};

	make_and_reply(req, parent, name, &making);
}

void files_symlink(fuse_req_t req, const char *text, fuse_ino_t parent, const char *name)
{
	struct making making = {.type = S_IFLNK, .text = text};

	make_and_reply(req, parent, name, &making);
}
