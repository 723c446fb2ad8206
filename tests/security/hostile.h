/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * hostile.h: what a hostile command tries inside a slot. An attempt returns NULL when everything
 * was refused, else what got through. It must leave the slot usable. What it has to know of the
 * host comes in struct decoys.
 */
#ifndef TESTS_SECURITY_HOSTILE_H
#define TESTS_SECURITY_HOSTILE_H

#include <stdbool.h>
#include <sys/types.h>

/* Planted by the test on the host. Texts that were not given are "". */
struct decoys {
	const char *marker; /* in the environment of the daemon, and in another slot's file */
	int daemon_pid;
	const char *daemon_comm;
	const char *other_file;    /* the host's path of the other slot's file */
	const char *other_socket;  /* of a listening unix socket beside it */
	int port;                  /* of a TCP listener on the host's 127.0.0.1 */
	const char *abstract_name; /* of a listening unix socket in the host's abstract names */
	int shm_key;               /* of a System V segment */
	const char *host_name;
	const char *namespaces; /* of the daemon, as /proc/self/ns has them, with commas */
	const char *group_file; /* inside: one that only a group of the daemon's may read */
	const char *root_file;  /* inside: one that only the host's root may */
};

typedef const char *attempt_fn(const struct decoys *decoys);

struct attempt {
	const char *name; /* a sentence that is true when all was refused */
	attempt_fn *run;
};

/* By theme; each ends with a NULL name. */
extern const struct attempt process_attempts[], file_attempts[], network_attempts[],
	kernel_attempts[], filter_attempts[], memory_attempts[], root_attempts[];
/* Not in the --list: they go on until they are killed. */
extern const struct attempt unending_attempts[];
/* Nor is this one, which must get through. */
extern const struct attempt landlock_control[];

/* True when the file can be opened so. */
bool can_open(const char *path, int flags);
/* True when the file can be written with what it holds already: harmless where it is let
 * through. */
bool can_rewrite(const char *path);
/* True when the text stands in the file. */
bool file_has(const char *path, const char *text);
/* Formats into a static buffer: for an attempt's answer. */
const char *got(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Forks until it is refused: NULL. As often as the limit of processes allows, one of which is this
 * one: an answer. Each child runs first(its number), unless that is NULL, and lives as long as this
 * process. */
const char *fork_to_the_limit(void (*first)(int nth));

#endif
