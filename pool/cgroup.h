/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * cgroup.h: a cgroup v2 for each slot and for each command in it, so that a whole tree of processes
 * can be killed at once.
 *
 *	<the daemon's own cgroup>/dressage-<hash of the state directory>/slot-0003-g7/cmd-1
 *
 * Where the memory controller can be had (slot-limits.h) a slot's is parted: init and what starts
 * it live in `init`, commands below `work`, which alone has the memory limit. So the OOM killer
 * never has init to choose, and nothing slows it down.
 *
 * A command's processes are born into its cgroup (CLONE_INTO_CGROUP by the slot's init, which for
 * that must be allowed to write cgroup.procs of the slot's and of the command's cgroup: both are
 * given to the slot's uid). Making and removing a cgroup costs a seventh of a short command, so an
 * emptied one is used again for the next command of the same slot; but not one that was killed:
 * Linux 6.18 kills at once whatever is cloned into it later. Where no cgroup v2 can be written
 * there is none of this, and cgroups_open() says why. Threads: loop, except what says otherwise.
 */
#ifndef POOL_CGROUP_H
#define POOL_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop.h"

struct cgroups;
struct command_cgroup;
struct error;
struct slot_cgroup;
struct strbuf;

/*
 * Appends the directory of the calling process's own cgroup v2, from the texts of
 * /proc/self/mountinfo and /proc/self/cgroup. Pure. -ENOENT: no cgroup v2 is mounted where it would
 * show.
 */
int cgroup_locate(
	const char *mountinfo, const char *self_cgroup, struct strbuf *out, struct error *err);
/* The same of what this machine says. controller: in its hierarchy of version 1; NULL: v2. */
int cgroup_locate_own(const char *controller, struct strbuf *out, struct error *err);

/* Writes a value to a file of the cgroup at this path, or of that open directory. -ENOENT: this
 * kernel has no such file. */
int cgroup_write(const char *path, const char *file, const char *value);
int cgroup_write_at(int dir_fd, const char *file, const char *value);

enum { CGROUP_NAME = 24 };
/* The name of the daemon's subtree, in every hierarchy. */
void cgroup_subtree_name(const char *state_dir, char name[CGROUP_NAME]);

/* The daemon's subtree. -errno with why it cannot be had; then every cgroup below is "none". */
int cgroups_open(
	struct loop *loop, const char *state_dir, struct cgroups **ret_cgroups, struct error *err);
/* Kills what still lives in the subtree and removes it: blocks, 5 s at most. Accepts NULL. */
void cgroups_close(struct cgroups *cgroups);
const char *cgroups_path(const struct cgroups *cgroups);
/* Slots' cgroups made from now on are parted. */
void cgroups_part(struct cgroups *cgroups);
/* Slots' cgroups given to slot_cgroup_discard() that still exist. */
unsigned cgroups_leaving(const struct cgroups *cgroups);
/* Runs fn whenever that number has fallen to 0. */
void cgroups_on_gone(struct cgroups *cgroups, loop_fn *fn, void *data);

/* Kills all in the cgroup at this path, of either version, and below and removes it: blocks,
 * deadline_ms at most. */
int cgroup_clear(const char *path, uint64_t deadline_ms, struct error *err);

/* Makes a slot's cgroup, which uid may move processes within. Any thread. */
int slot_cgroup_create(const struct cgroups *cgroups, unsigned slot, uint32_t generation, uid_t uid,
	struct slot_cgroup **ret_cgroup, struct error *err);
/* Kills what lives in it and removes it, now or when it is empty. Every command's cgroup must have
 * been given back. Accepts NULL. */
void slot_cgroup_discard(struct cgroups *cgroups, struct slot_cgroup *cgroup);
/* The directory that whatever starts init is to be born in. */
int slot_cgroup_fd(const struct slot_cgroup *cgroup);
/* The directory of all its processes; that of its commands, the same where it is not parted. */
int slot_cgroup_dir_fd(const struct slot_cgroup *cgroup);
int slot_cgroup_commands_fd(const struct slot_cgroup *cgroup);
const char *slot_cgroup_path(const struct slot_cgroup *cgroup);

/* What earlier commands left behind may still live in it. */
bool slot_cgroup_lingers(const struct slot_cgroup *cgroup);

/* An empty cgroup for one command. */
int command_cgroup_take(
	struct slot_cgroup *slot, struct command_cgroup **ret_cgroup, struct error *err);
/* Back to its slot: for the next command when it is empty; else it stays until it is, or until the
 * slot's end. Accepts NULL. */
void command_cgroup_give(struct command_cgroup *cgroup);
int command_cgroup_fd(const struct command_cgroup *cgroup);
/* SIGKILL to every process in it, forking or not. */
int command_cgroup_kill(struct command_cgroup *cgroup, struct error *err);
/* This signal to every process in it, once each. They are frozen meanwhile, so that none outruns it
 * by forking again and again; but freezing is not waited for, and a child whose fork was under way
 * may miss it. Does not wait; takes some 10 us a process. Implemented in cgroup-signal.c. */
int command_cgroup_signal(struct command_cgroup *cgroup, int signal, struct error *err);
bool command_cgroup_populated(struct command_cgroup *cgroup);
/* Runs fn when the cgroup may have become empty; once for each change until the cgroup is given
 * back. */
int command_cgroup_watch(struct command_cgroup *cgroup, struct loop *loop, loop_fn *fn, void *data,
	struct error *err);

#endif
