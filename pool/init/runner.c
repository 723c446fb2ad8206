/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A runner lives in init's memory, which spares a copy of it, and so shares what protects init: it
 * cannot be traced or read. A command has its uid and can stop or kill it, though. So nothing
 * depends on the runner's doing anything: what it tells, init can also find out without it.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "pool/init/init.h"
#include "pool/init/raw.h"

enum { TRIES = 10 };

struct runner {
	pid_t pid, child;
	void *stack;
	struct birth birth; /* of the child */
	void (*fn)(void *);
	void (*failed)(void *, long);
	void *arg;
	/* the runner's, until `reaped` */
	int status;
	struct rusage usage;
	atomic_bool reaped;
};

/* ---- In the runner: init's memory, so no libc call that writes any of it, errno included ---- */

/* 32 and up would queue without end where they are blocked. */
static const uint64_t plain_signals = 0x7fffffff;

/* Waits for one of those that are below it; the child's end is kept for init. False: there is none.
 */
static bool wait_for_one(struct runner *runner, int options)
{
	struct rusage usage;
	int status;
	long pid = raw_call4(SYS_wait4, -1, (long)&status, options | __WALL, (long)&usage);

	if (pid == runner->child && !runner->reaped) {
		runner->status = status;
		runner->usage = usage;
		atomic_store_explicit(&runner->reaped, true, memory_order_release);
		if (wait_for_one(runner, WNOHANG)) /* else our own end tells init */
			(void)raw_call3(SYS_kill, 1, SIGCHLD, 0);
	}
	return pid >= 0 || pid == -EINTR;
}

/* The dead of another command's tree, which its runner has still to reap, count against the limit
 * of processes. */
static long clone_patiently(const struct birth *birth, void (*fn)(void *), void *arg)
{
	const struct timespec nap = {.tv_nsec = 2000000};
	long r = -EAGAIN;

	for (unsigned i = 0; i < TRIES && r == -EAGAIN; i++) {
		if (i > 0)
			(void)raw_call3(SYS_nanosleep, (long)&nap, 0, 0);
		r = clone_onto_stack(birth, fn, arg);
	}
	return r;
}

static void runner_main(void *arg)
{
	struct runner *runner = arg;
	long r;

	(void)raw_call3(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0);
	(void)raw_call4(
		SYS_rt_sigprocmask, SIG_SETMASK, (long)&plain_signals, 0, sizeof(plain_signals));
	r = clone_patiently(&runner->birth, runner->fn, runner->arg);
	if (r < 0)
		runner->failed(runner->arg, r);
	(void)raw_call3(SYS_close_range, 0, ~0U, 0); /* the command's pipes among them */
	while (wait_for_one(runner, 0))
		;
	(void)raw_call3(SYS_exit_group, 0, 0, 0);
}

/* ---- In init ---- */

int runner_start(const struct birth *birth, void (*fn)(void *), void (*failed)(void *, long),
	void *arg, struct runner **ret_runner)
{
	struct runner *runner = calloc(1, sizeof(*runner));
	struct birth own = {.flags = CLONE_VM, .cgroup_fd = -1};
	long r = -ENOMEM;

	if (!runner)
		return -ENOMEM;
	*runner = (struct runner){.birth = *birth, .fn = fn, .failed = failed, .arg = arg};
	runner->birth.pid = &runner->child;
	runner->stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	own.stack = runner->stack;
	if (runner->stack != MAP_FAILED)
		r = clone_patiently(&own, runner_main, runner);
	if (r < 0) {
		runner_free(runner);
		return (int)r;
	}
	runner->pid = (pid_t)r;
	*ret_runner = runner;
	return 0;
}

pid_t runner_pid(const struct runner *runner)
{
	return runner->pid;
}

pid_t runner_child(const struct runner *runner)
{
	return *(const volatile pid_t *)&runner->child;
}

bool runner_outcome(const struct runner *runner, int *ret_status, struct rusage *ret_usage)
{
	if (!atomic_load_explicit(&runner->reaped, memory_order_acquire))
		return false;
	*ret_status = runner->status;
	*ret_usage = runner->usage;
	return true;
}

void runner_free(struct runner *runner)
{
	if (!runner)
		return;
	if (runner->stack != MAP_FAILED)
		(void)munmap(runner->stack, STACK_SIZE);
	free(runner);
}
