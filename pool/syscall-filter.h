/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * syscall-filter.h: the system calls that commands in a slot are refused, as a BPF program. The
 * same for every slot: made once, loaded by each init. A refused call gets an errno; nothing is
 * killed. Threads: any.
 */
#ifndef POOL_SYSCALL_FILTER_H
#define POOL_SYSCALL_FILTER_H

#include <stddef.h>

struct error;

/* The program's instructions, 8 bytes each; free() them. */
int syscall_filter_create(void **ret_program, size_t *ret_size, struct error *err);

#endif
