/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "pool/cgroup1.h"

enum {
	CLOSE_KILL_MS = 5000, /* when the pool was not stopped first */
	SPARES_MAX = 4,       /* emptied cgroups that a slot keeps for its next commands */
	LINGERING_SWEEP = 4,  /* of the cgroups left behind by background processes, looked at again
				at each end of a command */
};

struct cgroups {
	struct loop *loop;
	int dir_fd;
	bool parted;
	char path[PATH_MAX];
	struct slot_cgroup *leaving;
	unsigned leaving_count;
	loop_fn *gone;
	void *data;
};

struct slot_cgroup {
	struct slot_cgroup *next; /* cgroups::leaving */
	struct cgroups *cgroups;  /* set when it is leaving */
	int dir_fd, events_fd;
	int init_fd, work_fd; /* -1 unless it is parted */
	uid_t uid;
	char name[48];
	struct loop_watch *watch;
	unsigned last_number; /* of its commands' cgroups */
	struct command_cgroup *spares;
	unsigned spare_count;
	unsigned *lingering; /* numbers of cgroups in which a background process lived when their
				command ended */
	size_t lingering_count, lingering_capacity, lingering_at;
	char path[PATH_MAX];
};

struct command_cgroup {
	struct command_cgroup *next; /* slot_cgroup::spares */
	struct slot_cgroup *slot;
	unsigned number;
	bool killed; /* once: it is not used again */
	int dir_fd, events_fd;
	struct loop_watch *watch;
	loop_fn *changed;
	void *data;
};

static int read_table(const char *path, struct strbuf *out, struct error *err)
{
	int r = read_text(path, out);

	return r < 0 ? error_errno(err, -r, "cannot read '%s'", path) : 0;
}

int cgroup_locate_own(const char *controller, struct strbuf *out, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf mounts = STRBUF_INIT, own = STRBUF_INIT;
	int r = read_table("/proc/self/mountinfo", &mounts, err);

	if (r == 0)
		r = read_table("/proc/self/cgroup", &own, err);
	if (r < 0)
		return r;
	return controller ? cgroup1_locate(mounts.data, own.data, controller, out, err)
			  : cgroup_locate(mounts.data, own.data, out, err);
}

int cgroup_write_at(int dir_fd, const char *file, const char *value)
{
	CLEANUP(closep) int fd = openat(dir_fd, file, O_WRONLY | O_CLOEXEC);
	size_t size = strlen(value);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = write(fd, value, size);
	if (n < 0)
		return -errno;
	return (size_t)n == size ? 0 : -EIO;
}

int cgroup_write(const char *path, const char *file, const char *value)
{
	CLEANUP(strbuf_fini) struct strbuf name = STRBUF_INIT;

	strbuf_addf(&name, "%s/%s", path, file);
	return strbuf_failed(&name) ? -ENOMEM : cgroup_write_at(AT_FDCWD, name.data, value);
}

/* FNV-1a: it only has to tell the daemons of one machine apart. */
static uint32_t hash(const char *text)
{
	uint32_t h = 2166136261u;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619u;
	return h;
}

void cgroup_subtree_name(const char *state_dir, char name[CGROUP_NAME])
{
	CLEANUP(freep) char *real = realpath(state_dir, NULL);

	(void)snprintf(name, CGROUP_NAME, "dressage-%08x", hash(real ? real : state_dir));
}

/* Moving a process needs write access to cgroup.procs of the common ancestor too, which is our own
 * cgroup. */
static int check_usable(const char *own, int dir_fd, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf procs = STRBUF_INIT;

	strbuf_addf(&procs, "%s/cgroup.procs", own);
	if (access(procs.data, W_OK) < 0)
		return error_errno(err, errno, "the cgroup '%s' is not delegated to us", own);
	if (faccessat(dir_fd, "cgroup.kill", W_OK, 0) < 0)
		return error_errno(
			err, errno, "the cgroup '%s' has no cgroup.kill (Linux 5.14 has)", own);
	return 0;
}

static int make_subtree(struct cgroups *cgroups, const char *state_dir, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf own = STRBUF_INIT;
	char name[CGROUP_NAME];
	int r = cgroup_locate_own(NULL, &own, err);

	if (r < 0)
		return r;
	cgroup_subtree_name(state_dir, name);
	if (snprintf(cgroups->path, sizeof(cgroups->path), "%s/%s", own.data, name) >=
		(int)sizeof(cgroups->path))
		return error_set(err, ENAMETOOLONG, "the cgroup's name is too long");
	if (mkdir(cgroups->path, 0755) < 0 && errno != EEXIST)
		return error_errno(err, errno, "cannot make a cgroup in '%s'", own.data);
	cgroups->dir_fd = open(cgroups->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (cgroups->dir_fd < 0)
		return error_errno(err, errno, "cannot open the cgroup '%s'", cgroups->path);
	r = check_usable(own.data, cgroups->dir_fd, err);
	if (r < 0)
		(void)rmdir(cgroups->path);
	return r;
}

int cgroups_open(
	struct loop *loop, const char *state_dir, struct cgroups **ret_cgroups, struct error *err)
{
	struct cgroups *cgroups = calloc(1, sizeof(*cgroups));
	int r;

	if (!cgroups)
		return error_set(err, ENOMEM, "no memory for cgroups");
	cgroups->loop = loop;
	cgroups->dir_fd = -1;
	r = make_subtree(cgroups, state_dir, err);
	if (r < 0) {
		closep(&cgroups->dir_fd);
		free(cgroups);
		return r;
	}
	*ret_cgroups = cgroups;
	return 0;
}

const char *cgroups_path(const struct cgroups *cgroups)
{
	return cgroups->path;
}

void cgroups_part(struct cgroups *cgroups)
{
	cgroups->parted = true;
}

unsigned cgroups_leaving(const struct cgroups *cgroups)
{
	return cgroups->leaving_count;
}

void cgroups_on_gone(struct cgroups *cgroups, loop_fn *fn, void *data)
{
	cgroups->gone = fn;
	cgroups->data = data;
}

static bool populated(int events_fd)
{
	char text[128] = "";

	if (pread(events_fd, text, sizeof(text) - 1, 0) <= 0)
		return false; /* removed */
	return strstr(text, "populated 1") != NULL;
}

/* Removes the cgroups in a directory, and itself leaves it. Ours are two deep: the recursion ends.
 */
static void remove_children(int dir_fd)
{
	int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(closedirp) DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
	struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		if (unlinkat(dir_fd, entry->d_name, AT_REMOVEDIR) < 0) {
			CLEANUP(closep)
			int child =
				openat(dir_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

			if (child >= 0)
				remove_children(child);
			(void)unlinkat(dir_fd, entry->d_name, AT_REMOVEDIR);
		}
	}
}

int cgroup_clear(const char *path, uint64_t deadline_ms, struct error *err)
{
	CLEANUP(closep) int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(closep) int events_fd = -1;
	uint64_t end = loop_now_ms() + deadline_ms, now;

	if (dir_fd < 0)
		return errno == ENOENT
			       ? 0
			       : error_errno(err, errno, "cannot open the cgroup '%s'", path);
	events_fd = openat(dir_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	if (events_fd < 0 && errno == ENOENT)
		return cgroup1_clear(path, deadline_ms, err);
	if (events_fd < 0 ||
		(populated(events_fd) && cgroup_write_at(dir_fd, "cgroup.kill", "1") < 0))
		return error_errno(err, errno, "cannot kill the cgroup '%s'", path);
	while (populated(events_fd) && (now = loop_now_ms()) < end) {
		struct pollfd change = {.fd = events_fd, .events = POLLPRI};

		(void)poll(&change, 1, (int)(end - now));
	}
	remove_children(dir_fd);
	if (rmdir(path) < 0)
		return error_errno(err, errno, "cannot remove the cgroup '%s'", path);
	return 0;
}

static void slot_cgroup_free(struct slot_cgroup *cgroup)
{
	loop_watch_stop(cgroup->watch);
	closep(&cgroup->dir_fd);
	closep(&cgroup->events_fd);
	closep(&cgroup->init_fd);
	closep(&cgroup->work_fd);
	free(cgroup->lingering);
	free(cgroup);
}

void cgroups_close(struct cgroups *cgroups)
{
	struct error why = ERROR_NONE;
	struct slot_cgroup *next;

	if (!cgroups)
		return;
	for (struct slot_cgroup *cgroup = cgroups->leaving; cgroup; cgroup = next) {
		next = cgroup->next;
		slot_cgroup_free(cgroup);
	}
	if (cgroup_clear(cgroups->path, CLOSE_KILL_MS, &why) < 0)
		log_warn("%s; the next start will try again", why.text);
	(void)close(cgroups->dir_fd);
	free(cgroups);
}

/* A directory below parent_fd with its events, given to uid. */
static int make_cgroup(
	int parent_fd, const char *name, uid_t uid, int *ret_dir_fd, int *ret_events_fd)
{
	CLEANUP(closep) int dir_fd = -1;
	CLEANUP(closep) int events_fd = -1;

	if (mkdirat(parent_fd, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	dir_fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir_fd < 0)
		return -errno;
	events_fd = openat(dir_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	if (events_fd < 0)
		return -errno;
	if (uid != geteuid() &&
		fchownat(dir_fd, "cgroup.procs", uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	*ret_dir_fd = take_fd(&dir_fd);
	*ret_events_fd = take_fd(&events_fd);
	return 0;
}

static bool remove_slot(const struct cgroups *cgroups, const struct slot_cgroup *cgroup)
{
	remove_children(cgroup->dir_fd);
	return unlinkat(cgroups->dir_fd, cgroup->name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

static int make_part(int dir_fd, const char *name, int *ret_fd)
{
	int fd;

	if (mkdirat(dir_fd, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

static int part(struct slot_cgroup *cgroup)
{
	static const char word[] = "+memory";
	CLEANUP(closep)
	int fd = openat(cgroup->dir_fd, "cgroup.subtree_control", O_WRONLY | O_CLOEXEC);
	int r;

	if (fd < 0 || write(fd, word, strlen(word)) < 0)
		return -errno;
	r = make_part(cgroup->dir_fd, "init", &cgroup->init_fd);
	return r < 0 ? r : make_part(cgroup->dir_fd, "work", &cgroup->work_fd);
}

int slot_cgroup_create(const struct cgroups *cgroups, unsigned slot, uint32_t generation, uid_t uid,
	struct slot_cgroup **ret_cgroup, struct error *err)
{
	struct slot_cgroup *cgroup = calloc(1, sizeof(*cgroup));
	int r;

	if (!cgroup)
		return error_set(err, ENOMEM, "no memory for a cgroup");
	cgroup->uid = uid;
	cgroup->dir_fd = cgroup->events_fd = cgroup->init_fd = cgroup->work_fd = -1;
	(void)snprintf(cgroup->name, sizeof(cgroup->name), "slot-%04u-g%u", slot, generation);
	r = snprintf(cgroup->path, sizeof(cgroup->path), "%s/%s", cgroups->path, cgroup->name) <
			    PATH_MAX
		    ? 0
		    : -ENAMETOOLONG;
	if (r == 0)
		r = make_cgroup(
			cgroups->dir_fd, cgroup->name, uid, &cgroup->dir_fd, &cgroup->events_fd);
	if (r == 0 && cgroups->parted)
		r = part(cgroup);
	if (r < 0) {
		(void)error_errno(err, -r, "cannot make the cgroup '%s'", cgroup->path);
		if (cgroup->dir_fd >= 0)
			(void)remove_slot(cgroups, cgroup);
		slot_cgroup_free(cgroup);
		return r;
	}
	*ret_cgroup = cgroup;
	return 0;
}

int slot_cgroup_fd(const struct slot_cgroup *cgroup)
{
	return cgroup->init_fd >= 0 ? cgroup->init_fd : cgroup->dir_fd;
}

int slot_cgroup_dir_fd(const struct slot_cgroup *cgroup)
{
	return cgroup->dir_fd;
}

int slot_cgroup_commands_fd(const struct slot_cgroup *cgroup)
{
	return cgroup->work_fd >= 0 ? cgroup->work_fd : cgroup->dir_fd;
}

bool slot_cgroup_lingers(const struct slot_cgroup *cgroup)
{
	return cgroup->lingering_count > 0;
}

const char *slot_cgroup_path(const struct slot_cgroup *cgroup)
{
	return cgroup->path;
}

static void handle_slot_change(void *data, unsigned events)
{
	struct slot_cgroup *cgroup = data;
	struct cgroups *cgroups = cgroup->cgroups;
	struct slot_cgroup **at = &cgroups->leaving;

	if (populated(cgroup->events_fd) || !remove_slot(cgroups, cgroup))
		return;
	while (*at != cgroup)
		at = &(*at)->next;
	*at = cgroup->next;
	slot_cgroup_free(cgroup);
	if (--cgroups->leaving_count == 0 && cgroups->gone)
		cgroups->gone(cgroups->data);
}

static void command_cgroup_free(struct command_cgroup *cgroup)
{
	loop_watch_stop(cgroup->watch);
	closep(&cgroup->dir_fd);
	closep(&cgroup->events_fd);
	free(cgroup);
}

static void free_spares(struct slot_cgroup *cgroup)
{
	struct command_cgroup *next;

	for (struct command_cgroup *spare = cgroup->spares; spare; spare = next) {
		next = spare->next;
		command_cgroup_free(spare);
	}
	cgroup->spares = NULL;
	cgroup->spare_count = 0;
}

void slot_cgroup_discard(struct cgroups *cgroups, struct slot_cgroup *cgroup)
{
	if (!cgroup)
		return;
	free_spares(cgroup);
	(void)cgroup_write_at(cgroup->dir_fd, "cgroup.kill", "1");
	if (remove_slot(cgroups, cgroup) ||
		loop_watch_start(cgroups->loop, cgroup->events_fd, LOOP_PRIORITY,
			handle_slot_change, cgroup, &cgroup->watch, NULL) < 0) {
		slot_cgroup_free(cgroup);
		return;
	}
	cgroup->cgroups = cgroups;
	cgroup->next = cgroups->leaving;
	cgroups->leaving = cgroup;
	cgroups->leaving_count++;
	/* it may have emptied between the attempt and the watch; reading its events arms the watch,
	 * too */
	handle_slot_change(cgroup, 0);
}

static void command_name(char name[32], unsigned number)
{
	(void)snprintf(name, 32, "cmd-%u", number);
}

static int create_command_cgroup(
	struct slot_cgroup *slot, struct command_cgroup **ret_cgroup, struct error *err)
{
	struct command_cgroup *cgroup = calloc(1, sizeof(*cgroup));
	char name[32];
	int r;

	if (!cgroup)
		return error_set(err, ENOMEM, "no memory for a cgroup");
	cgroup->slot = slot;
	cgroup->number = slot->last_number + 1;
	command_name(name, cgroup->number);
	r = make_cgroup(slot_cgroup_commands_fd(slot), name, slot->uid, &cgroup->dir_fd,
		&cgroup->events_fd);
	if (r < 0) {
		free(cgroup);
		return error_errno(err, -r, "cannot make the cgroup '%s/%s'", slot->path, name);
	}
	slot->last_number++;
	*ret_cgroup = cgroup;
	return 0;
}

int command_cgroup_take(
	struct slot_cgroup *slot, struct command_cgroup **ret_cgroup, struct error *err)
{
	struct command_cgroup *spare = slot->spares;

	if (!spare)
		return create_command_cgroup(slot, ret_cgroup, err);
	slot->spares = spare->next;
	slot->spare_count--;
	*ret_cgroup = spare;
	return 0;
}

static void note_lingering(struct slot_cgroup *slot, unsigned number)
{
	if (slot->lingering_count == slot->lingering_capacity) {
		size_t capacity = slot->lingering_capacity ? slot->lingering_capacity * 2 : 16;
		unsigned *grown = realloc(slot->lingering, capacity * sizeof(*grown));

		if (!grown)
			return; /* it goes with the slot */
		slot->lingering = grown;
		slot->lingering_capacity = capacity;
	}
	slot->lingering[slot->lingering_count++] = number;
}

/* Removes some of those whose background processes have ended since. */
static void sweep_lingering(struct slot_cgroup *slot)
{
	for (unsigned i = 0; i < LINGERING_SWEEP && slot->lingering_count > 0; i++) {
		char name[32];

		slot->lingering_at = (slot->lingering_at + 1) % slot->lingering_count;
		command_name(name, slot->lingering[slot->lingering_at]);
		if (unlinkat(slot_cgroup_commands_fd(slot), name, AT_REMOVEDIR) == 0)
			slot->lingering[slot->lingering_at] =
				slot->lingering[--slot->lingering_count];
	}
}

static void drop_command_cgroup(struct command_cgroup *cgroup, bool lives)
{
	char name[32];

	command_name(name, cgroup->number);
	if (lives || unlinkat(slot_cgroup_commands_fd(cgroup->slot), name, AT_REMOVEDIR) < 0)
		note_lingering(cgroup->slot, cgroup->number);
	command_cgroup_free(cgroup);
}

void command_cgroup_give(struct command_cgroup *cgroup)
{
	struct slot_cgroup *slot;
	bool lives;

	if (!cgroup)
		return;
	slot = cgroup->slot;
	sweep_lingering(slot);
	loop_watch_stop(take_ptr(&cgroup->watch));
	lives = populated(cgroup->events_fd);
	if (lives || cgroup->killed || slot->spare_count == SPARES_MAX) {
		drop_command_cgroup(cgroup, lives);
		return;
	}
	cgroup->next = slot->spares;
	slot->spares = cgroup;
	slot->spare_count++;
}

int command_cgroup_fd(const struct command_cgroup *cgroup)
{
	return cgroup->dir_fd;
}

int command_cgroup_kill(struct command_cgroup *cgroup, struct error *err)
{
	int r = cgroup_write_at(cgroup->dir_fd, "cgroup.kill", "1");

	cgroup->killed = true;
	return r < 0 ? error_errno(err, -r, "cannot kill a command's cgroup") : 0;
}

bool command_cgroup_populated(struct command_cgroup *cgroup)
{
	return populated(cgroup->events_fd);
}

static void handle_command_change(void *data, unsigned events)
{
	struct command_cgroup *cgroup = data;

	(void)populated(cgroup->events_fd); /* reading it arms the watch for the next change */
	cgroup->changed(cgroup->data);
}

int command_cgroup_watch(struct command_cgroup *cgroup, struct loop *loop, loop_fn *fn, void *data,
	struct error *err)
{
	cgroup->changed = fn;
	cgroup->data = data;
	if (cgroup->watch)
		return 0;
	return loop_watch_start(loop, cgroup->events_fd, LOOP_PRIORITY, handle_command_change,
		cgroup, &cgroup->watch, err);
}
