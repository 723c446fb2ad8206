/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/trash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/loop.h"

/* One removal. */
struct emptying {
	int top_fd;
	uint64_t moved;            /* makes names for what is renamed up */
	int failed;                /* errno of the first thing that would not go */
	char in[64];               /* what of the trash it is in; the name is ours */
	bool progress;             /* something went in this pass */
	const atomic_bool *enough; /* NULL: it is never enough */
};

static bool is_enough(const struct emptying *e)
{
	return e->enough && atomic_load_explicit(e->enough, memory_order_relaxed);
}

/* What lets us read, empty and move a directory that is ours; root needs no leave. */
static void open_up(int parent_fd, const char *name)
{
	CLEANUP(closep) int fd = -1;
	char path[64];

	if (geteuid() == 0)
		return;
	fd = openat(parent_fd, name, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d",
		fd); /* chmod by descriptor takes no O_PATH one */
	(void)chmod(path, 0700);
}

static void note_failure(struct emptying *e, const char *top_name, int code)
{
	if (e->failed)
		return;
	e->failed = code;
	(void)snprintf(e->in, sizeof(e->in), "%.60s", top_name);
}

/* Puts a directory that is not empty where its turn comes. */
static void move_up(struct emptying *e, const char *top_name, int parent_fd, const char *name)
{
	char to[64];
	int r;

	open_up(parent_fd, name); /* a move to another parent rewrites its `..` */
	do {
		(void)snprintf(to, sizeof(to), "up-%llu", (unsigned long long)++e->moved);
		r = renameat2(parent_fd, name, e->top_fd, to, RENAME_NOREPLACE);
	} while (r < 0 && errno == EEXIST);
	if (r < 0)
		note_failure(e, top_name, errno);
	else
		e->progress = true;
}

static bool remove_entry(int parent_fd, const char *name, unsigned char type)
{
	if (type != DT_DIR && unlinkat(parent_fd, name, 0) == 0)
		return true;
	return unlinkat(parent_fd, name, AT_REMOVEDIR) == 0;
}

static bool is_dots(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

static bool is_directory(int parent_fd, const char *name)
{
	struct stat st;

	return fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static DIR *open_listing(int parent_fd, const char *name)
{
	int fd = openat(
		parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (!dir && fd >= 0)
		(void)close(fd);
	return dir;
}

/* Unlinks what is in a directory of the trash, moves up what is not empty, removes the directory.
 */
static void empty_directory(struct emptying *e, const char *name)
{
	CLEANUP(closedirp) DIR *dir = NULL;
	struct dirent *entry;

	open_up(e->top_fd, name);
	dir = open_listing(e->top_fd, name);
	if (!dir) {
		note_failure(e, name, errno);
		return;
	}
	while (!is_enough(e) && (entry = readdir(dir))) {
		if (is_dots(entry->d_name))
			continue;
		if (remove_entry(dirfd(dir), entry->d_name, entry->d_type))
			e->progress = true;
		else if (is_directory(dirfd(dir), entry->d_name))
			move_up(e, name, dirfd(dir), entry->d_name);
		else
			note_failure(e, name, errno);
	}
	if (unlinkat(e->top_fd, name, AT_REMOVEDIR) == 0)
		e->progress = true;
	else
		note_failure(e, name, errno);
}

/* True when it saw anything at all, or could not look. */
static bool empty_once(struct emptying *e)
{
	CLEANUP(closedirp) DIR *dir = open_listing(e->top_fd, ".");
	struct dirent *entry;
	bool seen = false;

	if (!dir) {
		note_failure(e, ".", errno);
		return true;
	}
	while (!is_enough(e) && (entry = readdir(dir))) {
		if (is_dots(entry->d_name))
			continue;
		seen = true;
		if (remove_entry(e->top_fd, entry->d_name, entry->d_type))
			e->progress = true;
		else
			empty_directory(e, entry->d_name);
	}
	return seen;
}

static int empty(int dir_fd, const atomic_bool *enough, struct error *err)
{
	struct emptying e = {.top_fd = dir_fd, .enough = enough};

	do {
		e.failed = 0;
		e.progress = false;
		if (!empty_once(&e) && !is_enough(&e))
			return 0;
	} while (e.progress && !is_enough(&e));
	if (is_enough(&e))
		return error_set(err, ECANCELED, "the trash was not emptied to its end");
	return error_errno(err, e.failed ? e.failed : EIO,
		"cannot remove everything from the trash, first in '%s'", e.in);
}

int trash_empty(int dir_fd, struct error *err)
{
	return empty(dir_fd, NULL, err);
}

enum { WORKING = 1, WANTED = 2 };

struct trash {
	struct loop *loop;
	int dir_fd;
	atomic_uint_fast64_t names;
	unsigned state;
	atomic_bool enough;
	bool orphaned; /* destroyed while its worker ran: the worker's end frees it */
	int r;
	struct error err;
	void (*empty)(void *data, int r, const struct error *err);
	void *data;
	bool troubled; /* and told so */
	void (*trouble)(void *data, const struct error *err);
	void *trouble_data;
	struct loop_timer *soon;
};

static void tell_trouble(struct trash *trash)
{
	bool troubled = trash->r < 0;

	if (troubled == trash->troubled || !trash->trouble)
		return;
	trash->troubled = troubled;
	trash->trouble(trash->trouble_data, troubled ? &trash->err : NULL);
}

static void tell_when_empty(void *data)
{
	struct trash *trash = data;
	void (*fn)(void *data, int r, const struct error *err) = trash->empty;

	if (trash->state || !fn)
		return;
	trash->empty = NULL;
	fn(trash->data, trash->r, trash->r < 0 ? &trash->err : NULL);
}

int trash_create(struct loop *loop, const char *path, struct trash **ret_trash, struct error *err)
{
	CLEANUP(closep) int fd = -1;
	struct trash *trash;
	int r;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "cannot make '%s'", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "cannot open '%s'", path);
	trash = calloc(1, sizeof(*trash));
	if (!trash)
		return error_set(err, ENOMEM, "no memory for the trash");
	trash->loop = loop;
	r = loop_timer_start(loop, 0, tell_when_empty, trash, &trash->soon, err);
	if (r < 0) {
		free(trash);
		return r;
	}
	trash->dir_fd = take_fd(&fd);
	*ret_trash = trash;
	return 0;
}

static void trash_free(struct trash *trash)
{
	(void)close(trash->dir_fd);
	free(trash);
}

void trash_destroy(struct trash *trash)
{
	if (!trash)
		return;
	trash_give_up(trash);
	loop_timer_stop(take_ptr(&trash->soon));
	trash->orphaned = true;
	if (!(trash->state & WORKING))
		trash_free(trash);
}

int trash_fd(const struct trash *trash)
{
	return trash->dir_fd;
}

void trash_name(struct trash *trash, char name[64])
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)snprintf(name, 64, "%lld.%09ld-%d-%llu", (long long)now.tv_sec, now.tv_nsec,
		(int)getpid(), (unsigned long long)atomic_fetch_add(&trash->names, 1));
}

static void work(void *data)
{
	struct trash *trash = data;

	trash->r = empty(trash->dir_fd, &trash->enough, &trash->err);
}

static void begin(struct trash *trash);

static void worked(void *data)
{
	struct trash *trash = data;
	bool again = trash->state & WANTED;

	trash->state = 0;
	if (trash->orphaned) {
		trash_free(trash);
		return;
	}
	if (atomic_load(&trash->enough))
		return;
	tell_trouble(trash);
	if (again)
		begin(trash);
	else
		tell_when_empty(trash);
}

static void begin(struct trash *trash)
{
	struct error err;
	int r;

	trash->state = WORKING;
	r = loop_work(trash->loop, work, worked, trash, &err);
	if (r == 0) /* the worker writes the outcome */
		return;
	trash->state = 0;
	trash->r = r;
	trash->err = err;
	tell_trouble(trash);
	loop_timer_restart(trash->soon, 0); /* who waits for it to be empty is told why it is not */
}

void trash_wake(struct trash *trash)
{
	if (trash->state & WORKING)
		trash->state |= WANTED;
	else
		begin(trash);
}

void trash_on_trouble(
	struct trash *trash, void (*fn)(void *data, const struct error *err), void *data)
{
	trash->trouble = fn;
	trash->trouble_data = data;
}

void trash_on_empty(
	struct trash *trash, void (*fn)(void *data, int r, const struct error *err), void *data)
{
	trash->empty = fn;
	trash->data = data;
	loop_timer_restart(trash->soon, 0);
}

void trash_give_up(struct trash *trash)
{
	atomic_store(&trash->enough, true);
	trash->empty = NULL;
}
