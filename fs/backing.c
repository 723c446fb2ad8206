/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/backing.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "base/cleanup.h"
#include "fs/fd-cache.h"
#include "fs/file-node.h"
#include "providers/sandbox.h"

#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x00001000U
#endif
#ifndef STATX_MNT_ID_UNIQUE /* Linux 6.8; an older kernel ignores it */
#define STATX_MNT_ID_UNIQUE 0x00004000U
#endif
#ifndef SYSFS_MAGIC
#define SYSFS_MAGIC 0x62656572
#endif

enum { PATH_FLAGS = O_PATH | O_NOFOLLOW | O_CLOEXEC, CACHE_MIN = 16, CACHE_MAX = 4096 };

/* struct file_handle ends in a flexible array: this is one with room. */
union handle_buffer {
	struct file_handle handle;
	char room[sizeof(struct file_handle) + FILE_NODE_HANDLE_MAX];
};

/* ---- what the daemon shares ---- */

static bool may_open_handles(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	memset(data, 0, sizeof(data));
	if (syscall(SYS_capget, &header, data) < 0)
		return false;
	return (data[0].effective & (1u << CAP_DAC_READ_SEARCH)) != 0;
}

static size_t cache_size(void)
{
	struct rlimit limit;
	size_t count = CACHE_MIN;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		count = (size_t)(limit.rlim_cur / 4);
	return count < CACHE_MIN ? CACHE_MIN : count > CACHE_MAX ? CACHE_MAX : count;
}

static int open_void(int *ret_fd)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	(void)close(ends[1]);
	*ret_fd = ends[0];
	return 0;
}

int backing_init(struct backing *backing)
{
	int r;

	memset(backing, 0, sizeof(*backing));
	backing->proc_fd = backing->void_fd = -1;
	backing->by_handle = may_open_handles();
	backing->privileged = geteuid() == 0;
	backing->proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (backing->proc_fd < 0)
		return -errno;
	r = open_void(&backing->void_fd);
	if (r == 0)
		r = fd_cache_create(cache_size(), &backing->cache);
	if (r < 0)
		backing_fini(backing);
	return r;
}

void backing_fini(struct backing *backing)
{
	fd_cache_destroy(backing->cache);
	backing->cache = NULL;
	closep(&backing->void_fd);
	closep(&backing->proc_fd);
	backing->void_fd = backing->proc_fd = -1;
}

/* ---- what a descriptor is ---- */

/* Opens the directory really, if its handles can be opened through that. */
static int open_for_handles(int fd)
{
	CLEANUP(closep) int dir = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(closep) int again = -1;
	union handle_buffer buffer = {.handle.handle_bytes = FILE_NODE_HANDLE_MAX};
	int mount;

	if (dir < 0 || name_to_handle_at(dir, "", &buffer.handle, &mount, AT_EMPTY_PATH) < 0)
		return -1;
	again = open_by_handle_at(dir, &buffer.handle, O_PATH | O_CLOEXEC);
	return again < 0 ? -1 : take_fd(&dir);
}

static bool made_by_kernel(int fd)
{
	struct statfs stat;

	if (fstatfs(fd, &stat) < 0)
		return true;
	return stat.f_type == PROC_SUPER_MAGIC || stat.f_type == SYSFS_MAGIC ||
	       stat.f_type == DEVPTS_SUPER_MAGIC || stat.f_type == CGROUP2_SUPER_MAGIC ||
	       stat.f_type == CGROUP_SUPER_MAGIC || stat.f_type == DEBUGFS_MAGIC;
}

static bool has_handle(int fd)
{
	union handle_buffer buffer = {.handle.handle_bytes = FILE_NODE_HANDLE_MAX};
	int mount;

	return name_to_handle_at(fd, "", &buffer.handle, &mount, AT_EMPTY_PATH) == 0;
}

static struct branch *branch_new(struct loan *loan, uint64_t id, int fd, bool is_directory)
{
	struct branch *branch = calloc(1, sizeof(*branch));

	if (!branch)
		return NULL;
	branch->id = id;
	branch->hollow = made_by_kernel(fd);
	branch->handles = has_handle(fd);
	branch->fd = -1;
	if (is_directory && loan->backing->by_handle && !branch->hollow)
		branch->fd = open_for_handles(fd);
	branch->opens_handles = branch->fd >= 0;
	return branch;
}

static struct branch *find_branch_locked(struct loan *loan, uint64_t id)
{
	struct branch *branch = loan->branches;

	while (branch && branch->id != id)
		branch = branch->next;
	return branch;
}

static struct branch *find_branch(struct loan *loan, uint64_t id, int fd, bool is_directory)
{
	struct branch *branch, *other;

	pthread_mutex_lock(&loan->lock);
	branch = find_branch_locked(loan, id);
	pthread_mutex_unlock(&loan->lock);
	if (branch)
		return branch;
	branch = branch_new(loan, id, fd, is_directory);
	if (!branch)
		return NULL;
	pthread_mutex_lock(&loan->lock);
	other = find_branch_locked(loan, id);
	if (!other) {
		branch->next = loan->branches;
		loan->branches = branch;
	}
	pthread_mutex_unlock(&loan->lock);
	if (!other)
		return branch;
	closep(&branch->fd);
	free(branch);
	return other;
}

static int identify_file(const struct branch *branch, int fd, const struct statx *stat,
	struct file_identity *ret_identity)
{
	union handle_buffer buffer = {.handle.handle_bytes = FILE_NODE_HANDLE_MAX};
	uint64_t inode[2];
	int mount;

	ret_identity->mount = branch->id;
	ret_identity->type = stat->stx_mode & S_IFMT;
	if (branch->handles &&
		name_to_handle_at(fd, "", &buffer.handle, &mount, AT_EMPTY_PATH) == 0) {
		ret_identity->handle_type = buffer.handle.handle_type;
		ret_identity->size = buffer.handle.handle_bytes;
		memcpy(ret_identity->bytes, buffer.handle.f_handle, buffer.handle.handle_bytes);
		return 0;
	}
	if (branch->handles && errno != EOPNOTSUPP && errno != EOVERFLOW)
		return -errno;
	inode[0] = (uint64_t)stat->stx_dev_major << 32 | stat->stx_dev_minor;
	inode[1] = stat->stx_ino;
	ret_identity->handle_type = FILE_NODE_BY_INODE;
	ret_identity->size = sizeof(inode);
	memcpy(ret_identity->bytes, inode, sizeof(inode));
	return 0;
}

int backing_identify(struct loan *loan, struct branch *near, int fd, struct statx *ret_stat,
	struct branch **ret_branch, struct file_identity *ret_identity)
{
	struct branch *branch = near;

	if (statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		    STATX_BASIC_STATS | STATX_MNT_ID | STATX_MNT_ID_UNIQUE, ret_stat) < 0)
		return -errno;
	if (!(ret_stat->stx_mask & (STATX_MNT_ID | STATX_MNT_ID_UNIQUE)))
		return -EOPNOTSUPP; /* Linux before 5.8: mounts cannot be told apart */
	if (!branch || branch->id != ret_stat->stx_mnt_id)
		branch = find_branch(loan, ret_stat->stx_mnt_id, fd, S_ISDIR(ret_stat->stx_mode));
	if (!branch)
		return -ENOMEM;
	*ret_branch = branch;
	return identify_file(branch, fd, ret_stat, ret_identity);
}

/* ---- from a node to a descriptor ---- */

/* A duplicate of a descriptor that a client holds open, or -1. */
static int dup_opened(struct loan *loan, const struct file_node *node)
{
	struct opened *opened;
	int fd = -1;

	pthread_mutex_lock(&loan->lock);
	for (opened = loan->opened; opened && opened->node != node; opened = opened->next)
		;
	if (opened)
		fd = fcntl(opened->fd, F_DUPFD_CLOEXEC, 0);
	pthread_mutex_unlock(&loan->lock);
	return fd;
}

bool backing_opens_by_handle(const struct file_node *node)
{
	return node->branch->opens_handles && node->handle_type != FILE_NODE_BY_INODE;
}

static int open_handle(const struct file_node *node, int flags, int *ret_fd)
{
	union handle_buffer buffer = {.handle.handle_bytes = node->handle_size};
	struct loan *loan = node->loan;
	int fd, r;

	buffer.handle.handle_type = node->handle_type;
	memcpy(buffer.handle.f_handle, node->handle, node->handle_size);
	pthread_rwlock_rdlock(&loan->branch_fds);
	fd = open_by_handle_at(node->branch->fd, &buffer.handle, flags | O_CLOEXEC);
	r = fd < 0 ? -errno : 0;
	pthread_rwlock_unlock(&loan->branch_fds);
	if (r == 0)
		*ret_fd = fd;
	return r == -EBADF ? -ESTALE : r;
}

static int dup_root(struct loan *loan)
{
	struct sandbox_root *root = loan_root(loan);
	int fd = root ? fcntl(root->fd, F_DUPFD_CLOEXEC, 0) : -1;

	sandbox_root_unref(root);
	return fd;
}

int backing_in_root(struct loan *loan, const char *name, int *ret_fd)
{
	struct sandbox_root *root = loan_root(loan);
	int fd = root ? openat(root->fd, name, PATH_FLAGS) : -1;

	sandbox_root_unref(root);
	if (fd < 0)
		return -ENOENT;
	*ret_fd = fd;
	return 0;
}

/* What can be had without walking. False: nothing. */
static bool at_hand(struct file_node *node, int *ret_fd)
{
	int fd;

	if (backing_opens_by_handle(node) && open_handle(node, O_PATH, ret_fd) == 0)
		return true;
	fd = node->is_root ? dup_root(node->loan) : fd_cache_get(node->loan->backing->cache, node);
	if (fd < 0)
		return false;
	*ret_fd = fd;
	return true;
}

struct step {
	struct step *below;
	struct file_node *node; /* a reference */
	char name[256];
};

static void free_steps(struct step **steps)
{
	struct step *step;

	while ((step = *steps)) {
		*steps = step->below;
		file_node_put(step->node);
		free(step);
	}
}

/* Climbs to an ancestor that is at hand; ret_steps leads down again. */
static int climb(struct file_node *node, struct step **ret_steps, int *ret_fd)
{
	CLEANUP(file_node_putp) struct file_node *at = file_node_ref(node);
	CLEANUP(free_steps) struct step *steps = NULL;
	struct file_node *parent;
	struct step *step;
	int fd = -1;

	while (!at_hand(at, &fd)) {
		step = calloc(1, sizeof(*step));
		if (!step)
			return -ENOMEM;
		if (!file_node_place(at, &parent, step->name)) {
			free(step);
			return -ESTALE;
		}
		step->node = at;
		step->below = steps;
		steps = step;
		at = parent;
	}
	*ret_steps = take_ptr(&steps);
	*ret_fd = fd;
	return 0;
}

static int step_down(const struct step *step, int dir, int *ret_fd)
{
	CLEANUP(closep) int fd = openat(dir, step->name, PATH_FLAGS);
	struct file_identity identity;
	struct branch *branch;
	struct statx stat;
	int r;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? -ESTALE : -errno;
	r = backing_identify(step->node->loan, step->node->branch, fd, &stat, &branch, &identity);
	if (r < 0)
		return r;
	if (!file_node_is(step->node, &identity))
		return -ESTALE;
	fd_cache_put(step->node->loan->backing->cache, step->node, step->node->loan, fd);
	*ret_fd = take_fd(&fd);
	return 0;
}

static int walk(struct file_node *node, int *ret_fd)
{
	CLEANUP(free_steps) struct step *steps = NULL;
	CLEANUP(closep) int fd = -1;
	struct step *step;
	int r, next = -1;

	r = climb(node, &steps, &fd);
	if (r < 0)
		return r;
	for (step = steps; step; step = step->below) {
		r = step_down(step, fd, &next);
		if (r < 0)
			return r;
		closep(&fd);
		fd = next;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

int backing_path(struct file_node *node, int *ret_fd)
{
	int r = walk(node, ret_fd), fd;

	if (r != -ESTALE)
		return r;
	/* removed or moved away, but a client has it open */
	fd = dup_opened(node->loan, node);
	if (fd < 0)
		return r;
	*ret_fd = fd;
	return 0;
}

static int check_type(int fd, uint32_t type)
{
	struct stat stat;

	if (fstat(fd, &stat) < 0)
		return -errno;
	return (stat.st_mode & S_IFMT) == type ? 0 : -ENXIO;
}

static int open_flags(int flags)
{
	return (flags & ~O_NOFOLLOW) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
}

int backing_reopen(struct backing *backing, int path_fd, uint32_t type, int flags, int *ret_fd)
{
	CLEANUP(closep) int fd = -1;
	char name[16];
	int r;

	if (!S_ISREG(type) && !S_ISDIR(type))
		return -ENXIO;
	(void)snprintf(name, sizeof(name), "%d", path_fd);
	fd = openat(backing->proc_fd, name, open_flags(flags));
	if (fd < 0)
		return -errno;
	r = check_type(fd, type);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

int backing_open(struct file_node *node, int flags, int *ret_fd)
{
	CLEANUP(closep) int fd = -1;
	int r;

	if (!S_ISREG(node->type) && !S_ISDIR(node->type))
		return -ENXIO;
	if (backing_opens_by_handle(node)) {
		r = open_handle(node, open_flags(flags), &fd);
		if (r == 0)
			r = check_type(fd, node->type);
		if (r == 0)
			*ret_fd = take_fd(&fd);
		if (r != -ESTALE)
			return r;
	}
	r = backing_path(node, &fd);
	return r < 0 ? r : backing_reopen(node->loan->backing, fd, node->type, flags, ret_fd);
}
