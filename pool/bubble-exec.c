/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/loop.h"
#include "pool/bubble-private.h"

struct bubble_exec {
	struct bubble *bubble;
	uint32_t id;
	bool started;
	struct bubble_exec_hooks hooks;
	UT_hash_handle hh;
};

/* ---- Requests ---- */

static uint32_t add_strings(struct strbuf *payload, const char *const *strings)
{
	uint32_t count = 0;

	for (; strings[count]; count++)
		strbuf_add(payload, strings[count], strlen(strings[count]) + 1);
	return count;
}

static int spill(const struct strbuf *payload, int *ret_fd)
{
	CLEANUP(closep) int fd = memfd_create("exec", MFD_CLOEXEC);
	int r = fd < 0 ? -errno : write_all(fd, payload->data, payload->size);

	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

static int send_exec(struct bubble *bubble, const struct bubble_exec_options *options,
	struct init_request *request, const struct strbuf *payload)
{
	CLEANUP(closep) int payload_fd = -1;
	struct iovec parts[] = {
		{.iov_base = request, .iov_len = sizeof(*request)},
		{.iov_base = payload->data, .iov_len = payload->size},
	};
	int fds[INIT_FDS_MAX];
	struct message message = {.parts = parts, .part_count = 2, .fds = fds};
	int r;

	if (payload->size > INIT_INLINE_MAX) {
		r = spill(payload, &payload_fd);
		if (r < 0)
			return r;
		request->flags |= INIT_EXEC_PAYLOAD_FD;
		message.part_count = 1;
		fds[message.fd_count++] = payload_fd;
	}
	fds[message.fd_count++] = options->stdin_fd;
	fds[message.fd_count++] = options->stdout_fd;
	fds[message.fd_count++] = options->stderr_fd;
	if (options->extra_fd >= 0) {
		request->flags |= INIT_EXEC_EXTRA_FD;
		fds[message.fd_count++] = options->extra_fd;
	}
	if (options->cgroup_fd >= 0) {
		request->flags |= INIT_EXEC_CGROUP_FD;
		fds[message.fd_count++] = options->cgroup_fd;
	}
	if (options->tty)
		request->flags |= INIT_EXEC_TTY;
	if (options->own_memory)
		request->flags |= INIT_EXEC_OWN_MEMORY;
	if (bubble->join_fd >= 0) {
		request->flags |= INIT_EXEC_JOIN_FD;
		fds[message.fd_count++] = bubble->join_fd;
	}
	return bubble_send(bubble, &message);
}

static int request_exec(
	struct bubble *bubble, const struct bubble_exec_options *options, uint32_t id)
{
	CLEANUP(strbuf_fini) struct strbuf payload = STRBUF_INIT;
	struct init_request request = {.kind = INIT_EXEC, .id = id};

	strbuf_add(&payload, options->cwd, strlen(options->cwd) + 1);
	request.argc = add_strings(&payload, options->argv);
	request.envc = add_strings(&payload, options->env);
	if (strbuf_failed(&payload))
		return -ENOMEM;
	if (payload.size > INIT_PAYLOAD_MAX)
		return -E2BIG;
	request.payload_size = (uint32_t)payload.size;
	return send_exec(bubble, options, &request, &payload);
}

void bubble_join_commands(struct bubble *bubble, int tasks_fd)
{
	bubble->join_fd = tasks_fd;
}

bool bubble_is_alive(const struct bubble *bubble)
{
	return bubble->ready && !bubble->ended && !bubble->init_dead && !bubble->control_closed;
}

static int no_init(const struct bubble *bubble, struct error *err)
{
	return error_reason(
		err, ENOTCONN, REASON_SLOT_LOST, "slot %u has no living init", bubble->slot);
}

int bubble_exec_start(struct bubble *bubble, const struct bubble_exec_options *options,
	const struct bubble_exec_hooks *hooks, struct bubble_exec **ret_exec, struct error *err)
{
	struct bubble_exec *exec;
	int r;

	if (!bubble_is_alive(bubble))
		return no_init(bubble, err);
	if (!options->argv[0])
		return error_set(err, EINVAL, "a command needs at least its name");
	exec = calloc(1, sizeof(*exec));
	if (!exec)
		return error_set(err, ENOMEM, "no memory for a command");
	exec->bubble = bubble;
	exec->id = ++bubble->next_id;
	exec->hooks = *hooks;
	r = request_exec(bubble, options, exec->id);
	if (r < 0) {
		free(exec);
		if (r == -EPIPE || r == -ECONNRESET) /* its death is about to be heard of */
			return no_init(bubble, err);
		return error_errno(err, -r, "cannot hand the command to slot %u", bubble->slot);
	}
	HASH_ADD(hh, bubble->execs, id, sizeof(exec->id), exec);
	*ret_exec = exec;
	return 0;
}

static void send_plain(struct bubble *bubble, const struct init_request *request)
{
	struct iovec part = {.iov_base = (void *)request, .iov_len = sizeof(*request)};
	struct message message = {.parts = &part, .part_count = 1};

	(void)bubble_send(bubble, &message); /* on failure init is gone, and its death is told */
}

void bubble_exec_forget(struct bubble_exec *exec)
{
	exec->hooks = (struct bubble_exec_hooks){0};
}

static void ask(const struct bubble_exec *exec, struct init_request request)
{
	request.id = exec->id;
	if (bubble_is_alive(exec->bubble))
		send_plain(exec->bubble, &request);
}

void bubble_exec_signal(struct bubble_exec *exec, int signal)
{
	ask(exec, (struct init_request){.kind = INIT_SIGNAL, .signal = signal});
}

void bubble_exec_signal_leader(struct bubble_exec *exec, int signal)
{
	ask(exec, (struct init_request){
			  .kind = INIT_SIGNAL, .signal = signal, .flags = INIT_SIGNAL_LEADER});
}

void bubble_exec_doom(struct bubble_exec *exec)
{
	ask(exec, (struct init_request){
			  .kind = INIT_SIGNAL, .signal = SIGTERM, .flags = INIT_SIGNAL_DOOMS});
}

void bubble_exec_kill(struct bubble_exec *exec)
{
	ask(exec, (struct init_request){.kind = INIT_KILL});
}

/* ---- Reports ---- */

static void end_exec(struct bubble_exec *exec, const struct bubble_exec_end *end)
{
	HASH_DEL(exec->bubble->execs, exec);
	if (exec->hooks.ended)
		exec->hooks.ended(exec->hooks.data, end);
	free(exec);
}

static int handle_started(struct bubble_exec *exec, const struct init_report *report)
{
	if (exec->started || report->pid <= 1)
		return -EPROTO;
	exec->started = true;
	if (exec->hooks.started)
		exec->hooks.started(exec->hooks.data, report->pid);
	return 0;
}

static int handle_start_failed(struct bubble_exec *exec, const struct init_report *report)
{
	struct bubble_exec_end end = {.start_errno = report->error, .failed_step = report->step};

	if (exec->started || report->error <= 0 || report->error > 4095)
		return -EPROTO;
	end_exec(exec, &end);
	return 0;
}

static struct timeval time_of(int64_t us)
{
	return (struct timeval){.tv_sec = us / 1000000, .tv_usec = us % 1000000};
}

/* A short command's start is told with its end alone; one that was killed before it was born has no
 * pid. */
static int handle_done(struct bubble_exec *exec, const struct init_report *report)
{
	struct bubble_exec_end end = {
		.wait_status = report->status, .survived = report->error != 0};

	if (!(WIFEXITED(report->status) || WIFSIGNALED(report->status)))
		return -EPROTO;
	if (!exec->started && report->pid != 0 && handle_started(exec, report) < 0)
		return -EPROTO;
	end.rusage.ru_utime = time_of(report->user_us);
	end.rusage.ru_stime = time_of(report->system_us);
	end.rusage.ru_maxrss = report->max_rss_kib;
	end.rusage.ru_minflt = report->minor_faults;
	end.rusage.ru_majflt = report->major_faults;
	end.rusage.ru_inblock = report->blocks_in;
	end.rusage.ru_oublock = report->blocks_out;
	end.rusage.ru_nvcsw = report->voluntary_switches;
	end.rusage.ru_nivcsw = report->involuntary_switches;
	end_exec(exec, &end);
	return 0;
}

static void answer_ping(struct bubble *bubble, int r)
{
	void (*pong)(void *data, int r) = bubble->pong;

	if (!pong)
		return;
	bubble->pong = NULL;
	loop_timer_stop(take_ptr(&bubble->ping_timer));
	pong(bubble->pong_data, r);
}

static int handle_pong(struct bubble *bubble, const struct init_report *report)
{
	if (report->id > bubble->ping_id || report->id <= bubble->pong_id)
		return -EPROTO; /* each ping is answered once, in order */
	bubble->pong_id = report->id;
	if (report->id == bubble->ping_id) /* an older one is late: it has been answered */
		answer_ping(bubble, 0);
	return 0;
}

int bubble_handle_report(struct bubble *bubble, const struct init_report *report)
{
	struct bubble_exec *exec = NULL;

	if (report->kind == INIT_PONG)
		return handle_pong(bubble, report);
	HASH_FIND(hh, bubble->execs, &report->id, sizeof(report->id), exec);
	if (!exec)
		return -EPROTO;
	switch (report->kind) {
	case INIT_STARTED:
		return handle_started(exec, report);
	case INIT_START_FAILED:
		return handle_start_failed(exec, report);
	case INIT_DONE:
		return handle_done(exec, report);
	default:
		return -EPROTO;
	}
}

/* ---- Pings and the end ---- */

static void handle_ping_timer(void *data)
{
	struct bubble *bubble = data;

	if (bubble->ping_result == -ETIMEDOUT)
		bubble_hear_late(bubble);
	answer_ping(bubble, bubble->ping_result);
}

void bubble_ping(
	struct bubble *bubble, uint64_t timeout_ms, void (*pong)(void *data, int r), void *data)
{
	bool alive = bubble_is_alive(bubble);
	struct init_request request = {.kind = INIT_PING, .id = bubble->ping_id + 1};

	assert(!bubble->pong);
	bubble->ping_id++;
	bubble->pong = pong;
	bubble->pong_data = data;
	bubble->ping_result = alive ? -ETIMEDOUT : -ENOTCONN;
	/* without memory for a timer the pong itself, or the bubble's end, is what answers */
	(void)loop_timer_start(bubble->loop, alive ? timeout_ms : 0, handle_ping_timer, bubble,
		&bubble->ping_timer, NULL);
	if (alive)
		send_plain(bubble, &request);
}

void bubble_lose_execs(struct bubble *bubble)
{
	const struct bubble_exec_end lost = {.lost = true};
	struct bubble_exec *exec, *next;

	HASH_ITER (hh, bubble->execs, exec, next)
		end_exec(exec, &lost);
	answer_ping(bubble, -ENOTCONN);
}

void bubble_forget_execs(struct bubble *bubble)
{
	struct bubble_exec *exec, *next;

	HASH_ITER (hh, bubble->execs, exec, next) {
		HASH_DEL(bubble->execs, exec);
		free(exec);
	}
	bubble->pong = NULL;
	loop_timer_stop(take_ptr(&bubble->ping_timer));
}
