/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * delegation.h: the controllers of cgroup v2 (memory, pids, cpu), made usable below a cgroup of
 * ours.
 *
 * A cgroup whose children have controllers may hold no process itself. So the daemon moves from its
 * own cgroup into a child of that, and only if nobody else lives there: a unit of systemd with
 * Delegate=yes is such a place, a login session is not. Threads: loop, before anything runs; it
 * blocks for a moment.
 */
#ifndef POOL_DELEGATION_H
#define POOL_DELEGATION_H

#include <stdint.h>
#include <sys/types.h>

struct delegation;
struct error;

enum controller { CONTROLLER_MEMORY, CONTROLLER_PIDS, CONTROLLER_CPU, CONTROLLER_COUNT };

const char *controller_name(enum controller controller);
/* The ones that a text like "cpuset cpu io memory pids" names, as bits. Pure. */
unsigned controllers_parse(const char *text);
/* The number behind a key of a text of lines "key number"; 0 when it is not there. Pure. */
uint64_t cgroup_event_count(const char *text, const char *key);
/* A process in the text of a cgroup.procs that is neither of these two; 0 when there is none, -1
 * for one that cannot be seen from here. Pure. */
pid_t procs_other(const char *procs, pid_t self, pid_t parent);

/*
 * Gives the cgroup at `subtree`, a child of our own cgroup, those of the wanted controllers that
 * can be had; *ret_given says which, and then err may still tell why others were not. -errno: none,
 * with why.
 */
int delegation_open(const char *subtree, unsigned wanted, struct delegation **ret_delegation,
	unsigned *ret_given, struct error *err);
/* Back into our own cgroup, as it was. The subtree must have been removed. Accepts NULL. */
void delegation_close(struct delegation *delegation);

#endif
