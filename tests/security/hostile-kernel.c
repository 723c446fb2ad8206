/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Namespaces, sysctls, and what of the kernel no namespace separates. */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/security/hostile.h"

static const char *write_sysctls(const struct decoys *decoys)
{
	static const char *const names[] = {"vm/swappiness", "vm/overcommit_memory",
		"kernel/core_pattern", "kernel/pid_max", "kernel/modprobe", "kernel/hostname",
		"kernel/sysrq", "fs/file-max", "fs/protected_symlinks", "user/max_user_namespaces",
		"user/max_net_namespaces", "net/ipv4/ip_forward",
		"net/ipv4/ip_unprivileged_port_start", "net/core/somaxconn", "kernel/shmmax",
		"kernel/msgmax", "kernel/sem", "kernel/random/boot_id"};
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		(void)snprintf(path, sizeof(path), "/proc/sys/%s", names[i]);
		if (can_open(path, O_WRONLY) || can_rewrite(path))
			return got("%s is writable", path);
	}
	return NULL;
}

static const char *write_proc(const struct decoys *decoys)
{
	static const char *const paths[] = {"/proc/sysrq-trigger", "/proc/irq/default_smp_affinity",
		"/proc/mtrr", "/proc/acpi", "/proc/bus/pci", "/proc/self/uid_map",
		"/proc/self/gid_map", "/proc/self/setgroups", NULL};

	for (const char *const *path = paths; *path; path++) {
		int fd = open(*path, O_WRONLY);

		if (fd >= 0 && write(fd, "0 0 1\n", 6) > 0)
			return got("%s takes writing", *path);
		(void)close(fd);
	}
	return NULL;
}

static const char *look_at_namespaces(const struct decoys *decoys)
{
	static const char *const names[] = {
		"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", NULL};
	char path[64], mine[64];

	for (const char *const *name = names; *name; name++) {
		ssize_t n;

		(void)snprintf(path, sizeof(path), "/proc/self/ns/%s", *name);
		n = readlink(path, mine, sizeof(mine) - 1);
		mine[n > 0 ? n : 0] = '\0';
		if (!*mine || strstr(decoys->namespaces, mine))
			return got("%s is the daemon's", *name);
	}
	return NULL;
}

static const char *look_at_host_name(const struct decoys *decoys)
{
	struct utsname name;

	return uname(&name) < 0 || strcmp(name.nodename, decoys->host_name) == 0
		       ? got("it is called %s", name.nodename)
		       : NULL;
}

/* All zeros, for who may not see them. */
static const char *read_kernel_addresses(const struct decoys *decoys)
{
	FILE *symbols = fopen("/proc/kallsyms", "re");
	unsigned long long address = 0;
	char line[256];

	while (symbols && address == 0 && fgets(line, sizeof(line), symbols))
		(void)sscanf(line, "%llx", &address);
	if (symbols)
		(void)fclose(symbols);
	return address ? got("%.40s", line) : NULL;
}

static const uint64_t namespaces[] = {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET,
	CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP, CLONE_NEWTIME, CLONE_NEWUSER | CLONE_NEWNS};

static const char *unshare_namespaces(const struct decoys *decoys)
{
	for (size_t i = 0; i < sizeof(namespaces) / sizeof(*namespaces); i++) {
		if (syscall(SYS_unshare, namespaces[i]) == 0)
			return got("unshare(%#llx)", (unsigned long long)namespaces[i]);
	}
	return NULL;
}

static const char *reap(long pid, const char *call, uint64_t flags)
{
	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return NULL;
	(void)waitpid((pid_t)pid, NULL, __WALL);
	return got("%s(%#llx)", call, (unsigned long long)flags);
}

static const char *clone_namespaces(const struct decoys *decoys)
{
	const char *answer = NULL;

	for (size_t i = 0; i < sizeof(namespaces) / sizeof(*namespaces) && !answer; i++) {
		struct clone_args args = {.flags = namespaces[i], .exit_signal = SIGCHLD};

		answer = reap(syscall(SYS_clone3, &args, sizeof(args)), "clone3", namespaces[i]);
		if (!answer &&
			namespaces[i] != CLONE_NEWTIME) /* whose bit is clone's exit signal */
			answer = reap(
				syscall(SYS_clone, namespaces[i] | SIGCHLD, NULL, NULL, NULL, NULL),
				"clone", namespaces[i]);
	}
	return answer;
}

static const char *join_namespaces(const struct decoys *decoys)
{
	static const char *const names[] = {"user", "mnt", "net", "pid", "uts", "ipc", "cgroup"};
	char path[64];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		int fd;

		(void)snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
		fd = open(path, O_RDONLY);
		if (setns(fd, 0) == 0)
			return got("setns to %s", path);
	}
	return NULL;
}

/* The session keyring may be the daemon's. */
static const char *use_keys(const struct decoys *decoys)
{
	if (syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0) >= 0 ||
		syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0)
		return got("keyctl");
	if (syscall(SYS_add_key, "user", "a", "b", 1, KEY_SPEC_USER_KEYRING) >= 0 ||
		syscall(SYS_request_key, "user", "a", NULL, KEY_SPEC_USER_KEYRING) >= 0)
		return got("add_key or request_key");
	return NULL;
}

static const char *use_kernel_machines(const struct decoys *decoys)
{
	struct perf_event_attr perf = {.type = PERF_TYPE_SOFTWARE, .size = sizeof(perf)};
	union bpf_attr map = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
	char params[256] = {0};

	if (syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map)) >= 0)
		return got("bpf");
	if (syscall(SYS_perf_event_open, &perf, 0, -1, -1, 0) >= 0)
		return got("perf_event_open");
	if (syscall(SYS_io_uring_setup, 4, params) >= 0)
		return got("io_uring_setup");
	if (syscall(SYS_userfaultfd, O_CLOEXEC | 1) >= 0)
		return got("userfaultfd");
	if (syscall(SYS_fanotify_init, 0, O_RDONLY) >= 0)
		return got("fanotify_init");
	if (syscall(SYS_memfd_secret, 0) >= 0)
		return got("memfd_secret");
	if (syscall(SYS_kcmp, getpid(), 1, 0, 0, 0) >= 0)
		return got("kcmp");
	return NULL;
}

static const char *change_host(const struct decoys *decoys)
{
	struct timeval now;
	struct timespec then;

	(void)gettimeofday(&now, NULL);
	(void)clock_gettime(CLOCK_REALTIME, &then);
	if (settimeofday(&now, NULL) == 0 || clock_settime(CLOCK_REALTIME, &then) == 0)
		return got("the time can be set");
	if (sethostname("x", 1) == 0 || setdomainname("x", 1) == 0)
		return got("sethostname");
	if (swapon("/tmp/mine", 0) == 0 || swapoff("/tmp/mine") == 0 ||
		syscall(SYS_acct, NULL) == 0)
		return got("swapon or acct");
	if (syscall(SYS_init_module, "", 0, "") == 0 || errno != EPERM)
		return got("init_module");
	if (syscall(SYS_kexec_load, 0, 0, NULL, 0) == 0 || reboot(RB_DISABLE_CAD) == 0)
		return got("reboot or kexec");
	if (klogctl(10, NULL, 0) >= 0 || klogctl(3, (char[64]){0}, 64) >= 0)
		return got("the kernel's log can be read");
	return NULL;
}

static const char *type_into_terminal(const struct decoys *decoys)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY);
	int terminal = -1;

	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
		return got("no pseudo-terminal to try it on");
	(void)setsid();
	terminal = open(ptsname(master), O_RDWR); /* becomes the controlling one */
	if (terminal < 0)
		return got("no pseudo-terminal to try it on");
	if (ioctl(terminal, TIOCSTI, "x") == 0 ||
		syscall(SYS_ioctl, terminal, 0x100000000L | TIOCSTI, "x") == 0)
		return got("TIOCSTI");
	return NULL;
}

static const char *raise_limits(const struct decoys *decoys)
{
	const struct rlimit wide = {RLIM_INFINITY, RLIM_INFINITY};

	if (setrlimit(RLIMIT_NPROC, &wide) == 0 || setrlimit(RLIMIT_NOFILE, &wide) == 0 ||
		setrlimit(RLIMIT_CORE, &wide) == 0)
		return got("a limit was raised");
	return NULL;
}

static const char *attach_shared_memory(const struct decoys *decoys)
{
	return shmget(decoys->shm_key, 0, 0) >= 0 ? got("the host's segment is there") : NULL;
}

#if defined(__x86_64__)
/* getpid by the other tables: refused, they cannot be a way around the filter. */
static bool other_abi_answers(bool x32)
{
	long result;

	if (x32)
		return syscall(0x40000000L | SYS_getpid) >= 0;
	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "0"(20L)
			 : "memory", "r8", "r9", "r10", "r11");
	return result >= 0;
}
#else
static bool other_abi_answers(bool x32)
{
	return false;
}
#endif

/* In a child: a kernel without 32-bit calls kills who makes one. */
static const char *use_other_abis(const struct decoys *decoys)
{
	for (int x32 = 0; x32 < 2; x32++) {
		pid_t pid = fork();
		int status = 0;

		if (pid == 0)
			_exit(other_abi_answers(x32) ? 1 : 0);
		if (pid < 0 || waitpid(pid, &status, 0) < 0 ||
			(WIFEXITED(status) && WEXITSTATUS(status) != 0))
			return got("%s works", x32 ? "x32" : "int 0x80");
	}
	return NULL;
}

const struct attempt kernel_attempts[] = {
	{"no_sysctl_can_be_written", write_sysctls},
	{"nothing_else_in_proc_takes_writing", write_proc},
	{"every_namespace_is_the_slots_own", look_at_namespaces},
	{"the_hosts_name_is_not_told", look_at_host_name},
	{"the_kernels_addresses_are_not_told", read_kernel_addresses},
	{"no_namespace_can_be_unshared", unshare_namespaces},
	{"no_namespace_can_be_cloned", clone_namespaces},
	{"no_namespace_can_be_joined", join_namespaces},
	{"keyrings_cannot_be_used", use_keys},
	{"bpf_perf_io_uring_and_their_like_are_refused", use_kernel_machines},
	{"the_hosts_time_name_and_modules_cannot_be_changed", change_host},
	{"nothing_can_be_typed_into_a_terminal", type_into_terminal},
	{"no_limit_can_be_raised", raise_limits},
	{"the_hosts_shared_memory_is_not_there", attach_shared_memory},
	{"other_system_call_tables_are_no_way_around_the_filter", use_other_abis},
	{NULL, NULL},
};
