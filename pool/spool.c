/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The loop's side of spools, and what any thread may do with one. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utlist.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "pool/pipe.h"
#include "pool/spool-private.h"

/* ---- Accounts ---- */

int spool_account_create(uint64_t bytes, spool_make_room_fn *make_room, void *data,
	struct spool_account **ret_account, struct error *err)
{
	struct spool_account *account = calloc(1, sizeof(*account));

	if (!account)
		return error_set(err, ENOMEM, "no memory for the output of commands");
	account->refs = 1;
	account->left = bytes;
	account->make_room = make_room;
	account->data = data;
	*ret_account = account;
	return 0;
}

static void account_unref(struct spool_account *account)
{
	if (account && atomic_fetch_sub(&account->refs, 1) == 1)
		free(account);
}

void spool_account_close(struct spool_account *account)
{
	if (!account)
		return;
	account->make_room = NULL;
	account_unref(account);
}

uint64_t spool_charge(struct spool *spool, uint64_t want)
{
	uint64_t left = atomic_load(&spool->account->left), got;

	do
		got = left < want ? left : want;
	while (!atomic_compare_exchange_weak(&spool->account->left, &left, left - got));
	return got;
}

void spool_uncharge(struct spool *spool, uint64_t bytes)
{
	atomic_fetch_add(&spool->account->left, bytes);
}

/* ---- What came of the bytes ---- */

static void note_time(struct spool *spool)
{
	atomic_store(&spool->changed_us, (uint64_t)(unix_now() * 1e6));
}

void spool_note_kept(struct spool *spool, uint64_t bytes)
{
	note_time(spool);
	atomic_fetch_add(&spool->charged, bytes);
	atomic_fetch_add(&spool->kept, bytes);
	if (atomic_load(&spool->gone)) /* since it was charged */
		spool_uncharge(spool, atomic_exchange(&spool->charged, 0));
}

void spool_note_dropped(struct spool *spool, uint64_t bytes)
{
	note_time(spool);
	atomic_fetch_add(&spool->dropped, bytes);
}

uint64_t spool_total(const struct spool *spool)
{
	return atomic_load(&spool->kept) + atomic_load(&spool->dropped);
}

void spool_note_end(struct spool *spool)
{
	atomic_store(&spool->end_size, spool_total(spool));
	atomic_store(&spool->finished, true);
}

void spool_note_change(struct spool *spool)
{
	struct spooler *spooler = spool->spooler;
	bool post = false;

	pthread_mutex_lock(&spooler->lock);
	if (!spool->is_changed) {
		spool->is_changed = true;
		spool->next_changed = NULL;
		*spooler->changed_last = spool_ref(spool);
		spooler->changed_last = &spool->next_changed;
		post = !spooler->posted;
		spooler->posted = true;
	}
	pthread_mutex_unlock(&spooler->lock);
	if (post)
		loop_post(spooler->loop, &spooler->task);
}

static struct spool *take_changed(struct spooler *spooler)
{
	struct spool *changed;

	pthread_mutex_lock(&spooler->lock);
	changed = spooler->changed;
	spooler->changed = NULL;
	spooler->changed_last = &spooler->changed;
	spooler->posted = false;
	pthread_mutex_unlock(&spooler->lock);
	return changed;
}

/* It may change again from now on, and be in the other list. */
static struct spool *next_changed(struct spool *spool)
{
	struct spool *next;

	pthread_mutex_lock(&spool->spooler->lock);
	next = spool->next_changed;
	spool->is_changed = false;
	pthread_mutex_unlock(&spool->spooler->lock);
	return next;
}

/* A listener may stop itself or another. */
static struct spool_listener *next_untold(const struct spool *spool)
{
	struct spool_listener *listener;

	DL_FOREACH (spool->listeners, listener)
		if (listener->round != spool->round)
			return listener;
	return NULL;
}

static void tell_listeners(struct spool *spool)
{
	struct spool_listener *listener;

	(void)spool_ref(spool);
	spool->round++;
	while ((listener = next_untold(spool))) {
		listener->round = spool->round;
		listener->changed(listener->data);
	}
	spool_unref(spool);
}

static void make_room(struct spool *spool)
{
	struct spool_account *account = spool->account;

	if (!atomic_load(&spool->starving))
		return;
	atomic_store(&spool->starving, false);
	/* Another, that starved with it, may have made room for both. */
	if (atomic_load(&account->left) == 0 &&
		(!account->make_room || !account->make_room(account->data, spool)))
		atomic_store(&spool->cut, true);
	spooler_wish(spool, SPOOL_GO_ON);
}

static void handle_changed(void *data)
{
	struct spool *spool = take_changed(data), *next;

	for (; spool; spool = next) {
		next = next_changed(spool);
		make_room(spool);
		tell_listeners(spool);
		spool_unref(spool);
	}
}

/* ---- The spooler ---- */

static void remove_files(int dir_fd)
{
	CLEANUP(closedirp) DIR *dir = NULL;
	struct dirent *entry;
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		dir = fdopendir(fd);
	if (!dir && fd >= 0)
		(void)close(fd);
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			(void)unlinkat(dir_fd, entry->d_name, 0);
}

static void spooler_unref(struct spooler *spooler)
{
	if (!spooler || atomic_fetch_sub(&spooler->refs, 1) != 1)
		return;
	closep(&spooler->dir_fd);
	closep(&spooler->epoll_fd);
	closep(&spooler->wake_fd);
	closep(&spooler->null_fd);
	pthread_mutex_destroy(&spooler->lock);
	free(spooler->dir);
	free(spooler);
}

void spooler_destroy(struct spooler *spooler)
{
	struct spool *next;

	if (!spooler)
		return;
	spooler_stop(spooler);
	loop_unpost(spooler->loop, &spooler->task);
	for (struct spool *spool = take_changed(spooler); spool; spool = next) {
		next = next_changed(spool);
		spool_unref(spool);
	}
	if (spooler->dir_fd >= 0) {
		remove_files(spooler->dir_fd);
		(void)rmdir(spooler->dir);
	}
	spooler_unref(spooler);
}

static int open_dir(struct spooler *spooler, struct error *err)
{
	if (mkdir(spooler->dir, 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "cannot make '%s'", spooler->dir);
	spooler->dir_fd = open(spooler->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (spooler->dir_fd < 0)
		return error_errno(err, errno, "cannot open '%s'", spooler->dir);
	remove_files(spooler->dir_fd);
	return 0;
}

int spooler_create(
	struct loop *loop, const char *dir, struct spooler **ret_spooler, struct error *err)
{
	struct spooler *spooler = calloc(1, sizeof(*spooler));
	int r;

	if (!spooler)
		return error_set(err, ENOMEM, "no memory for the output of commands");
	spooler->refs = 1;
	spooler->loop = loop;
	spooler->dir_fd = spooler->epoll_fd = spooler->wake_fd = spooler->null_fd = -1;
	spooler->wished_last = &spooler->wished;
	spooler->changed_last = &spooler->changed;
	spooler->task = (struct loop_task){.fn = handle_changed, .data = spooler};
	pthread_mutex_init(&spooler->lock, NULL);
	spooler->dir = strdup(dir);
	r = spooler->dir ? open_dir(spooler, err) : error_set(err, ENOMEM, "no memory for a path");
	if (r == 0)
		r = spooler_start(spooler, err);
	if (r < 0) {
		spooler_unref(spooler);
		return r;
	}
	*ret_spooler = spooler;
	return 0;
}

/* ---- A spool ---- */

int spool_create(struct spooler *spooler, struct spool_account *account, uint64_t max,
	struct spool **ret_spool, struct error *err)
{
	struct spool *spool = calloc(1, sizeof(*spool));

	if (!spool)
		return error_set(err, ENOMEM, "no memory for the output of a command");
	spool->refs = 1;
	spool->spooler = spooler;
	atomic_fetch_add(&spooler->refs, 1);
	spool->account = account;
	atomic_fetch_add(&account->refs, 1);
	(void)snprintf(spool->name, sizeof(spool->name), "%" PRIu64, ++spooler->names);
	spool->max = max;
	spool->pipe_fd = spool->file_fd = -1;
	spool->pipe_closed = true;
	strbuf_init(&spool->put);
	pthread_mutex_init(&spool->lock, NULL);
	note_time(spool);
	*ret_spool = spool;
	return 0;
}

struct spool *spool_ref(struct spool *spool)
{
	atomic_fetch_add(&spool->refs, 1);
	return spool;
}

void spool_free(struct spool *spool)
{
	closep(&spool->pipe_fd);
	closep(&spool->file_fd);
	if (!atomic_load(&spool->gone))
		spool_uncharge(spool, atomic_load(&spool->charged));
	account_unref(spool->account);
	spooler_unref(spool->spooler);
	pthread_mutex_destroy(&spool->lock);
	strbuf_fini(&spool->put);
	free(spool->head);
	free(spool);
}

/* A large file takes its time to go: that is the thread's to wait for. */
void spool_unref(struct spool *spool)
{
	if (!spool || atomic_fetch_sub(&spool->refs, 1) != 1)
		return;
	if (atomic_load(&spool->has_file))
		spool_remove(spool);
	else
		spool_free(spool);
}

void spool_listen(struct spool *spool, struct spool_listener *listener)
{
	listener->round = spool->round;
	listener->spool = spool;
	DL_APPEND(spool->listeners, listener);
}

void spool_ignore(struct spool_listener *listener)
{
	if (!listener->spool)
		return;
	DL_DELETE(listener->spool->listeners, listener);
	listener->spool = NULL;
}

/* ---- Its pipe, while it is the loop's ---- */

static void stop_watching(struct spool *spool)
{
	loop_watch_stop(take_ptr(&spool->watch));
}

/* Many are kept, and most say little. */
static void shrink_head(struct spool *spool)
{
	char *smaller;

	pthread_mutex_lock(&spool->lock);
	if (spool->head_size == 0) {
		free(take_ptr(&spool->head));
		spool->head_room = 0;
	} else if ((smaller = realloc(spool->head, spool->head_size))) {
		spool->head = smaller;
		spool->head_room = spool->head_size;
	}
	pthread_mutex_unlock(&spool->lock);
}

static void pipe_ended(struct spool *spool)
{
	stop_watching(spool);
	closep(&spool->pipe_fd);
	spool->pipe_fd = -1;
	shrink_head(spool);
	atomic_store(&spool->pipe_closed, true);
}

static void hand_over(struct spool *spool, unsigned wishes)
{
	stop_watching(spool);
	spool->handed_over = true;
	spooler_wish(spool, SPOOL_ADOPT | wishes);
}

static bool make_head(struct spool *spool)
{
	char *head;

	if (spool->head)
		return true;
	head = malloc(SPOOL_HEAD);
	if (!head)
		return false;
	pthread_mutex_lock(&spool->lock);
	spool->head = head;
	spool->head_room = SPOOL_HEAD;
	pthread_mutex_unlock(&spool->lock);
	return true;
}

/* How many bytes more may be kept in memory, charged; 0: what comes is the thread's business. */
static size_t charge_head(struct spool *spool)
{
	uint64_t charged;
	size_t room;

	if (atomic_load(&spool->cut) || !make_head(spool))
		return 0;
	room = spool->head_room - spool->head_size;
	if (room == 0)
		return 0;
	charged = spool_charge(spool, room);
	if (charged == room)
		return room;
	spool_uncharge(spool, charged);
	return 0;
}

/* Bytes that stand behind the head already are part of it now. */
static void grow_head(struct spool *spool, size_t size)
{
	pthread_mutex_lock(&spool->lock);
	spool->head_size += size;
	pthread_mutex_unlock(&spool->lock);
	spool_note_kept(spool, size);
}

/* True: more may be there. */
static bool read_some(struct spool *spool)
{
	size_t room = charge_head(spool);
	int there = 0;
	ssize_t n = -1;

	(void)ioctl(spool->pipe_fd, FIONREAD, &there);
	if (room == 0 || (size_t)there > room) {
		spool_uncharge(spool, room);
		hand_over(spool, 0);
		return false;
	}
	n = read(spool->pipe_fd, spool->head + spool->head_size, room);
	spool_uncharge(spool, room - (n > 0 ? (size_t)n : 0));
	if (n > 0)
		grow_head(spool, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		pipe_ended(spool);
	return n > 0;
}

static void handle_readable(void *data, unsigned events)
{
	struct spool *spool = data;

	(void)events;
	if (read_some(spool) || (!spool->handed_over && spool->pipe_fd < 0))
		tell_listeners(spool); /* may free it */
}

int spool_open_pipe(struct spool *spool, uid_t uid, gid_t gid, int *ret_fd, struct error *err)
{
	int fds[2];
	int r = command_pipe_open(uid, gid, PIPE_READER, fds, err);

	if (r < 0)
		return r;
	spool->pipe_fd = fds[0];
	atomic_store(&spool->pipe_closed, false);
	*ret_fd = fds[1];
	return 0;
}

int spool_start(struct spool *spool, struct error *err)
{
	return loop_watch_start(spool->spooler->loop, spool->pipe_fd, LOOP_READABLE,
		handle_readable, spool, &spool->watch, err);
}

static bool is_ours_to_read(const struct spool *spool)
{
	return !spool->handed_over && spool->pipe_fd >= 0;
}

void spool_read_now(struct spool *spool)
{
	bool any = false;

	while (is_ours_to_read(spool) && read_some(spool))
		any = true;
	if (any)
		spool_note_change(spool);
}

void spool_put(struct spool *spool, const void *bytes, size_t size)
{
	size_t room;

	if (size == 0)
		return;
	room = spool->handed_over ? 0 : charge_head(spool);
	if (room >= size) {
		memcpy(spool->head + spool->head_size, bytes, size);
		spool_uncharge(spool, room - size);
		grow_head(spool, size);
		spool_note_change(spool);
		return;
	}
	spool_uncharge(spool, room);
	pthread_mutex_lock(&spool->spooler->lock);
	strbuf_add(&spool->put, bytes, size);
	pthread_mutex_unlock(&spool->spooler->lock);
	if (!spool->handed_over)
		hand_over(spool, SPOOL_PUT);
	else
		spooler_wish(spool, SPOOL_PUT);
}

void spool_finish(struct spool *spool)
{
	if (spool->finish_asked)
		return;
	spool->finish_asked = true;
	spool_read_now(spool);
	if (spool->handed_over) {
		spooler_wish(spool, SPOOL_FINISH);
		return;
	}
	spool_note_end(spool);
	if (spool->pipe_fd >= 0)
		hand_over(spool, SPOOL_FINISH);
	spool_note_change(spool);
}

void spool_close_pipe(struct spool *spool)
{
	if (spool->handed_over)
		spooler_wish(spool, SPOOL_CLOSE);
	else if (spool->pipe_fd >= 0)
		pipe_ended(spool);
}

void spool_drop(struct spool *spool)
{
	atomic_store(&spool->cut, true);
	atomic_store(&spool->gone, true);
	spool_uncharge(spool, atomic_exchange(&spool->charged, 0));
}
