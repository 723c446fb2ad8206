/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pool-private.h: what the files of the pool share. Who does what:
 *
 *	pool.c        the pool as a whole: create, start, stop, views
 *	lending.c     the queue, lending and giving back
 *	pool-net.c    the slots' network, made; URLs of ports
 *	slot-cycle.c  one slot's way through its states; the only writer of slot::state
 *	slot-run.c    commands in a lent slot
 *	slot-notes.c  what is remembered of a slot for whoever looks
 *	supervisor.c  signs of life, deadlines, and when a slot that broke is tried again
 *	leftovers.c   what an earlier daemon left
 *	slot-storage.c  whether a slot's tmpfs is full
 *	slot-limits-facts.c  what limits a slot, for whoever shows it
 *	slot-isolation.c  what isolates it
 *
 * Threads: loop.
 */
#ifndef POOL_POOL_PRIVATE_H
#define POOL_POOL_PRIVATE_H

#include "base/error.h"
#include "base/loop.h"
#include "base/operation.h"
#include "base/strbuf.h"
#include "pool/pool.h"
#include "pool/queue.h"

struct bubble;
struct bubble_kit;
struct cgroups;
struct limits;
struct loan_request;
struct net;
struct run;
struct slot_cgroup;
struct slot_limits;
struct slot_net;
struct trash;

enum {
	RANDOM_WORD = 33,       /* 16 random bytes in hex */
	STOP_CGROUPS_MS = 5000, /* a stop waits so long for the cgroups to be empty */
	LEFTOVER_KILL_MS = 5000,
	/* Commands of a slot at once: each holds up to seven descriptors of ours, the pipes of its
	 * input and outputs, the files of what it has said, and two of its cgroup. */
	RUNS_MAX = 256,
	/* Ended ones whose pipes background processes still hold: four each. */
	LATE_RUNS_MAX = 256,
};

/* Milliseconds. Always POOL_TIMES, but in a test that cannot wait so long. */
struct pool_times {
	uint64_t start_timeout; /* of one slot */
	uint64_t slow_start;    /* after which others may start beside it */
	uint64_t step_deadline; /* a kill, or work on directories, is then said to be stuck */
	uint64_t stop_slots;    /* a stop waits so long for the slots' end */
	uint64_t stop_trash;    /* and then for what they left to be removed */
	uint64_t ping_deadline; /* long: a command may have taken the machine */
	uint64_t tick;          /* between the supervisor's looks */
	unsigned ping_every;    /* at each it pings one slot of so many */
};

#define POOL_TIMES                                                                                 \
	((struct pool_times){.start_timeout = 30000,                                               \
		.slow_start = 3000,                                                                \
		.step_deadline = 10000,                                                            \
		.stop_slots = 15000,                                                               \
		.stop_trash = 30000,                                                               \
		.ping_deadline = 30000,                                                            \
		.tick = 1000,                                                                      \
		.ping_every = 10})

struct pool {
	struct loop *loop;
	const struct config *config;
	struct journal *journal;
	struct events *events;
	struct pool_hooks hooks;
	struct bubble_kit *kit;
	struct cgroups *cgroups;    /* NULL: none */
	struct error cgroups_error; /* why */
	struct limits *limits;
	struct trash *trash;
	bool trash_waits; /* for the starts under way, a second at most */
	struct net *net;
	char *slots_dir, *trash_dir; /* absolute */
	int slots_fd;                /* locked */
	char run_id[RANDOM_WORD];
	struct slot **slots;
	unsigned slot_count;
	struct loop_timer *turn; /* at the next turn of the loop: see pool_wake() */

	struct queue queue;       /* of struct loan_request */
	unsigned impatient_count; /* of those in the queue that do not wait */
	unsigned former_count;    /* slots with a former holder */
	struct loan_request *finished, **finished_last;
	bool draining;

	struct slot *start_first, **start_last; /* slots whose turn to start has not come */
	unsigned starting_count, starting_max;  /* that have a turn; so many at most */
	unsigned overdue_count, overdue_max;    /* that have lost theirs and still start */
	struct pool_times times;
	struct prepare *preparing; /* work under way; see slot-cycle.c */
	struct work_gate *gate;
	pool_done_fn *started;
	void *started_data;
	struct loop_timer *start_timer;
	unsigned start_failures;  /* slots whose first start failed */
	struct error start_error; /* of the first of them */

	bool stopping, gave_up_slots, awaiting_cgroups, clearing_trash;
	pool_done_fn *stopped;
	void *stopped_data;
	struct loop_timer *stop_timer;
	struct error stop_error;

	struct loop_timer *ping_timer;
	unsigned ping_turn;
	uint64_t tick_ms; /* of the supervisor's last look */
};

/* slot-notes.c: for whoever looks at a slot. */
struct slot_notes {
	uint64_t start_ms, reset_ms;        /* when what is under way began; 0: nothing is */
	struct strbuf logs[SLOT_LOG_COUNT]; /* zeroed: nothing was said */
};

struct slot {
	struct pool *pool;
	unsigned number;
	char name[16]; /* "0003" */
	uint32_t generation;
	enum slot_state state;
	double since;
	char *dir;
	uid_t uid; /* on the host; of a range, the first */
	gid_t gid;
	uid_t user_uid; /* of commands; uid, unless it has a range */
	gid_t user_gid;
	char token[RANDOM_WORD];

	struct bubble *bubble;      /* NULL: none, or not yet */
	struct slot_cgroup *cgroup; /* lives as long as the bubble */
	struct slot_limits *limits; /* the same */
	struct slot_net *net;
	bool booted;      /* the bubble is READY and not known to be dead */
	bool in_turn;     /* counted in pool::starting_count */
	bool overdue;     /* counted in pool::overdue_count instead */
	uint64_t turn_ms; /* when its turn began */
	uint64_t step_ms; /* when a step began that has a deadline; 0: none */
	bool step_said;   /* that it is late */
	bool preparing;   /* its directories are being made */
	bool waits_for_turn;
	bool tried; /* its first start has succeeded or failed */
	struct slot *next_start;

	unsigned image;                    /* 0: the default; n: the n-th of [images] */
	unsigned started_image;            /* what the bubble has */
	struct loan_request *reserved_for; /* gets it as soon as it has that image */
	char *holder;                      /* NULL: not lent */
	char *former;                      /* whose it was, until it is READY again */
	enum reason end_reason;            /* told to commands that are cut off */
	struct run *runs, *runs_last;
	unsigned run_count, late_runs; /* in the list; of them ended */

	struct error last_error;
	bool ping_pending;
	uint64_t last_pong_ms;
	double last_pong_at;   /* the same in Unix seconds */
	uint64_t ready_ms;     /* 0: not since the last failure */
	struct error kill_why; /* code != 0: we killed it for this */
	unsigned failures;     /* in a row */
	struct loop_timer *retry;
	struct slot_notes notes;
};

/* pool.c */
void pool_wake(struct pool *pool); /* at the next turn of the loop: serves the queue, tells who
				      waits for start or stop */
void random_word(char word[RANDOM_WORD]);

/* pool-net.c: the network of all slots, before any starts */
int pool_open_net(struct pool *pool, struct error *err);

/* lending.c */
void lending_serve(struct pool *pool);
void slot_forget_former(struct slot *slot);
/* It did not start: with an image it is not tried again, and who waited for it hears why. */
void slot_forget_image(struct slot *slot, const struct error *why);
void lending_destroy(struct pool *pool);

/* slot-cycle.c */
int slot_cycle_init(struct pool *pool, struct error *err);
void slot_cycle_fini(struct pool *pool);
/* If there may be anything in it. */
void slot_cycle_empty_trash(struct pool *pool);
/* Moves the slot by the table, tells events, journal and hooks. False, and nothing else, when there
 * is no such move. */
bool slot_step(struct slot *slot, enum slot_event event, enum reason reason);
/* The slot starts when its turn comes: from EMPTY, FAILED, DEAD or RESETTING. */
void slot_want_start(struct slot *slot);
/* Kills it; its commands are cut off with this reason. */
void slot_begin_release(struct slot *slot, enum reason reason);
/* Kills what lives, clears what is dead; ends in EMPTY. */
void slot_begin_stop(struct slot *slot);
/* It has just given a sign of life. */
void slot_note_life(struct slot *slot);
/* SIGKILL to its init, whose death has a deadline from now on. */
void slot_kill(struct slot *slot);
/* Its start takes so long that others may start meanwhile; no change when too many do already. */
void slot_lose_turn(struct slot *slot);

/* slot-run.c */
void runs_serve(struct pool *pool);
/* The slot is dead: ends what runs, forgets what lingers. */
void runs_abandon(struct slot *slot, enum reason reason);
void runs_destroy(struct pool *pool);

/* slot-storage.c */
/* Its tmpfs has no room for a byte, or a file, more. False where its files are in directories. */
bool slot_storage_is_full(const struct slot *slot);

/* slot-notes.c: the slot has just left that state */
void slot_note_step(struct slot *slot, enum slot_state from);
/* A line for its log, from the bubble or of our own. */
void slot_note(struct slot *slot, enum slot_log which, const char *line);
void slot_notes_fini(struct slot_notes *notes);

/* supervisor.c */
int supervisor_start(struct pool *pool, struct error *err);
void supervisor_stop(struct pool *pool);
/* Tries a slot that broke again, later. */
void supervisor_retry(struct slot *slot);
/* Milliseconds before the n-th try (from 1); random is any number. Pure. */
uint64_t supervisor_backoff_ms(unsigned failures, uint32_t random);

/* leftovers.c */
int leftovers_clear(struct pool *pool, struct error *err);

#endif
