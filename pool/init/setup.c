/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The steps from bwrap's exec to a slot that may run hostile commands. Their order is part of the
 * security: each note says what goes wrong when its step moves or is left out. We begin as uid 0 of
 * bwrap's user namespace with every capability there, and end as an ordinary uid of a namespace
 * below it with none.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/init/init.h"
#include "pool/init/range.h"
#include "pool/init/storage.h"

struct setup {
	struct init_setup options;
	struct sock_filter filter[INIT_FILTER_MAX];
	struct init_target targets[INIT_TARGETS_MAX];
	int root_fd, landlock;
};

/* First of all, so that the daemon has our pidfd whatever happens next. */
static int say_hello(struct setup *setup)
{
	struct init_report hello = {.version = INIT_PROTOCOL_VERSION, .kind = INIT_HELLO};

	return report_send(&hello, -1) ? 0 : -EPIPE;
}

/* The targets come behind the instructions, in the same message. */
static int receive_options(struct setup *setup)
{
	struct init_setup *options = &setup->options;
	struct iovec parts[] = {
		{.iov_base = options, .iov_len = sizeof(*options)},
		{.iov_base = setup->filter, .iov_len = 0},
		{.iov_base = setup->targets, .iov_len = sizeof(setup->targets)},
	};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 1};
	ssize_t size = recvmsg(INIT_CONTROL_FD, &message, MSG_PEEK);

	if (size < 0)
		return -errno;
	if (size < (ssize_t)sizeof(*options) || options->kind != INIT_SETUP)
		return -EPROTO;
	if (options->version != INIT_PROTOCOL_VERSION)
		return -EPROTONOSUPPORT;
	if (options->filter_count > INIT_FILTER_MAX || options->target_count > INIT_TARGETS_MAX)
		return -EPROTO;
	parts[1].iov_len = options->filter_count * sizeof(*setup->filter);
	parts[2].iov_len = options->target_count * sizeof(*setup->targets);
	message.msg_iovlen = 3;
	size = recvmsg(INIT_CONTROL_FD, &message, 0);
	if (size != (ssize_t)(sizeof(*options) + parts[1].iov_len + parts[2].iov_len) ||
		message.msg_flags & MSG_TRUNC)
		return -EPROTO;
	return 0;
}

/* What the daemon itself inherited would reach commands: not everything is close-on-exec because we
 * want it so. */
static int close_inherited(struct setup *setup)
{
	/* /dev/null takes the place of what was the daemon's record of bwrap's complaints */
	if (dup2(STDIN_FILENO, STDERR_FILENO) < 0)
		return -errno;
	if (close_range(INIT_CONTROL_FD + 1, ~0U, 0) < 0)
		return -errno;
	return fcntl(INIT_CONTROL_FD, F_SETFD, FD_CLOEXEC) < 0 ? -errno : 0;
}

static int begin_session(struct setup *setup)
{
	if (getsid(0) != getpid() && setsid() < 0)
		return -errno;
	(void)umask(022);
	return 0;
}

/*
 * Blocked is only this one: with all blocked, a command queued 96,365 real-time signals on pid 1.
 * The two that glibc keeps for itself were left ignored by posix_spawn(), and commands would
 * inherit that.
 */
static int set_signals(struct setup *setup)
{
	const uint64_t by_default[4] = {0}; /* the kernel's struct sigaction */
	sigset_t set;

	for (int number = 32; number <= 33; number++)
		(void)syscall(SYS_rt_sigaction, number, by_default, NULL, sizeof(uint64_t));
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	if (left_out("no other signal blocked"))
		sigfillset(&set);
	return sigprocmask(SIG_SETMASK, &set, NULL) < 0 ? -errno : 0;
}

static int remount(const char *target, const char *type, unsigned long flags, const char *options)
{
	return mount(type, target, type, MS_REMOUNT | flags, options) < 0 ? -errno : 0;
}

/*
 * Hides what commands of the same uid could write: /proc/1/oom_score_adj, coredump_filter, sched...
 * Not hidepid=2, which shows everything to members of the host's group 0.
 */
static int hide_init(struct setup *setup)
{
	return remount("/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=ptraceable");
}

/* An inode costs kernel memory that the size of a tmpfs does not count. */
static int limit_shm(struct setup *setup)
{
	return remount("/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "nr_inodes=4096");
}

/* Pseudo-terminals are counted for the whole host. */
static int limit_ptys(struct setup *setup)
{
	return remount(
		"/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "max=64,ptmxmode=0666,mode=0620");
}

int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n;
	int r;

	if (fd < 0)
		return -errno;
	n = write(fd, text, strlen(text));
	r = n < 0 ? -errno : (size_t)n == strlen(text) ? 0 : -EIO;
	(void)close(fd);
	return r;
}

/* With the capabilities of bwrap's namespace, and before any command could take a target's port. */
static int open_network(struct setup *setup)
{
	return network_open(&setup->options, setup->targets);
}

/* One: ours, below. With 0 our own could not be made. */
static int limit_namespaces(struct setup *setup)
{
	return write_file("/proc/sys/user/max_user_namespaces", "1");
}

static int protect_sysctls(struct setup *setup)
{
	const char *sys = "/proc/sys";

	if (mount(sys, sys, NULL, MS_BIND | MS_REC, NULL) < 0)
		return -errno;
	return remount(sys, NULL, MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

static int make_storage(struct setup *setup)
{
	if (setup->options.storage_size == 0)
		return 0;
	return storage_create(setup->options.storage_size, setup->options.storage_inodes);
}

/*
 * A copy of all our mounts, that lives as long as somebody has it open. From a plain descriptor of
 * "/" the daemon would see empty mount points between our death, when the namespace is taken apart,
 * and the moment the pidfd tells of it.
 */
static int open_root(struct setup *setup)
{
	long fd = syscall(
		SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

	setup->root_fd = (int)fd;
	return fd < 0 ? -errno : 0;
}

/* bwrap's namespace above ours keeps capabilities inside, should any ever be had, from reaching our
 * memory. */
static int unshare_user(struct setup *setup)
{
	if (setup->options.ranged)
		return range_unshare();
	return unshare(CLONE_NEWUSER) < 0 ? -errno : 0;
}

static int deny_setgroups(struct setup *setup)
{
	if (setup->options.ranged)
		return 0;
	return write_file("/proc/self/setgroups", "deny");
}

static int write_map(const char *path, uint32_t inside)
{
	char map[32];

	(void)snprintf(map, sizeof(map), "%u 0 1\n", inside);
	return write_file(path, map);
}

static int map_gid(struct setup *setup)
{
	if (setup->options.ranged)
		return 0;
	return write_map("/proc/self/gid_map", setup->options.gid);
}

/* Before capabilities go: mapping uid 0 needs the CAP_SETFCAP of the namespace above. */
static int map_uid(struct setup *setup)
{
	if (setup->options.ranged)
		return 0;
	return write_map("/proc/self/uid_map", setup->options.uid);
}

/* A hard limit below what is wished for stays: only the host's root could raise it. */
static int set_limit(int resource, uint64_t wish)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) < 0)
		return -errno;
	if (limit.rlim_max == RLIM_INFINITY || wish < limit.rlim_max)
		limit.rlim_max = wish;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(resource, &limit) < 0 ? -errno : 0;
}

/* In the new namespace, where RLIMIT_NPROC counts this slot's processes and no others. */
static int set_limits(struct setup *setup)
{
	int r = set_limit(RLIMIT_CORE, 0);

	if (r == 0 && setup->options.processes > 0)
		r = set_limit(RLIMIT_NPROC, setup->options.processes);
	if (r == 0 && setup->options.open_files > 0)
		r = set_limit(RLIMIT_NOFILE, setup->options.open_files);
	if (r == 0 && setup->options.file_size > 0)
		r = set_limit(RLIMIT_FSIZE, setup->options.file_size);
	return r;
}

/* Its commands may chown, install packages and become another user. */
static bool has_root(const struct setup *setup)
{
	return setup->options.ranged && setup->options.uid == 0;
}

static int lock_securebits(struct setup *setup)
{
	unsigned long bits = SECURE_ALL_BITS | SECURE_ALL_LOCKS;

	if (has_root(setup))
		return range_lock_securebits();
	return prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0 ? -errno : 0;
}

static int empty_bounding_set(struct setup *setup)
{
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
		if (has_root(setup) && range_keeps(cap))
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return -errno;
	}
	return 0;
}

/* Where the namespace has more than one id we are not yet the one that commands have. */
static int become_user(struct setup *setup)
{
	unsigned uid = setup->options.uid, gid = setup->options.gid;

	if (!setup->options.ranged || uid == 0)
		return 0;
	return setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0 ? -errno : 0;
}

static int drop_capabilities(struct setup *setup)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	if (has_root(setup))
		return range_keep_capabilities();
	return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

static int forbid_new_privileges(struct setup *setup)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int scope(struct setup *setup)
{
	setup->landlock = landlock_scope();
	return setup->landlock < 0 ? setup->landlock : 0;
}

static int load_filter(struct setup *setup)
{
	struct sock_fprog program = {
		.len = (unsigned short)setup->options.filter_count, .filter = setup->filter};

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		return -errno;
	return 0;
}

/* Keeps commands of the same uid out of our memory and descriptors (ptrace, process_vm_readv,
 * pidfd_getfd). */
static int hide_memory(struct setup *setup)
{
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

static const struct step {
	const char *name; /* fits init_report.step */
	int (*run)(struct setup *setup);
} steps[] = {
	{"hello", say_hello},
	{"options", receive_options},
	{"descriptors", close_inherited},
	{"session", begin_session},
	{"signals", set_signals},
	{"hidepid", hide_init},
	{"limit of /dev/shm", limit_shm},
	{"limit of /dev/pts", limit_ptys},
	{"network", open_network},
	{"max_user_namespaces", limit_namespaces},
	{"read-only /proc/sys", protect_sysctls},
	{"storage", make_storage},
	{"descriptor of /", open_root},
	{"user namespace", unshare_user},
	{"setgroups", deny_setgroups},
	{"gid map", map_gid},
	{"uid map", map_uid},
	{"limits", set_limits},
	{"securebits", lock_securebits},
	{"bounding set", empty_bounding_set},
	{"user", become_user},
	{"capabilities", drop_capabilities},
	{"no_new_privs", forbid_new_privileges},
	{"landlock", scope},
	{"seccomp", load_filter},
	{"dumpable", hide_memory},
};

int setup_slot(int *ret_root_fd, int *ret_landlock, const char **ret_step)
{
	struct setup *setup = calloc(1, sizeof(*setup));
	int r = setup ? 0 : -ENOMEM;

	*ret_step = "memory";
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps) && r == 0; i++) {
		*ret_step = steps[i].name;
		r = left_out(steps[i].name) ? 0 : steps[i].run(setup);
	}
	if (r == 0) {
		*ret_root_fd = setup->root_fd;
		*ret_landlock = setup->landlock;
	}
	free(setup);
	return r;
}
