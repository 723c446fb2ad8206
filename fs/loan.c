/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/loan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/strbuf.h"
#include "fs/fd-cache.h"
#include "fs/interrupt.h"
#include "providers/sandbox.h"

/* 0 when it cannot be said. */
static pid_t pid_of(int pidfd)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	char path[64];
	const char *line;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	if (read_text(path, &text) < 0)
		return 0;
	line = strstr(text.data, "\nPid:");
	return line ? (pid_t)strtol(line + strlen("\nPid:"), NULL, 10) : 0;
}

int loan_create(struct backing *backing, struct sandbox_root *root, struct loan **ret_loan)
{
	struct loan *loan = calloc(1, sizeof(*loan));

	if (!loan)
		return -ENOMEM;
	loan->backing = backing;
	loan->root = sandbox_root_ref(root);
	loan->serial = root->serial;
	loan->uid = root->uid;
	loan->gid = root->gid;
	loan->range = root->range;
	atomic_init(&loan->refs, 1);
	pthread_mutex_init(&loan->lock, NULL);
	pthread_rwlock_init(&loan->branch_fds, NULL);
	loan->init = pid_of(root->pidfd);
	*ret_loan = loan;
	return 0;
}

struct loan *loan_ref(struct loan *loan)
{
	atomic_fetch_add(&loan->refs, 1);
	return loan;
}

void loan_unref(struct loan *loan)
{
	struct branch *branch;
	struct opened *opened;

	if (!loan || atomic_fetch_sub(&loan->refs, 1) != 1)
		return;
	while ((opened = loan->opened)) { /* its RELEASE was lost with the mount */
		loan->opened = opened->next;
		opened_discard(opened);
	}
	while ((branch = loan->branches)) {
		loan->branches = branch->next;
		closep(&branch->fd);
		free(branch);
	}
	sandbox_root_unref(loan->root);
	pthread_mutex_destroy(&loan->lock);
	pthread_rwlock_destroy(&loan->branch_fds);
	free(loan);
}

struct sandbox_root *loan_root(struct loan *loan)
{
	struct sandbox_root *root;

	pthread_mutex_lock(&loan->lock);
	root = sandbox_root_ref(loan->root);
	pthread_mutex_unlock(&loan->lock);
	return root;
}

int loan_check(struct loan *loan)
{
	struct sandbox_root *root = loan_root(loan);
	int why = ESTALE;
	bool alive = root && sandbox_root_alive(root, &why);

	sandbox_root_unref(root);
	return alive ? 0 : -why;
}

int loan_check_mounts(struct loan *loan)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	char path[32];
	int r = loan_check(loan);

	if (r < 0 || loan->init <= 0)
		return r;
	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)loan->init);
	/* so it says before the mounts go */
	if (read_text(path, &text) < 0 || process_is_exiting_by_stat(text.data))
		return -ENOTCONN;
	return loan_check(loan);
}

int loan_explain(struct loan *loan, int r)
{
	int end = r < 0 ? loan_check(loan) : 0;

	return end < 0 ? end : r;
}

/* Another thread may be using the number: it is never closed, only made to lead nowhere. */
static void void_fd(const struct backing *backing, int fd)
{
	if (fd >= 0)
		(void)dup3(backing->void_fd, fd, O_CLOEXEC);
}

void loan_end(struct loan *loan)
{
	struct sandbox_root *root;
	struct branch *branch;
	struct opened *opened;

	pthread_mutex_lock(&loan->lock);
	root = loan->root;
	loan->root = NULL;
	for (opened = loan->opened; opened; opened = opened->next)
		void_fd(loan->backing, opened->fd);
	branch = loan->branches;
	pthread_mutex_unlock(&loan->lock);
	/*
	 * whatever is added to the list from now on is found by a lookup that began before the
	 * end; it goes with the loan
	 */
	pthread_rwlock_wrlock(&loan->branch_fds);
	for (; branch; branch = branch->next) {
		closep(&branch->fd);
		branch->fd = -1;
	}
	pthread_rwlock_unlock(&loan->branch_fds);
	sandbox_root_unref(root);
	fd_cache_drop_group(loan->backing->cache, loan);
}

void opened_add(struct loan *loan, struct opened *opened)
{
	pthread_mutex_lock(&loan->lock);
	opened->previous = NULL;
	opened->next = loan->opened;
	if (opened->next)
		opened->next->previous = opened;
	loan->opened = opened;
	if (!loan->root) /* it ended while this was being opened */
		void_fd(loan->backing, opened->fd);
	pthread_mutex_unlock(&loan->lock);
}

int opened_exchange_fd(struct loan *loan, struct opened *opened, int fd)
{
	int r = -ESTALE;

	pthread_mutex_lock(&loan->lock);
	if (loan->root)
		r = dup3(fd, opened->fd, O_CLOEXEC) < 0 ? -errno : 0;
	pthread_mutex_unlock(&loan->lock);
	return r;
}

void opened_remove(struct loan *loan, struct opened *opened)
{
	pthread_mutex_lock(&loan->lock);
	if (opened->next)
		opened->next->previous = opened->previous;
	if (opened->previous)
		opened->previous->next = opened->next;
	else
		loan->opened = opened->next;
	pthread_mutex_unlock(&loan->lock);
}
