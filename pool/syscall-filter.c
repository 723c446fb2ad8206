/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/syscall-filter.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/ioprio.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Linux 6.15 gave it the same number everywhere; libseccomp learns it later. */
enum { OPEN_TREE_ATTR = 467 };

/*
 * file_setattr of Linux 6.17. What came later nobody has looked at: programs are told that it is
 * not there, which they have to expect of an older kernel anyway.
 */
enum { NEWEST_KNOWN_CALL = 469 };

/* Beside what capabilities guard anyway (belt and braces), the calls whose objects no namespace
 * separates. */
static const int refused_calls[] = {
	SCMP_SYS(acct),
	SCMP_SYS(add_key),
	SCMP_SYS(bpf),
	SCMP_SYS(chroot),
	SCMP_SYS(clock_adjtime),
	SCMP_SYS(clock_settime),
	SCMP_SYS(create_module),
	SCMP_SYS(delete_module),
	SCMP_SYS(fanotify_init),
	SCMP_SYS(finit_module),
	SCMP_SYS(fsconfig),
	SCMP_SYS(fsmount),
	SCMP_SYS(fsopen),
	SCMP_SYS(fspick),
	SCMP_SYS(get_kernel_syms),
	SCMP_SYS(init_module),
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(io_uring_register),
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(ioperm),
	SCMP_SYS(iopl),
	SCMP_SYS(kcmp),
	SCMP_SYS(kexec_file_load),
	SCMP_SYS(kexec_load),
	SCMP_SYS(keyctl),
	SCMP_SYS(lookup_dcookie),
	SCMP_SYS(memfd_secret),
	SCMP_SYS(migrate_pages),
	SCMP_SYS(mount),
	SCMP_SYS(mount_setattr),
	SCMP_SYS(move_mount),
	SCMP_SYS(move_pages),
	SCMP_SYS(name_to_handle_at),
	SCMP_SYS(nfsservctl),
	SCMP_SYS(open_by_handle_at),
	SCMP_SYS(open_tree),
	OPEN_TREE_ATTR,
	SCMP_SYS(perf_event_open),
	SCMP_SYS(pivot_root),
	SCMP_SYS(query_module),
	SCMP_SYS(quotactl),
	SCMP_SYS(quotactl_fd),
	SCMP_SYS(reboot),
	SCMP_SYS(request_key),
	SCMP_SYS(setdomainname),
	SCMP_SYS(sethostname),
	SCMP_SYS(setns),
	SCMP_SYS(settimeofday),
	SCMP_SYS(swapoff),
	SCMP_SYS(swapon),
	SCMP_SYS(sysfs),
	SCMP_SYS(syslog),
	SCMP_SYS(umount2),
	SCMP_SYS(uselib),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(ustat),
	SCMP_SYS(vhangup),
};

/*
 * Values of int arguments that are refused: of the 64 bits that a filter sees the kernel takes 32,
 * and so do we (prlimit(0x100000001, ...) is prlimit(1, ...)).
 */
struct refused_value {
	int call;
	unsigned argument;
	uint32_t value;
};

static const struct refused_value refused_values[] = {
	/* a terminal that outlives the command must not be typed into */
	{SCMP_SYS(ioctl), 1, TIOCSTI},
	{SCMP_SYS(ioctl), 1, TIOCLINUX},
	/* line disciplines: the kernel would load whichever driver is asked for */
	{SCMP_SYS(ioctl), 1, TIOCSETD},
	/* limits and priorities of init, which has the same uid: with NOFILE 0 every later command
	   would fail */
	{SCMP_SYS(prlimit64), 0, 1},
	{SCMP_SYS(sched_setaffinity), 0, 1},
	{SCMP_SYS(sched_setscheduler), 0, 1},
	{SCMP_SYS(sched_setparam), 0, 1},
	{SCMP_SYS(sched_setattr), 0, 1},
	{SCMP_SYS(setpriority), 0, PRIO_USER},
	{SCMP_SYS(ioprio_set), 0, IOPRIO_WHO_USER},
};

/* The same for two arguments at once: who is pid or group 1. */
static const struct {
	int call;
	uint32_t which, who;
} refused_pairs[] = {
	{SCMP_SYS(setpriority), PRIO_PROCESS, 1},
	{SCMP_SYS(setpriority), PRIO_PGRP, 1},
	{SCMP_SYS(ioprio_set), IOPRIO_WHO_PROCESS, 1},
	{SCMP_SYS(ioprio_set), IOPRIO_WHO_PGRP, 1},
};

/* Namespaces; clone3 hides its flags from filters, there the capabilities and max_user_namespaces
 * say no. */
static const uint32_t namespace_flags[] = {
	CLONE_NEWNS,
	CLONE_NEWUTS,
	CLONE_NEWIPC,
	CLONE_NEWUSER,
	CLONE_NEWPID,
	CLONE_NEWNET,
	CLONE_NEWCGROUP,
	0x80 /* time */,
};

/* Every other family reaches past the network namespace (AF_VSOCK, AF_ALG ...) or is an attack
 * surface. */
static const int allowed_families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

static struct scmp_arg_cmp is_value(unsigned argument, uint32_t value)
{
	return SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, UINT32_MAX, value);
}

static struct scmp_arg_cmp has_flag(unsigned argument, uint32_t flag)
{
	return SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, flag, flag);
}

static bool is_allowed_family(int family)
{
	for (size_t i = 0; i < COUNT(allowed_families); i++) {
		if (allowed_families[i] == family)
			return true;
	}
	return false;
}

/* A call that this processor does not have is no failure. */
static int refuse(
	scmp_filter_ctx filter, int error, int call, struct scmp_arg_cmp *compare, unsigned count)
{
	int r = seccomp_rule_add_array(
		filter, SCMP_ACT_ERRNO((uint16_t)error), call, count, compare);

	return r == -EDOM || r == -EFAULT ? 0 : r;
}

static int refuse_calls(scmp_filter_ctx filter)
{
	int r = 0;

	for (size_t i = 0; i < COUNT(refused_calls) && r == 0; i++)
		r = refuse(filter, EPERM, refused_calls[i], NULL, 0);
	return r;
}

static int refuse_values(scmp_filter_ctx filter)
{
	int r = 0;

	for (size_t i = 0; i < COUNT(refused_values) && r == 0; i++) {
		struct scmp_arg_cmp compare =
			is_value(refused_values[i].argument, refused_values[i].value);

		r = refuse(filter, EPERM, refused_values[i].call, &compare, 1);
	}
	for (size_t i = 0; i < COUNT(refused_pairs) && r == 0; i++) {
		struct scmp_arg_cmp compare[] = {
			is_value(0, refused_pairs[i].which), is_value(1, refused_pairs[i].who)};

		r = refuse(filter, EPERM, refused_pairs[i].call, compare, 2);
	}
	return r;
}

static int refuse_namespaces(scmp_filter_ctx filter)
{
	int r = 0;

	for (size_t i = 0; i < COUNT(namespace_flags) && r == 0; i++) {
		struct scmp_arg_cmp compare = has_flag(0, namespace_flags[i]);

		r = refuse(filter, EPERM, SCMP_SYS(unshare), &compare, 1);
		/* in clone's flags the lowest byte is the signal at exit: time namespaces cannot be
		 * asked for there */
		if (r == 0 && namespace_flags[i] > 0xff)
			r = refuse(filter, EPERM, SCMP_SYS(clone), &compare, 1);
	}
	return r;
}

static int refuse_families(scmp_filter_ctx filter)
{
	struct scmp_arg_cmp beyond = SCMP_CMP(0, SCMP_CMP_GE, AF_MAX);
	int r = refuse(filter, EAFNOSUPPORT, SCMP_SYS(socket), &beyond, 1);

	for (int family = 0; family < AF_MAX && r == 0; family++) {
		struct scmp_arg_cmp compare = is_value(0, (uint32_t)family);

		if (!is_allowed_family(family))
			r = refuse(filter, EAFNOSUPPORT, SCMP_SYS(socket), &compare, 1);
	}
	return r;
}

static int build(scmp_filter_ctx filter)
{
	/* programs of another word size or ABI are told that nothing exists: rules for them would
	 * be other rules */
	int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));

	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (r == 0)
		r = refuse_calls(filter);
	if (r == 0)
		r = refuse_values(filter);
	if (r == 0)
		r = refuse_namespaces(filter);
	if (r == 0)
		r = refuse_families(filter);
	return r;
}

/* libseccomp compares arguments only. Number -1 is a tracer's word for a call that it skips. */
static const struct sock_filter refuse_unknown[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, NEWEST_KNOWN_CALL + 1, 0, 2),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, UINT32_MAX, 1, 0),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
};

/* Jumps of BPF are relative: a piece may stand before the whole. */
static int read_back(int fd, void **ret_program, size_t *ret_size)
{
	struct stat st;
	char *program;

	if (fstat(fd, &st) < 0)
		return -errno;
	program = malloc(sizeof(refuse_unknown) + (size_t)st.st_size);
	if (!program)
		return -ENOMEM;
	memcpy(program, refuse_unknown, sizeof(refuse_unknown));
	if (pread(fd, program + sizeof(refuse_unknown), (size_t)st.st_size, 0) != st.st_size) {
		free(program);
		return -EIO;
	}
	*ret_program = program;
	*ret_size = sizeof(refuse_unknown) + (size_t)st.st_size;
	return 0;
}

int syscall_filter_create(void **ret_program, size_t *ret_size, struct error *err)
{
	CLEANUP(closep) int fd = memfd_create("seccomp", MFD_CLOEXEC);
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int r = fd < 0 ? -errno : -ENOMEM;

	if (filter && fd >= 0)
		r = build(filter);
	if (r == 0)
		r = seccomp_export_bpf(filter, fd);
	if (r == 0)
		r = read_back(fd, ret_program, ret_size);
	if (filter)
		seccomp_release(filter);
	return r < 0 ? error_errno(err, -r, "cannot build the seccomp program") : 0;
}
