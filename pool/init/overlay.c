/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/init/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/init/init.h"
#include "pool/init/storage.h"

static bool parse_size(const char *text, uint64_t *ret_value)
{
	char *end;

	*ret_value = strtoull(text, &end, 10);
	return end != text && *end == '\0';
}

int overlay_parse(char **words, struct overlay *ret_overlay)
{
	uint64_t numbers[4];

	for (int i = 0; i < 4; i++) {
		if (!parse_size(words[3 + i], &numbers[i])) {
			errno = EINVAL;
			return -1;
		}
	}
	*ret_overlay = (struct overlay){
		.rootfs = words[0],
		.layers = words[1],
		.etc = words[2],
		.uid = (unsigned)numbers[0],
		.gid = (unsigned)numbers[1],
		.size = numbers[2],
		.inodes = numbers[3],
		.mapper_fd = -1,
	};
	return 0;
}

/* ---- a child that is still root maps what we may not ---- */

static int write_at(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = write(fd, text, strlen(text));
	(void)close(fd);
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

static int map_range(int proc, const char *name, unsigned first)
{
	char map[48];

	(void)snprintf(map, sizeof(map), "0 %u %u\n", first, INIT_RANGE);
	return write_at(proc, name, map);
}

/* A mount of it, attached nowhere, whose files belong to whom they would if host root's ids were
 * the slot's. */
static int open_idmapped(int proc, const char *rootfs)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP};
	long tree = syscall(SYS_open_tree, AT_FDCWD, rootfs, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	int namespace;

	if (tree < 0)
		return -1;
	namespace = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
	if (namespace < 0)
		return -1;
	attr.userns_fd = (uint64_t) namespace;
	if (syscall(SYS_mount_setattr, (int)tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -1;
	return (int)tree;
}

enum map_step { MAP_NOTHING, MAP_UIDS, MAP_GIDS, MAP_ROOTFS };

static const char *const map_names[] = {
	"asking for the maps", "uid map", "gid map", "mapping the root file system"};

struct answer {
	int error;
	enum map_step what;
};

/* proc: the helper's own directory there, which stays its own. */
static void map_for_helper(
	const struct overlay *overlay, int socket, int proc, const unsigned first[2])
{
	struct answer answer = {.what = MAP_UIDS};
	int tree = -1;
	char go;

	if (read(socket, &go, 1) != 1)
		return; /* the helper has failed, and said why */
	if (map_range(proc, "uid_map", first[0]) == 0) {
		answer.what = MAP_GIDS;
		if (map_range(proc, "gid_map", first[1]) == 0) {
			answer.what = MAP_ROOTFS;
			tree = open_idmapped(proc, overlay->rootfs);
		}
	}
	answer.error = tree < 0 ? errno : 0;
	(void)send_with_fd(socket, &answer, sizeof(answer), tree);
}

int overlay_prepare(struct overlay *overlay, unsigned first_uid, unsigned first_gid)
{
	const unsigned first[] = {first_uid, first_gid};
	int ends[2], proc;

	if (geteuid() != 0)
		return 0;
	proc = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -1;
	overlay->mapper_pid = fork();
	if (overlay->mapper_pid < 0)
		return -1;
	if (overlay->mapper_pid == 0) {
		(void)close(ends[0]);
		map_for_helper(overlay, ends[1], proc, first);
		_exit(0);
	}
	(void)close(ends[1]);
	(void)close(proc);
	overlay->mapper_fd = ends[0];
	return 0;
}

/* The mount, or -1 with what failed. */
static int receive_answer(int socket, struct answer *answer)
{
	struct iovec part = {.iov_base = answer, .iov_len = sizeof(*answer)};
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.room)};
	int fd;

	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof(*answer)) {
		errno = EPIPE;
		return -1;
	}
	if (answer->error) {
		errno = answer->error;
		return -1;
	}
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(int));
	return fd;
}

/* ---- the helper itself ---- */

/* Ids and the root file system, mapped by the one who may. */
static const char *be_ranged(struct overlay *overlay, int *ret_tree)
{
	struct answer answer = {.what = MAP_NOTHING};

	if (write(overlay->mapper_fd, "x", 1) != 1)
		return map_names[MAP_NOTHING];
	*ret_tree = receive_answer(overlay->mapper_fd, &answer);
	if (*ret_tree < 0)
		return map_names[answer.what];
	(void)close(overlay->mapper_fd);
	(void)waitpid(overlay->mapper_pid, NULL, 0); /* bwrap would have a child it does not know */
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return "becoming uid 0 of the slot";
	/* or our own files in /proc would be host root's */
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 ? "dumpable" : NULL;
}

static const char *be_single(unsigned uid, unsigned gid)
{
	char map[32];

	if (write_at(AT_FDCWD, "/proc/self/setgroups", "deny") < 0)
		return "setgroups";
	(void)snprintf(map, sizeof(map), "0 %u 1\n", gid);
	if (write_at(AT_FDCWD, "/proc/self/gid_map", map) < 0)
		return "gid map";
	(void)snprintf(map, sizeof(map), "0 %u 1\n", uid);
	return write_at(AT_FDCWD, "/proc/self/uid_map", map) < 0 ? "uid map" : NULL;
}

static const char *enter_user_namespace(struct overlay *overlay, int *ret_tree)
{
	unsigned uid = geteuid(), gid = getegid();

	if (unshare(CLONE_NEWUSER) < 0)
		return "user namespace";
	return overlay->mapper_fd >= 0 ? be_ranged(overlay, ret_tree) : be_single(uid, gid);
}

/* Everything from here on is named from within the slot's own directory. */
static const char *make_layers(const struct overlay *overlay)
{
	static const char *const names[] = {"lower", "merged", "scratch", "upper"};

	if (overlay->size > 0 && storage_mount(overlay->layers, overlay->size, overlay->inodes) < 0)
		return "tmpfs";
	if (chdir(overlay->layers) < 0)
		return overlay->layers;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (mkdir(names[i], 0755) < 0)
			return names[i];
	}
	if (overlay->size > 0 && storage_make_directories(AT_FDCWD, overlay->uid, overlay->gid) < 0)
		return "the slot's directories";
	return NULL;
}

static const char *mount_overlay(const struct overlay *overlay, int tree)
{
	int r = 0;

	if (tree >= 0)
		r = (int)syscall(
			SYS_move_mount, tree, "", AT_FDCWD, "lower", MOVE_MOUNT_F_EMPTY_PATH);
	else if (mount(overlay->rootfs, "lower", NULL, MS_BIND, NULL) < 0)
		r = -1;
	if (r < 0)
		return "mounting the root file system";
	return mount("overlay", "merged", "overlay", MS_NOSUID | MS_NODEV,
		       "lowerdir=lower,upperdir=upper,workdir=scratch,userxattr") < 0
		       ? "mounting the overlay"
		       : NULL;
}

/* ---- our files in its /etc ---- */

static int copy(int from_dir, int to_dir, const char *name)
{
	char bytes[4096];
	int from = openat(from_dir, name, O_RDONLY | O_CLOEXEC), to;
	ssize_t n = 0;

	if (from < 0)
		return errno == ENOENT ? 0 : -1;
	if (unlinkat(to_dir, name, 0) < 0 && errno != ENOENT)
		return -1;
	to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (to < 0 || fchmod(to, 0644) < 0)
		return -1;
	while ((n = read(from, bytes, sizeof(bytes))) > 0) {
		if (write(to, bytes, (size_t)n) != n)
			return -1;
	}
	(void)close(from);
	(void)close(to);
	return n < 0 ? -1 : 0;
}

static const char *fill_etc(const struct overlay *overlay)
{
	static const char *const names[] = {"group", "hostname", "hosts", "passwd", "resolv.conf"};
	int from = open(overlay->etc, O_PATH | O_DIRECTORY | O_CLOEXEC), to;

	if (from < 0)
		return overlay->etc;
	if (mkdir("merged/etc", 0755) < 0 && errno != EEXIST)
		return "/etc";
	to = open("merged/etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (to < 0)
		return "/etc";
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (copy(from, to, names[i]) < 0)
			return names[i];
	}
	/* it would set its own PATH over the caller's */
	if (unlinkat(to, "profile", 0) < 0 && errno != ENOENT)
		return "/etc/profile";
	(void)close(from);
	(void)close(to);
	return NULL;
}

const char *overlay_enter(struct overlay *overlay)
{
	int tree = -1;
	const char *failed = enter_user_namespace(overlay, &tree);

	if (failed)
		return failed;
	/* bwrap stays in it: what the administrator unmounts must not be kept there */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return "mount namespace";
	(void)umask(022);
	failed = make_layers(overlay);
	if (!failed)
		failed = mount_overlay(overlay, tree);
	if (!failed)
		failed = fill_etc(overlay);
	if (!failed && chdir("/") < 0)
		failed = "/";
	return failed;
}
