/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * job.h: one request that was committed at a control file, until its reply has nobody left to read
 * it.
 *
 * Counted, since its reply may be wanted by the handle it came from, by those who read run_command
 * without writing, and by nobody while it still runs. Threads: loop.
 */
#ifndef FS_JOB_H
#define FS_JOB_H

#define FUSE_USE_VERSION 318
#include <fuse_lowlevel.h>
#include <stdbool.h>

#include "base/strbuf.h"
#include "fs/tree.h"
#include "pool/command.h"

struct control;
struct error;
struct handle;
struct job;
struct lease;
struct lease_exec;
struct operation;

/* What a request file does; the instances are in verbs*.c. */
struct verb {
	const char *name;   /* as it stands in errors */
	const char *usage;  /* what it reads as when nothing was written, one example in it; NULL:
			       render() tells */
	bool script;        /* text may have any number of lines */
	bool immediate;     /* carried out by the WRITE that brings its newline: job_done() or
			       job_failed() before begin() returns */
	bool in_background; /* FLUSH and fsync do not wait for its end */
	bool shows_last;    /* reading without writing gives the last committed request's reply */
	/* Carries out job->request; ends, now or later, with job_done() or job_failed(). */
	void (*begin)(struct job *job, const char *text, size_t size, bool json);
	/*
	 * Not NULL: nothing is written to it; the request is made when it is opened, and lives as
	 * long as somebody has it open. Nobody has any more, and it is not done: job_drop(), unless
	 * its end is on its way.
	 */
	void (*abandon)(struct job *job);
	/* May refuse a WRITE before anything is collected. NULL: never. -errno. */
	int (*refuse)(const struct node *node, struct error *err);
};

extern const struct verb verb_create, verb_terminate, verb_control, verb_run_command,
	verb_lease_terminate, verb_ttl, verb_exec_new, verb_exec_wait, verb_exec_signal;

/* A command has ended: who waits for its result gets it. */
void verb_exec_wait_ended(struct control *control, struct lease_exec *exec);

struct job {
	unsigned refs;
	struct control *control;
	const struct verb *verb;
	fuse_ino_t ino;              /* of the file it was written to */
	struct lease *lease;         /* counted; NULL at the root */
	struct lease_exec *exec;     /* counted; NULL unless it is about a command */
	struct operation *operation; /* NULL: nothing to be cancelled */
	struct command command;      /* of run_command */
	struct strbuf reply;         /* when done */
	int result;                  /* 0, or -errno: it could not be done */
	bool done;
	bool rendering;          /* the end is on its way: of a command's wait */
	struct handle *handles;  /* waiting for it or showing it: handle.h */
	struct job *prev, *next; /* the control's, while not done */
};

/* Begins to carry out the text at the node. NULL: no memory. The caller owns one reference. */
struct job *job_begin(
	struct control *control, const struct node *node, const char *text, size_t size, bool json);
/* One that failed before it began. NULL: no memory. */
struct job *job_refused(struct control *control, const struct node *node, const struct error *err);
struct job *job_ref(struct job *job);
/* Accepts NULL. */
void job_unref(struct job *job);

/* Its reply is complete. */
void job_done(struct job *job);
/* It could not be done: makes the error reply and the sentence in last_error. */
void job_failed(struct job *job, const struct error *err);
/* Nobody is left to be told, and it has no end. */
void job_drop(struct job *job);
/* The same as a lease_rendered_fn; data is the job. */
void job_rendered(void *data, int r, struct strbuf *reply, const struct error *err);
/* One or the other. err counts when r < 0. */
void job_end(struct job *job, int r, const struct error *err);

#endif
