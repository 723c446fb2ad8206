/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * output.h: stdout and stderr of a command, read while it writes them.
 *
 * All that was kept is there from byte 0, at any offset, for any number of readers. What is there
 * already is given on the FUSE worker. At the end of what there is a READ is held until more has
 * come or the output has its end, and cancelled by the rules of interrupt.h; who has O_NONBLOCK
 * gets EAGAIN instead, and poll(2) tells when a READ at the place where the last one ended would
 * not wait.
 *
 * While more may come, and until a while after, sendfile(2), splice(2) and maps are EINVAL, since
 * they read pages and cannot wait: programs that use them fall back to read(2). A descriptor with
 * O_DIRECT can be spliced all the same.
 *
 * Threads: loop, except output_read_at_once().
 */
#ifndef FS_OUTPUT_H
#define FS_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "fs/tree.h"

struct control;
struct handle;
struct output;
struct request;

static inline bool node_is_output(enum node_kind kind)
{
	return kind == NODE_EXEC_STDOUT || kind == NODE_EXEC_STDERR;
}

/* The reading side of an open file. NULL: no memory. */
struct output *output_open(const struct node *node);
/* Accepts NULL. */
void output_close(struct output *output);

/* Answers a READ of what is there already. False: it is the loop's to answer. Worker. */
bool output_read_at_once(fuse_req_t fuse, fuse_ino_t ino, size_t size, off_t offset,
	const struct fuse_file_info *file);
void output_read(struct handle *handle, struct request *request);
bool output_read_would_wait(const struct handle *handle);
/* There is more, or the end: readers that wait are served, pollers told. */
void output_wake(struct control *control, fuse_ino_t ino);
/*
 * What stat(2) shows: the bytes kept so far. But 1 of a live output that is empty still: programs
 * take a file of 0 bytes for one that needs no reading.
 */
off_t output_size(const struct node *node);
/* When its last byte came, or else when it was made; Unix seconds. */
double output_time(const struct node *node);

#endif
