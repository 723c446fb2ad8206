/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * spool-private.h: what the two sides of a spool share. spool.c is the loop's side, spool-thread.c
 * and spool-file.c the thread's. For those alone.
 *
 * A pipe is the loop's until hand_over() in spool.c, then the thread's for good.
 */
#ifndef POOL_SPOOL_PRIVATE_H
#define POOL_SPOOL_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include <utlist.h>

#include "base/strbuf.h"
#include "pool/spool.h"

/* What the loop wants of the thread. */
enum spool_wish {
	SPOOL_ADOPT = 1u << 0,  /* the pipe, if there is one, and what was kept in memory */
	SPOOL_PUT = 1u << 1,    /* spool::put */
	SPOOL_FINISH = 1u << 2, /* spool_finish() */
	SPOOL_CLOSE = 1u << 3,  /* close the pipe */
	SPOOL_GO_ON = 1u << 4,  /* it starved: there is room, or it was cut */
	SPOOL_REMOVE = 1u << 5, /* nobody has it any more */
};

struct spool_account {
	atomic_uint refs;
	_Atomic uint64_t left;
	spool_make_room_fn *make_room; /* NULL: closed */
	void *data;
};

struct spooler {
	atomic_uint refs; /* the owner's, and one of every spool */
	struct loop *loop;
	pthread_t thread;
	bool running;
	char *dir;
	int dir_fd, epoll_fd, wake_fd, null_fd;
	uint64_t names;
	pthread_mutex_t lock; /* of what follows, and of spool::wishes, put and changed */
	struct spool *wished, **wished_last;
	struct spool *changed, **changed_last;
	bool posted, stopping;
	atomic_bool stopped; /* the thread is gone */
	struct loop_task task;
	/* the thread's */
	struct spool *adopted; /* whose pipes it has; each is a reference */
	struct spool *resting;
	uint64_t rest_until_ms;
};

struct spool {
	atomic_uint refs;
	struct spooler *spooler;
	struct spool_account *account;
	char name[40];
	uint64_t max;

	/* the loop's */
	struct spool_listener *listeners;
	uint64_t round; /* of telling them */
	struct loop_watch *watch;
	bool handed_over, finish_asked;

	int pipe_fd; /* of whoever has the pipe; -1: closed */

	/* any thread's */
	pthread_mutex_t lock; /* of the three below */
	char *head;           /* NULL: none yet, or in the file */
	size_t head_size, head_room;
	_Atomic uint64_t kept, dropped, changed_us;
	_Atomic uint64_t end_size; /* set before `finished` */
	_Atomic uint64_t charged;  /* bytes of the account that it has */
	atomic_int error;
	atomic_bool has_file, pipe_closed, finished;
	atomic_bool starving;
	atomic_bool cut;  /* nothing more is kept */
	atomic_bool gone; /* spool_drop() */

	/* under spooler::lock */
	unsigned wishes;
	bool is_changed;
	struct strbuf put;
	struct spool *next_wished, *next_changed;

	/* the thread's */
	int file_fd;
	bool adopted, watched, finishing, rests, close_at_end;
	unsigned file_tries; /* in vain, in a row */
	uint64_t finish_at;  /* all that came before the command's end */
	struct spool *prev_adopted, *next_adopted, *next_resting;
};

/* spool.c: any thread */
uint64_t spool_charge(struct spool *spool, uint64_t want); /* how much of it the account gave */
void spool_uncharge(struct spool *spool, uint64_t bytes);
/* So many bytes were kept, of those charged. */
void spool_note_kept(struct spool *spool, uint64_t bytes);
void spool_note_dropped(struct spool *spool, uint64_t bytes);
/* What came so far is all that anybody awaits. */
void spool_note_end(struct spool *spool);
uint64_t spool_total(const struct spool *spool); /* all bytes that came so far */
/* The loop tells its listeners, soon. */
void spool_note_change(struct spool *spool);
void spool_free(struct spool *spool);

/* spool-file.c: the thread's */
/* -EAGAIN, when patient: the process has no descriptor or memory to spare just now. Another -errno:
 * it was given up. */
int spool_have_file(struct spool *spool, bool patient);
void spool_close_file(struct spool *spool); /* until it is needed again; harmless twice */
int spool_write_at(int fd, const char *bytes, size_t size, uint64_t at);
/* Nothing more is kept, because of that errno. */
void spool_give_up_file(struct spool *spool, int code);

/* spool-thread.c: asks the thread; a reference goes with it until it is done. Any thread. */
void spooler_wish(struct spool *spool, unsigned wishes);
/* Frees one that has a file and no reference, sooner or later. Any thread. */
void spool_remove(struct spool *spool);
int spooler_start(struct spooler *spooler, struct error *err);
void spooler_stop(struct spooler *spooler); /* harmless twice */

#endif
