/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "pool/bubble.h"
#include "pool/cgroup.h"
#include "pool/exec-input.h"
#include "pool/exec-output.h"
#include "pool/exec-result.h"
#include "pool/exec-tty.h"
#include "pool/script.h"

enum { LATE_MS = 500 }; /* a timer that fires so late tells of a pause, not of time that passed */

/* What an exec waits for; each is a time of loop_now_ms(), 0 when it waits for no such thing. One
 * timer serves them all. */
enum deadline {
	DEADLINE_TIMEOUT,
	DEADLINE_IDLE,
	DEADLINE_KILL,    /* TERM was sent; KILL follows */
	DEADLINE_SETTLE,  /* the leader is dead; somebody may hold the pipes */
	DEADLINE_LOOK,    /* it was killed; is its cgroup empty? */
	DEADLINE_GIVE_UP, /* it was killed; it may not die */
	DEADLINE_COUNT,
};

static const uint64_t never_ms = UINT64_C(1) << 40;

struct exec {
	struct loop *loop;
	struct exec_hooks hooks;
	struct bubble_exec *bubble_exec; /* NULL once its ended() has run */
	struct command_cgroup *cgroup;
	struct loop_timer *timer;
	uint64_t deadlines[DEADLINE_COUNT];
	struct exec_input in;
	struct exec_tty *tty; /* NULL: none */
	struct exec_output out, err;
	uint64_t idle_timeout_ms, kill_grace_ms, started_ms, leader_ended_ms;
	uint64_t look_ms;   /* until the next look, after a kill */
	enum reason killed; /* why; REASON_NONE: it was not */
	bool running;       /* started() has run */
	bool kill_wanted;   /* once more as soon as it runs */
	bool settled, gave_up, delivered;
	char cwd[96], program[96];  /* cut; for the sentence when it cannot start */
	struct bubble_exec_end end; /* valid when bubble_exec is NULL */
	struct command_result result;
};

/* Never at once: before it fires the loop looks at the pipes, so that output is heard first. */
static void arm(struct exec *exec)
{
	uint64_t now = loop_now_ms(), first = now + never_ms;

	for (unsigned i = 0; i < DEADLINE_COUNT; i++)
		if (exec->deadlines[i] && exec->deadlines[i] < first)
			first = exec->deadlines[i];
	loop_timer_restart(exec->timer, first > now ? first - now : 1);
}

static bool leader_done(const struct exec *exec)
{
	return !exec->bubble_exec;
}

static bool pipes_closed(const struct exec *exec)
{
	return exec_output_closed(&exec->out) && exec_output_closed(&exec->err);
}

static bool tree_lives(const struct exec *exec)
{
	return exec->cgroup && command_cgroup_populated(exec->cgroup);
}

static bool has_ended(const struct exec *exec)
{
	if (!leader_done(exec))
		return exec->gave_up;
	if (exec->end.lost) /* exec_abandon() follows, which knows why */
		return false;
	if (exec->end.start_errno)
		return true;
	if (!exec->settled && !pipes_closed(exec))
		return false;
	return !exec->killed || exec->gave_up || !tree_lives(exec);
}

/* Somebody may have outlived the kill. Where its cgroup is empty a command that ran is dead, though
 * a busy init has not told so yet. */
static bool kill_was_incomplete(const struct exec *exec)
{
	if (exec->cgroup && exec->running)
		return tree_lives(exec);
	return !leader_done(exec) || exec->end.survived || tree_lives(exec);
}

void exec_destroy(struct exec *exec)
{
	if (!exec)
		return;
	if (exec->bubble_exec)
		bubble_exec_forget(exec->bubble_exec);
	loop_timer_stop(exec->timer);
	exec->hooks.can_feed = NULL;
	exec_input_close(&exec->in);
	exec_tty_close(exec->tty);
	exec_output_forget(&exec->out);
	exec_output_forget(&exec->err);
	command_result_fini(&exec->result);
	free(exec);
}

static void describe(struct exec *exec)
{
	struct command_result *result = &exec->result;

	if (exec->end.start_errno) {
		exec_result_set_start_failure(result, &exec->end, exec->cwd, exec->program);
		exec_output_say(&exec->err, result->start_error);
		return;
	}
	exec_result_set_end(result, &exec->end, leader_done(exec));
	if (exec->killed)
		exec_result_set_kill(result, exec->killed, kill_was_incomplete(exec));
}

/* Hands the result over, after which its owner may be gone. What still comes is late. */
static void deliver(struct exec *exec)
{
	struct command_result *result = &exec->result;
	uint64_t end_ms = exec->leader_ended_ms ? exec->leader_ended_ms : loop_now_ms();

	exec->hooks.can_feed = NULL;
	exec_input_close(&exec->in);
	exec_tty_drain(exec->tty);
	exec_output_finish(&exec->out);
	exec_output_finish(&exec->err);
	result->duration_sec = (double)(end_ms - exec->started_ms) / 1000;
	exec->delivered = true;
	memset(exec->deadlines, 0, sizeof(exec->deadlines));
	exec->hooks.ended(exec->hooks.data, result);
	command_result_fini(result);
}

/*
 * The kernel tells a change of a cgroup at most each 10 ms. KILL goes out again each time: one may
 * have been on its way into the cgroup, and before Linux 6.14 one could be forked past a kill.
 */
static void look_again(struct exec *exec)
{
	if (exec->delivered || !exec->killed || exec->deadlines[DEADLINE_LOOK] || !tree_lives(exec))
		return;
	if (exec->look_ms > 0 && exec->deadlines[DEADLINE_GIVE_UP])
		(void)command_cgroup_kill(exec->cgroup, NULL);
	exec->look_ms = exec->look_ms ? exec->look_ms * 2 : 1;
	exec->deadlines[DEADLINE_LOOK] = loop_now_ms() + exec->look_ms;
}

/* To be called last in every handler: the exec may be gone afterwards. */
static void settle(struct exec *exec)
{
	if (!exec->delivered && has_ended(exec)) {
		describe(exec);
		deliver(exec);
	}
	if (exec->delivered && leader_done(exec) && pipes_closed(exec)) {
		struct exec_hooks hooks = exec->hooks;

		exec_destroy(exec);
		hooks.gone(hooks.data);
		return;
	}
	look_again(exec);
	arm(exec);
}

static void handle_cgroup_change(void *data)
{
	settle(data);
}

/* The cgroup of a command that is not known to run may still be empty; init kills by number then,
 * as its messages are in order. It may also have begun to run just now: what it has made meanwhile
 * is killed when init tells of it. */
static void kill_cgroup(struct exec *exec)
{
	bool unborn = !exec->running && !leader_done(exec);

	exec->kill_wanted = unborn;
	if (unborn)
		bubble_exec_signal(exec->bubble_exec, SIGKILL);
	if (command_cgroup_kill(exec->cgroup, NULL) == 0)
		(void)command_cgroup_watch(
			exec->cgroup, exec->loop, handle_cgroup_change, exec, NULL);
	else if (exec->running && exec->bubble_exec)
		bubble_exec_signal(exec->bubble_exec, SIGKILL);
}

/* SIGKILL for everything. What cannot be killed is told by kill_was_incomplete(). */
static void kill_tree(struct exec *exec)
{
	uint64_t patience_ms = exec->cgroup ? EXEC_GIVE_UP_MS : EXEC_HUNT_MS;

	exec->look_ms = 0;
	exec->deadlines[DEADLINE_KILL] = exec->deadlines[DEADLINE_LOOK] = 0;
	exec->deadlines[DEADLINE_GIVE_UP] = loop_now_ms() + patience_ms;
	if (exec->cgroup)
		kill_cgroup(exec);
	else if (exec->bubble_exec)
		bubble_exec_kill(exec->bubble_exec);
}

/* Without a cgroup only the leader's group is asked, and its end is that of the rest. */
static void ask_to_end(struct exec *exec)
{
	if (!exec->cgroup)
		bubble_exec_doom(exec->bubble_exec);
	else if (command_cgroup_signal(exec->cgroup, SIGTERM, NULL) < 0)
		bubble_exec_signal(exec->bubble_exec, SIGTERM);
	if (exec->cgroup)
		(void)command_cgroup_watch(
			exec->cgroup, exec->loop, handle_cgroup_change, exec, NULL);
}

static void begin_kill(struct exec *exec, enum reason why, uint64_t grace_ms)
{
	if (exec->killed || exec->delivered)
		return;
	exec->killed = why;
	exec->deadlines[DEADLINE_TIMEOUT] = exec->deadlines[DEADLINE_IDLE] = 0;
	if (grace_ms > 0 && exec->running) {
		ask_to_end(exec);
		exec->deadlines[DEADLINE_KILL] = loop_now_ms() + grace_ms;
	} else {
		kill_tree(exec);
	}
}

static bool passed(struct exec *exec, enum deadline which, uint64_t now)
{
	if (!exec->deadlines[which] || exec->deadlines[which] > now)
		return false;
	exec->deadlines[which] = 0;
	return true;
}

/* The daemon, or the machine, stood still: what came meanwhile is heard before it is judged. */
static void put_off_when_late(struct exec *exec, enum deadline which, uint64_t now)
{
	if (exec->deadlines[which] && exec->deadlines[which] + LATE_MS < now)
		exec->deadlines[which] = now + 1;
}

static void handle_timer(void *data)
{
	struct exec *exec = data;
	uint64_t now = loop_now_ms();

	put_off_when_late(exec, DEADLINE_TIMEOUT, now);
	put_off_when_late(exec, DEADLINE_IDLE, now);
	put_off_when_late(exec, DEADLINE_SETTLE, now);
	put_off_when_late(exec, DEADLINE_GIVE_UP, now);
	if (passed(exec, DEADLINE_TIMEOUT, now))
		begin_kill(exec, REASON_TIMEOUT, exec->kill_grace_ms);
	if (passed(exec, DEADLINE_IDLE, now))
		begin_kill(exec, REASON_IDLE_TIMEOUT, exec->kill_grace_ms);
	if (passed(exec, DEADLINE_KILL, now))
		kill_tree(exec);
	if (passed(exec, DEADLINE_SETTLE, now))
		exec->settled = true;
	(void)passed(exec, DEADLINE_LOOK, now); /* settle() does */
	if (passed(exec, DEADLINE_GIVE_UP, now))
		exec->gave_up = true;
	settle(exec);
}

static void handle_output(void *data)
{
	struct exec *exec = data;

	if (exec->deadlines[DEADLINE_IDLE]) /* the timer looks again when it fires */
		exec->deadlines[DEADLINE_IDLE] = loop_now_ms() + exec->idle_timeout_ms;
	if (pipes_closed(exec) && leader_done(exec))
		settle(exec);
}

static void handle_feedable(void *data)
{
	struct exec *exec = data;

	if (exec->hooks.can_feed)
		exec->hooks.can_feed(exec->hooks.data);
}

static void handle_started(void *data, pid_t inside_pid)
{
	struct exec *exec = data;

	exec->running = true;
	if (exec->kill_wanted)
		kill_tree(exec);
}

static void handle_ended(void *data, const struct bubble_exec_end *end)
{
	struct exec *exec = data;
	uint64_t now = loop_now_ms();

	exec->bubble_exec = NULL;
	exec->end = *end;
	exec->leader_ended_ms = now;
	exec->deadlines[DEADLINE_TIMEOUT] = exec->deadlines[DEADLINE_IDLE] = 0;
	exec->deadlines[DEADLINE_SETTLE] = now + EXEC_SETTLE_MS;
	exec_input_close(&exec->in);
	/* whom TERM has not taken with the leader has the rest of the grace */
	if (exec->kill_wanted || (exec->deadlines[DEADLINE_KILL] && !tree_lives(exec)))
		kill_tree(exec);
	exec_tty_drain(exec->tty);
	exec_output_read(&exec->out);
	exec_output_read(&exec->err);
	settle(exec);
}

static int launch(
	struct exec *exec, const struct exec_options *options, const int fds[3], struct error *err)
{
	static const struct bubble_exec_hooks hooks = {
		.started = handle_started, .ended = handle_ended};
	struct bubble_exec_hooks with_data = hooks;
	struct launch_words words;
	int r = launch_words_init(&words, options->command, options->shell, err);

	if (r < 0)
		return r;
	with_data.data = exec;
	(void)snprintf(exec->cwd, sizeof(exec->cwd), "%s", words.cwd);
	(void)snprintf(exec->program, sizeof(exec->program), "%s", words.argv[0]);
	r = bubble_exec_start(options->bubble,
		&(struct bubble_exec_options){
			.argv = words.argv,
			.env = options->env,
			.cwd = words.cwd,
			.stdin_fd = fds[0],
			.stdout_fd = fds[1],
			.stderr_fd = fds[2],
			.extra_fd = words.script_fd,
			.cgroup_fd = options->cgroup ? command_cgroup_fd(options->cgroup) : -1,
			.tty = exec->tty != NULL,
			.own_memory = options->memory_is_short,
		},
		&with_data, &exec->bubble_exec, err);
	launch_words_fini(&words);
	return r;
}

/* All three descriptors are the terminal, and what it shows is stdout. */
static int open_tty(
	struct exec *exec, const struct exec_options *options, int fds[3], struct error *err)
{
	struct exec_tty_options tty = {
		.loop = options->loop,
		.rows = options->command->tty_rows,
		.cols = options->command->tty_cols,
		.uid = options->uid,
		.gid = options->gid,
		.ready = handle_feedable,
		.data = exec,
	};
	CLEANUP(closep) int output_fd = -1;
	int r = exec_output_open(&exec->out, options, options->out, &output_fd, err);

	if (r < 0)
		return r;
	exec_output_open_silent(&exec->err, options->err);
	tty.output_fd = output_fd;
	return exec_tty_open(&tty, &exec->tty, fds, err);
}

static int open_pipes(
	struct exec *exec, const struct exec_options *options, int fds[3], struct error *err)
{
	const struct command *command = options->command;
	const struct exec_input_options input = {
		.loop = options->loop,
		.uid = options->uid,
		.gid = options->gid,
		.bytes = command->stdin_data,
		.size = command->stdin_size,
		.stays = command->stdin_pipe,
		.ready = handle_feedable,
		.data = exec,
	};
	int r = exec_input_open(&exec->in, &input, &fds[0], err);

	if (r == 0)
		r = exec_output_open(&exec->out, options, options->out, &fds[1], err);
	if (r == 0)
		r = exec_output_open(&exec->err, options, options->err, &fds[2], err);
	return r;
}

/* On failure it runs, and nobody hears of it. */
static int watch_outputs(struct exec *exec, struct error *err)
{
	int r = exec_output_watch(&exec->out, err);

	if (r == 0)
		r = exec_output_watch(&exec->err, err);
	if (r < 0)
		kill_tree(exec);
	return r;
}

static void set_deadlines(struct exec *exec, const struct command *command)
{
	exec->result.started_at = unix_now();
	exec->started_ms = loop_now_ms();
	exec->idle_timeout_ms = command->idle_timeout_ms;
	if (command->timeout_ms && command->timeout_ms < never_ms)
		exec->deadlines[DEADLINE_TIMEOUT] = exec->started_ms + command->timeout_ms;
	if (command->idle_timeout_ms && command->idle_timeout_ms < never_ms)
		exec->deadlines[DEADLINE_IDLE] = exec->started_ms + command->idle_timeout_ms;
}

static struct exec *exec_create(
	const struct exec_options *options, const struct exec_hooks *hooks, struct error *err)
{
	struct exec *exec = calloc(1, sizeof(*exec));

	if (!exec || loop_timer_start(
			     options->loop, never_ms, handle_timer, exec, &exec->timer, NULL) < 0) {
		(void)error_set(err, ENOMEM, "no memory for a command");
		free(exec);
		return NULL;
	}
	exec->loop = options->loop;
	exec->hooks = *hooks;
	exec->cgroup = options->cgroup;
	exec->kill_grace_ms = options->kill_grace_ms;
	exec->in.fd = -1;
	exec->out.listener.changed = exec->err.listener.changed = handle_output;
	exec->out.listener.data = exec->err.listener.data = exec;
	command_result_init(&exec->result);
	return exec;
}

int exec_start(const struct exec_options *options, const struct exec_hooks *hooks,
	struct exec **ret_exec, struct error *err)
{
	struct exec *exec = exec_create(options, hooks, err);
	int fds[3] = {-1, -1, -1};
	int r;

	if (!exec)
		return -ENOMEM;
	set_deadlines(exec, options->command);
	if (options->command->tty_rows)
		r = open_tty(exec, options, fds, err);
	else
		r = open_pipes(exec, options, fds, err);
	if (r == 0)
		r = launch(exec, options, fds, err);
	for (unsigned i = 0; i < 3; i++)
		closep(&fds[i]);
	if (r == 0) /* while init starts it */
		r = watch_outputs(exec, err);
	if (r < 0) {
		exec_destroy(exec);
		return r;
	}
	arm(exec);
	*ret_exec = exec;
	return 0;
}

void exec_cancel(struct exec *exec)
{
	if (exec->delivered)
		return;
	if (exec->deadlines[DEADLINE_KILL]) /* it is out of time, and its grace ends here */
		kill_tree(exec);
	else if (leader_done(exec)) /* it has ended by itself; that is what is told */
		exec->deadlines[DEADLINE_SETTLE] = loop_now_ms();
	else
		begin_kill(exec, REASON_CANCELLED, 0);
	arm(exec);
}

ssize_t exec_feed(struct exec *exec, const void *bytes, size_t size)
{
	return exec->tty ? exec_tty_feed(exec->tty, bytes, size)
			 : exec_input_feed(&exec->in, bytes, size);
}

void exec_feed_end(struct exec *exec)
{
	if (exec->tty)
		exec_tty_feed_end(exec->tty);
	else
		exec_input_end(&exec->in);
}

int exec_resize(struct exec *exec, uint16_t rows, uint16_t cols, struct error *err)
{
	if (!exec->tty)
		return error_set(err, ENOTTY, "this command has no terminal");
	return exec_tty_resize(exec->tty, rows, cols, err);
}

int exec_signal(struct exec *exec, int number, bool leader_only, struct error *err)
{
	bool has_leader = !leader_done(exec);

	if (exec->delivered || (!has_leader && (leader_only || !tree_lives(exec))))
		return error_set(err, ESRCH, "the command has ended");
	if (leader_only)
		bubble_exec_signal_leader(exec->bubble_exec, number);
	else if (exec->cgroup && exec->running)
		return command_cgroup_signal(exec->cgroup, number, err);
	else
		bubble_exec_signal(exec->bubble_exec, number);
	return 0;
}

void exec_abandon(struct exec *exec, enum reason reason)
{
	if (!exec)
		return;
	if (!exec->delivered) {
		exec_result_set_loss(&exec->result, exec->running, reason);
		deliver(exec);
	}
	exec_destroy(exec);
}
