/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * clock.h: what time it is, for people and for files. Durations and deadlines are measured with
 * loop_now_ms(), which never jumps. Threads: any.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <time.h>

/* Unix seconds, now. */
static inline double unix_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#endif
