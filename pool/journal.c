/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The loop appends items to a list; the journal's thread takes the whole list at a time and writes
 * it as one transaction: the slower the disk, the more rows share a commit. A transaction that
 * fails is written again row by row, so that each row's owner hears of its own fate. What is
 * written goes to a second list, from where the loop calls committed().
 */
#include "pool/journal.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/thread.h"
#include "pool/journal-db.h"
#include "pool/state-dir.h"

enum { SPARE_COUNT = 16 };

enum item_kind {
	ITEM_SLOT,
	ITEM_LEASE,
	ITEM_DROP_LEASE,
	ITEM_MARK,
	ITEM_DROP_MARK,
	ITEM_REFUSED,
};

struct item {
	struct item *next;
	enum item_kind kind;
	journal_committed_fn *committed;
	void *data;
	int r;
	struct error err;
	union {
		struct journal_slot slot;
		struct journal_lease lease;
		const char *mark;
	};
	bool spare; /* one of the journal's own, for when memory has run out */
};                  /* behind a row that is not spare stand the texts its pointers point to */

struct item_list {
	struct item *first, **last;
};

/* The loop's side of the wake-up: it outlives the journal until the loop has closed it. */
struct bell {
	uv_async_t async;
	struct journal *journal;
};

struct journal {
	struct journal_db *db; /* the thread's, and the loop's while the thread is idle */
	int dir_fd, lock_fd;
	struct loop *loop;
	struct bell *bell;
	struct item spares[SPARE_COUNT];
	pthread_t thread;
	pthread_cond_t wake, idle_again;
	pthread_mutex_t lock; /* guards every field after it; leaf */
	struct item_list queue, written;
	bool busy, closing;
	bool reading; /* the loop uses db: the thread keeps off */
};

static void list_init(struct item_list *list)
{
	list->first = NULL;
	list->last = &list->first;
}

static void list_add(struct item_list *list, struct item *item)
{
	item->next = NULL;
	*list->last = item;
	list->last = &item->next;
}

static struct item *list_take(struct item_list *list)
{
	struct item *first = list->first;

	list_init(list);
	return first;
}

static void list_join(struct item_list *list, struct item *items)
{
	if (!items)
		return;
	*list->last = items;
	while (items->next)
		items = items->next;
	list->last = &items->next;
}

static void item_free(struct item *item)
{
	if (item->spare)
		item->committed = NULL; /* free again */
	else
		free(item);
}

static int write_item(struct journal_db *db, struct item *item)
{
	switch (item->kind) {
	case ITEM_SLOT:
		return journal_db_put_slot(db, &item->slot, &item->err);
	case ITEM_LEASE:
		return journal_db_put_lease(db, &item->lease, &item->err);
	case ITEM_DROP_LEASE:
		return journal_db_drop_lease(db, item->lease.lease_id, &item->err);
	case ITEM_MARK:
		return journal_db_put_mark(db, item->mark, &item->err);
	case ITEM_DROP_MARK:
		return journal_db_drop_mark(db, item->mark, &item->err);
	case ITEM_REFUSED:
		return 0;
	}
	return 0;
}

/* Writes `count` items as one transaction. */
static int write_together(
	struct journal_db *db, struct item *first, size_t count, struct error *err)
{
	int r = journal_db_begin(db, err);

	for (struct item *item = first; r == 0 && item && count > 0; item = item->next, count--) {
		r = write_item(db, item);
		if (r < 0)
			*err = item->err;
	}
	if (r == 0)
		r = journal_db_commit(db, err);
	if (r < 0)
		journal_db_rollback(db);
	return r;
}

static void write_items(struct journal_db *db, struct item *items)
{
	struct error err = ERROR_NONE;
	int r = write_together(db, items, SIZE_MAX, &err);

	for (struct item *item = items; item; item = item->next) {
		if (item->kind == ITEM_REFUSED)
			continue;
		item->err = ERROR_NONE;
		item->r = r < 0 ? write_together(db, item, 1, &item->err) : 0;
	}
}

static void *journal_thread(void *arg)
{
	struct journal *journal = arg;

	pthread_mutex_lock(&journal->lock);
	for (;;) {
		struct item *items;

		while ((journal->reading || !journal->queue.first) && !journal->closing)
			pthread_cond_wait(&journal->wake, &journal->lock);
		items = list_take(&journal->queue);
		if (!items)
			break;
		journal->busy = true;
		pthread_mutex_unlock(&journal->lock);
		write_items(journal->db, items);
		pthread_mutex_lock(&journal->lock);
		list_join(&journal->written, items);
		journal->busy = false;
		pthread_cond_signal(&journal->idle_again);
		(void)uv_async_send(&journal->bell->async);
	}
	pthread_mutex_unlock(&journal->lock);
	return NULL;
}

static void handle_bell(uv_async_t *async)
{
	struct bell *bell = (struct bell *)async;
	struct item *next;

	if (!bell->journal) /* closed, but not yet by the loop */
		return;
	pthread_mutex_lock(&bell->journal->lock);
	next = list_take(&bell->journal->written);
	pthread_mutex_unlock(&bell->journal->lock);
	for (struct item *item = next; item; item = next) {
		next = item->next;
		if (item->committed)
			item->committed(item->data, item->r, &item->err);
		item_free(item);
	}
}

static void free_bell(uv_handle_t *handle)
{
	free(handle);
}

static int start_bell(struct journal *journal, struct error *err)
{
	journal->bell = calloc(1, sizeof(*journal->bell));
	if (!journal->bell)
		return error_set(err, ENOMEM, "no memory for the journal");
	if (uv_async_init(loop_uv(journal->loop), &journal->bell->async, handle_bell) < 0) {
		free(take_ptr(&journal->bell));
		return error_set(err, EMFILE, "cannot make the journal's wake-up");
	}
	journal->bell->journal = journal;
	return 0;
}

static int start_thread(struct journal *journal, struct error *err)
{
	int r;

	pthread_mutex_init(&journal->lock, NULL);
	pthread_cond_init(&journal->wake, NULL);
	pthread_cond_init(&journal->idle_again, NULL);
	r = thread_start(&journal->thread, journal_thread, journal);
	if (r < 0)
		return error_errno(err, -r, "cannot start the journal's thread");
	return 0;
}

static void close_files(struct journal *journal)
{
	journal_db_close(journal->db);
	closep(&journal->dir_fd);
	closep(&journal->lock_fd);
	if (journal->bell) {
		journal->bell->journal = NULL;
		uv_close((uv_handle_t *)&journal->bell->async, free_bell);
	}
	free(journal);
}

int journal_open(
	struct loop *loop, const char *state_dir, struct journal **ret_journal, struct error *err)
{
	struct journal *journal = calloc(1, sizeof(*journal));
	int r;

	if (!journal)
		return error_set(err, ENOMEM, "no memory for the journal");
	journal->loop = loop;
	journal->dir_fd = journal->lock_fd = -1;
	list_init(&journal->queue);
	list_init(&journal->written);
	r = state_dir_open(state_dir, &journal->dir_fd, &journal->lock_fd, err);
	if (r == 0)
		r = journal_db_open(journal->dir_fd, state_dir, &journal->db, err);
	if (r == 0)
		r = start_bell(journal, err);
	if (r == 0)
		r = start_thread(journal, err);
	if (r < 0) {
		close_files(journal);
		return r;
	}
	*ret_journal = journal;
	return 0;
}

void journal_close(struct journal *journal)
{
	struct item *next;

	if (!journal)
		return;
	pthread_mutex_lock(&journal->lock);
	journal->closing = true;
	pthread_cond_signal(&journal->wake);
	pthread_mutex_unlock(&journal->lock);
	pthread_join(journal->thread, NULL);
	for (struct item *item = journal->written.first; item; item = next) {
		next = item->next;
		item_free(item);
	}
	pthread_cond_destroy(&journal->idle_again);
	pthread_cond_destroy(&journal->wake);
	pthread_mutex_destroy(&journal->lock);
	close_files(journal);
}

/* The connection is one thread's at a time: what a visitor puts waits until the visit is over. */
static struct journal_db *begin_reading(struct journal *journal)
{
	assert(loop_is_mine(journal->loop));
	pthread_mutex_lock(&journal->lock);
	while (journal->busy || journal->queue.first)
		pthread_cond_wait(&journal->idle_again, &journal->lock);
	journal->reading = true;
	pthread_mutex_unlock(&journal->lock);
	return journal->db;
}

static int end_reading(struct journal *journal, int r)
{
	pthread_mutex_lock(&journal->lock);
	journal->reading = false;
	pthread_cond_signal(&journal->wake);
	pthread_mutex_unlock(&journal->lock);
	return r;
}

int journal_each_slot(
	struct journal *journal, journal_slot_fn *visit, void *data, struct error *err)
{
	struct journal_db *db = begin_reading(journal);

	return end_reading(journal, journal_db_each_slot(db, visit, data, err));
}

int journal_each_lease(
	struct journal *journal, journal_lease_fn *visit, void *data, struct error *err)
{
	struct journal_db *db = begin_reading(journal);

	return end_reading(journal, journal_db_each_lease(db, visit, data, err));
}

int journal_has_mark(struct journal *journal, const char *name, bool *ret_set, struct error *err)
{
	struct journal_db *db = begin_reading(journal);

	return end_reading(journal, journal_db_has_mark(db, name, ret_set, err));
}

int journal_reset(struct journal *journal, struct error *err)
{
	struct journal_db *db = begin_reading(journal);

	return end_reading(journal, journal_db_reset(db, err));
}

static struct item *spare_item(struct journal *journal)
{
	for (unsigned i = 0; i < SPARE_COUNT; i++)
		if (!journal->spares[i].committed)
			return &journal->spares[i];
	return NULL;
}

static void enqueue(struct journal *journal, struct item *item)
{
	assert(loop_is_mine(journal->loop));
	pthread_mutex_lock(&journal->lock);
	list_add(&journal->queue, item);
	pthread_cond_signal(&journal->wake);
	pthread_mutex_unlock(&journal->lock);
}

/* Without memory for the row there is still an item to carry the news; without that the news comes
 * at once. */
static void refuse(struct journal *journal, journal_committed_fn *committed, void *data)
{
	struct item *item = spare_item(journal);
	struct error err;
	int r = error_set(&err, ENOMEM, "no memory for a row of the journal");

	if (!committed)
		return;
	if (!item) {
		committed(data, r, &err);
		return;
	}
	*item = (struct item){.kind = ITEM_REFUSED,
		.committed = committed,
		.data = data,
		.r = r,
		.err = err,
		.spare = true};
	enqueue(journal, item);
}

static struct item *item_create(
	enum item_kind kind, size_t texts_size, journal_committed_fn *committed, void *data)
{
	struct item *item = calloc(1, sizeof(*item) + texts_size);

	if (!item)
		return NULL;
	item->kind = kind;
	item->committed = committed;
	item->data = data;
	return item;
}

static size_t text_size(const char *text)
{
	return text ? strlen(text) + 1 : 1;
}

/* Copies the text to *at, which moves on. */
static const char *keep_text(char **at, const char *text)
{
	char *kept = *at;

	*at = stpcpy(kept, text ? text : "") + 1;
	return kept;
}

void journal_put_slot(struct journal *journal, const struct journal_slot *slot,
	journal_committed_fn *committed, void *data)
{
	size_t size = text_size(slot->state) + text_size(slot->dir) + text_size(slot->cgroup);
	struct item *item = item_create(ITEM_SLOT, size, committed, data);
	char *at;

	if (!item) {
		refuse(journal, committed, data);
		return;
	}
	at = (char *)(item + 1);
	item->slot = *slot;
	item->slot.state = keep_text(&at, slot->state);
	item->slot.dir = keep_text(&at, slot->dir);
	item->slot.cgroup = keep_text(&at, slot->cgroup);
	enqueue(journal, item);
}

static size_t lease_texts_size(const struct journal_lease *lease)
{
	return text_size(lease->lease_id) + text_size(lease->trajectory_id) +
	       text_size(lease->state) + text_size(lease->reason) + text_size(lease->spec);
}

static void put_lease(struct journal *journal, enum item_kind kind,
	const struct journal_lease *lease, journal_committed_fn *committed, void *data)
{
	struct item *item = item_create(kind, lease_texts_size(lease), committed, data);
	char *at;

	if (!item) {
		refuse(journal, committed, data);
		return;
	}
	at = (char *)(item + 1);
	item->lease = *lease;
	item->lease.lease_id = keep_text(&at, lease->lease_id);
	item->lease.trajectory_id = keep_text(&at, lease->trajectory_id);
	item->lease.state = keep_text(&at, lease->state);
	item->lease.reason = keep_text(&at, lease->reason);
	item->lease.spec = keep_text(&at, lease->spec);
	enqueue(journal, item);
}

void journal_put_lease(struct journal *journal, const struct journal_lease *lease,
	journal_committed_fn *committed, void *data)
{
	put_lease(journal, ITEM_LEASE, lease, committed, data);
}

void journal_drop_lease(
	struct journal *journal, const char *lease_id, journal_committed_fn *committed, void *data)
{
	struct journal_lease lease = {.lease_id = lease_id};

	put_lease(journal, ITEM_DROP_LEASE, &lease, committed, data);
}

void journal_put_mark(struct journal *journal, const char *name, bool set,
	journal_committed_fn *committed, void *data)
{
	struct item *item =
		item_create(set ? ITEM_MARK : ITEM_DROP_MARK, text_size(name), committed, data);
	char *at;

	if (!item) {
		refuse(journal, committed, data);
		return;
	}
	at = (char *)(item + 1);
	item->mark = keep_text(&at, name);
	enqueue(journal, item);
}
