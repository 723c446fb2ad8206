/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * cleanup.h: a local variable that releases what it holds when its scope ends.
 *
 *	CLEANUP(closep) int fd = open(...);
 *	...
 *	*ret_fd = take_fd(&fd);        // moved out: the scope releases nothing
 *
 * Always initialise such a variable. Threads: any.
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* Closes *fd unless it is negative. */
static inline void closep(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
}

/* Frees the pointer that p points to; p is the address of any pointer variable. */
static inline void freep(void *p)
{
	free(*(void **)p);
}

static inline void fclosep(FILE **file)
{
	if (*file)
		(void)fclose(*file);
}

static inline void closedirp(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir);
}

/* Moves the descriptor out of *fd, which is -1 afterwards. */
static inline int take_fd(int *fd)
{
	int out = *fd;

	*fd = -1;
	return out;
}

/* Moves the pointer out of *p, which is NULL afterwards. */
#define take_ptr(p)                                                                                \
	({                                                                                         \
		__typeof__(*(p)) taken_ptr_ = *(p);                                                \
		*(p) = NULL;                                                                       \
		taken_ptr_;                                                                        \
	})

#endif
