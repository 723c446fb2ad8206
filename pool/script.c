/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/script.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "config/settings.h"
#include "pool/command.h"
#include "pool/environment.h"

static const char read_script[] = ". /proc/self/fd/3";
static const char close_script[] =
	"exec 3<&-;"; /* before the text, on its first line: line numbers stay */

static int script_memfd(const char *text, int *ret_fd, struct error *err)
{
	CLEANUP(closep) int fd = memfd_create("script", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || write_all(fd, close_script, sizeof(close_script) - 1) < 0 ||
		write_all(fd, text, strlen(text)) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) <
			0)
		return error_errno(err, errno, "cannot keep a script of %zu bytes", strlen(text));
	*ret_fd = take_fd(&fd);
	return 0;
}

static int shell_words(struct launch_words *words, const char *script,
	const struct word_list *shell, struct error *err)
{
	words->argv = calloc(shell->count + 2, sizeof(*words->argv));
	if (!words->argv)
		return error_set(err, ENOMEM, "no memory for a command's words");
	memcpy(words->argv, shell->words, shell->count * sizeof(*words->argv));
	words->argv[shell->count] = script;
	if (strlen(script) <= SCRIPT_INLINE_MAX)
		return 0;
	words->argv[shell->count] = read_script;
	return script_memfd(script, &words->script_fd, err);
}

static int plain_words(struct launch_words *words, char *const *argv, struct error *err)
{
	size_t count = 0;

	while (argv[count])
		count++;
	words->argv = calloc(count + 1, sizeof(*words->argv));
	if (!words->argv)
		return error_set(err, ENOMEM, "no memory for a command's words");
	memcpy(words->argv, argv, count * sizeof(*words->argv));
	return 0;
}

static char *inside_cwd(const char *cwd)
{
	char *path = NULL;

	if (!cwd || !*cwd)
		return strdup(INSIDE_WORK);
	if (*cwd == '/')
		return strdup(cwd);
	return asprintf(&path, INSIDE_WORK "/%s", cwd) < 0 ? NULL : path;
}

int launch_words_init(struct launch_words *words, const struct command *command,
	const struct word_list *shell, struct error *err)
{
	int r;

	*words = (struct launch_words){.script_fd = -1, .cwd = inside_cwd(command->cwd)};
	if (!words->cwd)
		r = error_set(err, ENOMEM, "no memory for a command's directory");
	else if (command->script)
		r = shell_words(words, command->script, shell, err);
	else
		r = plain_words(words, command->argv, err);
	if (r < 0)
		launch_words_fini(words);
	return r;
}

void launch_words_fini(struct launch_words *words)
{
	free(words->argv);
	free(words->cwd);
	closep(&words->script_fd);
	*words = (struct launch_words){.script_fd = -1};
}
