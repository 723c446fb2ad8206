/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * leak.h: what a slot is to go without. The daemon's own code runs as it is; what it hands to bwrap
 * and to init is changed on the way (the linker's --wrap), and init is a build of its own.
 */
#ifndef TESTS_SECURITY_LEAK_H
#define TESTS_SECURITY_LEAK_H

#include <stdbool.h>
#include <stddef.h>

enum { MATCH_MAX = 4, ADD_MAX = 5 };

/* bwrap's words: the first place where all of match stands in a row ("*": any word, "$N" in add:
 * the Nth of those that matched, "$D": the directory above all slots) is replaced by add. */
struct word_edit {
	const char *match[MATCH_MAX];
	const char *add[ADD_MAX];
};

enum filter_hole {
	FILTER_WHOLE,
	FILTER_ALLOWS_CALL,
	FILTER_ALLOWS_OTHER_ABIS,
};

struct leak {
	const char *init; /* names of init's and its helper's steps, with commas; or NULL */
	struct word_edit words[3]; /* up to an empty one */
	enum filter_hole filter;
	long call;             /* that the filter allows */
	bool spawn_keeps_fds;  /* the daemon's spawn closes nothing */
	bool spawn_no_session; /* and makes no session */
	bool spawn_keeps_environment;
};

/* For the next kit and the next start. NULL: nothing is left out. */
void leak_set(const struct leak *leak);
/* Makes a kit's filter anew, as what is left out now says. */
struct bubble_kit;
void leak_refilter(struct bubble_kit *kit);
/* That what was asked for was done: an edit whose words are not there would leave nothing out. */
bool leak_done(void);

#endif
