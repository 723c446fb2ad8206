/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * growing.h: `events` and `events.follow`.
 *
 * `events` is a file that others append to: its text is fixed at open, a READ at its end gets what
 * has come since, and where nothing has, the end: so `cat` ends at now and `tail -f` follows. What
 * a descriptor has got stays at its offset, the latest GROWING_KEPT bytes of it: READ before those
 * is ENODATA. `events.follow` is an endless stream (stream.h). Threads: loop.
 */
#ifndef FS_GROWING_H
#define FS_GROWING_H

#include <sys/types.h>

#include "fs/tree.h"

struct control;
struct handle;
struct request;
struct stream;

enum { GROWING_KEPT = 4 * 1024 * 1024 };

/* The text is there. */
void growing_open(struct handle *handle, pid_t opener);
void growing_read(struct handle *handle, struct request *request);
/*
 * What stat(2) shows that process (0: unknown), snapshot being the size of what `cat` would get
 * now. Each descriptor has an end of its own, and the kernel does not say which one is asked about:
 * it is taken to be the caller's.
 */
off_t growing_size(struct control *control, const struct node *node, pid_t process, off_t snapshot);
/* Whether it matters for that file who asks for its size. Any thread. */
bool growing_asks_who(fuse_ino_t ino);

extern const struct stream stream_events;

#endif
