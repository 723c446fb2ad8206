/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tools/background.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "base/program.h"
#include "base/strbuf.h"

static const char ready_word[] = "ready\n";
enum { READY_FD = 3 };

/* The copy's arguments: -f and the pipe first, so that nothing given by the user can swallow them.
 */
static char **copy_arguments(int argc, char **argv)
{
	static char foreground[] = "-f", ready[] = "--ready-fd=3";
	char **words = calloc((size_t)argc + 3, sizeof(*words));

	if (!words)
		return NULL;
	words[0] = argv[0];
	words[1] = foreground;
	words[2] = ready;
	memcpy(words + 3, argv + 1, (size_t)(argc - 1) * sizeof(*words));
	return words;
}

static int spawn_copy(char **words, int write_fd, pid_t *ret_pid)
{
	CLEANUP(closep) int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const struct spawn_fd fds[] = {{null_fd, STDIN_FILENO}, {write_fd, READY_FD}};
	const struct spawn spawn = {"/proc/self/exe", words, environ, fds, 2, 0, SPAWN_SESSION};

	return null_fd < 0 ? -errno : spawn_program(&spawn, ret_pid);
}

static int explain_end(pid_t pid, struct error *err)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		return error_set(err, EIO,
			"the daemon was killed by signal %d (%s) during its start",
			WTERMSIG(status), sigdescr_np(WTERMSIG(status)));
	return error_set(err, EIO, "the daemon ended during its start with exit status %d",
		WEXITSTATUS(status));
}

int start_in_background(int argc, char **argv, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf said = STRBUF_INIT;
	CLEANUP(freep) char **words = copy_arguments(argc, argv);
	CLEANUP(closep) int read_fd = -1;
	CLEANUP(closep) int write_fd = -1;
	int pipe_fds[2], r;
	pid_t pid;

	if (!words)
		return error_set(err, ENOMEM, "no memory for the arguments");
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return error_errno(err, errno, "cannot make a pipe");
	read_fd = pipe_fds[0];
	/* above the descriptor it becomes: dup2() onto itself would keep close-on-exec */
	write_fd = fcntl(pipe_fds[1], F_DUPFD_CLOEXEC, READY_FD + 1);
	(void)close(pipe_fds[1]);
	if (write_fd < 0)
		return error_errno(err, errno, "cannot make a pipe");
	r = spawn_copy(words, write_fd, &pid);
	if (r < 0)
		return error_errno(err, -r, "cannot start the daemon");
	closep(&write_fd);
	write_fd = -1;
	(void)read_all(read_fd, &said); /* until the copy closes the pipe, or ends */
	if (said.size == 0)
		return explain_end(pid, err);
	if (strcmp(said.data, ready_word) != 0)
		return error_set(err, EIO, "%.*s", (int)strcspn(said.data, "\n"), said.data);
	return 0;
}

void background_leave_terminal(int log_fd)
{
	CLEANUP(closep) int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null_fd < 0)
		return;
	(void)dup2(null_fd, STDIN_FILENO);
	(void)dup2(null_fd, STDOUT_FILENO);
	(void)dup2(log_fd >= 0 ? log_fd : null_fd, STDERR_FILENO);
}

void background_say_ready(int ready_fd)
{
	(void)chdir("/"); /* not to hold the file system that we were started on */
	if (write_all(ready_fd, ready_word, sizeof(ready_word) - 1) < 0)
		return; /* whoever started us has gone; the daemon's loop has seen that */
}

void background_say_failed(int ready_fd, const struct error *why)
{
	if (write_all(ready_fd, why->text, strlen(why->text)) < 0)
		return; /* nobody is left to tell */
}
