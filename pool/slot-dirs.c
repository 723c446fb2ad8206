/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/slot-dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "pool/trash.h"

static const struct slot_dir {
	const char *name;
	mode_t mode;
	unsigned kind; /* made only where asked for, and the slot's uid's; 0: always made, ours */
	bool survives; /* never thrown away */
} slot_dirs[] = {
	{.name = "home", .mode = 0755, .kind = SLOT_DIRS_FILES},
	{.name = "work", .mode = 0755, .kind = SLOT_DIRS_FILES},
	{.name = "runtime", .mode = 0755, .kind = SLOT_DIRS_FILES},
	{.name = "tmp", .mode = 01777, .kind = SLOT_DIRS_FILES},
	{.name = SLOT_DIRS_OVERLAY, .mode = 0700, .kind = SLOT_DIRS_LAYERS},
	{.name = "logs", .mode = 0700},
	{.name = "archives", .mode = 0700, .survives = true},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int throw_away(int dir_fd, const char *name, struct trash *trash, struct error *err)
{
	char to[64];

	trash_name(trash, to);
	if (renameat(dir_fd, name, trash_fd(trash), to) == 0 || errno == ENOENT)
		return 0;
	return error_errno(err, errno, "cannot throw away '%s'", name);
}

/*
 * What cannot be thrown away must not keep the rest here: all of them are tried, all failures told.
 * A directory is moved only after its owner has let us: a plain user's chmod 0 must not keep it.
 */
static int throw_all_away(int dir_fd, struct trash *trash, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf failures = STRBUF_INIT;
	struct error one = ERROR_NONE;
	int code = 0;

	for (size_t i = 0; i < COUNT(slot_dirs); i++) {
		if (slot_dirs[i].survives)
			continue;
		if (slot_dirs[i].kind && geteuid() != 0)
			(void)fchmodat(dir_fd, slot_dirs[i].name, 0700, 0);
		if (throw_away(dir_fd, slot_dirs[i].name, trash, &one) == 0)
			continue;
		strbuf_addf(&failures, "%s%s", code ? "; " : "", one.text);
		code = code ? code : one.code;
	}
	return code ? error_set(err, code, "%s", failures.data) : 0;
}

static int make_one(int dir_fd, const struct slot_dir *what, const struct slot_dirs_wish *wish,
	struct error *err)
{
	bool is_users = what->kind == SLOT_DIRS_FILES;
	uid_t uid = is_users ? wish->user_uid : wish->uid;
	gid_t gid = is_users ? wish->user_gid : wish->gid;
	CLEANUP(closep) int fd = -1;

	if (mkdirat(dir_fd, what->name, 0700) < 0 && (errno != EEXIST || !what->survives))
		return error_errno(err, errno, "cannot make '%s'", what->name);
	fd = openat(dir_fd, what->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "cannot open '%s'", what->name);
	if (what->kind && geteuid() == 0 && fchown(fd, uid, gid) < 0)
		return error_errno(
			err, errno, "cannot give '%s' to uid %u", what->name, (unsigned)uid);
	if (fchmod(fd, what->mode) < 0)
		return error_errno(err, errno, "cannot chmod '%s'", what->name);
	return 0;
}

static int open_slot_dir(const char *dir, gid_t gid, struct error *err)
{
	CLEANUP(closep) int fd = -1;

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "cannot make '%s'", dir);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "cannot open '%s'", dir);
	if (geteuid() == 0 && fchown(fd, 0, gid) < 0)
		return error_errno(err, errno, "cannot give '%s' to group %u", dir, (unsigned)gid);
	if (fchmod(fd, 0710) < 0)
		return error_errno(err, errno, "cannot chmod '%s'", dir);
	return take_fd(&fd);
}

int slot_dirs_replace(
	const char *dir, struct trash *trash, const struct slot_dirs_wish *wish, struct error *err)
{
	CLEANUP(closep) int dir_fd = open_slot_dir(dir, wish->gid, err);
	int r = dir_fd < 0 ? dir_fd : throw_all_away(dir_fd, trash, err);

	for (size_t i = 0; r == 0 && i < COUNT(slot_dirs); i++) {
		if (!slot_dirs[i].kind || (slot_dirs[i].kind & wish->kinds))
			r = make_one(dir_fd, &slot_dirs[i], wish, err);
	}
	return r;
}

int slot_dirs_remove(const char *dir, struct trash *trash, struct error *err)
{
	CLEANUP(closep) int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (dir_fd < 0)
		return errno == ENOENT ? 0 : error_errno(err, errno, "cannot open '%s'", dir);
	r = throw_all_away(dir_fd, trash, err);
	if (r < 0)
		return r;
	(void)unlinkat(dir_fd, "archives", AT_REMOVEDIR);
	if (rmdir(dir) < 0 && errno != ENOTEMPTY && errno != EEXIST)
		return error_errno(err, errno, "cannot remove '%s'", dir);
	return 0;
}
