/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * handle.h: one open control file: a text fixed at open or one that grows (growing.h), a
 * conversation (conversation.h), a stream, which may have to be waited for (stream.h), a hold, or
 * an end of a command (output.h, input.h). Threads: loop.
 */
#ifndef FS_HANDLE_H
#define FS_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "fs/conversation.h"
#include "fs/request.h"
#include "fs/tree.h"

struct control;
struct inode;
struct job;
struct output;

struct handle {
	struct handle *prev, *next; /* of the same inode */
	struct control *control;
	struct inode *inode;
	struct node node; /* its lease and command are counted */
	struct strbuf
		text; /* of a file that can be rendered, as it was at open; of a stream so far */
	uint64_t text_read;    /* of a stream: where the last READ ended in the text */
	uint64_t position;     /* the stream's own */
	bool text_ended;       /* no more will come */
	bool end_read;         /* and the reader knows */
	uint64_t text_from;    /* of one that grows: what was before the text and is forgotten */
	pid_t opener;          /* of one that grows; thread-group id, 0: unknown */
	bool impatient;        /* opened with O_NONBLOCK, which is more than set later */
	bool reads, writes;    /* what it was opened for */
	bool holds;            /* it is one of its lease's holders */
	struct output *output; /* of a command's output: output.h; fixed while it is open */
	bool full;             /* of a command's input: it takes nothing just now */
	bool conversing;       /* a request file, opened for writing or not: */
	struct conversation talk;
	uint64_t write_end;  /* offset behind the last WRITE: where a read(2) goes on */
	atomic_bool pending; /* a FLUSH may matter: read by workers too */
	struct job *job;     /* of the present turn; counted; NULL: none */
	struct job *shown;   /* whose reply is lent to talk; counted; NULL: none */
	bool own;            /* that job was written here, so an interrupted READ cancels it */
	struct handle *job_prev, *job_next; /* of those that wait for the same job */
	struct request *waiting;            /* READ, FLUSH and fsync that are held */
	struct poll_wait *poller; /* to be woken when a READ need not wait any more; NULL: nobody */
};

/* Whether a FLUSH of the open file has to go to the loop; else it has succeeded. Worker. */
bool handle_flush_matters(const struct fuse_file_info *file);

/* The bodies of the operations: each answers the request, now or later. */
void handle_open(struct request *request);
void handle_read(struct request *request);
void handle_write(struct request *request);
void handle_flush(struct request *request);
void handle_fsync(struct request *request);
void handle_release(struct request *request);
void handle_poll(struct request *request);

/* ftruncate() on the handle: its pending input is forgotten. */
void handle_truncate(struct handle *handle);
/* The job of the handle's turn is done: its reply is here. */
void handle_settle(struct handle *handle);
/* A READ would not wait any more. */
void handle_wake_poller(struct handle *handle);
/* A node has changed: serve() answers what it now can of what each of its handles holds; who polls
 * is told when he need not wait. */
void handle_wake(struct control *control, fuse_ino_t ino, void (*serve)(struct handle *handle));
/* Closes it without a commit: the session is over. Nothing is held any more. */
void handle_abandon(struct handle *handle);

#endif
