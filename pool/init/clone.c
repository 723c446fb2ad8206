/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A new process in our own memory. vfork() would stop us until its child executes, and a command of
 * the same uid can stop that child in between, for ever; so the child gets a stack of its own and
 * we go on.
 */
#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include "pool/init/init.h"

/* In the child the stack pointer is new, so nothing may return: the call and the jump to fn are one
 * piece. */
#if defined(__x86_64__)

static long clone_and_call(struct clone_args *args, size_t size, void (*fn)(void *), void *arg)
{
	long result;
	register void (*r8)(void *) __asm__("r8") = fn;
	register void *r9 __asm__("r9") = arg;

	__asm__ volatile("syscall\n\t"
			 "testq %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xorl %%ebp, %%ebp\n\t"
			 "movq %%r9, %%rdi\n\t"
			 "callq *%%r8\n\t"
			 "hlt\n"
			 "1:"
			 : "=a"(result)
			 : "0"((long)SYS_clone3), "D"(args), "S"(size), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory", "cc");
	return result;
}

#elif defined(__aarch64__)

static long clone_and_call(struct clone_args *args, size_t size, void (*fn)(void *), void *arg)
{
	register long x8 __asm__("x8") = SYS_clone3;
	register long x0 __asm__("x0") = (long)args;
	register long x1 __asm__("x1") = (long)size;
	register void (*x2)(void *) __asm__("x2") = fn;
	register void *x3 __asm__("x3") = arg;

	__asm__ volatile("svc 0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "mov x0, x3\n\t"
			 "blr x2\n\t"
			 "brk 0\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3)
			 : "memory", "cc");
	return x0;
}

#else
#error "clone_onto_stack() needs this processor's way of calling clone3: x86_64 and aarch64 are there"
#endif

long clone_onto_stack(const struct birth *birth, void (*fn)(void *), void *arg)
{
	struct clone_args args = {
		.flags = birth->flags,
		.exit_signal = SIGCHLD,
		.stack = (uint64_t)(uintptr_t)birth->stack,
		.stack_size = STACK_SIZE,
	};

	if (left_out("clone without vfork"))
		args.flags |= CLONE_VFORK;
	if (birth->cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)birth->cgroup_fd;
	}
	if (birth->pid) {
		args.flags |= CLONE_PARENT_SETTID;
		args.parent_tid = (uint64_t)(uintptr_t)birth->pid;
	}
	return clone_and_call(&args, sizeof(args), fn, arg);
}
