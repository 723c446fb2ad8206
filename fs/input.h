/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * input.h: stdin of a command: what is written to it the command reads.
 *
 * As with a pipe: a WRITE is held while the command does not read (EAGAIN, or the part that went,
 * with O_NONBLOCK; cancelled by the rules of interrupt.h), EPIPE when it reads no more, and the end
 * comes when the last who had it open for writing has closed. Nobody is sent SIGPIPE. Reading it
 * gives nothing, so that whoever opens every file may open this one. Threads: loop.
 */
#ifndef FS_INPUT_H
#define FS_INPUT_H

#define FUSE_USE_VERSION 318
#include <fuse_lowlevel.h>
#include <stdbool.h>

struct control;
struct handle;
struct request;

void input_write(struct handle *handle, struct request *request);
bool input_write_would_wait(const struct handle *handle);
/* A handle has been closed, and is no longer among those of its inode. */
void input_closed(struct handle *handle);
/* It may be written to again, or never more. */
void input_wake(struct control *control, fuse_ino_t ino);

#endif
