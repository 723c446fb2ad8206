/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/init/init.h"

/*
 * Whether exec succeeded is looked at this much later, or at the command's death: to be woken by
 * exec itself costs a short command 6 % (two processes on its heels instead of one).
 */
enum { LOOK_AFTER_MS = 20 };

/* Dead children taken in at a time: commands that fork for ever must not keep the daemon
 * waiting. */
enum { REAP_AT_ONCE = 64 };

/* How long a hunt waits for the deaths of those that it has hit. */
enum { HUNT_TURN_MS = 2 };

struct server {
	int epoll_fd, signal_fd;
	bool daemon_gone;
	bool reaping;    /* more dead may wait than were taken in */
	bool launching;  /* of some command the outcome of exec is not known */
	int64_t look_at; /* when to look, if so: milliseconds of CLOCK_MONOTONIC */
	struct command *commands;
	struct hunt hunt;
	struct init_request *request; /* and INIT_INLINE_MAX bytes behind it */
};

static void report(struct server *server, const struct init_report *report)
{
	if (!report_send(report, -1))
		server->daemon_gone = true;
}

static struct init_report report_of(enum init_report_kind kind, uint32_t id)
{
	return (struct init_report){.version = INIT_PROTOCOL_VERSION, .kind = kind, .id = id};
}

static void report_start_failed(struct server *server, uint32_t id, const char *step, int error)
{
	struct init_report failed = report_of(INIT_START_FAILED, id);

	failed.error = error;
	strncpy(failed.step, step, sizeof(failed.step) - 1);
	report(server, &failed);
}

static bool watch(struct server *server, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* ---- Commands ---- */

static void handle_start_failed(
	struct server *server, struct command *command, const struct command_failure *failure)
{
	command->told = true;
	report_start_failed(server, command->id, command_step(failure->step), failure->error);
}

static void learn_pid(struct command *command)
{
	if (command->runner && command->pid == 0)
		command->pid = runner_child(command->runner);
}

/* The group of a leader that we have not reaped cannot be another's. Before its setsid() it has
 * none yet. What comes before the leader itself waits for it. */
static void signal_command(struct command *command, int signal, bool leader_only)
{
	learn_pid(command);
	if (command->pid == 0 && signal > 0 && signal <= SIGNAL_MAX)
		command->early_signals[leader_only] |= UINT64_C(1) << (signal - 1);
	if (command->pid == 0 || command->ended)
		return;
	if (leader_only || (kill(-command->pid, signal) < 0 && errno == ESRCH))
		(void)kill(command->pid, signal);
}

/* Of one that executes: it has its group. */
static void send_early_signals(struct command *command, bool leader_only)
{
	uint64_t signals = command->early_signals[leader_only];

	command->early_signals[leader_only] = 0;
	for (int signal = 1; signal <= SIGNAL_MAX; signal++)
		if (signals & (UINT64_C(1) << (signal - 1)))
			signal_command(command, signal, leader_only);
}

static void tell_started(struct server *server, struct command *command)
{
	struct init_report started = report_of(INIT_STARTED, command->id);

	started.pid = command->pid;
	report(server, &started);
	send_early_signals(command, false);
	send_early_signals(command, true);
}

/* Tells how exec went, of those that are not known to have come so far. */
static void look_at_launches(struct server *server)
{
	server->launching = false;
	server->look_at = now_ms() + LOOK_AFTER_MS;
	for (struct command *command = server->commands; command; command = command->next) {
		struct command_failure failure;

		if (!command->launch)
			continue;
		if (!command_outcome(command, &failure)) {
			server->launching = true;
			continue;
		}
		command_forget_launch(command);
		learn_pid(command);
		if (failure.error != 0)
			handle_start_failed(server, command, &failure);
		else if (command->pid > 0) /* else it was killed before it was born */
			tell_started(server, command);
	}
}

static int64_t microseconds(struct timeval time)
{
	return (int64_t)time.tv_sec * 1000000 + time.tv_usec;
}

/* error: why something of a killed command may live. */
static void tell_end(struct server *server, struct command *command, int error)
{
	struct init_report done = report_of(INIT_DONE, command->id);
	const struct rusage *usage = &command->usage;

	if (command->told)
		return;
	command->told = true;
	done.pid = command->pid;
	done.status = command->status;
	done.error = error;
	done.user_us = microseconds(usage->ru_utime);
	done.system_us = microseconds(usage->ru_stime);
	done.max_rss_kib = usage->ru_maxrss;
	done.minor_faults = usage->ru_minflt;
	done.major_faults = usage->ru_majflt;
	done.blocks_in = usage->ru_inblock;
	done.blocks_out = usage->ru_oublock;
	done.voluntary_switches = usage->ru_nvcsw;
	done.involuntary_switches = usage->ru_nivcsw;
	report(server, &done);
}

/* What is left of it when init's part in it is over. */
static void forget_if_over(struct server *server, struct command *command)
{
	struct command **at = &server->commands;

	if (!command->ended || !command->told || command->runner)
		return;
	while (*at != command)
		at = &(*at)->next;
	*at = command->next;
	command_free(command);
}

/* ---- The end of a command's tree ---- */

static void begin_kill(struct server *server, struct command *command)
{
	command->hunted = true;
	if (command->runner)
		(void)kill(runner_pid(command->runner), SIGKILL);
	hunt_begin(&server->hunt);
}

/* A dead child's end of the pipe is closed: the outcome is there. */
static void leader_ended(
	struct server *server, struct command *command, int status, const struct rusage *usage)
{
	struct command_failure failure;

	command->ended = true;
	command->status = status;
	command->usage = *usage;
	if (command->launch && command_outcome(command, &failure) && failure.error != 0)
		handle_start_failed(server, command, &failure);
	if (command->doomed)
		begin_kill(server, command);
	else if (!command->hunted)
		tell_end(server, command, 0);
	command_forget_launch(command);
}

static bool is_ours(pid_t pid)
{
	siginfo_t info;

	return pid > 0 &&
	       waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

/* Its work is done, or it was killed; then the leader is our child now, unless the runner was hit
 * just when it had reaped it. */
static void runner_ended(struct server *server, struct command *command)
{
	struct rusage usage = {0};
	int status = SIGKILL;

	learn_pid(command);
	if (!command->ended &&
		(runner_outcome(command->runner, &status, &usage) || !is_ours(command->pid)))
		leader_ended(server, command, status, &usage);
	runner_free(command->runner);
	command->runner = NULL;
}

static void handle_death(struct server *server, pid_t pid, int status, const struct rusage *usage)
{
	struct command *command = server->commands;

	while (command && command->pid != pid &&
		!(command->runner && runner_pid(command->runner) == pid))
		command = command->next;
	if (!command) /* an orphan that came to us */
		return;
	if (command->runner)
		runner_ended(server, command);
	else if (!command->ended)
		leader_ended(server, command, status, usage);
	forget_if_over(server, command);
}

/* Leaders that have left something behind: their runners stay. */
static void look_at_runners(struct server *server)
{
	struct rusage usage;
	int status;

	for (struct command *command = server->commands; command; command = command->next) {
		if (!command->runner || command->ended ||
			!runner_outcome(command->runner, &status, &usage))
			continue;
		learn_pid(command);
		leader_ended(server, command, status, &usage);
	}
}

/* Every hunted command is over, or nobody knows what is left of it. Of one whose end was told
 * before only our own end can tell that. */
static void end_hunt(struct server *server, bool clean)
{
	struct command *next;

	for (struct command *command = server->commands; command; command = next) {
		next = command->next;
		if (!command->hunted)
			continue;
		if (command->told && !clean)
			server->daemon_gone = true;
		if (!command->ended)
			command->status = SIGKILL;
		command->ended = command->ended || clean;
		tell_end(server, command, clean ? 0 : ETIMEDOUT);
		command->hunted = false;
		forget_if_over(server, command);
	}
}

static void hunt(struct server *server)
{
	enum hunt_result result = hunt_round(&server->hunt, server->commands);

	if (result != HUNT_GOES_ON)
		end_hunt(server, result == HUNT_OVER);
}

/* A runner has nothing to stop for. */
static void wake_runner(const struct server *server, pid_t pid)
{
	for (const struct command *command = server->commands; command; command = command->next) {
		if (command->runner && runner_pid(command->runner) == pid)
			(void)kill(pid, SIGCONT);
	}
}

static void reap(struct server *server)
{
	struct rusage usage;
	/* where nothing can be born the dead are finite, and in the hunt's way */
	int status, count = 0, most = server->hunt.world_stopped ? INT_MAX : REAP_AT_ONCE;
	pid_t pid;

	while (count < most &&
		(pid = wait4(-1, &status, WNOHANG | WUNTRACED | __WALL, &usage)) > 0) {
		if (WIFSTOPPED(status))
			wake_runner(server, pid);
		else
			handle_death(server, pid, status, &usage);
		count++;
	}
	server->reaping = count == most;
	look_at_runners(server);
}

static void handle_sigchld(struct server *server)
{
	struct signalfd_siginfo info;

	/* one number stands once, however often it was sent */
	(void)!read(server->signal_fd, &info, sizeof(info));
	server->reaping = true;
}

/* ---- Requests ---- */

static void handle_exec(struct server *server, size_t payload_size, int *fds, size_t fd_count)
{
	const struct init_request *request = server->request;
	const char *payload = (const char *)(request + 1);
	struct command *command;
	const char *step;
	int r = -EPROTO;

	if (request->payload_size > INIT_PAYLOAD_MAX ||
		(!(request->flags & INIT_EXEC_PAYLOAD_FD) &&
			request->payload_size != payload_size)) {
		server->daemon_gone = true; /* not the daemon we know */
		return;
	}
	r = command_start(request, payload, fds, fd_count, &command, &step);
	if (r < 0) {
		report_start_failed(server, request->id, step, -r);
		return;
	}
	command->next = server->commands;
	server->commands = command;
	if (!server->launching)
		server->look_at = now_ms() + LOOK_AFTER_MS;
	server->launching = true;
}

static struct command *find_command(const struct server *server)
{
	struct command *command = server->commands;

	while (command && command->id != server->request->id)
		command = command->next;
	return command;
}

static void handle_signal(struct server *server)
{
	struct command *command = find_command(server);

	if (!command)
		return;
	if (server->request->flags & INIT_SIGNAL_DOOMS)
		command->doomed = true;
	signal_command(
		command, server->request->signal, server->request->flags & INIT_SIGNAL_LEADER);
}

static void handle_kill(struct server *server)
{
	struct command *command = find_command(server);

	if (command)
		begin_kill(server, command);
}

static void handle_ping(struct server *server)
{
	struct init_report pong = report_of(INIT_PONG, server->request->id);

	report(server, &pong);
}

/*
 * init keeps no part in the connection. Where the kernel lets no more descriptors of this user be
 * under way, the daemon is told so instead.
 */
static void handle_socket(struct server *server)
{
	struct init_report made = report_of(INIT_SOCKET_MADE, server->request->id);
	int fd = network_socket(server->request->flags & INIT_SOCKET_V6);

	if (fd >= 0 && report_send(&made, fd)) {
		(void)close(fd);
		return;
	}
	made.error = fd < 0 ? -fd : errno;
	if (fd >= 0)
		(void)close(fd);
	report(server, &made);
}

static size_t received_fds(struct msghdr *message, int *fds)
{
	size_t count = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(c), count * sizeof(int));
	}
	return count;
}

static void dispatch(struct server *server, size_t size, int *fds, size_t fd_count)
{
	switch (server->request->kind) {
	case INIT_EXEC:
		handle_exec(server, size - sizeof(*server->request), fds, fd_count);
		return;
	case INIT_SIGNAL:
		handle_signal(server);
		return;
	case INIT_KILL:
		handle_kill(server);
		return;
	case INIT_PING:
		handle_ping(server);
		return;
	case INIT_SOCKET:
		handle_socket(server);
		return;
	default:
		server->daemon_gone = true;
	}
}

/* One request. False when there is none now. */
static bool handle_request(struct server *server)
{
	struct iovec part = {
		.iov_base = server->request, .iov_len = sizeof(*server->request) + INIT_INLINE_MAX};
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(INIT_FDS_MAX * sizeof(int))];
	} control;
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.room)};
	int fds[INIT_FDS_MAX];
	ssize_t size = recvmsg(INIT_CONTROL_FD, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (size < (ssize_t)sizeof(*server->request)) {
		server->daemon_gone = true;
		return false;
	}
	dispatch(server, (size_t)size, fds, received_fds(&message, fds));
	return !server->daemon_gone;
}

static void handle_event(struct server *server, const struct epoll_event *event)
{
	if (event->data.fd == server->signal_fd) {
		handle_sigchld(server);
		return;
	}
	while (handle_request(server))
		;
}

static bool open_server(struct server *server)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	server->request = malloc(sizeof(*server->request) + INIT_INLINE_MAX);
	server->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	hunt_open(&server->hunt);
	return server->request && watch(server, server->signal_fd) &&
	       watch(server, INIT_CONTROL_FD);
}

static int wait_ms(const struct server *server)
{
	int64_t left = server->launching ? server->look_at - now_ms() : INT_MAX;

	if (server->reaping || left < 0)
		return 0;
	if (server->hunt.on && left > HUNT_TURN_MS)
		return HUNT_TURN_MS;
	return server->launching ? (int)left : -1;
}

void serve(void)
{
	struct server server = {0};
	struct epoll_event events[2];

	if (!open_server(&server))
		return;
	while (!server.daemon_gone) {
		int count = epoll_wait(server.epoll_fd, events, 2, wait_ms(&server));

		for (int i = 0; i < count && !server.daemon_gone; i++)
			handle_event(&server, &events[i]);
		if (server.reaping)
			reap(&server);
		if (server.hunt.on)
			hunt(&server);
		if (server.launching && server.look_at <= now_ms())
			look_at_launches(&server);
	}
}
