/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fake.h: a whole provider without processes, for tests: slots, a queue and commands that do as
 * they are told.
 *
 * A spec tells it through env_args.fake, an object of
 *
 *	create_delay_ms   the sandbox comes so late
 *	create_fails      errno's name ("EIO"): creation ends so
 *	lost_after_ms     the sandbox dies by itself after so long
 *	reset_delay_ms    how long its slot is not reusable afterwards
 *
 * and a command through its own text: statements on lines of their own or between `;`, of the words
 * echo (with >&2), cat, exit, true, false, sleep, printenv, `kill -9 $$`, and lose, after which the
 * sandbox is dead. A list is one statement. So the same commands can be given to a real shell.
 */
#ifndef PROVIDERS_FAKE_H
#define PROVIDERS_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/command.h"

/* What a command does next. */
enum fake_step { FAKE_NEXT, FAKE_SLEEP, FAKE_END, FAKE_LOSE };

/*
 * Runs one statement: its words, already split. Writes to the result's streams and returncode; a
 * sleep's length goes to *ret_sleep_ms. Pure, so that it can be read without the rest.
 */
enum fake_step fake_run_statement(const struct command *command, char **words, size_t count,
	struct command_result *result, uint64_t *ret_sleep_ms);

/* Splits the statement that begins at *position into at most `max` words (copies, free each); false
 * at the script's end. */
bool fake_next_statement(const char **position, char **ret_words, size_t max, size_t *ret_count);

#endif
