/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "fs/files-private.h"
#include "providers/sandbox.h"

struct sweeper {
	struct files *files;
	pthread_t thread;
	pthread_cond_t wake;
	pthread_mutex_t lock; /* guards every field after it; leaf */
	bool wanted, ending, joined;
};

/* Takes those that have ended out of the list. */
static struct loan *take_ended(struct files *files)
{
	struct loan **link = &files->loans, *loan, *ended = NULL;

	pthread_mutex_lock(&files->lock);
	while ((loan = *link)) {
		if (!loan->over && !atomic_load(&loan->root->ended)) {
			link = &loan->next;
			continue;
		}
		*link = loan->next;
		loan->next = ended;
		ended = loan;
	}
	pthread_mutex_unlock(&files->lock);
	return ended;
}

static void sweep(struct files *files)
{
	struct loan *loan, *next;

	for (loan = take_ended(files); loan; loan = next) {
		next = loan->next;
		loan_end(loan);
		loan_unref(loan);
	}
}

static bool wait_for_end(struct sweeper *sweeper)
{
	bool ending;

	pthread_mutex_lock(&sweeper->lock);
	while (!sweeper->wanted && !sweeper->ending)
		pthread_cond_wait(&sweeper->wake, &sweeper->lock);
	sweeper->wanted = false;
	ending = sweeper->ending;
	pthread_mutex_unlock(&sweeper->lock);
	return !ending;
}

static void *run(void *data)
{
	struct sweeper *sweeper = data;

	while (wait_for_end(sweeper))
		sweep(sweeper->files);
	return NULL;
}

int sweeper_create(struct files *files, struct sweeper **ret_sweeper)
{
	struct sweeper *sweeper = calloc(1, sizeof(*sweeper));
	sigset_t all, before;
	int r;

	if (!sweeper)
		return -ENOMEM;
	sweeper->files = files;
	pthread_mutex_init(&sweeper->lock, NULL);
	pthread_cond_init(&sweeper->wake, NULL);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&sweeper->thread, NULL, run, sweeper);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 0) {
		free(sweeper);
		return -r;
	}
	*ret_sweeper = sweeper;
	return 0;
}

void sweeper_stop(struct sweeper *sweeper)
{
	bool joined;

	pthread_mutex_lock(&sweeper->lock);
	joined = sweeper->joined;
	sweeper->ending = sweeper->joined = true;
	pthread_cond_signal(&sweeper->wake);
	pthread_mutex_unlock(&sweeper->lock);
	if (!joined)
		(void)pthread_join(sweeper->thread, NULL);
}

void sweeper_destroy(struct sweeper *sweeper)
{
	if (!sweeper)
		return;
	sweeper_stop(sweeper);
	pthread_cond_destroy(&sweeper->wake);
	pthread_mutex_destroy(&sweeper->lock);
	free(sweeper);
}

void files_end(struct files *files, const struct sandbox_root *root)
{
	struct sweeper *sweeper = files->sweeper;
	struct loan *loan;

	pthread_mutex_lock(&files->lock);
	for (loan = files->loans; root && loan; loan = loan->next)
		loan->over = loan->over || loan->serial == root->serial;
	pthread_mutex_unlock(&files->lock);
	if (!sweeper)
		return;
	pthread_mutex_lock(&sweeper->lock);
	sweeper->wanted = true;
	pthread_cond_signal(&sweeper->wake);
	pthread_mutex_unlock(&sweeper->lock);
}

int files_loan(struct files *files, struct sandbox_root *root, struct loan **ret_loan)
{
	struct loan *loan;
	int r = 0;

	pthread_mutex_lock(&files->lock);
	for (loan = files->loans; loan && loan->serial != root->serial; loan = loan->next)
		;
	if (loan && loan->over)
		r = -ESTALE;
	if (!loan) {
		r = loan_create(&files->backing, root, &loan);
		if (r == 0) {
			loan->next = files->loans;
			files->loans = loan;
		}
	}
	if (r == 0)
		*ret_loan = loan_ref(loan);
	pthread_mutex_unlock(&files->lock);
	return r;
}
