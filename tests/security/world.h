/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * world.h: what the hostile program is set loose in: slot 0, which is its own, and around it decoys
 * that it must not get: another slot's file and socket, a port, an abstract socket, a System V
 * segment, a file for a group of the daemon's, and this process with a marker in its environment.
 */
#ifndef TESTS_SECURITY_WORLD_H
#define TESTS_SECURITY_WORLD_H

#include "tests/support/bubble-fixture.h"

#define MARKER "decoy-5d1f0c"

enum { DECOY_WORDS = 12, ATTEMPTS_MAX = 100 };

struct world {
	struct fixture fixture;
	bool made;
	char other_file[128], port[16], abstract_name[64], shm_key[16];
	char *words[DECOY_WORDS + 1]; /* DECOY=VALUE for the program, NULL at the end */
	int listener, abstract, other_socket, shm_id;
};

/* Plants everything and copies the program ($HOSTILE) into slot 0. Starts no slot. */
void world_init(struct world *world);
/* Harmless when there is none. */
void world_fini(struct world *world);

/* Runs one attempt in slot 0 and returns its exit status; result has what it said. */
int world_attempt(struct world *world, const char *name, struct fixture_result *result);

struct CMUnitTest;
/* A test for each attempt of the program's --list, with its name as initial state. The names are
 * the caller's to free(). */
size_t world_list(const char *program, void (*run)(void **state), struct CMUnitTest *tests);

#endif
