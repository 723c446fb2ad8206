/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * terminal.h: the terminal that standard input is, handed to a program elsewhere: every key goes
 * there as it is typed, and at the end the terminal is as it was, whatever happened.
 *
 * That is seen to by a second process, which waits for the end of this one: so a crash or SIGKILL
 * leaves no terminal behind that echoes nothing. Threads: none.
 */
#ifndef TOOLS_TERMINAL_H
#define TOOLS_TERMINAL_H

struct error;
struct terminal;

/* -ENOTTY: standard input is none. Changes nothing yet. */
int terminal_open(struct terminal **ret_terminal, struct error *err);
/* Gives it back as it was. NULL: nothing to do. */
void terminal_close(struct terminal *terminal);

/* How large it is now; 24 by 80 when it does not know. */
void terminal_size(const struct terminal *terminal, unsigned *ret_rows, unsigned *ret_columns);

/* No echo, no line editing, no signals from keys. In the background this stops the process, as a
 * terminal does, until it is in the foreground. Harmless twice. */
int terminal_make_raw(struct terminal *terminal, struct error *err);
/* As it was, unless somebody else has changed it since (a shell that took it over). */
void terminal_restore(struct terminal *terminal);

#endif
