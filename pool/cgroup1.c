/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/cgroup1.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/strbuf.h"
#include "pool/cgroup.h"

enum { LOOK_AGAIN_US = 2000 };

int cgroup1_open(
	const char *controller, const char *state_dir, struct strbuf *path, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf own = STRBUF_INIT;
	char name[CGROUP_NAME];
	int r = cgroup_locate_own(controller, &own, err);

	if (r < 0)
		return r;
	cgroup_subtree_name(state_dir, name);
	strbuf_addf(&own, "/%s", name);
	if (strbuf_failed(&own))
		return error_set(err, ENOMEM, "no memory");
	if (mkdir(own.data, 0755) < 0 && errno != EEXIST)
		return error_errno(err, errno, "cannot make '%s'", own.data);
	if (access(own.data, W_OK) < 0)
		return error_errno(err, errno, "cannot use '%s'", own.data);
	strbuf_adds(path, own.data);
	return strbuf_failed(path) ? error_set(err, ENOMEM, "no memory") : 0;
}

/* A pid that the list names may be another's by the time it is killed, but for a process held by
 * its descriptor that is still in the list. */
static bool is_listed(const char *procs, pid_t pid)
{
	char line[16];
	const char *at = procs;
	int n = snprintf(line, sizeof(line), "%d\n", (int)pid);

	while ((at = strstr(at, line))) {
		if (at == procs || at[-1] == '\n')
			return true;
		at += n;
	}
	return false;
}

static void kill_one(const char *procs_path, pid_t pid)
{
	CLEANUP(strbuf_fini) struct strbuf again = STRBUF_INIT;
	CLEANUP(closep) int fd = pidfd_open(pid, 0);

	if (fd >= 0 && read_text(procs_path, &again) == 0 && is_listed(again.data, pid))
		(void)pidfd_send_signal(fd, SIGKILL, NULL, 0);
}

static void kill_all(const char *path)
{
	CLEANUP(strbuf_fini) struct strbuf name = STRBUF_INIT, procs = STRBUF_INIT;
	char *rest = NULL;

	strbuf_addf(&name, "%s/cgroup.procs", path);
	if (strbuf_failed(&name) || read_text(name.data, &procs) < 0)
		return;
	for (const char *line = procs.data; *line; line = *rest ? rest + 1 : rest) {
		long pid = strtol(line, &rest, 10);

		if (rest == line)
			return;
		if (pid > 1 && pid != getpid())
			kill_one(name.data, (pid_t)pid);
	}
}

int cgroup1_clear(const char *path, uint64_t deadline_ms, struct error *err)
{
	uint64_t end = loop_now_ms() + deadline_ms;

	while (rmdir(path) < 0) {
		if (errno == ENOENT)
			return 0;
		if (errno != EBUSY || loop_now_ms() >= end)
			return error_errno(err, errno, "cannot remove the cgroup '%s'", path);
		kill_all(path);
		(void)usleep(LOOK_AGAIN_US);
	}
	return 0;
}

int cgroup1_clear_all(
	const char *subtree, uint64_t deadline_ms, unsigned *ret_count, struct error *err)
{
	CLEANUP(closedirp) DIR *dir = opendir(subtree);
	struct dirent *entry;
	unsigned count = 0;
	int r = 0;

	if (!dir)
		return errno == ENOENT ? 0 : error_errno(err, errno, "cannot list '%s'", subtree);
	while ((entry = readdir(dir))) {
		CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;

		if (entry->d_type != DT_DIR || strncmp(entry->d_name, "slot-", 5) != 0)
			continue;
		strbuf_addf(&path, "%s/%s", subtree, entry->d_name);
		if (strbuf_failed(&path) || cgroup1_clear(path.data, deadline_ms, err) < 0)
			r = -EBUSY;
		else
			count++;
	}
	*ret_count += count;
	return r;
}
