/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/delegation.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
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
#include "pool/cgroup.h"

struct delegation {
	char *own, *leaf, *subtree;
	unsigned enabled; /* by us, in our own cgroup */
	bool moved;
};

static const char *const names[] = {
	[CONTROLLER_MEMORY] = "memory", [CONTROLLER_PIDS] = "pids", [CONTROLLER_CPU] = "cpu"};

const char *controller_name(enum controller controller)
{
	return names[controller];
}

unsigned controllers_parse(const char *text)
{
	unsigned found = 0;

	for (size_t len; *text; text += len) {
		text += strspn(text, " \n");
		len = strcspn(text, " \n");
		for (unsigned i = 0; i < CONTROLLER_COUNT; i++)
			if (len == strlen(names[i]) && !strncmp(text, names[i], len))
				found |= 1u << i;
	}
	return found;
}

uint64_t cgroup_event_count(const char *text, const char *key)
{
	size_t len = strlen(key);

	for (const char *line = text; *line; line += *line == '\n') {
		if (!strncmp(line, key, len) && line[len] == ' ')
			return strtoull(line + len, NULL, 10);
		line += strcspn(line, "\n");
	}
	return 0;
}

pid_t procs_other(const char *procs, pid_t self, pid_t parent)
{
	char *rest;

	for (const char *line = procs; *line; line = *rest ? rest + 1 : rest) {
		long pid = strtol(line, &rest, 10);

		if (rest == line)
			return -1;
		if (pid == 0)
			return -1;
		if (pid != self && pid != parent)
			return (pid_t)pid;
	}
	return 0;
}

static int read_file(const char *dir, const char *file, struct strbuf *out)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;

	strbuf_addf(&path, "%s/%s", dir, file);
	return strbuf_failed(&path) ? -ENOMEM : read_text(path.data, out);
}

static int move(const char *dir, pid_t pid)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	return cgroup_write(dir, "cgroup.procs", text);
}

/* A daemon that goes to the background is started by one that waits until it is ready, and only
 * for that. 0: there is none. */
static pid_t waiting_parent(void)
{
	char path[32], ours[PATH_MAX], its[PATH_MAX];
	pid_t parent = getppid();
	ssize_t n, m;

	(void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)parent);
	n = readlink("/proc/self/exe", ours, sizeof(ours));
	m = readlink(path, its, sizeof(its));
	return n > 0 && n == m && memcmp(ours, its, (size_t)n) == 0 ? parent : 0;
}

static int leave_own(struct delegation *delegation, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf procs = STRBUF_INIT;
	pid_t parent = waiting_parent(), other;
	int r = read_file(delegation->own, "cgroup.procs", &procs);

	if (r < 0)
		return error_errno(err, -r, "cannot list the cgroup '%s'", delegation->own);
	other = procs_other(procs.data, getpid(), parent);
	if (other != 0)
		return error_set(err, EBUSY,
			"the cgroup '%s' is not ours alone (process %d lives there): start the daemon by systemd with Delegate=yes",
			delegation->own, (int)other);
	if (mkdir(delegation->leaf, 0755) < 0 && errno != EEXIST)
		return error_errno(err, errno, "cannot make '%s'", delegation->leaf);
	r = move(delegation->leaf, getpid());
	delegation->moved = r == 0;
	if (r == 0 && parent)
		r = move(delegation->leaf, parent);
	if (r < 0 && r != -ESRCH) /* the one that waits may be gone by now */
		return error_errno(err, -r, "cannot move to '%s'", delegation->leaf);
	return 0;
}

/* One by one: what one cgroup cannot have must not keep the others away. */
static unsigned enable(const char *dir, unsigned wanted, struct error *err)
{
	unsigned given = 0;
	char word[16];

	for (unsigned i = 0; i < CONTROLLER_COUNT; i++) {
		int r;

		if (!(wanted & 1u << i))
			continue;
		(void)snprintf(word, sizeof(word), "+%s", names[i]);
		r = cgroup_write(dir, "cgroup.subtree_control", word);
		if (r == 0)
			given |= 1u << i;
		else
			(void)error_errno(
				err, -r, "cannot use the controller %s in '%s'", names[i], dir);
	}
	return given;
}

/* The root of all has none, and may hold processes whatever its children have. */
static bool is_root(const char *dir)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;

	strbuf_addf(&path, "%s/cgroup.events", dir);
	return !strbuf_failed(&path) && access(path.data, F_OK) < 0;
}

static int prepare_own(struct delegation *delegation, unsigned wanted, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf there = STRBUF_INIT, on = STRBUF_INIT;
	int r = read_file(delegation->own, "cgroup.controllers", &there);
	unsigned has, missing;

	if (r == 0)
		r = read_file(delegation->own, "cgroup.subtree_control", &on);
	if (r < 0)
		return error_errno(err, -r, "cannot read '%s'", delegation->own);
	wanted &= controllers_parse(there.data);
	if (wanted == 0)
		return error_set(err, ENOENT, "cgroup v2 has no such controller here");
	has = wanted & controllers_parse(on.data);
	missing = wanted & ~has;
	if (missing && !is_root(delegation->own)) {
		r = leave_own(delegation, err);
		if (r < 0)
			return has ? (int)has : r;
	}
	delegation->enabled = enable(delegation->own, missing, err);
	return (int)(has | delegation->enabled);
}

static int fill_paths(struct delegation *delegation, const char *subtree)
{
	const char *slash = strrchr(subtree, '/');

	delegation->subtree = strdup(subtree);
	delegation->own = strndup(subtree, slash == subtree ? 1 : (size_t)(slash - subtree));
	if (asprintf(&delegation->leaf, "%s-daemon", subtree) < 0)
		delegation->leaf = NULL;
	return delegation->subtree && delegation->own && delegation->leaf ? 0 : -ENOMEM;
}

int delegation_open(const char *subtree, unsigned wanted, struct delegation **ret_delegation,
	unsigned *ret_given, struct error *err)
{
	struct delegation *delegation = calloc(1, sizeof(*delegation));
	int r = delegation ? fill_paths(delegation, subtree) : -ENOMEM;

	if (r < 0) {
		delegation_close(delegation);
		return error_set(err, ENOMEM, "no memory for the controllers");
	}
	r = prepare_own(delegation, wanted, err);
	if (r > 0)
		r = (int)enable(subtree, (unsigned)r, err);
	if (r <= 0) {
		delegation_close(delegation);
		return r < 0 ? r : err && err->code ? -err->code : -EACCES;
	}
	*ret_given = (unsigned)r;
	*ret_delegation = delegation;
	return 0;
}

static void disable(const struct delegation *delegation)
{
	char word[16];

	for (unsigned i = 0; i < CONTROLLER_COUNT; i++) {
		if (!(delegation->enabled & 1u << i))
			continue;
		(void)snprintf(word, sizeof(word), "-%s", names[i]);
		(void)cgroup_write(delegation->own, "cgroup.subtree_control", word);
	}
}

void delegation_close(struct delegation *delegation)
{
	if (!delegation)
		return;
	if (delegation->own && delegation->enabled)
		disable(delegation);
	if (delegation->moved && move(delegation->own, getpid()) < 0)
		log_debug("the daemon ends in '%s'", delegation->leaf);
	if (delegation->leaf)
		(void)rmdir(delegation->leaf);
	free(delegation->own);
	free(delegation->leaf);
	free(delegation->subtree);
	free(delegation);
}
