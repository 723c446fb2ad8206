/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The spool thread: pipes into files. It may wait for the disk; whoever writes into a pipe waits
 * with it, nobody else. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "pool/spool-private.h"

enum {
	CHUNK = 64 * 1024,   /* what a pipe holds */
	CHUNKS_PER_TURN = 4, /* then others have their turn */
	EVENTS = 64,
	NOT_NOW = -2, /* of splicing: it starves */
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
	*ret_put = spool->put;
	strbuf_init(&spool->put);
	pthread_mutex_unlock(&spool->spooler->lock);
	return wishes;
}

/* ---- The file ---- */

static void give_up_file(struct spool *spool, int code)
{
	atomic_store(&spool->error, code);
	atomic_store(&spool->cut, true);
}

static int write_at(int fd, const char *bytes, size_t size, uint64_t at)
{
	while (size > 0) {
		ssize_t n = pwrite(fd, bytes, size, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		bytes += n;
		size -= (size_t)n;
		at += (uint64_t)n;
	}
	return 0;
}

/* What was kept in memory becomes the file's beginning. */
static int make_file(struct spool *spool)
{
	CLEANUP(closep)
	int fd = openat(spool->spooler->dir_fd, spool->name,
		O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r = fd < 0 ? -errno : 0;

	if (r == 0 && spool->head_size > 0)
		r = write_at(fd, spool->head, spool->head_size, 0);
	if (r < 0) {
		if (fd >= 0)
			(void)unlinkat(spool->spooler->dir_fd, spool->name, 0);
		return r;
	}
	pthread_mutex_lock(&spool->lock);
	atomic_store(&spool->has_file, true);
	free(take_ptr(&spool->head));
	pthread_mutex_unlock(&spool->lock);
	spool->file_fd = take_fd(&fd);
	return 0;
}

static int open_file(struct spool *spool)
{
	spool->file_fd =
		openat(spool->spooler->dir_fd, spool->name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	return spool->file_fd < 0 ? -errno : 0;
}

/* False: nothing can be kept. */
static bool have_file(struct spool *spool)
{
	int r = 0;

	if (atomic_load(&spool->cut))
		return false;
	if (spool->file_fd < 0)
		r = atomic_load(&spool->has_file) ? open_file(spool) : make_file(spool);
	if (r < 0)
		give_up_file(spool, -r);
	return r == 0;
}

static void close_file(struct spool *spool)
{
	closep(&spool->file_fd);
	spool->file_fd = -1;
}

/* ---- The pipe ---- */

static void pipe_ended(struct spool *spool)
{
	if (spool->watched)
		(void)epoll_ctl(spool->spooler->epoll_fd, EPOLL_CTL_DEL, spool->pipe_fd, NULL);
	spool->watched = false;
	closep(&spool->pipe_fd);
	spool->pipe_fd = -1;
	close_file(spool);
	atomic_store(&spool->pipe_closed, true);
}

/* No event of its pipe until it is told to go on. */
static void listen_to_pipe(struct spool *spool, bool on)
{
	struct epoll_event event = {.events = on ? EPOLLIN : 0, .data.ptr = spool};

	if (spool->pipe_fd < 0)
		return;
	if (epoll_ctl(spool->spooler->epoll_fd, spool->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD,
		    spool->pipe_fd, &event) < 0) { /* its writer must not wait for ever */
		give_up_file(spool, errno);
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
		give_up_file(spool, code);
		return drop(spool, size);
	}
	errno = code;
	return n;
}

static void starve(struct spool *spool)
{
	listen_to_pipe(spool, false);
	atomic_store(&spool->starving, true);
	spool_note_change(spool);
}

/* False when there is nothing more for now. */
static bool read_chunk(struct spool *spool)
{
	uint64_t before = spool_total(spool);
	size_t size = CHUNK;
	ssize_t n;

	if (spool->finishing && before < spool->finish_at && spool->finish_at - before < size)
		size = (size_t)(spool->finish_at - before);
	if (atomic_load(&spool->kept) < spool->max && have_file(spool))
		n = keep(spool, size);
	else
		n = drop(spool, size);
	if (n == NOT_NOW) {
		starve(spool);
		return false;
	}
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		pipe_ended(spool);
	return n > 0;
}

static void look_at_finish(struct spool *spool)
{
	if (!spool->finishing || atomic_load(&spool->finished))
		return;
	if (spool->pipe_fd >= 0 && spool_total(spool) < spool->finish_at)
		return;
	spool_note_end(spool);
}

/* A background process may write without end, and nobody awaits it: it must not keep us busy. */
static void rest(struct spool *spool)
{
	struct spooler *spooler = spool->spooler;

	if (spool->rests || spool->pipe_fd < 0)
		return;
	listen_to_pipe(spool, false);
	spool->rests = true;
	if (!spooler->resting)
		spooler->rest_until_ms = loop_now_ms() + SPOOL_REST_MS;
	spool->next_resting = spooler->resting;
	spooler->resting = spool_ref(spool);
}

static void end_rest(struct spooler *spooler)
{
	struct spool *spool = spooler->resting, *next;

	spooler->resting = NULL;
	for (; spool; spool = next) {
		next = spool->next_resting;
		spool->rests = false;
		listen_to_pipe(spool, true);
		spool_unref(spool);
	}
}

static void turn(struct spool *spool)
{
	bool late = atomic_load(&spool->finished);
	unsigned left = late ? 1 : CHUNKS_PER_TURN;

	while (left > 0 && spool->pipe_fd >= 0 && read_chunk(spool)) {
		left--;
		look_at_finish(spool);
	}
	look_at_finish(spool);
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
	listen_to_pipe(spool, true);
}

static void put(struct spool *spool, const struct strbuf *bytes)
{
	uint64_t kept = atomic_load(&spool->kept);
	uint64_t size = bytes->size;
	int r = strbuf_failed(bytes) ? -ENOMEM : 0;

	if (size > spool->max - kept)
		size = spool->max - kept;
	if (size > 0 && r == 0 && have_file(spool)) {
		size = spool_charge(spool, size);
		r = write_at(spool->file_fd, bytes->data, size, kept);
		if (r == 0)
			spool_note_kept(spool, size);
		else
			spool_uncharge(spool, size);
	} else {
		size = 0;
	}
	if (r < 0)
		give_up_file(spool, -r);
	spool_note_dropped(spool, bytes->size - (r < 0 ? 0 : size));
	if (spool->pipe_fd < 0)
		close_file(spool);
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
	look_at_finish(spool);
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
		listen_to_pipe(spool, true);
	if (wishes & SPOOL_FINISH)
		finish(spool);
	if ((wishes & SPOOL_CLOSE) && spool->pipe_fd >= 0)
		pipe_ended(spool);
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

static int start_thread(struct spooler *spooler, struct error *err)
{
	sigset_t all, before;
	int code;

	(void)sigfillset(&all); /* SIGXFSZ too: the write then says EFBIG */
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(&spooler->thread, NULL, run, spooler);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (code != 0)
		return error_errno(
			err, code, "cannot start the thread that keeps commands' output");
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
	end_rest(spooler);
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
