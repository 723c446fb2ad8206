/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * background.h: dressagefs going to the background, by posix_spawn of itself and never by fork().
 * Threads: none yet (starter), loop (the copy).
 */
#ifndef TOOLS_BACKGROUND_H
#define TOOLS_BACKGROUND_H

struct error;

/*
 * Runs this program again with the same arguments and -f, in a session of its own, and waits until
 * it says that it is ready or why it is not. 0: it is, and goes on without us. argv[0] onwards as
 * given to main.
 */
int start_in_background(int argc, char **argv, struct error *err);

/* The copy leaves the terminal: input from and output to nowhere, errors to log_fd (-1:
 * nowhere). */
void background_leave_terminal(int log_fd);
/* The copy's word to its starter. */
void background_say_ready(int ready_fd);
/* Tells the starter why there will be no daemon. */
void background_say_failed(int ready_fd, const struct error *why);

#endif
