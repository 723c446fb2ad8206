/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * trash.h: removing what hostile people left behind.
 *
 * A tree may be deeper than PATH_MAX or than our stack, hold millions of names, directories nobody
 * may read and symbolic links that point anywhere. Nothing is followed and nothing recurses: a
 * directory that is not empty is renamed up into the trash itself, where it comes to its turn. So
 * two descriptors and a few kilobytes are enough for any tree, and a removal that was cut short
 * goes on at the next call. Nobody else may be changing the trees meanwhile.
 */
#ifndef POOL_TRASH_H
#define POOL_TRASH_H

#include <stdbool.h>

struct error;
struct loop;
struct trash;

/* Removes all that is in the directory. -errno of what could not be removed; the rest is gone all
 * the same. It blocks; any thread. */
int trash_empty(int dir_fd, struct error *err);

/* A directory whose contents are removed in the background, one worker at a time. It is made (0700)
 * where it is missing. */
int trash_create(struct loop *loop, const char *path, struct trash **ret_trash, struct error *err);
/* Leaves what is not yet removed. Accepts NULL. */
void trash_destroy(struct trash *trash);
/* Nothing more is removed but what the worker is at; who waits for it to be empty is not told. */
void trash_give_up(struct trash *trash);
/* The directory, to rename into: of the same file system as what is thrown away. */
int trash_fd(const struct trash *trash);
/* A name that no other thing in the trash has. Any thread. */
void trash_name(struct trash *trash, char name[64]);
/* There is something new in it. */
void trash_wake(struct trash *trash);
/* Runs fn whenever a round leaves something that the rounds before did not (err says why), and when
 * everything goes again (NULL). */
void trash_on_trouble(
	struct trash *trash, void (*fn)(void *data, const struct error *err), void *data);
/* Runs fn once, later: when nothing is left to do. r: as trash_empty() of the last round. Only one
 * can wait. */
void trash_on_empty(
	struct trash *trash, void (*fn)(void *data, int r, const struct error *err), void *data);

#endif
