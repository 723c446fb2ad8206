/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "config/settings.h"
#include "pool/cgroup.h"
#include "pool/journal.h"
#include "pool/pool-private.h"
#include "pool/process.h"
#include "pool/slot-dirs.h"
#include "pool/slot-limits.h"
#include "pool/trash.h"

struct leftovers {
	struct pool *pool;
	unsigned killed, cgroups, dirs;
	unsigned known; /* slots that the journal knows: those below this number */
	struct error *err;
	int r;
};

static void fail(struct leftovers *left, int r)
{
	if (left->r == 0)
		left->r = r;
}

/* By number and time of birth: a number alone may be somebody else's by now. */
static void clear_process(struct leftovers *left, const struct journal_slot *row)
{
	int r;

	if (row->pid <= 1 || process_starttime(row->pid) != row->pid_starttime)
		return;
	r = process_kill(row->pid, row->pid_starttime, LEFTOVER_KILL_MS);
	if (r < 0)
		fail(left, error_errno(left->err, -r,
				   "cannot kill slot %04u of an earlier daemon (pid %d)", row->slot,
				   (int)row->pid));
	else
		left->killed++;
}

static bool is_ours(const struct pool *pool, const char *path)
{
	return (pool->cgroups && !strcmp(cgroups_path(pool->cgroups), path)) ||
	       limits_has_tree(pool->limits, path);
}

static void clear_cgroup(struct leftovers *left, const char *path)
{
	struct error why = ERROR_NONE;

	if (access(path, F_OK) < 0)
		return;
	if (cgroup_clear(path, LEFTOVER_KILL_MS, &why) < 0)
		log_warn("what an earlier daemon left: %s", why.text);
	else
		left->cgroups++;
}

/* The daemon may have lived elsewhere then: what held its slots there is of no use any more. */
static void clear_holder(const struct leftovers *left, char *path)
{
	char *slash = strrchr(path, '/');
	CLEANUP(strbuf_fini) struct strbuf daemon = STRBUF_INIT;

	*slash = '\0';
	slash = strrchr(path, '/');
	if (!slash || strncmp(slash, "/dressage-", 10) != 0 || is_ours(left->pool, path))
		return;
	strbuf_addf(&daemon, "%s-daemon", path);
	(void)rmdir(path);
	(void)rmdir(daemon.data);
}

/* Of a row: the paths of a slot's cgroups, one a line. */
static void clear_cgroups(struct leftovers *left, const char *paths)
{
	for (size_t len; *paths; paths += len + (paths[len] == '\n')) {
		CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;

		len = strcspn(paths, "\n");
		strbuf_add(&path, paths, len);
		if (path.data[0] != '/')
			continue;
		clear_cgroup(left, path.data);
		clear_holder(left, path.data);
	}
}

static void clear_row(void *data, const struct journal_slot *row)
{
	struct leftovers *left = data;
	struct pool *pool = left->pool;
	struct journal_slot empty = *row;

	if (row->slot >= left->known)
		left->known = row->slot + 1;
	clear_process(left, row);
	clear_cgroups(left, row->cgroup);
	if (row->slot < pool->slot_count) { /* generations go on counting: lease ids stay unique */
		pool->slots[row->slot]->generation = row->generation;
		return;
	}
	empty.state = slot_state_name(SLOT_EMPTY);
	empty.pid = 0;
	empty.cgroup = "";
	journal_put_slot(pool->journal, &empty, NULL, NULL);
}

/* Those whose start the journal had not heard of yet. */
static void clear_subtree(struct leftovers *left)
{
	CLEANUP(closedirp)
	DIR *dir = left->pool->cgroups ? opendir(cgroups_path(left->pool->cgroups)) : NULL;
	struct error why = ERROR_NONE;
	struct dirent *entry;

	if (!dir && left->pool->cgroups)
		log_warn("cannot list the cgroups in '%s': %s", cgroups_path(left->pool->cgroups),
			strerrordesc_np(errno));
	if (limits_clear(left->pool->limits, &left->cgroups, &why) < 0)
		log_warn("what an earlier daemon left: %s", why.text);
	while (dir && (entry = readdir(dir))) {
		CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;

		if (entry->d_type != DT_DIR || strncmp(entry->d_name, "slot-", 5) != 0)
			continue;
		strbuf_addf(&path, "%s/%s", cgroups_path(left->pool->cgroups), entry->d_name);
		clear_cgroup(left, path.data);
	}
}

static bool is_slot_name(const char *name)
{
	return strlen(name) >= 4 && strspn(name, "0123456789") == strlen(name);
}

/* The journal was damaged or removed: what the slot's directory alone tells is said once. */
static void warn_of_unknown(struct leftovers *left, const char *name)
{
	if (strtoul(name, NULL, 10) < left->known)
		return;
	log_warn(
		"the journal in '%s' knows nothing of slot %s, whose directory is here: processes of it may still run without being known, and generations count from 1 again",
		left->pool->config->dressage.state_dir, name);
	left->known = UINT_MAX;
}

static void clear_directories(struct leftovers *left)
{
	struct pool *pool = left->pool;
	CLEANUP(closedirp) DIR *dir = opendir(pool->slots_dir);
	struct dirent *entry;

	if (!dir) {
		fail(left, error_errno(left->err, errno, "cannot list '%s'", pool->slots_dir));
		return;
	}
	while ((entry = readdir(dir))) {
		CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;
		int r;

		if (!is_slot_name(entry->d_name))
			continue;
		warn_of_unknown(left, entry->d_name);
		strbuf_addf(&path, "%s/%s", pool->slots_dir, entry->d_name);
		r = slot_dirs_remove(path.data, pool->trash, left->err);
		if (r < 0)
			fail(left, r);
		else
			left->dirs++;
	}
}

int leftovers_clear(struct pool *pool, struct error *err)
{
	struct leftovers left = {.pool = pool, .err = err};
	int r = journal_each_slot(pool->journal, clear_row, &left, err);

	if (r < 0)
		return r;
	clear_subtree(&left);
	clear_directories(&left);
	trash_wake(pool->trash);
	if (left.killed || left.cgroups || left.dirs)
		log_info(
			"cleared what an earlier daemon left: %u slots alive, %u cgroups, directories of %u slots",
			left.killed, left.cgroups, left.dirs);
	return left.r;
}
