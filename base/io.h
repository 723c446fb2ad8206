/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * io.h: descriptors read and written to the end, whatever a single call leaves over. For blocking
 * descriptors: on the loop only where nothing can block (a memfd, a file of /proc). Threads: any.
 */
#ifndef BASE_IO_H
#define BASE_IO_H

#include <stddef.h>

struct strbuf;

/* Writes all of it, begun anew after EINTR. -errno: how much was written is not told. */
int write_all(int fd, const void *bytes, size_t size);
/* Appends what is left to be read. -errno, -ENOMEM; what came before the failure is in out. */
int read_all(int fd, struct strbuf *out);
/* Appends the content of a file. */
int read_text(const char *path, struct strbuf *out);
/* The last bytes of a file, without the blanks at its end; "" when it cannot be read, or fd is
 * negative. */
void read_tail(int fd, char *ret_text, size_t size);

#endif
