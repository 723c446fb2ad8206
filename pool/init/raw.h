/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * raw.h: system calls without errno, for a child that shares memory, and so errno, with its parent.
 * The result is the kernel's own: -errno on failure.
 */
#ifndef POOL_INIT_RAW_H
#define POOL_INIT_RAW_H

#include <stdint.h>

#if defined(__x86_64__)

static inline long raw_call4(long number, long a, long b, long c, long d)
{
	long result;
	register long r10 __asm__("r10") = d;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

#elif defined(__aarch64__)

static inline long raw_call4(long number, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}

#else
#error "init's child needs raw system calls for this processor: x86_64 and aarch64 are there"
#endif

static inline long raw_call3(long number, long a, long b, long c)
{
	return raw_call4(number, a, b, c, 0);
}

#endif
