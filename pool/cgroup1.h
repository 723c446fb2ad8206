/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * cgroup1.h: the older cgroups, one hierarchy a controller, for machines whose controllers are
 * still there. They limit and count; killing stays with cgroup.h.
 *
 *	<the daemon's own cgroup there>/dressage-<hash of the state directory>/slot-0003-g7
 *
 * Threads: any, but for what says otherwise; all of it blocks for a moment.
 */
#ifndef POOL_CGROUP1_H
#define POOL_CGROUP1_H

#include <stdint.h>

struct error;
struct strbuf;

/*
 * Appends the directory of the calling process's cgroup in the hierarchy of that controller, from
 * the texts of /proc/self/mountinfo and /proc/self/cgroup. Pure. -ENOENT: no such hierarchy is
 * mounted where it would show.
 */
int cgroup1_locate(const char *mountinfo, const char *self_cgroup, const char *controller,
	struct strbuf *out, struct error *err);

/* Makes the daemon's subtree in the hierarchy of that controller and appends its path. -errno with
 * why it cannot be had. */
int cgroup1_open(
	const char *controller, const char *state_dir, struct strbuf *path, struct error *err);

/*
 * Kills, one by one, what still lives in the cgroup at this path, and removes it: deadline_ms at
 * most. 0 when it was not there.
 */
int cgroup1_clear(const char *path, uint64_t deadline_ms, struct error *err);
/* The same for each cgroup of a slot in a subtree; counts those that were there. */
int cgroup1_clear_all(
	const char *subtree, uint64_t deadline_ms, unsigned *ret_count, struct error *err);

#endif
