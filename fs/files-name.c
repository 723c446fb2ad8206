/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/as-user.h"
#include "fs/files-private.h"

static void remove_name(fuse_req_t req, fuse_ino_t ino, const char *name, int flags)
{
	CLEANUP(file_node_putp) struct file_node *parent = NULL;
	CLEANUP(closep) int dir = -1;
	int r = files_parent(req, ino, &parent);

	if (r == 0)
		r = backing_path(parent, &dir);
	if (r == 0 && unlinkat(dir, name, flags) < 0)
		r = -errno;
	if (r == 0)
		file_node_removed(parent, name);
	files_done(req, parent, r);
}

void files_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, 0);
}

void files_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, AT_REMOVEDIR);
}

/* A file system that was mounted inside the sandbox makes no name for host root. */
static bool must_be_user(const struct loan *loan)
{
	return errno == EOVERFLOW && loan->backing->privileged && loan->uid != 0;
}

static int rename_at(const struct loan *loan, int from, const char *name, int to,
	const char *new_name, unsigned flags)
{
	int r = renameat2(from, name, to, new_name, flags);

	if (r < 0 && must_be_user(loan)) {
		(void)as_user_begin_anywhere(loan->uid, loan->gid);
		r = renameat2(from, name, to, new_name, flags);
		r = r < 0 ? -errno : 0;
		as_user_end();
		return r;
	}
	return r < 0 ? -errno : 0;
}

static int link_at(const struct loan *loan, int fd, int dir, const char *name)
{
	int proc = loan->backing->proc_fd, r;
	char number[16];

	(void)snprintf(number, sizeof(number), "%d", fd);
	r = linkat(proc, number, dir, name, AT_SYMLINK_FOLLOW);
	if (r < 0 && must_be_user(loan)) {
		(void)as_user_begin_anywhere(loan->uid, loan->gid);
		r = linkat(proc, number, dir, name, AT_SYMLINK_FOLLOW);
		r = r < 0 ? -errno : 0;
		as_user_end();
		return r;
	}
	return r < 0 ? -errno : 0;
}

static int rename_between(struct file_node *from, const char *name, struct file_node *to,
	const char *new_name, unsigned flags)
{
	CLEANUP(closep) int from_dir = -1;
	CLEANUP(closep) int to_dir = -1;
	int r;

	if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL;
	if (from->loan != to->loan)
		return -EXDEV;
	r = backing_path(from, &from_dir);
	if (r == 0)
		r = backing_path(to, &to_dir);
	if (r < 0)
		return r;
	r = rename_at(from->loan, from_dir, name, to_dir, new_name, flags);
	if (r == 0)
		file_node_renamed(from, name, to, new_name, (flags & RENAME_EXCHANGE) != 0);
	return r;
}

void files_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
	const char *new_name, unsigned flags)
{
	CLEANUP(file_node_putp) struct file_node *from = NULL;
	CLEANUP(file_node_putp) struct file_node *to = NULL;
	int r = files_parent(req, parent, &from);

	if (r == 0)
		r = files_parent(req, new_parent, &to);
	if (r == 0)
		r = rename_between(from, name, to, new_name, flags);
	files_done(req, from, r);
}

/* ret_fd: the file under its new name, for looking only. */
static int link_into(
	struct file_node *node, struct file_node *parent, const char *name, int *ret_fd)
{
	CLEANUP(closep) int fd = -1;
	CLEANUP(closep) int dir = -1;
	int r;

	if (node->loan != parent->loan)
		return -EXDEV;
	r = backing_path(node, &fd);
	if (r == 0)
		r = backing_path(parent, &dir);
	if (r < 0)
		return r;
	r = link_at(node->loan, fd, dir, name);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

void files_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name)
{
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	CLEANUP(file_node_putp) struct file_node *parent = NULL;
	CLEANUP(closep) int fd = -1;
	int r = files_node(req, ino, &node);

	if (r == 0)
		r = files_parent(req, new_parent, &parent);
	if (r == 0)
		r = link_into(node, parent, new_name, &fd);
	if (r < 0)
		files_fail(req, node, r);
	else
		files_reply_entry(req, parent, new_name, fd);
}
