/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * suggest.h: the known word that a mistyped one most likely means. Threads: any.
 */
#ifndef CONFIG_SUGGEST_H
#define CONFIG_SUGGEST_H

#include <stddef.h>

struct suggestion {
	const char *typed;
	const char *best; /* NULL: nothing is near enough */
	size_t distance;
};

/* Nothing farther than this many edits is suggested: 1 for the shortest words, up to 4. */
size_t suggest_limit(const char *typed);
/*
 * Keeps the candidate when it is nearer than what was seen before. Zero the struct and set
 * `typed` first.
 */
void suggest_consider(struct suggestion *suggestion, const char *candidate);

/*
 * Edits (insert, delete, replace, swap of neighbours) between two words; case counts for nothing.
 */
size_t edit_distance(const char *a, const char *b);

#endif
