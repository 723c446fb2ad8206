/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Life and death of a bubble. Three things are watched: init's socket, init's pidfd (known since
 * its first message) and bwrap's. It is dead when bwrap was reaped and init's pidfd is readable;
 * where init never said a word, when nobody holds the other end of its socket any more.
 */
#include "pool/bubble.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "config/settings.h"
#include "pool/bubble-private.h"
#include "pool/process.h"

enum {
	HEARD_PER_TURN = 64, /* messages: an init that was taken over may never stop */
	HEARD_LATE = 1024,   /* as many as wait in its socket at most */
};

/* ---- Dying ---- */

/* Until init makes a session of its own, after its first message, it is in bwrap's process group.
 */
static void send_kill(struct bubble *bubble)
{
	if (bubble->pidfd >= 0)
		(void)pidfd_send_signal(bubble->pidfd, SIGKILL, NULL, 0);
	else if (bubble->runner_pid > 0)
		(void)kill(-bubble->runner_pid, SIGKILL);
}

static void kill_because(struct bubble *bubble, const struct error *why)
{
	if (bubble->why.code == 0)
		bubble->why = *why;
	send_kill(bubble);
}

static void explain(struct bubble *bubble)
{
	struct error *why = &bubble->why;
	char complaint[400];

	if (why->code != 0)
		return;
	bubble_read_complaint(bubble, complaint, sizeof(complaint));
	if (bubble->kill_asked)
		(void)error_set(why, ECANCELED, "slot %u was killed", bubble->slot);
	else if (bubble->ready && bubble->runner_status > 128)
		(void)error_reason(why, ENOTCONN, REASON_SLOT_LOST,
			"slot %u: its init was killed by signal %d", bubble->slot,
			bubble->runner_status - 128);
	else if (bubble->ready)
		(void)error_reason(
			why, ENOTCONN, REASON_SLOT_LOST, "slot %u: its init ended", bubble->slot);
	else if (complaint[0])
		(void)error_set(why, EIO, "slot %u cannot start: %s", bubble->slot, complaint);
	else
		(void)error_set(why, EIO,
			"slot %u cannot start: bwrap ended with status %d without a word",
			bubble->slot, bubble->runner_status);
}

static void stop_watching(struct bubble *bubble)
{
	loop_watch_stop(take_ptr(&bubble->control_watch));
	loop_watch_stop(take_ptr(&bubble->pid_watch));
	loop_watch_stop(take_ptr(&bubble->runner_watch));
	loop_timer_stop(take_ptr(&bubble->start_timer));
}

static void close_work(void *data)
{
	(void)close((int)(intptr_t)data);
}

static void handle_closed(void *data)
{
}

/*
 * The last descriptor of a tmpfs frees all that is in it, which takes 10 ms for 5,000 files: not in
 * the loop, where there is memory to go elsewhere.
 */
static void close_root(struct bubble *bubble)
{
	void *fd = (void *)(intptr_t)bubble->root_fd;

	if (bubble->kit->config->slot.storage != STORAGE_TMPFS ||
		loop_work(bubble->loop, close_work, handle_closed, fd, NULL) < 0)
		close_work(fd);
}

static void close_fds(struct bubble *bubble)
{
	int *const fds[] = {&bubble->control_fd, &bubble->pidfd, &bubble->runner_fd,
		&bubble->successor_fd, &bubble->complaints_fd};

	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
		closep(fds[i]);
		*fds[i] = -1;
	}
	if (bubble->root_fd >= 0)
		close_root(bubble);
	bubble->root_fd = -1;
}

static void hear(struct bubble *bubble, unsigned most);
static void handle_runner_dead(void *data, unsigned events);

/* The last thing a handler calls: died() may destroy the bubble. */
static void end_when_dead(struct bubble *bubble)
{
	struct error why;

	if (bubble->ended || bubble->runner_pid != 0)
		return;
	if (bubble->pidfd >= 0 ? !bubble->init_dead : !bubble->control_closed)
		return;
	/* its last words may come behind its death, and no more than there are */
	hear(bubble, UINT_MAX);
	bubble->ended = true;
	explain(bubble);
	stop_watching(bubble);
	bubble_drop_queue(bubble);
	bubble_lose_execs(bubble);
	bubble_lose_sockets(bubble);
	why = bubble->why;
	bubble_say_complaints(bubble);
	bubble->hooks.died(bubble->hooks.data, &why);
}

/* ---- What init says, and before it the exec helper ---- */

static void handle_pid_dead(void *data, unsigned events)
{
	struct bubble *bubble = data;

	bubble->init_dead = true;
	loop_watch_stop(take_ptr(&bubble->pid_watch));
	end_when_dead(bubble);
}

/*
 * Older kernels give a number instead of a pidfd. It may have been another's since, unless init
 * lives even now: nobody else holds the socket's other end once it speaks.
 */
static int pidfd_of_number(struct bubble *bubble, pid_t pid)
{
	int fd = pidfd_open(pid, 0);
	char byte;

	if (fd < 0)
		return errno == EMFILE || errno == ENFILE ? -EMFILE : -ESRCH;
	if (recv(bubble->control_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
		(void)close(fd);
		return -ESRCH;
	}
	return fd;
}

/* The helper is our own code and still ours alone; what it names must be our child all the same. */
static int handle_successor(struct bubble *bubble, const struct init_report *report)
{
	siginfo_t info;

	if (bubble->pidfd >= 0 || bubble->successor_fd >= 0 || report->pid <= 1)
		return -EPROTO;
	if (waitid(P_PID, (id_t)report->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
		return -EPROTO;
	bubble->successor_fd = pidfd_open(report->pid, 0);
	if (bubble->successor_fd < 0)
		return errno == EMFILE || errno == ENFILE ? -EMFILE : -EPROTO;
	return 0;
}

static int handle_hello(struct bubble *bubble, struct attached *attached)
{
	const int off = 0;
	int fd = take_fd(&attached->pidfd);

	if (bubble->pidfd >= 0)
		goto refuse;
	if (fd < 0)
		fd = pidfd_of_number(bubble, attached->pid);
	if (fd == -ESRCH)
		return 0; /* dead already: the end of its socket tells the rest */
	if (fd < 0)
		return fd;
	/* every further message would bring its own */
	(void)setsockopt(bubble->control_fd, SOL_SOCKET, SO_PASSPIDFD, &off, sizeof(off));
	(void)setsockopt(bubble->control_fd, SOL_SOCKET, SO_PASSCRED, &off, sizeof(off));
	if (loop_watch_start(bubble->loop, fd, LOOP_READABLE, handle_pid_dead, bubble,
		    &bubble->pid_watch, NULL) < 0)
		goto refuse;
	bubble->pidfd = fd;
	bubble->pid = attached->pid;
	bubble_say(bubble, "started as pid %d", (int)bubble->pid);
	if (bubble->kill_asked || bubble->why.code != 0)
		send_kill(bubble);
	return 0;
refuse:
	closep(&fd);
	return -EPROTO;
}

static int handle_failed(struct bubble *bubble, const struct init_report *report)
{
	if (bubble->ready || report->error <= 0 || report->error > 4095)
		return -EPROTO;
	bubble_say(bubble, "step '%s' failed: %s", report->step,
		strerrordesc_np(report->error) ? strerrordesc_np(report->error) : "?");
	if (bubble->why.code == 0)
		(void)error_errno(&bubble->why, report->error,
			"slot %u cannot start: init's step '%s'", bubble->slot, report->step);
	return 0;
}

static int handle_ready(
	struct bubble *bubble, const struct init_report *report, struct attached *attached)
{
	if (bubble->ready || bubble->pidfd < 0 || attached->fd < 0 || report->status < 0)
		return -EPROTO;
	if (!bubble_has_network(bubble))
		return -EPROTO;
	bubble->landlock_abi = report->status;
	bubble->root_fd = take_fd(&attached->fd);
	bubble->ready = true;
	bubble_say_complaints(bubble);
	bubble_say(bubble, "ready");
	closep(&bubble->complaints_fd);
	bubble->complaints_fd = -1;
	loop_timer_stop(take_ptr(&bubble->start_timer));
	if (!bubble->kill_asked && bubble->why.code == 0)
		bubble->hooks.ready(bubble->hooks.data);
	return 0;
}

static int dispatch(
	struct bubble *bubble, const struct init_report *report, struct attached *attached)
{
	int r;

	if (report->kind == INIT_HELLO)
		return handle_hello(bubble, attached);
	if (report->kind == INIT_READY)
		return handle_ready(bubble, report, attached);
	if (report->kind == INIT_LISTENER || report->kind == INIT_SOCKET_MADE ||
		report->kind == INIT_NAMESPACE)
		return bubble_handle_socket(bubble, report, attached);
	if (attached->fd >= 0)
		return -EPROTO;
	if (report->kind == INIT_SUCCESSOR)
		return handle_successor(bubble, report);
	if (report->kind == INIT_FAILED)
		return handle_failed(bubble, report);
	r = bubble->ready ? bubble_handle_report(bubble, report) : -EPROTO;
	return r;
}

static int receive_one(struct bubble *bubble)
{
	struct init_report report;
	struct attached attached;
	int r = bubble_receive(bubble, &report, &attached);

	if (r <= 0)
		return r;
	r = dispatch(bubble, &report, &attached);
	closep(&attached.fd);
	closep(&attached.pidfd);
	return r < 0 ? r : 1;
}

static const char *breach(int r)
{
	return r == -EMFILE ? "the daemon has no descriptor left for it"
			    : "its init broke the protocol";
}

/* Until there is nothing more now, or ever, or others must have their turn. */
static void hear(struct bubble *bubble, unsigned most)
{
	struct error why;
	int r;

	if (bubble->control_closed)
		return;
	do
		r = receive_one(bubble);
	while (r > 0 && --most > 0);
	if (r >= 0)
		return;
	/* the end, or nothing more that we want to hear */
	bubble->control_closed = true;
	loop_watch_stop(take_ptr(&bubble->control_watch));
	if (r == -ENOTCONN) {
		send_kill(bubble);
		return;
	}
	(void)error_reason(&why, -r, REASON_SLOT_LOST, "slot %u: %s", bubble->slot, breach(r));
	kill_because(bubble, &why);
}

/* A deadline of init's has passed, but it may be us who did not look: the daemon, or the machine,
 * was stopped. */
void bubble_hear_late(struct bubble *bubble)
{
	hear(bubble, HEARD_LATE);
}

static void handle_control(void *data, unsigned events)
{
	struct bubble *bubble = data;

	if ((events & LOOP_WRITABLE) && bubble->queue)
		bubble_send_queued(bubble);
	hear(bubble, HEARD_PER_TURN);
	end_when_dead(bubble);
}

/* ---- bwrap's end ---- */

/* The helper has made its successor and is gone: from here on that one is watched. */
static int follow_successor(struct bubble *bubble)
{
	int fd = take_fd(&bubble->successor_fd);
	siginfo_t info;

	(void)waitid(P_PIDFD, (id_t)bubble->runner_fd, &info, WEXITED | WNOHANG);
	loop_watch_stop(take_ptr(&bubble->runner_watch));
	closep(&bubble->runner_fd);
	bubble->runner_fd = fd;
	return loop_watch_start(bubble->loop, fd, LOOP_READABLE, handle_runner_dead, bubble,
		&bubble->runner_watch, NULL);
}

/* Every process that is our child; all are in the group. */
static void reap_group(struct bubble *bubble)
{
	siginfo_t info = {0};

	while (waitid(P_PGID, (id_t)bubble->runner_pid, &info, WEXITED | WNOHANG) == 0 &&
		info.si_pid != 0) {
		bubble->runner_status =
			info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
		info = (siginfo_t){0};
	}
}

static void handle_runner_dead(void *data, unsigned events)
{
	struct bubble *bubble = data;

	hear(bubble, HEARD_PER_TURN); /* a successor's number, or why there is none */
	if (bubble->successor_fd >= 0 && follow_successor(bubble) == 0)
		return;
	/* while its number is still ours: what it left must not outlive it */
	if (bubble->pidfd < 0)
		(void)kill(-bubble->runner_pid, SIGKILL);
	reap_group(bubble);
	bubble->runner_pid = 0;
	loop_watch_stop(take_ptr(&bubble->runner_watch));
	end_when_dead(bubble);
}

static void handle_start_timeout(void *data)
{
	struct bubble *bubble = data;
	struct error why;
	char complaint[400];

	bubble_hear_late(bubble);
	if (bubble->ready)
		return;
	bubble_read_complaint(bubble, complaint, sizeof(complaint));
	(void)error_set(&why, ETIMEDOUT, "slot %u is not ready after %llu ms%s%s", bubble->slot,
		(unsigned long long)bubble->start_timeout_ms, complaint[0] ? ": " : "", complaint);
	kill_because(bubble, &why);
}

/* ---- For the caller ---- */

static int watch_all(struct bubble *bubble, struct error *err)
{
	int r = loop_watch_start(bubble->loop, bubble->control_fd, LOOP_READABLE, handle_control,
		bubble, &bubble->control_watch, err);

	if (r == 0)
		r = loop_watch_start(bubble->loop, bubble->runner_fd, LOOP_READABLE,
			handle_runner_dead, bubble, &bubble->runner_watch, err);
	if (r == 0)
		r = loop_timer_start(bubble->loop, bubble->start_timeout_ms, handle_start_timeout,
			bubble, &bubble->start_timer, err);
	return r;
}

/* It was started and nobody will watch it. */
static void discard_runner(struct bubble *bubble)
{
	if (bubble->runner_pid > 0)
		process_discard_group(bubble->loop, bubble->runner_pid);
	bubble->runner_pid = 0; /* another's, once it was reaped */
}

int bubble_spawn(struct loop *loop, struct bubble_kit *kit, const struct bubble_options *options,
	const struct bubble_hooks *hooks, struct bubble **ret_bubble, struct error *err)
{
	struct bubble *bubble = calloc(1, sizeof(*bubble));
	int r;

	assert(options->host_uid != 0);
	if (!bubble)
		return error_set(err, ENOMEM, "no memory for slot %u", options->slot);
	bubble->loop = loop;
	bubble->kit = kit;
	bubble->slot = options->slot;
	bubble->hooks = *hooks;
	bubble->start_timeout_ms = options->start_timeout_ms;
	bubble->queue_end = &bubble->queue;
	bubble->runner_fd = bubble->successor_fd = bubble->complaints_fd = bubble->control_fd = -1;
	bubble->pidfd = bubble->root_fd = bubble->join_fd = -1;
	bubble_init_sockets(bubble);
	r = bubble_spawn_runner(bubble, options, err);
	if (r == 0)
		r = watch_all(bubble, err);
	if (r < 0) {
		discard_runner(bubble);
		bubble_destroy(bubble);
		return error_wrap(err, "slot %u", options->slot);
	}
	*ret_bubble = bubble;
	return 0;
}

void bubble_kill(struct bubble *bubble)
{
	bubble->kill_asked = true;
	send_kill(bubble);
}

/* Only where the loop ends first is anything left to kill; whoever reaps orphans then reaps bwrap.
 */
void bubble_destroy(struct bubble *bubble)
{
	if (!bubble)
		return;
	if (!bubble->ended)
		send_kill(bubble);
	stop_watching(bubble);
	bubble_drop_queue(bubble);
	bubble_forget_execs(bubble);
	bubble_forget_sockets(bubble);
	close_fds(bubble);
	free(bubble);
}

pid_t bubble_pid(const struct bubble *bubble)
{
	return bubble->ready ? bubble->pid : 0;
}

int bubble_pidfd(const struct bubble *bubble)
{
	return bubble->ready ? bubble->pidfd : -1;
}

int bubble_root_fd(const struct bubble *bubble)
{
	return bubble->root_fd;
}

int bubble_landlock_abi(const struct bubble *bubble)
{
	return bubble->landlock_abi;
}

int bubble_null_fd(const struct bubble *bubble)
{
	return bubble->kit->null_fd;
}
