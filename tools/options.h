/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * options.h: the command line of dressagefs. Threads: none.
 */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct config_sources;

struct daemon_options {
	bool foreground;        /* -f */
	bool check;             /* --check */
	bool read_only;         /* -o ro */
	const char *config;     /* --config; NULL: searched */
	const char *mountpoint; /* NULL: as configured */
	int ready_fd;           /* where the background copy says that it is ready; -1: nowhere */
	char **overrides;       /* -o section.key=value, NULL-terminated; owned, like the words */
	size_t override_count;
};

/* -1: go on with *ret_options; else the exit code (--help, --version, usage). */
int options_parse(int argc, char **argv, struct daemon_options *ret_options);
/* Where they say that settings are read from. Borrows the options and the environment. */
void options_sources(const struct daemon_options *options, struct config_sources *ret_sources);
void options_fini(struct daemon_options *options);

#endif
