/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the filter answers to calls of this kernel and of others, this processor and its siblings:
 * the program is interpreted here. What it does in a slot is the security suite's. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "pool/syscall-filter.h"

#if defined(__x86_64__)
enum { X32 = 0x40000000 };
static const uint32_t native = AUDIT_ARCH_X86_64, sibling = AUDIT_ARCH_I386;
#else
static const uint32_t native = AUDIT_ARCH_AARCH64, sibling = AUDIT_ARCH_ARM;
#endif

static const uint32_t allowed = SECCOMP_RET_ALLOW;
static const uint32_t absent = SECCOMP_RET_ERRNO | ENOSYS, refused = SECCOMP_RET_ERRNO | EPERM;

static bool holds(const struct sock_filter *at, uint32_t a)
{
	switch (BPF_OP(at->code)) {
	case BPF_JEQ:
		return a == at->k;
	case BPF_JGT:
		return a > at->k;
	case BPF_JGE:
		return a >= at->k;
	case BPF_JSET:
		return (a & at->k) != 0;
	default:
		fail_msg("a jump that this test does not know: %#x", at->code);
		return false;
	}
}

static uint32_t interpret(
	const struct sock_filter *program, size_t count, const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t at = 0; at < count; at++) {
		const struct sock_filter *code = &program[at];

		switch (code->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&a, (const char *)data + code->k, sizeof(a));
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= code->k;
			break;
		case BPF_RET | BPF_K:
			return code->k;
		case BPF_JMP | BPF_JA:
			at += code->k;
			break;
		default:
			assert_int_equal(BPF_CLASS(code->code), BPF_JMP);
			at += holds(code, a) ? code->jt : code->jf;
		}
	}
	fail_msg("the program runs past its end");
	return 0;
}

static uint32_t answer(uint32_t arch, uint32_t number, uint64_t first, uint64_t second)
{
	const struct seccomp_data data = {.nr = (int)number, .arch = arch, .args = {first, second}};
	void *program;
	size_t size;
	uint32_t result;

	assert_int_equal(syscall_filter_create(&program, &size, NULL), 0);
	result = interpret(program, size / sizeof(struct sock_filter), &data);
	free(program);
	return result;
}

static void ordinary_calls_are_allowed(void **state)
{
	static const uint32_t calls[] = {SYS_read, SYS_openat, SYS_execve, SYS_clone3, SYS_ptrace,
		SYS_seccomp, SYS_landlock_restrict_self, SYS_inotify_init1, SYS_memfd_create};

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		assert_int_equal(answer(native, calls[i], 0, 0), allowed);
	assert_int_equal(answer(native, SYS_socket, AF_UNIX, SOCK_STREAM), allowed);
	assert_int_equal(answer(native, SYS_socket, AF_INET6, SOCK_DGRAM), allowed);
	assert_int_equal(answer(native, SYS_clone, CLONE_VM | CLONE_THREAD, 0), allowed);
	assert_int_equal(answer(native, SYS_prlimit64, 0, 7), allowed);
	assert_int_equal(answer(native, SYS_prlimit64, 12, 7), allowed);
}

static void calls_of_later_kernels_are_not_there(void **state)
{
	static const uint32_t later[] = {470, 471, 500, 1000, 0x3fffffff, 0x7fffffff, 0x80000000};

	assert_int_equal(answer(native, 469, 0, 0), allowed);
	for (size_t i = 0; i < sizeof(later) / sizeof(*later); i++)
		assert_int_equal(answer(native, later[i], 0, 0), absent);
}

/* gdb and strace put it in the place of a call that is not to be made. */
static void a_tracers_word_for_no_call_passes(void **state)
{
	assert_int_equal(answer(native, UINT32_MAX, 0, 0), allowed);
}

static void a_call_of_the_list_is_refused_with_EPERM(void **state)
{
	assert_int_equal(answer(native, SYS_keyctl, 0, 0), refused);
	assert_int_equal(answer(native, 467 /* open_tree_attr */, 0, 0), refused);
	assert_int_equal(answer(native, SYS_prlimit64, 1, 0), refused);
	assert_int_equal(answer(native, SYS_prlimit64, 0x100000001, 0), refused);
	assert_int_equal(answer(native, SYS_socket, AF_VSOCK, 0), SECCOMP_RET_ERRNO | EAFNOSUPPORT);
}

static void calls_of_another_word_size_are_not_there(void **state)
{
	for (uint32_t number = 0; number < 480; number++)
		assert_int_equal(answer(sibling, number, 0, 0), absent);
#if defined(__x86_64__)
	for (uint32_t number = 0; number < 560; number++)
		assert_int_equal(answer(native, X32 | number, 0, 0), absent);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ordinary_calls_are_allowed),
		cmocka_unit_test(calls_of_later_kernels_are_not_there),
		cmocka_unit_test(a_tracers_word_for_no_call_passes),
		cmocka_unit_test(a_call_of_the_list_is_refused_with_EPERM),
		cmocka_unit_test(calls_of_another_word_size_are_not_there),
	};

	return cmocka_run_group_tests_name("syscall-filter", tests, NULL, NULL);
}
