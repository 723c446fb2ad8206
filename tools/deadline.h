/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * deadline.h: the end of a process that does not come to its end. A call into a file system that no
 * longer answers cannot be taken back, nor can its thread be waited for; whatever is left behind is
 * cleared by the next start, as after kill -9.
 *
 * Threads: one of its own waits; the calls come from one other.
 */
#ifndef TOOLS_DEADLINE_H
#define TOOLS_DEADLINE_H

#include <stdint.h>

struct deadline;

/* Says so in the log and ends the process with status 1 unless it is stopped within so long.
 * -errno: there is none. */
int deadline_start(uint64_t ms, struct deadline **ret_deadline);
/* So long from now instead. Accepts NULL. */
void deadline_restart(struct deadline *deadline, uint64_t ms);
/* Accepts NULL. */
void deadline_stop(struct deadline *deadline);

#endif
