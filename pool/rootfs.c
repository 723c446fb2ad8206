/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/rootfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/settings.h"
#include "pool/bubble-private.h"
#include "pool/environment.h"

enum { ENTRIES_MAX = 1000 };

/* As bubble_words() mounts or makes them. */
static const char *const own_places[] = {"/dev", "/etc", "/proc", "/run", "/sys", INSIDE_TMP,
	"/var/run", "/var/tmp", INSIDE_HOME, INSIDE_RUNTIME, INSIDE_WORK, NULL};

/* Of these /var/run and /var/tmp may be links: we make them such. */
static const char *const own_mounts[] = {"/dev", "/etc", "/proc", "/run", "/sys", INSIDE_TMP,
	INSIDE_HOME, INSIDE_RUNTIME, INSIDE_WORK, NULL};

struct composing {
	struct words *words;
	const char *rootfs;
	const struct word_list *also;
	unsigned entries;
	struct error *err;
};

/* Links lead where they would inside. */
static int open_inside(int root, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve};
	long fd = syscall(SYS_openat2, root, path + 1, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

static int check_shell(int root, const char *rootfs, struct error *err)
{
	CLEANUP(closep) int fd = open_inside(root, "/bin/sh", O_PATH, RESOLVE_IN_ROOT);
	struct stat st;

	if (fd < 0)
		return error_errno(
			err, -fd, "'%s' has no /bin/sh, which runs the commands of a slot", rootfs);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & S_IXOTH))
		return error_set(err, EACCES,
			"/bin/sh in '%s' is no program that everybody may execute", rootfs);
	return 0;
}

static int check_place(int root, const char *rootfs, const char *place, struct error *err)
{
	CLEANUP(closep)
	int fd = open_inside(root, place, O_PATH | O_DIRECTORY | O_NOFOLLOW,
		RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);

	if (fd >= 0 || fd == -ENOENT)
		return 0;
	return error_errno(err, -fd,
		"'%s': a slot needs a directory at %s, and no link may stand there or above it",
		rootfs, place);
}

int rootfs_check(const char *rootfs, struct error *err)
{
	CLEANUP(closep) int root = open(rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (root < 0)
		return error_errno(err, errno, "cannot open the directory '%s'", rootfs);
	r = check_shell(root, rootfs, err);
	for (const char *const *place = own_mounts; *place && r == 0; place++)
		r = check_place(root, rootfs, *place, err);
	return r;
}

/* ---- bwrap's words ---- */

static bool is_below(const char *path, const char *dir)
{
	size_t size = strlen(dir);

	return !strncmp(path, dir, size) && path[size] == '/';
}

enum relation { APART, SAME, ABOVE };

/* How path stands to one of the places. */
static enum relation relate(const char *path, const char *place, enum relation so_far)
{
	if (so_far == SAME || !strcmp(path, place))
		return SAME;
	return is_below(place, path) ? ABOVE : so_far;
}

static enum relation relation(const struct composing *composing, const char *path)
{
	enum relation found = APART;

	for (const char *const *place = own_places; *place; place++)
		found = relate(path, *place, found);
	for (size_t i = 0; composing->also && i < composing->also->count; i++)
		found = relate(path, composing->also->words[i], found);
	return found;
}

static int compose(struct composing *composing, int dir, const char *path);

static int compose_below(struct composing *composing, int dir, const char *name, const char *path)
{
	CLEANUP(closep)
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return error_errno(
			composing->err, errno, "cannot open '%s%s'", composing->rootfs, path);
	words_add(composing->words, "--perms");
	words_add(composing->words, "0755");
	words_add(composing->words, "--dir");
	words_add(composing->words, "%s", path);
	return compose(composing, fd, path);
}

static int add_link(struct composing *composing, int dir, const char *name, const char *path)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(dir, name, text, sizeof(text) - 1);

	if (n < 0)
		return error_errno(composing->err, errno, "cannot read the link '%s%s'",
			composing->rootfs, path);
	text[n] = '\0';
	words_add(composing->words, "--symlink");
	words_add(composing->words, "%s", text);
	words_add(composing->words, "%s", path);
	return 0;
}

static int compose_entry(struct composing *composing, int dir, const char *name, const char *path)
{
	enum relation how = relation(composing, path);
	struct stat st;

	if (how == SAME || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (how == ABOVE)
		return S_ISDIR(st.st_mode) ? compose_below(composing, dir, name, path) : 0;
	if (++composing->entries > ENTRIES_MAX)
		return error_set(composing->err, E2BIG,
			"'%s' has too many names beside the places of a slot (in / and above those)",
			composing->rootfs);
	if (S_ISLNK(st.st_mode))
		return add_link(composing, dir, name, path);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return 0;
	words_add(composing->words, "--ro-bind");
	words_add(composing->words, "%s%s", composing->rootfs, path);
	words_add(composing->words, "%s", path);
	return 0;
}

static int compose(struct composing *composing, int dir, const char *path)
{
	CLEANUP(closedirp) DIR *entries = NULL;
	struct dirent *entry;
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = 0;

	entries = fd < 0 ? NULL : fdopendir(fd); /* owns `fd` */
	if (!entries) {
		closep(&fd);
		return error_errno(
			composing->err, errno, "cannot list '%s%s'", composing->rootfs, path);
	}
	while (r == 0 && (entry = readdir(entries))) {
		CLEANUP(freep) char *full = NULL;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (asprintf(&full, "%s/%s", path, entry->d_name) < 0)
			return error_set(composing->err, ENOMEM, "no memory");
		r = compose_entry(composing, dir, entry->d_name, full);
	}
	return r;
}

int rootfs_add_words(
	struct words *words, const char *rootfs, const struct word_list *also, struct error *err)
{
	CLEANUP(closep) int root = open(rootfs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct composing composing = {.words = words, .rootfs = rootfs, .also = also, .err = err};

	if (root < 0)
		return error_errno(err, errno, "cannot open the directory '%s'", rootfs);
	return compose(&composing, root, "");
}
