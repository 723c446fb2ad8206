/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Every call that the slot's filter must refuse, one by one, without any being carried out: a
 * filter of our own hands them to a tracer that is not there, which gives ENOSYS. The slot's own
 * errno is the stronger answer of the two; so ENOSYS means that the slot's filter let it pass,
 * whatever capabilities would have said.
 */
#include <asm/ioctls.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/security/hostile.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define HIGH         0x100000000L /* the kernel takes 32 of the 64 bits; so must a filter */

struct refused {
	const char *name;
	long number, first, second;
};

#define CALL(name)                                                                                 \
	{                                                                                          \
#name, SYS_##name, 0, 0                                                            \
	}
#define WITH(name, first, second)                                                                  \
	{                                                                                          \
#name "(" #first "," #second ")", SYS_##name, first, second                        \
	}

enum { OPEN_TREE_ATTR = 467 };

static const struct refused refused[] = {
	CALL(acct),
	CALL(add_key),
	CALL(bpf),
	CALL(chroot),
	CALL(clock_adjtime),
	CALL(clock_settime),
	CALL(delete_module),
	CALL(fanotify_init),
	CALL(finit_module),
	CALL(fsconfig),
	CALL(fsmount),
	CALL(fsopen),
	CALL(fspick),
	CALL(init_module),
	CALL(io_uring_enter),
	CALL(io_uring_register),
	CALL(io_uring_setup),
	CALL(kcmp),
	CALL(kexec_load),
	CALL(keyctl),
	CALL(lookup_dcookie),
	CALL(memfd_secret),
	CALL(migrate_pages),
	CALL(mount),
	CALL(mount_setattr),
	CALL(move_mount),
	CALL(move_pages),
	CALL(name_to_handle_at),
	CALL(nfsservctl),
	CALL(open_by_handle_at),
	CALL(open_tree),
	{"open_tree_attr", OPEN_TREE_ATTR, 0, 0},
	CALL(perf_event_open),
	CALL(pivot_root),
	CALL(quotactl),
	CALL(quotactl_fd),
	CALL(reboot),
	CALL(request_key),
	CALL(setdomainname),
	CALL(sethostname),
	CALL(setns),
	CALL(settimeofday),
	CALL(swapoff),
	CALL(swapon),
	CALL(syslog),
	CALL(umount2),
	CALL(userfaultfd),
	CALL(vhangup),
#if defined(__x86_64__)
	CALL(create_module),
	CALL(get_kernel_syms),
	CALL(ioperm),
	CALL(iopl),
	CALL(kexec_file_load),
	CALL(query_module),
	CALL(sysfs),
	CALL(uselib),
	CALL(ustat),
#endif
	WITH(ioctl, 0, TIOCSTI),
	WITH(ioctl, 0, HIGH | TIOCSTI),
	WITH(ioctl, 0, TIOCLINUX),
	WITH(ioctl, 0, TIOCSETD),
	WITH(prlimit64, 1, 0),
	WITH(prlimit64, HIGH | 1, 0),
	WITH(sched_setaffinity, 1, 0),
	WITH(sched_setscheduler, 1, 0),
	WITH(sched_setparam, 1, 0),
	WITH(sched_setattr, 1, 0),
	WITH(sched_setattr, HIGH | 1, 0),
	WITH(setpriority, PRIO_PROCESS, 1),
	WITH(setpriority, PRIO_PGRP, 1),
	WITH(setpriority, PRIO_USER, 0),
	WITH(setpriority, PRIO_USER, 1000),
	WITH(ioprio_set, 1, 1),
	WITH(ioprio_set, 2, 1),
	WITH(ioprio_set, 3, 0),
	WITH(unshare, CLONE_NEWNS, 0),
	WITH(unshare, CLONE_NEWUTS, 0),
	WITH(unshare, CLONE_NEWIPC, 0),
	WITH(unshare, CLONE_NEWUSER, 0),
	WITH(unshare, CLONE_NEWPID, 0),
	WITH(unshare, CLONE_NEWNET, 0),
	WITH(unshare, CLONE_NEWCGROUP, 0),
	WITH(unshare, CLONE_NEWTIME, 0),
	WITH(unshare, CLONE_FILES | CLONE_NEWUSER, 0),
	WITH(clone, SIGCHLD | CLONE_NEWNS, 0),
	WITH(clone, SIGCHLD | CLONE_NEWUTS, 0),
	WITH(clone, SIGCHLD | CLONE_NEWIPC, 0),
	WITH(clone, SIGCHLD | CLONE_NEWUSER, 0),
	WITH(clone, SIGCHLD | CLONE_NEWPID, 0),
	WITH(clone, SIGCHLD | CLONE_NEWNET, 0),
	WITH(clone, SIGCHLD | CLONE_NEWCGROUP, 0),
	WITH(clone, CLONE_VM | CLONE_NEWUSER | CLONE_NEWNS, 0),
	WITH(socket, AF_VSOCK, SOCK_STREAM),
	WITH(socket, HIGH | AF_VSOCK, SOCK_STREAM),
	WITH(socket, AF_ALG, SOCK_SEQPACKET),
	WITH(socket, AF_PACKET, SOCK_RAW),
	WITH(socket, AF_KEY, SOCK_RAW),
	WITH(socket, AF_RDS, SOCK_SEQPACKET),
	WITH(socket, AF_TIPC, SOCK_DGRAM),
	WITH(socket, AF_BLUETOOTH, SOCK_RAW),
	WITH(socket, AF_CAN, SOCK_RAW),
	WITH(socket, AF_XDP, SOCK_RAW),
	WITH(socket, AF_QIPCRTR, SOCK_DGRAM),
	WITH(socket, AF_NFC, SOCK_RAW),
	WITH(socket, AF_SMC, SOCK_STREAM),
	WITH(socket, 200, SOCK_STREAM),
};

enum { PER_CALL = 2, AROUND = 2 };

static bool trace_all(void)
{
	static struct sock_filter code[COUNT(refused) * PER_CALL + AROUND];
	struct sock_fprog program = {.len = COUNT(code), .filter = code};
	struct sock_filter *next = code;

	*next++ = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < COUNT(refused); i++) {
		*next++ = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)refused[i].number, 0, 1);
		*next++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
	}
	*next = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

static const char *make_each_refused_call(const struct decoys *decoys)
{
	static char passed[4096];
	size_t length = 0;

	if (!trace_all())
		return got("no filter of our own: %s", strerror(errno));
	for (size_t i = 0; i < COUNT(refused); i++) {
		const struct refused *call = &refused[i];

		if (syscall(call->number, call->first, call->second, 0, 0, 0, 0) < 0 &&
			errno != ENOSYS)
			continue;
		length += (size_t)snprintf(
			passed + length, sizeof(passed) - length, "%s;", call->name);
	}
	return length > 0 ? passed : NULL;
}

const struct attempt filter_attempts[] = {
	{"every_call_of_the_list_is_refused_by_the_filter", make_each_refused_call},
	{NULL, NULL},
};
