/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * spool.h: what a command writes, kept in a file from byte 0, for any number of readers.
 *
 *	spool_create() -> spool_open_pipe() -> spool_start() -> spool_finish() -> spool_unref()
 *
 * Bytes go from the pipe to the file by splice(2) on the spooler's own thread, since ext4 blocks a
 * splice while it writes back; the loop reads the pipe itself until more than SPOOL_HEAD bytes
 * have come, so that a command that says little costs no file, and the other thread only when its
 * pipe outlives it. A file is named in the spooler's directory and after the end held open only
 * while something comes; it goes with the last reference. Where no descriptor is left for it, its
 * writer waits, for some seconds.
 *
 * A stream keeps its first bytes: beyond its own cap, or when the account has nothing left, or when
 * the disk refuses, what comes is counted and dropped, for a command must never stall for it. Its
 * readers are at the end when spool_finish() has been called and done: what was in the pipe then
 * has been read. Whatever comes later, from background processes, is appended too, slowly, and
 * counted apart.
 *
 * Threads: loop, but for what says any thread.
 */
#ifndef POOL_SPOOL_H
#define POOL_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop.h"

struct error;
struct spool;
struct spool_account;
struct spooler;
struct strbuf;

enum {
	SPOOL_HEAD = 4096,  /* bytes of a stream that need no file */
	SPOOL_REST_MS = 50, /* between two reads, of 64 KiB, of what comes after the end */
};

/* Starts the thread. The directory is made where it is missing, 0700; what an earlier daemon left
 * in it is removed. */
int spooler_create(
	struct loop *loop, const char *dir, struct spooler **ret_spooler, struct error *err);
/* Ends the thread and removes every file. The loop must not be running; references that are left
 * may only be given back. Accepts NULL. */
void spooler_destroy(struct spooler *spooler);

/*
 * Bytes that all streams of one lease may keep together. When one of them needs more,
 * make_room(data, spool) is called on the loop while its writer waits: it removes others
 * (spool_drop()) and says whether it has; false cuts the stream here.
 */
typedef bool spool_make_room_fn(void *data, struct spool *spool);
int spool_account_create(uint64_t bytes, spool_make_room_fn *make_room, void *data,
	struct spool_account **ret_account, struct error *err);
/* make_room() is not called any more; streams are cut instead. Accepts NULL. */
void spool_account_close(struct spool_account *account);

/* An empty stream that keeps at most `max` bytes. One reference, the caller's. The account must not
 * be closed yet. */
int spool_create(struct spooler *spooler, struct spool_account *account, uint64_t max,
	struct spool **ret_spool, struct error *err);
struct spool *spool_ref(struct spool *spool); /* any thread */
void spool_unref(struct spool *spool);        /* any thread; accepts NULL */

/* Whoever hears of its changes: more bytes, the end of the pipe, the end of spool_finish(). Many
 * changes may be told as one; nothing is told within a call. Embedded by the listener, who stops it
 * before the last reference goes. */
struct spool_listener {
	loop_fn *changed;
	void *data;
	struct spool *spool; /* the spool's, as all below; NULL: it does not listen */
	uint64_t round;
	struct spool_listener *prev, *next;
};
void spool_listen(struct spool *spool, struct spool_listener *listener);
void spool_ignore(struct spool_listener *listener); /* harmless twice, and on a zeroed one */

/* Makes its pipe, of uid and gid, so that /dev/stdout can be opened inside; *ret_fd is the writer's
 * end. Nothing is read before spool_start(). */
int spool_open_pipe(struct spool *spool, uid_t uid, gid_t gid, int *ret_fd, struct error *err);
int spool_start(struct spool *spool, struct error *err);
/* Appends bytes of our own, behind what was read so far. */
void spool_put(struct spool *spool, const void *bytes, size_t size);
/* Reads what is in the pipe now, while it is the loop's to read. Tells nobody. */
void spool_read_now(struct spool *spool);
/* The command has ended: what is in the pipe now is its last, or less, where a process in the slot
 * takes of it. Done when spool_finished(), which may be at once. Twice is harmless. */
void spool_finish(struct spool *spool);
/* Closes the pipe, whoever still writes; after spool_finish(), when that is done. */
void spool_close_pipe(struct spool *spool);
/* Nobody will ask for it again: its bytes are the account's again, and what still comes is dropped.
 * Readers that are there may go on reading what there is. */
void spool_drop(struct spool *spool);

/* Whether every writer has closed the pipe, or there never was one. */
bool spool_pipe_closed(const struct spool *spool);
/* Any thread. After true nobody waits for more at the end. */
bool spool_finished(const struct spool *spool);

/* All bytes that had come when it finished, kept or dropped; 0 before. Any thread. */
uint64_t spool_end_size(const struct spool *spool);

/* kept + dropped = all bytes that came; late ones, those since it finished, are among both. */
struct spool_counts {
	uint64_t kept, dropped, late;
	int error; /* errno of the disk that made it drop; 0: none */
};
struct spool_counts spool_counts(const struct spool *spool); /* any thread */
uint64_t spool_size(const struct spool *spool);              /* bytes kept so far; any thread */
/* Unix seconds of its last byte, or of its making; any thread. */
double spool_changed_at(const struct spool *spool);

/* A reader, of its own thread at a time. It keeps the spool. */
struct spool_reader {
	struct spool *spool;
	int fd; /* -1: not opened yet */
};
struct spool_reader spool_reader(struct spool *spool);
void spool_reader_fini(struct spool_reader *reader); /* accepts NULL; harmless twice */
/*
 * Reads what there is at that offset, blocking on disk at most. 0: nothing there (yet): look at
 * spool_finished() *before* the read to tell which. -errno.
 */
ssize_t spool_read(struct spool_reader *reader, void *buffer, size_t size, uint64_t offset);
/* A file descriptor to read the same from, the reader's own, at the same offsets; -1: it has no
 * file, spool_read() alone knows. Same thread, same blocking. */
int spool_reader_fd(struct spool_reader *reader);
/* Whether a read of all it has needs no disk. */
bool spool_in_memory(const struct spool *spool);
/* Appends the first `size` bytes. -errno. */
int spool_read_head(struct spool *spool, size_t size, struct strbuf *out);

#endif
