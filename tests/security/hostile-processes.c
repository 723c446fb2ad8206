/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Other processes: the host's, and init. The test pings init after every attempt. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/security/hostile.h"

/* Calls fn for each process that /proc shows; its first answer ends the walk. */
static const char *each_process(const char *(*fn)(const char *dir, const struct decoys *decoys),
	const struct decoys *decoys)
{
	DIR *proc = opendir("/proc");
	const char *answer = NULL;
	struct dirent *entry;
	char dir[300];

	if (!proc)
		return NULL;
	while (!answer && (entry = readdir(proc))) {
		(void)snprintf(dir, sizeof(dir), "/proc/%s", entry->d_name);
		if (isdigit((unsigned char)entry->d_name[0]))
			answer = fn(dir, decoys);
	}
	(void)closedir(proc);
	return answer;
}

static const char *look_at_name(const char *dir, const struct decoys *decoys)
{
	char path[320];

	(void)snprintf(path, sizeof(path), "%s/comm", dir);
	if (file_has(path, decoys->daemon_comm) || file_has(path, "bwrap"))
		return got("%s is a process of the host", dir);
	return NULL;
}

static const char *see_processes(const struct decoys *decoys)
{
	return each_process(look_at_name, decoys);
}

static const char *signal_daemon(const struct decoys *decoys)
{
	if (kill(decoys->daemon_pid, 0) == 0 || errno == EPERM)
		return got("there is a process %d", (int)decoys->daemon_pid);
	return NULL;
}

static const char *look_at_environment(const char *dir, const struct decoys *decoys)
{
	char path[320];

	(void)snprintf(path, sizeof(path), "%s/environ", dir);
	return file_has(path, decoys->marker) ? got("%s has it", path) : NULL;
}

/* Our own arguments hold the marker too, so only environments are looked at. */
static const char *read_environments(const struct decoys *decoys)
{
	return each_process(look_at_environment, decoys);
}

/* How many signals wait for processes of our uid. */
static int queued_signals(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[256];
	int count = 0;

	while (status && fgets(line, sizeof(line), status))
		(void)sscanf(line, "SigQ: %d/", &count);
	if (status)
		(void)fclose(status);
	return count;
}

/* Whether they were swallowed is init's to show, by its pong. */
static const char *signal_init(const struct decoys *decoys)
{
	const union sigval value = {.sival_int = 1};

	for (int number = 1; number <= SIGRTMAX; number++)
		(void)kill(1, number);
	for (int i = 0; i < 2000; i++)
		(void)sigqueue(1, SIGRTMIN + i % 8, value);
	(void)kill(-1, 0);
	return queued_signals() > 100 ? got("init queues %d signals", queued_signals()) : NULL;
}

/* In a child, that the answer does not die of it. */
static const char *kill_everything(const struct decoys *decoys)
{
	pid_t pid;
	int status;

	(void)signal(SIGTERM, SIG_IGN);
	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 100; i++)
			(void)kill(1, SIGKILL);
		(void)kill(-1, SIGTERM);
		_exit(0);
	}
	(void)waitpid(pid, &status, 0);
	return kill(1, 0) == 0 ? NULL : got("init is gone");
}

static const char *trace_init(const struct decoys *decoys)
{
	if (ptrace(PTRACE_SEIZE, 1, NULL, NULL) == 0 || ptrace(PTRACE_ATTACH, 1, NULL, NULL) == 0)
		return got("init can be traced");
	return NULL;
}

static const char *read_init(const struct decoys *decoys)
{
	static const char *const files[] = {"mem", "environ", "maps", "auxv", "stack", "syscall",
		"root/etc/passwd", "exe", "cwd/.", "fd/3", "fdinfo/3", "ns/user", "map_files"};
	char path[64], bytes[16];
	struct iovec local = {bytes, sizeof(bytes)}, remote = {(void *)0x400000, sizeof(bytes)};

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		(void)snprintf(path, sizeof(path), "/proc/1/%s", files[i]);
		if (can_open(path, O_RDONLY))
			return got("%s opens", path);
	}
	if (process_vm_readv(1, &local, 1, &remote, 1, 0) > 0 ||
		process_vm_writev(1, &local, 1, &remote, 1, 0) > 0)
		return got("init's memory is open to process_vm_readv or writev");
	return NULL;
}

/* What init may have put between itself and us lives in its memory. By number: /proc hides it. */
static const char *reach_other_processes(const struct decoys *decoys)
{
	char path[64], bytes[16];
	struct iovec local = {bytes, sizeof(bytes)}, remote = {(void *)0x400000, sizeof(bytes)};

	for (pid_t pid = 1; pid < 3000; pid++) {
		int pidfd;

		(void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
		if (kill(pid, 0) < 0 || file_has(path, "hostile"))
			continue;
		pidfd = pidfd_open(pid, 0);
		if (pidfd_getfd(pidfd, 3, 0) >= 0 || pidfd_getfd(pidfd, 0, 0) >= 0)
			return got("a descriptor of process %d can be taken", (int)pid);
		(void)close(pidfd);
		if (process_vm_readv(pid, &local, 1, &remote, 1, 0) > 0)
			return got("process %d can be read", (int)pid);
		(void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
		if (can_open(path, O_RDWR))
			return got("%s opens", path);
		if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0)
			return got("process %d can be traced", (int)pid);
		/* where a core is dumped, all who share its memory die on older kernels */
		(void)kill(pid, SIGSEGV);
	}
	return NULL;
}

static const char *take_descriptors_of_init(const struct decoys *decoys)
{
	int pidfd = pidfd_open(1, 0);

	for (int fd = 0; fd < 16; fd++) {
		if (pidfd >= 0 && pidfd_getfd(pidfd, fd, 0) >= 0)
			return got("pidfd_getfd took descriptor %d of init", fd);
	}
	return NULL;
}

/* What else takes a pid, or a pidfd, of the same uid. */
static const char *use_other_calls_on_init(const struct decoys *decoys)
{
	char byte;
	struct iovec part = {&byte, 1};
	size_t size = sizeof(void *);
	void *head = NULL;
	int pidfd = pidfd_open(1, 0);

	if (syscall(SYS_get_robust_list, 1, &head, &size) == 0)
		return got("get_robust_list");
	if (syscall(SYS_process_madvise, pidfd, &part, 1, 21 /* MADV_PAGEOUT */, 0) > 0)
		return got("process_madvise");
	if (syscall(SYS_process_mrelease, pidfd, 0) == 0)
		return got("process_mrelease");
	if (syscall(SYS_setns, pidfd, CLONE_NEWNET) == 0)
		return got("setns to init");
	if (syscall(SYS_kcmp, 1, 1, 0, 3, 3) >= 0)
		return got("kcmp");
	if (prctl(PR_SCHED_CORE, 3 /* share from */, 1, 0, 0) == 0)
		return got("prctl(PR_SCHED_CORE)");
	return NULL;
}

/* The control socket, the descriptor of a cgroup, init's own file, another command's pipe... */
static const char *find_descriptors(const struct decoys *decoys)
{
	static char all[2048];
	char path[64], target[200];
	size_t length = 0;

	for (int fd = 3; fd < 1024 && length < sizeof(all) / 2; fd++) {
		ssize_t n;

		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		if (n >= 0)
			length += (size_t)snprintf(all + length, sizeof(all) - length,
				"descriptor %d is %.*s; ", fd, (int)n, target);
	}
	return length > 0 ? all : NULL;
}

static const char *open_terminal(const struct decoys *decoys)
{
	return can_open("/dev/tty", O_RDWR) ? got("the daemon's terminal opens") : NULL;
}

static const char *dump_core(const struct decoys *decoys)
{
	const struct rlimit wide = {RLIM_INFINITY, RLIM_INFINITY};
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		(void)chdir("/tmp");
		(void)setrlimit(RLIMIT_CORE, &wide);
		(void)kill(getpid(), SIGSEGV);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return NULL;
	return WIFSIGNALED(status) && WCOREDUMP(status) ? got("the kernel wrote a core") : NULL;
}

static const char *write_to_init(const struct decoys *decoys)
{
	static const char *const files[] = {"oom_score_adj", "oom_adj", "coredump_filter", "sched",
		"autogroup", "comm", "clear_refs", "timerslack_ns", "uid_map", "gid_map",
		"setgroups", "loginuid", "attr/current", "timens_offsets"};
	char path[64];

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		(void)snprintf(path, sizeof(path), "/proc/1/%s", files[i]);
		if (can_open(path, O_WRONLY))
			return got("%s opens for writing", path);
	}
	return NULL;
}

/* The kernel looks at the low half of a pid alone; so must who refuses it. */
static const char *limit_init(const struct decoys *decoys)
{
	const struct rlimit none = {0, 0};
	const long pids[] = {1, 0x100000001L, -0xffffffffL};

	for (size_t i = 0; i < sizeof(pids) / sizeof(*pids); i++) {
		if (syscall(SYS_prlimit64, pids[i], RLIMIT_NOFILE, &none, NULL) == 0)
			return got("prlimit(%#lx)", pids[i]);
	}
	return NULL;
}

static const char *slow_init(const struct decoys *decoys)
{
	const struct sched_param normal = {0};
	cpu_set_t cpus;
	struct {
		unsigned size, policy;
		unsigned long flags;
		int nice;
		unsigned priority;
		unsigned long runtime, deadline, period;
	} attr = {.size = 48};

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	if (sched_setaffinity(1, sizeof(cpus), &cpus) == 0)
		return got("sched_setaffinity");
	if (sched_setscheduler(1, SCHED_IDLE, &normal) == 0 || sched_setparam(1, &normal) == 0)
		return got("sched_setscheduler");
	if (syscall(SYS_sched_setattr, 1, &attr, 0) == 0)
		return got("sched_setattr");
	if (setpriority(PRIO_PROCESS, 1, 19) == 0 || setpriority(PRIO_PGRP, 1, 19) == 0 ||
		setpriority(PRIO_USER, 0, 19) == 0)
		return got("setpriority");
	if (syscall(SYS_ioprio_set, 1, 1, 3 << 13) == 0 ||
		syscall(SYS_ioprio_set, 2, 1, 3 << 13) == 0 ||
		syscall(SYS_ioprio_set, 3, 0, 3 << 13) == 0)
		return got("ioprio_set");
	return NULL;
}

static const char *fork_bomb(const struct decoys *decoys)
{
	return fork_to_the_limit(NULL);
}

/* For as long as it lives: what init is about to make of a request is stopped between birth and
 * exec. */
static const char *stop_the_newborn(const struct decoys *decoys)
{
	while (kill(-1, SIGSTOP) <= 0)
		;
	return NULL;
}

const struct attempt unending_attempts[] = {
	{"stop_the_newborn", stop_the_newborn},
	{NULL, NULL},
};

const struct attempt process_attempts[] = {
	{"no_process_of_the_host_is_seen", see_processes},
	{"the_daemon_cannot_be_signalled", signal_daemon},
	{"the_daemons_environment_is_nowhere_to_be_read", read_environments},
	{"init_takes_no_signal_from_inside", signal_init},
	{"killing_everything_spares_init", kill_everything},
	{"init_cannot_be_traced", trace_init},
	{"init_cannot_be_read", read_init},
	{"no_other_process_can_be_reached", reach_other_processes},
	{"no_descriptor_can_be_taken_from_init", take_descriptors_of_init},
	{"no_other_call_reaches_init", use_other_calls_on_init},
	{"no_descriptor_is_inherited", find_descriptors},
	{"there_is_no_terminal_of_the_daemons", open_terminal},
	{"no_core_is_written", dump_core},
	{"nothing_of_init_can_be_written", write_to_init},
	{"init_cannot_be_given_limits", limit_init},
	{"init_cannot_be_slowed_down", slow_init},
	{"a_fork_bomb_ends_at_the_slots_own_limit", fork_bomb},
	{NULL, NULL},
};
