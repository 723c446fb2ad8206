/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * procfs.h: how the kernel writes its tables in /proc. Pure. Threads: any.
 */
#ifndef BASE_PROCFS_H
#define BASE_PROCFS_H

#include <stddef.h>

struct strbuf;

/* The field of a process's stat, numbered as proc(5) does, from 3 on: the name before it may hold
 * blanks and parentheses. NULL: there are not so many. */
const char *procfs_stat_field(const char *stat, unsigned number);

/* Appends a path as it is, of how mountinfo writes it: blanks as \040. */
void procfs_add_path(struct strbuf *out, const char *text, size_t len);

#endif
