/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "providers/fake.h"

static void keep(const struct command *command, struct strbuf *kept, uint64_t *written,
	const char *bytes, size_t size)
{
	(void)command;
	*written += size;
	strbuf_add(kept, bytes, size);
}

static enum fake_step run_echo(
	const struct command *command, char **words, size_t count, struct command_result *result)
{
	CLEANUP(strbuf_fini) struct strbuf line = STRBUF_INIT;
	bool to_err = count > 1 && !strcmp(words[count - 1], ">&2");

	for (size_t i = 1; i < count - to_err; i++) {
		if (i > 1)
			strbuf_addc(&line, ' ');
		strbuf_adds(&line, words[i]);
	}
	strbuf_addc(&line, '\n');
	if (to_err)
		keep(command, &result->err, &result->err_bytes, line.data, line.size);
	else
		keep(command, &result->out, &result->out_bytes, line.data, line.size);
	result->returncode = 0;
	return FAKE_NEXT;
}

static enum fake_step run_printenv(
	const struct command *command, const char *name, struct command_result *result)
{
	size_t len = strlen(name);
	const char *value = NULL;

	for (char **env = command->env; env && *env; env++)
		if (!strncmp(*env, name, len) && (*env)[len] == '=')
			value = *env + len + 1; /* the last one counts */
	result->returncode = value ? 0 : 1;
	if (!value)
		return FAKE_NEXT;
	keep(command, &result->out, &result->out_bytes, value, strlen(value));
	keep(command, &result->out, &result->out_bytes, "\n", 1);
	return FAKE_NEXT;
}

static enum fake_step run_unknown(
	const struct command *command, const char *word, struct command_result *result)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	strbuf_addf(&text, "sh: 1: %s: not found\n", word);
	keep(command, &result->err, &result->err_bytes, text.data, text.size);
	result->returncode = 127;
	return FAKE_NEXT;
}

enum fake_step fake_run_statement(const struct command *command, char **words, size_t count,
	struct command_result *result, uint64_t *ret_sleep_ms)
{
	const char *word = count ? words[0] : "true";
	const char *argument = count > 1 ? words[1] : "0";

	if (!strcmp(word, "echo"))
		return run_echo(command, words, count, result);
	if (!strcmp(word, "printenv"))
		return run_printenv(command, argument, result);
	if (!strcmp(word, "lose"))
		return FAKE_LOSE;
	if (!strcmp(word, "kill")) {
		result->signal = SIGKILL;
		result->returncode = -SIGKILL;
		return FAKE_END;
	}
	if (!strcmp(word, "exit")) {
		result->returncode = (int)strtol(argument, NULL, 10);
		return FAKE_END;
	}
	result->returncode = !strcmp(word, "false");
	if (!strcmp(word, "sleep")) {
		*ret_sleep_ms = (uint64_t)(strtod(argument, NULL) * 1000);
		return FAKE_SLEEP;
	}
	if (!strcmp(word, "cat"))
		keep(command, &result->out, &result->out_bytes, command->stdin_data,
			command->stdin_size);
	else if (strcmp(word, "true") != 0 && strcmp(word, "false") != 0)
		return run_unknown(command, word, result);
	return FAKE_NEXT;
}

bool fake_next_statement(const char **position, char **ret_words, size_t max, size_t *ret_count)
{
	const char *at = *position;

	*ret_count = 0;
	if (!*at)
		return false;
	while (*at && *at != '\n' && *at != ';') {
		size_t len = strcspn(at, " \n;");

		if (len && *ret_count < max) {
			ret_words[*ret_count] = strndup(at, len);
			if (ret_words[*ret_count])
				(*ret_count)++;
		}
		at += len;
		at += strspn(at, " ");
	}
	*position = *at ? at + 1 : at;
	return true;
}
