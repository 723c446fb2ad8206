/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * handle-private.h: what the files of an open control file share. Who does what:
 *
 *	handle.c       opening and closing, plain texts, and whose an operation is
 *	handle-talk.c  a request file: its conversation and its job
 *	growing.c      events, which grows
 *	stream.c       a file whose reader may have to wait for what it says
 *	output.c       what a command writes
 *	input.c        what a command reads
 *
 * Threads: loop.
 */
#ifndef FS_HANDLE_PRIVATE_H
#define FS_HANDLE_PRIVATE_H

#include "fs/handle.h"

static inline struct handle *handle_of(const struct request *request)
{
	return (struct handle *)(uintptr_t)request->file.fh; // NOLINT(performance-no-int-to-ptr)
}

/* handle-talk.c */
void talk_open(struct handle *handle, pid_t opener);
/* Carries out what is still pending: the last descriptor is gone. */
void talk_release(struct handle *handle);
void talk_close(struct handle *handle);
/* It is no longer among the handles of its inode. */
void talk_abandon(const struct handle *handle);
void talk_read(struct handle *handle, struct request *request);
void talk_write(struct handle *handle, struct request *request);
void talk_flush(struct handle *handle, struct request *request);
void talk_fsync(struct handle *handle, struct request *request);
void talk_truncate(struct handle *handle);
bool talk_read_would_wait(const struct handle *handle);

/* stream.c */
void stream_read(struct handle *handle, struct request *request);
bool stream_read_would_wait(struct handle *handle);

#endif
