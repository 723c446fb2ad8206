/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/settings.h"
#include "fs/files-private.h"
#include "fs/symlink.h"

enum { NOBODY = 65534, RANGE = 65536 };

/*
 * One number space for all file systems behind the one mount: two files of different ones never
 * look like one. Top bit set, as no control file's number is.
 */
uint64_t files_shown_ino(uint32_t dev_major, uint32_t dev_minor, uint64_t ino)
{
	uint64_t x = ((uint64_t)dev_major << 32 | dev_minor) * UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 29) + ino;
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (x ^ x >> 31) | FILES_INO_BIT;
}

/* What commands make belongs to the mount's owner; root's is root's; anybody else's is nobody's, as
 * it is inside. A slot with a range of ids has users of its own: theirs are shown as inside. */
static uint32_t shown_id(const struct loan *loan, uint32_t id, uint32_t sandbox, uint32_t owner)
{
	if (id == sandbox)
		return owner;
	if (loan->range && id - loan->range < RANGE)
		return id - loan->range;
	return id == 0 ? 0 : NOBODY;
}

/* Nobody but the owner writes, whatever a command allows those who have its ids inside. */
static mode_t shown_mode(mode_t mode)
{
	return S_ISLNK(mode) ? mode : mode & ~(mode_t)(S_IWGRP | S_IWOTH);
}

static struct timespec timespec_of(const struct statx_timestamp *from)
{
	return (struct timespec){.tv_sec = from->tv_sec, .tv_nsec = from->tv_nsec};
}

void files_fill_stat(struct files *files, struct file_node *node, const struct statx *from,
	struct stat *ret_stat)
{
	const struct loan *loan = node->loan;
	const struct config *config = files->config;

	memset(ret_stat, 0, sizeof(*ret_stat));
	ret_stat->st_ino = files_shown_ino(from->stx_dev_major, from->stx_dev_minor, from->stx_ino);
	ret_stat->st_mode = shown_mode(from->stx_mode);
	ret_stat->st_nlink = from->stx_nlink;
	ret_stat->st_uid = shown_id(loan, from->stx_uid, loan->uid, config->mount.owner_uid);
	ret_stat->st_gid = shown_id(loan, from->stx_gid, loan->gid, config->mount.owner_gid);
	ret_stat->st_rdev = makedev(from->stx_rdev_major, from->stx_rdev_minor);
	ret_stat->st_size = (off_t)from->stx_size;
	ret_stat->st_blksize = from->stx_blksize;
	ret_stat->st_blocks = (blkcnt_t)from->stx_blocks;
	ret_stat->st_atim = timespec_of(&from->stx_atime);
	ret_stat->st_mtim = timespec_of(&from->stx_mtime);
	ret_stat->st_ctim = timespec_of(&from->stx_ctime);
}

static int stat_fd(int fd, struct statx *ret_stat)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		       STATX_BASIC_STATS, ret_stat) < 0
		       ? -errno
		       : 0;
}

/* -EAGAIN: an exact depth could tell. */
static int show_link(struct file_node *node, const char *text, char *ret_text)
{
	unsigned climbs, depth;
	bool exact;

	depth = file_node_depth(node, &exact);
	switch (symlink_classify(text, &climbs)) {
	case SYMLINK_REFUSED:
		return -EPERM;
	case SYMLINK_RELATIVE:
		if (climbs > depth && !exact)
			return -EAGAIN;
		break;
	case SYMLINK_ABSOLUTE:
		if (!exact)
			return -EAGAIN;
		break;
	}
	return symlink_show(text, depth, ret_text);
}

static int read_link(struct files *files, struct file_node *node, int fd, char *ret_text)
{
	char text[SYMLINK_TEXT_SIZE];
	ssize_t size = readlinkat(fd, "", text, sizeof(text));

	if (size < 0)
		return -errno;
	if ((size_t)size == sizeof(text))
		return -ENAMETOOLONG;
	text[size] = '\0';
	if (files->config->mount.symlinks == SYMLINKS_CONTAIN)
		return show_link(node, text, ret_text);
	memcpy(ret_text, text, (size_t)size + 1);
	return 0;
}

/* Read once: reading changes the link's time of access. */
static int32_t link_rest(struct file_node *node, int fd)
{
	int32_t rest = atomic_load(&node->link_rest);
	char text[SYMLINK_TEXT_SIZE];
	ssize_t size;

	if (rest != FILE_NODE_LINK_UNREAD)
		return rest;
	size = readlinkat(fd, "", text, sizeof(text) - 1);
	if (size < 0)
		return FILE_NODE_LINK_RELATIVE;
	text[size] = '\0';
	rest = text[0] == '/' ? (int32_t)symlink_rest(text) : FILE_NODE_LINK_RELATIVE;
	atomic_store(&node->link_rest, rest);
	return rest;
}

/* A link is as long as what readlink(2) gives: programs make room for that. */
void files_fit_link(struct files *files, struct file_node *node, int fd, struct stat *stat)
{
	unsigned depth;
	int32_t rest;
	bool exact;

	if (!S_ISLNK(node->type) || files->config->mount.symlinks != SYMLINKS_CONTAIN)
		return;
	rest = link_rest(node, fd);
	depth = file_node_depth(node, &exact);
	if (rest >= 0 && exact)
		stat->st_size = (off_t)symlink_shown_size((size_t)rest, depth);
}

static void reply_attr(fuse_req_t req, struct file_node *node, int fd)
{
	struct files *files = files_of(req);
	struct statx from;
	struct stat stat;
	int r = stat_fd(fd, &from);

	if (r == 0 && (from.stx_mode & S_IFMT) != node->type)
		r = -ESTALE; /* its lease ended in this moment: the descriptor leads nowhere */
	if (r < 0) {
		files_fail(req, node, r);
		return;
	}
	files_fill_stat(files, node, &from, &stat);
	files_fit_link(files, node, fd, &stat);
	(void)fuse_reply_attr(req, &stat, 0);
}

void files_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	CLEANUP(closep) int fd = -1;
	int r = files_node(req, ino, &node);

	if (r == 0)
		r = backing_path(node, &fd);
	if (r < 0)
		files_fail(req, node, r);
	else
		reply_attr(req, node, fd);
}

/* ---- changing attributes ---- */

/* What is meant on the host by an id that a client sees. False: by this one nothing is. */
static bool meant_id(
	const struct loan *loan, uint32_t id, uint32_t sandbox, uint32_t owner, uint32_t *ret_id)
{
	if (id != owner && id >= RANGE)
		return false;
	*ret_id = id == owner ? sandbox : loan->range + id;
	return true;
}

/* In a slot with a range of ids, to any of its users. */
static int change_owner(
	struct files *files, const struct loan *loan, int fd, const struct stat *attr, int to_set)
{
	const struct config *config = files->config;
	uint32_t uid = (uint32_t)-1, gid = (uint32_t)-1;

	if ((to_set & FUSE_SET_ATTR_UID) &&
		!meant_id(loan, attr->st_uid, loan->uid, config->mount.owner_uid, &uid))
		return -EPERM;
	if ((to_set & FUSE_SET_ATTR_GID) &&
		!meant_id(loan, attr->st_gid, loan->gid, config->mount.owner_gid, &gid))
		return -EPERM;
	return fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* Only to whom it belongs already, as the client sees it; then nothing changes. */
static int check_owner(
	struct files *files, struct file_node *node, int fd, const struct stat *attr, int to_set)
{
	struct statx from;
	struct stat now;
	int r = stat_fd(fd, &from);

	if (r < 0)
		return r;
	files_fill_stat(files, node, &from, &now);
	if ((to_set & FUSE_SET_ATTR_UID) && attr->st_uid != now.st_uid)
		return -EPERM;
	if ((to_set & FUSE_SET_ATTR_GID) && attr->st_gid != now.st_gid)
		return -EPERM;
	return 0;
}

/* fchmod(2) refuses an O_PATH descriptor; the link to it in /proc leads to just this file. */
static int change_mode(struct backing *backing, int fd, mode_t mode)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "%d", fd);
	return fchmodat(backing->proc_fd, name, mode & 07777, 0) < 0 ? -errno : 0;
}

static int change_size(struct file_node *node, off_t size, struct fuse_file_info *fi)
{
	CLEANUP(closep) int fd = -1;
	struct opened *opened = fi ? files_opened(fi) : NULL;
	int r;

	if (opened && (opened->flags & O_ACCMODE) != O_RDONLY) {
		r = opened_begin(opened);
		if (r < 0)
			return r;
		r = ftruncate(opened->fd, size) < 0 ? -errno : 0;
		opened_end(opened);
		return r;
	}
	if (S_ISDIR(node->type))
		return -EISDIR;
	r = backing_open(node, O_WRONLY, &fd);
	if (r < 0)
		return r;
	return ftruncate(fd, size) < 0 ? -errno : 0;
}

static struct timespec time_to_set(int to_set, int given, int now, const struct timespec *time)
{
	if (to_set & now)
		return (struct timespec){.tv_nsec = UTIME_NOW};
	if (to_set & given)
		return *time;
	return (struct timespec){.tv_nsec = UTIME_OMIT};
}

static int change_times(struct backing *backing, int fd, const struct stat *attr, int to_set)
{
	struct timespec times[2] = {
		time_to_set(to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, &attr->st_atim),
		time_to_set(to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, &attr->st_mtim),
	};
	char name[16];

	(void)snprintf(name, sizeof(name), "%d", fd);
	return utimensat(backing->proc_fd, name, times, 0) < 0 ? -errno : 0;
}

static int change(fuse_req_t req, struct file_node *node, int fd, const struct stat *attr,
	int to_set, struct fuse_file_info *fi)
{
	struct backing *backing = node->loan->backing;
	int r = 0;

	if (node->hollow)
		return -EROFS;
	if ((to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) && node->loan->range)
		r = change_owner(files_of(req), node->loan, fd, attr, to_set);
	else if (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
		r = check_owner(files_of(req), node, fd, attr, to_set);
	if (r == 0 && (to_set & FUSE_SET_ATTR_MODE))
		r = change_mode(backing, fd, attr->st_mode);
	if (r == 0 && (to_set & FUSE_SET_ATTR_SIZE))
		r = change_size(node, attr->st_size, fi);
	if (r == 0 && (to_set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME |
					FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW)))
		r = change_times(backing, fd, attr, to_set);
	return r;
}

void files_setattr(
	fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	CLEANUP(closep) int fd = -1;
	int r = files_node(req, ino, &node);

	if (r == 0)
		r = backing_path(node, &fd);
	if (r == 0)
		r = change(req, node, fd, attr, to_set, fi);
	if (r < 0)
		files_fail(req, node, r);
	else
		reply_attr(req, node, fd);
}

void files_readlink(fuse_req_t req, fuse_ino_t ino)
{
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	CLEANUP(closep) int fd = -1;
	char text[SYMLINK_TEXT_SIZE];
	int r = files_node(req, ino, &node);

	if (r == 0 && !S_ISLNK(node->type))
		r = -EINVAL;
	if (r == 0)
		r = backing_path(node, &fd);
	if (r == 0)
		r = read_link(files_of(req), node, fd, text);
	if (r == -EAGAIN) /* the client's kernel looks up the whole path again after ESTALE */
		r = file_node_renew(node) ? -ESTALE : -EPERM;
	if (r < 0)
		files_fail(req, node, r);
	else
		(void)fuse_reply_readlink(req, text);
}

/*
 * What a slot can store is in its workspace: the root that holds the mounts together, and what is
 * shown empty, answer for that.
 */
static int space_of(struct file_node *node, int fd, struct statvfs *ret_space)
{
	CLEANUP(closep) int workspace = -1;

	if (node->is_root || node->hollow || node->branch == node->loan->root_branch) {
		if (backing_in_root(node->loan, "workspace", &workspace) == 0)
			fd = workspace;
	}
	return fstatvfs(fd, ret_space) < 0 ? -errno : 0;
}

void files_statfs(fuse_req_t req, fuse_ino_t ino)
{
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	CLEANUP(closep) int fd = -1;
	struct statvfs space;
	int r = files_node(req, ino, &node);

	if (r == 0)
		r = backing_path(node, &fd);
	if (r == 0)
		r = space_of(node, fd, &space);
	if (r < 0)
		files_fail(req, node, r);
	else
		(void)fuse_reply_statfs(req, &space);
}
