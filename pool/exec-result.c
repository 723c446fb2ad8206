/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/exec-result.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/error.h"
#include "pool/bubble.h"
#include "pool/command.h"

void exec_result_set_start_failure(struct command_result *result, const struct bubble_exec_end *end,
	const char *cwd, const char *program)
{
	const char *step = end->failed_step ? end->failed_step : "start";
	int code = end->start_errno;
	struct error why;

	result->has_returncode = true;
	result->returncode = code == ENOENT && !strcmp(step, "exec") ? 127 : 126;
	if (!strcmp(step, "chdir")) {
		(void)error_errno(&why, code, "cannot enter the directory '%s'", cwd);
	} else if (!strcmp(step, "exec")) {
		(void)error_errno(&why, code, "cannot execute '%s'", program);
	} else if (code == EAGAIN) {
		result->reason = REASON_PIDS;
		(void)error_set(&why, code, "cannot start: the sandbox has too many processes");
	} else {
		result->has_returncode = false;
		result->infra_failure = true;
		(void)error_errno(&why, code, "cannot start (%s)", step);
	}
	(void)snprintf(result->start_error, sizeof(result->start_error), "%.*s",
		(int)sizeof(result->start_error) - 1, why.text);
}

void exec_result_set_end(
	struct command_result *result, const struct bubble_exec_end *end, bool done)
{
	int status = end->wait_status;

	result->started = true;
	result->has_returncode = true;
	if (done && WIFEXITED(status)) {
		result->returncode = WEXITSTATUS(status);
	} else {
		result->signal = done && WIFSIGNALED(status) ? WTERMSIG(status) : SIGKILL;
		result->returncode = -result->signal;
	}
	result->rusage = end->rusage;
}

void exec_result_set_kill(struct command_result *result, enum reason why, bool incomplete)
{
	result->reason = incomplete ? REASON_KILL_INCOMPLETE : why;
	result->timed_out = why == REASON_TIMEOUT || why == REASON_IDLE_TIMEOUT;
	if (!result->timed_out)
		return;
	if (result->signal == 0)
		(void)snprintf(result->detail, sizeof(result->detail),
			"its time was over, and it exited with status %d", result->returncode);
	result->returncode = -SIGKILL;
}

void exec_result_set_loss(struct command_result *result, bool started, enum reason reason)
{
	result->started = started;
	result->infra_failure = true;
	result->reason = reason;
}
