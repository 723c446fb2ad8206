/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>

#include "base/thread.h"
#include "fs/files-private.h"
#include "providers/sandbox.h"

struct sweeper {
	struct files *files;
	struct worker worker; /* guards what stands behind it */
	bool wanted;
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

	pthread_mutex_lock(&sweeper->worker.lock);
	while (!sweeper->wanted && !sweeper->worker.ending)
		pthread_cond_wait(&sweeper->worker.wake, &sweeper->worker.lock);
	sweeper->wanted = false;
	ending = sweeper->worker.ending;
	pthread_mutex_unlock(&sweeper->worker.lock);
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
	int r;

	if (!sweeper)
		return -ENOMEM;
	sweeper->files = files;
	r = worker_start(&sweeper->worker, run, sweeper);
	if (r < 0) {
		free(sweeper);
		return r;
	}
	*ret_sweeper = sweeper;
	return 0;
}

void sweeper_stop(struct sweeper *sweeper)
{
	worker_stop(&sweeper->worker);
}

void sweeper_destroy(struct sweeper *sweeper)
{
	if (!sweeper)
		return;
	worker_fini(&sweeper->worker);
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
	pthread_mutex_lock(&sweeper->worker.lock);
	sweeper->wanted = true;
	pthread_cond_signal(&sweeper->worker.wake);
	pthread_mutex_unlock(&sweeper->worker.lock);
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
