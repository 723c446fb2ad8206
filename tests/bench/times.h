/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* times.h: microseconds, and what is printed of them. */
#ifndef TESTS_BENCH_TIMES_H
#define TESTS_BENCH_TIMES_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double now_us(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static inline int compare_times(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* "NAME P50 P99" without the end of the line; sorts them. */
static inline void print_times(const char *name, double *times, size_t count)
{
	qsort(times, count, sizeof(*times), compare_times);
	printf("%s %.1f %.1f", name, times[count / 2], times[count * 99 / 100]);
}

#endif
