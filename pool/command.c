/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static void free_words(char **words)
{
	if (!words)
		return;
	for (char **word = words; *word; word++)
		free(*word);
	free(words);
}

void command_fini(struct command *command)
{
	if (!command)
		return;
	free(command->script);
	free_words(command->argv);
	free(command->cwd);
	free_words(command->env);
	free(command->stdin_data);
	*command = COMMAND_INIT;
}

static char **copy_words(char *const *words)
{
	size_t count = 0;
	char **copy;

	while (words[count])
		count++;
	copy = calloc(count + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < count; i++) {
		copy[i] = strdup(words[i]);
		if (!copy[i]) {
			free_words(copy);
			return NULL;
		}
	}
	return copy;
}

static bool copy_texts(struct command *to, const struct command *from)
{
	if (from->script && !(to->script = strdup(from->script)))
		return false;
	if (from->cwd && !(to->cwd = strdup(from->cwd)))
		return false;
	if (from->argv && !(to->argv = copy_words(from->argv)))
		return false;
	if (from->env && !(to->env = copy_words(from->env)))
		return false;
	if (!from->stdin_data)
		return true;
	to->stdin_data = malloc(from->stdin_size + 1);
	if (to->stdin_data)
		memcpy(to->stdin_data, from->stdin_data, from->stdin_size);
	return to->stdin_data != NULL;
}

int command_copy(struct command *ret_to, const struct command *from, struct error *err)
{
	struct command copy = *from;

	copy.script = copy.cwd = copy.stdin_data = NULL;
	copy.argv = copy.env = NULL;
	if (!copy_texts(&copy, from)) {
		command_fini(&copy);
		return error_set(err, ENOMEM, "no memory for a command");
	}
	*ret_to = copy;
	return 0;
}

void command_result_init(struct command_result *result)
{
	memset(result, 0, sizeof(*result));
	strbuf_init(&result->out);
	strbuf_init(&result->err);
}

void command_result_fini(struct command_result *result)
{
	if (!result)
		return;
	strbuf_fini(&result->out);
	strbuf_fini(&result->err);
	command_result_init(result);
}
