/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * reply.h: how a failure leaves: as errno to the kernel, as a sentence in the last_error beside the
 * file, and as JSON for whoever reads on (conversation_render_error()). Threads: loop.
 */
#ifndef FS_REPLY_H
#define FS_REPLY_H

struct error;
struct lease;
struct request;

/* The errno value the kernel is given for a result of ours (negative: a failure). Never 0 for a
 * failure, never one the kernel refuses. */
int reply_errno(int r);

/* Turns what is not UTF-8, and control bytes, into \xNN: a sentence on one line. */
void reply_make_readable(struct error *err);

/* Answers with the failure and writes it into last_error. lease NULL: the root's. */
void reply_failure(struct request *request, const struct lease *lease, const struct error *err);

#endif
