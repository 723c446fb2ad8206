/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The spool thread: pipes into files. It may wait for the disk; whoever writes into a pipe waits
 * with it, nobody else. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/thread.h"
#include "pool/spool-private.h"

enum {
	CHUNK = 64 * 1024,   /* what a pipe holds */
	CHUNKS_PER_TURN = 4, /* then others have their turn */
	EVENTS = 64,
	NOT_NOW = -2, /* of splicing: it starves */
};

enum came {
	SOME,
	NONE,  /* the pipe is empty */
	LATER, /* it starves, or rests */
	ENDED, /* every writer is gone */
};

/* ---- What the loop wants ---- */

static void wake(const struct spooler *spooler)
{
	const uint64_t one = 1;

	(void)!write(spooler->wake_fd, &one, sizeof(one));
}

void spooler_wish(struct spool *spool, unsigned wishes)
{
	struct spooler *spooler = spool->spooler;
	bool first = false;

	pthread_mutex_lock(&spooler->lock);
	if (!spool->wishes) {
		first = !spooler->wished;
		if (!(wishes & SPOOL_REMOVE)) /* the last one is given back by then */
			(void)spool_ref(spool);
		spool->next_wished = NULL;
		*spooler->wished_last = spool;
		spooler->wished_last = &spool->next_wished;
	}
	spool->wishes |= wishes;
	pthread_mutex_unlock(&spooler->lock);
	if (first)
		wake(spooler);
}

static struct spool *take_wished(struct spooler *spooler, bool *ret_stop)
{
	struct spool *wished;

	pthread_mutex_lock(&spooler->lock);
	wished = spooler->wished;
	spooler->wished = NULL;
	spooler->wished_last = &spooler->wished;
	*ret_stop = spooler->stopping;
	pthread_mutex_unlock(&spooler->lock);
	return wished;
}

static unsigned take_wishes(struct spool *spool, struct strbuf *ret_put)
{
	unsigned wishes;

	pthread_mutex_lock(&spool->spooler->lock);
	wishes = spool->wishes;
	spool->wishes = 0;
	if (wishes & SPOOL_PUT) { /* others may have come before that of bytes just put */
		*ret_put = spool->put;
		strbuf_init(&spool->put);
	}
	pthread_mutex_unlock(&spool->spooler->lock);
	return wishes;
}

/* ---- The pipe ---- */

static void ignore_pipe(struct spool *spool)
{
	if (spool->watched)
		(void)epoll_ctl(spool->spooler->epoll_fd, EPOLL_CTL_DEL, spool->pipe_fd, NULL);
	spool->watched = false;
}

static void pipe_ended(struct spool *spool)
{
	ignore_pipe(spool);
	closep(&spool->pipe_fd);
	spool->pipe_fd = -1;
	spool_close_file(spool);
	atomic_store(&spool->pipe_closed, true);
}

/* Until ignore_pipe(), which no mask could replace: a hang-up is always told. */
static void listen_to_pipe(struct spool *spool)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = spool};

	if (spool->pipe_fd < 0 || spool->watched || spool->rests)
		return;
	if (epoll_ctl(spool->spooler->epoll_fd, EPOLL_CTL_ADD, spool->pipe_fd, &event) <
		0) { /* its writer must not wait for ever */
		spool_give_up_file(spool, errno);
		pipe_ended(spool);
		return;
	}
	spool->watched = true;
}

static ssize_t drop(struct spool *spool, size_t size)
{
	ssize_t n = splice(
		spool->pipe_fd, NULL, spool->spooler->null_fd, NULL, size, SPLICE_F_NONBLOCK);

	if (n > 0)
		spool_note_dropped(spool, (uint64_t)n);
	return n;
}

static ssize_t keep(struct spool *spool, size_t size)
{
	uint64_t kept = atomic_load(&spool->kept);
	loff_t at = (loff_t)kept;
	ssize_t n;
	int code;

	if (size > spool->max - kept)
		size = (size_t)(spool->max - kept);
	size = (size_t)spool_charge(spool, size);
	if (size == 0)
		return NOT_NOW;
	n = splice(spool->pipe_fd, NULL, spool->file_fd, &at, size, SPLICE_F_NONBLOCK);
	code = errno;
	spool_uncharge(spool, size - (n > 0 ? (size_t)n : 0));
	if (n > 0)
		spool_note_kept(spool, (uint64_t)n);
	if (n < 0 && code != EAGAIN && code != EINTR) {
		spool_give_up_file(spool, code);
		return drop(spool, size);
	}
	errno = code;
	return n;
}

/* An end without a byte shall not cost a file. */
static enum came look_into_pipe(const struct spool *spool)
{
	struct pollfd poll_fd = {.fd = spool->pipe_fd, .events = POLLIN};
	int there = 0;

	if (poll(&poll_fd, 1, 0) < 0 || (poll_fd.revents & POLLIN))
		return SOME;
	if (!(poll_fd.revents & (POLLHUP | POLLERR)))
		return NONE;
	(void)ioctl(spool->pipe_fd, FIONREAD, &there); /* the last writer's, of just now */
	return there > 0 ? SOME : ENDED;
}

static enum came starve(struct spool *spool)
{
	enum came came = look_into_pipe(spool);

	if (came != SOME) /* it needs no room then, and nobody has to go */
		return came;
	ignore_pipe(spool);
	atomic_store(&spool->starving, true);
	spool_note_change(spool);
	return LATER;
}

/* For some milliseconds nothing of its pipe is read, and its file not held open. */
static void rest(struct spool *spool)
{
	struct spooler *spooler = spool->spooler;

	if (spool->rests || spool->pipe_fd < 0)
		return;
	ignore_pipe(spool);
	spool_close_file(spool);
	spool->rests = true;
	if (!spooler->resting)
		spooler->rest_until_ms = loop_now_ms() + SPOOL_REST_MS;
	spool->next_resting = spooler->resting;
	spooler->resting = spool_ref(spool);
}

/* Whether the command has ended and not all is read that it left in the pipe. */
static bool is_finishing(const struct spool *spool)
{
	return spool->finishing && !atomic_load(&spool->finished);
}

static bool may_keep(const struct spool *spool)
{
	return !atomic_load(&spool->cut) && atomic_load(&spool->kept) < spool->max;
}

/* SOME: there is one, or nothing will be kept. */
static enum came prepare_file(struct spool *spool)
{
	enum came came;

	if (!may_keep(spool) || spool->file_fd >= 0)
		return SOME;
	came = look_into_pipe(spool);
	if (came == SOME && spool_have_file(spool, true) == -EAGAIN) {
		rest(spool);
		return LATER;
	}
	return came;
}

static enum came move_chunk(struct spool *spool)
{
	uint64_t before = spool_total(spool);
	size_t size = CHUNK;
	ssize_t n;

	if (is_finishing(spool) && spool->finish_at - before < size)
		size = (size_t)(spool->finish_at - before);
	n = may_keep(spool) ? keep(spool, size) : drop(spool, size);
	if (n == NOT_NOW)
		return starve(spool);
	if (n < 0 && errno == EAGAIN)
		return NONE;
	return n > 0 || (n < 0 && errno == EINTR) ? SOME : ENDED;
}

static enum came read_chunk(struct spool *spool)
{
	enum came came = prepare_file(spool);

	if (came == SOME)
		came = move_chunk(spool);
	if (came == ENDED)
		pipe_ended(spool);
	else if (came == NONE && is_finishing(spool))
		spool->finish_at = spool_total(spool); /* somebody else has read the rest */
	return came;
}

static void look_at_finish(struct spool *spool)
{
	if (!is_finishing(spool))
		return;
	if (spool->pipe_fd >= 0 && spool_total(spool) < spool->finish_at)
		return;
	spool_close_file(spool); /* what comes now is rare */
	spool_note_end(spool);
	if (spool->close_at_end && spool->pipe_fd >= 0)
		pipe_ended(spool);
}

/* What a command left in its pipe is no more than the pipe holds. It is read without waiting for an
 * event, for none would come if a process of the slot took it out. */
static void read_last(struct spool *spool)
{
	enum came came = SOME;

	look_at_finish(spool);
	while (is_finishing(spool) && came == SOME) {
		came = read_chunk(spool);
		look_at_finish(spool);
	}
}

static void go_on(struct spool *spool)
{
	listen_to_pipe(spool);
	read_last(spool);
}

static void turn(struct spool *spool)
{
	bool late = atomic_load(&spool->finished);
	unsigned left = late ? 1 : CHUNKS_PER_TURN;

	while (left > 0 && spool->pipe_fd >= 0 && read_chunk(spool) == SOME) {
		left--;
		look_at_finish(spool);
	}
	look_at_finish(spool);
	/* A background process may write without end, and nobody awaits it. */
	if (late)
		rest(spool);
	spool_note_change(spool);
}

/* ---- Wishes ---- */

static void adopt(struct spool *spool)
{
	if (spool->pipe_fd < 0)
		return;
	spool->adopted = true;
	(void)spool_ref(spool); /* the macro below would do it many times */
	DL_APPEND2(spool->spooler->adopted, spool, prev_adopted, next_adopted);
	listen_to_pipe(spool);
}

static void put(struct spool *spool, const struct strbuf *bytes)
{
	uint64_t kept = atomic_load(&spool->kept);
	uint64_t size = bytes->size;
	int r = strbuf_failed(bytes) ? -ENOMEM : 0;

	if (size > spool->max - kept)
		size = spool->max - kept;
	if (size > 0 && r == 0 && !atomic_load(&spool->cut))
		r = spool_have_file(spool, false);
	if (size > 0 && r == 0 && !atomic_load(&spool->cut)) {
		size = spool_charge(spool, size);
		r = spool_write_at(spool->file_fd, bytes->data, size, kept);
		if (r == 0)
			spool_note_kept(spool, size);
		else
			spool_uncharge(spool, size);
	} else {
		size = 0;
	}
	if (r < 0)
		spool_give_up_file(spool, -r);
	spool_note_dropped(spool, bytes->size - (r < 0 ? 0 : size));
	if (spool->pipe_fd < 0 || spool->finishing)
		spool_close_file(spool);
}

static void finish(struct spool *spool)
{
	int there = 0;

	if (spool->pipe_fd >= 0)
		(void)ioctl(spool->pipe_fd, FIONREAD, &there);
	spool->finishing = true;
	spool->finish_at = spool_total(spool);
	if (there > 0 && !atomic_load(&spool->finished))
		spool->finish_at += (uint64_t)there;
	read_last(spool);
}

/* But what the command left in it is read first. */
static void close_pipe(struct spool *spool)
{
	if (is_finishing(spool))
		spool->close_at_end = true;
	else if (spool->pipe_fd >= 0)
		pipe_ended(spool);
}

static void remove_spool(struct spool *spool)
{
	(void)unlinkat(spool->spooler->dir_fd, spool->name, 0);
	spool_free(spool);
}

/* The pipe's own reference goes with it. */
static void forget_pipe(struct spool *spool)
{
	if (!spool->adopted || spool->pipe_fd >= 0)
		return;
	spool->adopted = false;
	DL_DELETE2(spool->spooler->adopted, spool, prev_adopted, next_adopted);
	spool_unref(spool);
}

static void end_rest(struct spooler *spooler)
{
	struct spool *spool = spooler->resting, *next;

	spooler->resting = NULL;
	for (; spool; spool = next) {
		next = spool->next_resting;
		spool->rests = false;
		go_on(spool);
		spool_note_change(spool);
		forget_pipe(spool);
		spool_unref(spool);
	}
}

static void serve_wish(struct spool *spool)
{
	CLEANUP(strbuf_fini) struct strbuf bytes = STRBUF_INIT;
	unsigned wishes = take_wishes(spool, &bytes);

	if (wishes & SPOOL_REMOVE) {
		remove_spool(spool);
		return;
	}
	if (wishes & SPOOL_ADOPT)
		adopt(spool);
	if (wishes & SPOOL_PUT)
		put(spool, &bytes);
	if (wishes & SPOOL_GO_ON)
		go_on(spool);
	if (wishes & SPOOL_FINISH)
		finish(spool);
	if (wishes & SPOOL_CLOSE)
		close_pipe(spool);
	look_at_finish(spool);
	spool_note_change(spool);
	forget_pipe(spool);
	spool_unref(spool);
}

/* False: the thread's end has come. */
static bool serve_wishes(struct spooler *spooler)
{
	struct spool *spool, *next;
	bool stop;

	for (spool = take_wished(spooler, &stop); spool; spool = next) {
		next = spool->next_wished;
		serve_wish(spool);
	}
	return !stop;
}

static void serve_pipes(struct spooler *spooler, const struct epoll_event *events, int count)
{
	for (int i = 0; i < count; i++) {
		struct spool *spool = events[i].data.ptr;
		uint64_t n;

		if (!spool) {
			(void)!read(spooler->wake_fd, &n, sizeof(n));
			continue;
		}
		if (spool->pipe_fd < 0)
			continue;
		turn(spool);
		forget_pipe(spool);
	}
}

static int patience_ms(const struct spooler *spooler)
{
	uint64_t now = loop_now_ms();

	if (!spooler->resting)
		return -1;
	return spooler->rest_until_ms > now ? (int)(spooler->rest_until_ms - now) : 0;
}

static void *run(void *data)
{
	struct spooler *spooler = data;
	struct epoll_event events[EVENTS];

	while (serve_wishes(spooler)) {
		int count = epoll_wait(spooler->epoll_fd, events, EVENTS, patience_ms(spooler));

		serve_pipes(spooler, events, count);
		if (spooler->resting && loop_now_ms() >= spooler->rest_until_ms)
			end_rest(spooler);
	}
	return NULL;
}

/* ---- Its beginning and end ---- */

/* No signal reaches it: not SIGXFSZ either, so that the write says EFBIG. */
static int start_thread(struct spooler *spooler, struct error *err)
{
	int r = thread_start(&spooler->thread, run, spooler);

	if (r < 0)
		return error_errno(err, -r, "cannot start the thread that keeps commands' output");
	spooler->running = true;
	return 0;
}

int spooler_start(struct spooler *spooler, struct error *err)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

	spooler->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	spooler->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	spooler->null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (spooler->epoll_fd < 0 || spooler->wake_fd < 0 || spooler->null_fd < 0 ||
		epoll_ctl(spooler->epoll_fd, EPOLL_CTL_ADD, spooler->wake_fd, &event) < 0)
		return error_errno(err, errno, "cannot prepare to keep commands' output");
	return start_thread(spooler, err);
}

/* Wishes that came too late. */
static void forget_wishes(struct spooler *spooler)
{
	struct spool *spool, *next;
	bool stop;

	for (spool = take_wished(spooler, &stop); spool; spool = next) {
		next = spool->next_wished;
		if (spool->wishes & SPOOL_REMOVE)
			remove_spool(spool);
		else
			spool_unref(spool);
	}
}

static void forget_rests(struct spooler *spooler)
{
	struct spool *next;

	for (struct spool *spool = take_ptr(&spooler->resting); spool; spool = next) {
		next = spool->next_resting;
		spool_unref(spool);
	}
}

void spooler_stop(struct spooler *spooler)
{
	struct spool *spool, *next;

	if (!spooler->running)
		return;
	pthread_mutex_lock(&spooler->lock);
	spooler->stopping = true;
	pthread_mutex_unlock(&spooler->lock);
	wake(spooler);
	(void)pthread_join(spooler->thread, NULL);
	spooler->running = false;
	atomic_store(&spooler->stopped, true);
	forget_rests(spooler);
	DL_FOREACH_SAFE2(spooler->adopted, spool, next, next_adopted)
	{
		pipe_ended(spool);
		spool_unref(spool);
	}
	forget_wishes(spooler);
}

void spool_remove(struct spool *spool)
{
	if (atomic_load(&spool->spooler->stopped))
		remove_spool(spool);
	else
		spooler_wish(spool, SPOOL_REMOVE);
}
