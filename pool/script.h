/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * script.h: what is executed for a command: words, directory, and for a long script a descriptor.
 * Threads: any.
 */
#ifndef POOL_SCRIPT_H
#define POOL_SCRIPT_H

#include <stddef.h>

struct command;
struct error;
struct word_list;

enum { SCRIPT_INLINE_MAX = 100 * 1024 }; /* bytes; the kernel takes 128 KiB for one argument */

struct launch_words {
	/* NULL-terminated; the words are borrowed from the command and the shell */
	const char **argv;
	char *cwd;     /* absolute inside */
	int script_fd; /* becomes descriptor 3; -1: none */
};

/*
 * A script is run by the words of the shell and the text as the next argument. A longer one stands
 * in a sealed memfd, and the shell is told to read that, in the same way but for the text: `.`
 * keeps $0, and the first line closes the descriptor.
 */
int launch_words_init(struct launch_words *words, const struct command *command,
	const struct word_list *shell, struct error *err);
void launch_words_fini(struct launch_words *words);

#endif
