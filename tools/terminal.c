/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tools/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "tools/client.h"

/* Shared with the guard. */
struct terminal {
	struct termios saved, raw;
	bool is_raw;
	pid_t guard;  /* 0: none */
	int lifeline; /* the guard waits for its end */
};

int terminal_open(struct terminal **ret_terminal, struct error *err)
{
	struct terminal *terminal;

	if (!isatty(STDIN_FILENO))
		return error_set(err, ENOTTY,
			"standard input is not a terminal: leave out -t, or type this at one");
	terminal = mmap(
		NULL, sizeof(*terminal), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	need_memory(terminal == MAP_FAILED ? NULL : terminal);
	terminal->lifeline = -1;
	*ret_terminal = terminal;
	return 0;
}

void terminal_size(const struct terminal *terminal, unsigned *ret_rows, unsigned *ret_columns)
{
	struct winsize size = {0};

	(void)terminal;
	(void)ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	*ret_rows = size.ws_row ? size.ws_row : 24;
	*ret_columns = size.ws_col ? size.ws_col : 80;
}

static bool are_equal(const struct termios *a, const struct termios *b)
{
	return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag && a->c_cflag == b->c_cflag &&
	       a->c_lflag == b->c_lflag && memcmp(a->c_cc, b->c_cc, sizeof(a->c_cc)) == 0;
}

static void restore(int fd, const struct terminal *terminal)
{
	struct termios now;

	if (tcgetattr(fd, &now) == 0 && are_equal(&now, &terminal->raw))
		(void)tcsetattr(fd, TCSANOW, &terminal->saved);
}

/* Deaf to all signals and in a session of its own, where neither keys nor a kill of the process
 * group reach it; it holds nothing else open. */
static _Noreturn void guard(const struct terminal *terminal, int lifeline)
{
	sigset_t all;
	char byte;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)setsid();
	if (dup2(lifeline, STDOUT_FILENO) < 0)
		_exit(1);
	(void)close_range(STDERR_FILENO, ~0U, 0);
	if (read(STDOUT_FILENO, &byte, 1) == 0) /* it is gone without a word */
		restore(STDIN_FILENO, terminal);
	_exit(0);
}

/* Without one all goes on: it is there for crashes. */
static void start_guard(struct terminal *terminal)
{
	int ends[2];
	pid_t pid;

	if (terminal->guard || pipe2(ends, O_CLOEXEC) < 0)
		return;
	pid = fork();
	if (pid == 0)
		guard(terminal, ends[0]);
	(void)close(ends[0]);
	if (pid < 0) {
		(void)close(ends[1]);
		return;
	}
	terminal->guard = pid;
	terminal->lifeline = ends[1];
}

static void end_guard(struct terminal *terminal)
{
	if (!terminal->guard)
		return;
	(void)write_all(terminal->lifeline, "", 1);
	(void)waitpid(terminal->guard, NULL, 0);
	closep(&terminal->lifeline);
}

int terminal_make_raw(struct terminal *terminal, struct error *err)
{
	if (!terminal->is_raw) {
		(void)tcdrain(STDIN_FILENO); /* stops in the background, where they are a shell's */
		if (tcgetattr(STDIN_FILENO, &terminal->saved) < 0)
			return error_errno(err, errno, "cannot read the terminal's modes");
		terminal->raw = terminal->saved;
		cfmakeraw(&terminal->raw);
		start_guard(terminal);
	}
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal->raw) < 0)
		return error_errno(err, errno, "cannot set the terminal's modes");
	terminal->is_raw = true;
	(void)tcgetattr(STDIN_FILENO, &terminal->raw); /* what it did not take is not there */
	return 0;
}

void terminal_restore(struct terminal *terminal)
{
	sigset_t ttou, before;

	if (!terminal->is_raw)
		return;
	(void)sigemptyset(&ttou);
	(void)sigaddset(&ttou, SIGTTOU);
	(void)sigprocmask(SIG_BLOCK, &ttou, &before); /* it is to be done from the background too */
	restore(STDIN_FILENO, terminal);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	terminal->is_raw = false;
}

void terminal_close(struct terminal *terminal)
{
	if (!terminal)
		return;
	terminal_restore(terminal);
	end_guard(terminal);
	(void)munmap(terminal, sizeof(*terminal));
}
