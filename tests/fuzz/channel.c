/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pool/bubble-private.h: an init that was taken over, on the other end of its socket. It says
 * anything, in any order, whole or cut, with descriptors or without; the daemon meanwhile starts
 * commands, pings and kills.
 *
 * Whatever it says: ready() comes at most once and not after a breach, every command ends once,
 * every socket that was asked for comes, or does not, once, died() comes last, and no descriptor is
 * kept.
 */
/* HELLO brings the pidfd of who sends it, and that is this program: nothing may be killed. */
#define pidfd_send_signal spare_by_pidfd
#define kill              spare

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/loop.h"
#include "check.h"
#include "input.h"
#include "pool/bubble.c"

int spare_by_pidfd(int fd, int signal, siginfo_t *info, unsigned flags)
{
	return 0;
}

int spare(pid_t pid, int signal)
{
	return 0;
}

enum { EXECS_MAX = 8, FDS_MAX = 3, NEVER_MS = 3600 * 1000 };

enum operation_kind { START_EXEC, PING, KILL, FORGET, SAY_FIRST, OPERATIONS = 8 };

/* What a message may bring. */
enum source { SOURCE_NULL, SOURCE_TCP, SOURCE_LISTENER, SOURCE_NETWORK, SOURCE_USER, SOURCES };

struct run {
	bool started, ended, forgotten;
	struct bubble_exec *exec;
};

struct play {
	struct bubble *bubble;
	int theirs;
	struct run runs[EXECS_MAX];
	unsigned run_count;
	unsigned ready, died, pings, pongs, asked, got;
};

static void note_ready(void *data)
{
	struct play *play = data;

	CHECK(play->ready++ == 0 && !play->died);
}

static void note_died(void *data, const struct error *why)
{
	struct play *play = data;

	CHECK(play->died++ == 0);
	CHECK(why->code != 0 && why->text[0]);
}

static void note_started(void *data, pid_t inside_pid)
{
	struct run *run = data;

	CHECK(!run->started && !run->ended && !run->forgotten && inside_pid > 1);
	run->started = true;
}

static void note_ended(void *data, const struct bubble_exec_end *end)
{
	struct run *run = data;

	CHECK(!run->ended && !run->forgotten);
	CHECK(end->lost || end->start_errno > 0 || run->started);
	CHECK(end->start_errno == 0 || !run->started);
	for (const char *c = end->failed_step ? end->failed_step : ""; *c; c++)
		CHECK(*c >= ' ' && *c < 127);
	run->ended = true;
}

static void note_pong(void *data, int r)
{
	struct play *play = data;

	CHECK(r == 0 || r == -ENOTCONN);
	play->pongs++;
	CHECK(play->pongs == play->pings);
}

static struct loop *the_loop(void)
{
	static struct loop *loop;

	if (!loop)
		CHECK(loop_create(&loop, NULL) == 0);
	return loop;
}

/* Open for good: the last close of a listening socket waits for an RCU period. */
static const int *the_sources(void)
{
	static int sources[SOURCES];

	if (sources[SOURCE_TCP] > 0)
		return sources;
	sources[SOURCE_NULL] = open("/dev/null", O_RDWR | O_CLOEXEC);
	sources[SOURCE_LISTENER] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	sources[SOURCE_NETWORK] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	sources[SOURCE_USER] = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	sources[SOURCE_TCP] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(listen(sources[SOURCE_LISTENER], 1) == 0);
	return sources;
}

/* A slot without a network, one whose init must listen for two targets, one with nat. */
static const struct bubble_kit *choose_kit(unsigned number)
{
	static const struct config config;
	static const struct bubble_kit kits[] = {
		{.config = &config},
		{.config = &config,
			.targets = {.inside_count = 2, .inside = {{0}, {.optional = true}}}},
		{.config = &config, .setup = {.network = INIT_NETWORK_NAMESPACES}},
	};

	return &kits[number % (sizeof(kits) / sizeof(*kits))];
}

/* As bubble_spawn() leaves it when bwrap is gone already: so its end needs init's alone. */
static void open_play(struct play *play, unsigned number)
{
	static const int on = 1;
	struct bubble *bubble = calloc(1, sizeof(*bubble));
	int ends[2];

	CHECK(bubble);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
	CHECK(setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0);
	(void)setsockopt(ends[0], SOL_SOCKET, SO_PASSPIDFD, &on, sizeof(on));
	*play = (struct play){.bubble = bubble, .theirs = ends[1]};
	bubble->loop = the_loop();
	bubble->kit = choose_kit(number);
	bubble->hooks = (struct bubble_hooks){.ready = note_ready, .died = note_died, .data = play};
	bubble->queue_end = &bubble->queue;
	bubble->control_fd = ends[0];
	bubble->runner_fd = bubble->successor_fd = bubble->complaints_fd = -1;
	bubble->pidfd = bubble->root_fd = bubble->join_fd = -1;
	bubble_init_sockets(bubble);
	CHECK(loop_watch_start(bubble->loop, bubble->control_fd, LOOP_READABLE, handle_control,
		      bubble, &bubble->control_watch, NULL) == 0);
}

/* What the daemon sent, with its descriptors. */
static void drain(struct play *play)
{
	char bytes[65536], control[CMSG_SPACE(INIT_FDS_MAX * sizeof(int))];
	struct iovec part = {bytes, sizeof(bytes)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	for (;;) {
		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		if (recvmsg(play->theirs, &message, MSG_DONTWAIT) <= 0)
			return;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
			size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

			for (size_t i = 0; i < count; i++) {
				int fd;

				memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
				(void)close(fd);
			}
		}
	}
}

static void start_exec(struct play *play)
{
	static const char *const argv[] = {"true", NULL}, *const env[] = {NULL};
	struct run *run = &play->runs[play->run_count];
	struct bubble_exec_options options = {.argv = argv,
		.env = env,
		.cwd = "/",
		.stdin_fd = the_sources()[SOURCE_NULL],
		.stdout_fd = the_sources()[SOURCE_NULL],
		.stderr_fd = the_sources()[SOURCE_NULL],
		.extra_fd = -1,
		.cgroup_fd = -1};
	const struct bubble_exec_hooks hooks = {
		.started = note_started, .ended = note_ended, .data = run};
	struct error err;

	if (play->run_count == EXECS_MAX)
		return;
	if (bubble_exec_start(play->bubble, &options, &hooks, &run->exec, &err) < 0) {
		CHECK(err.code == ENOTCONN);
		return;
	}
	play->run_count++;
}

static void forget_exec(struct play *play, unsigned which)
{
	struct run *run = &play->runs[which % EXECS_MAX];

	if (!run->exec || run->ended || run->forgotten)
		return;
	run->forgotten = true;
	bubble_exec_forget(run->exec);
}

static void ping(struct play *play)
{
	if (play->pings != play->pongs || play->bubble->ended || !play->bubble->ready)
		return;
	play->pings++;
	bubble_ping(play->bubble, NEVER_MS, note_pong, play);
}

static void note_socket(void *data, int fd)
{
	struct play *play = data;

	CHECK(play->got++ < play->asked && fd != 0);
	if (fd > 0)
		(void)close(fd);
}

static void ask_socket(struct play *play, bool forget)
{
	struct bubble_socket *socket;

	if (bubble_socket_ask(play->bubble, false, note_socket, play, &socket) < 0)
		return;
	if (forget)
		bubble_socket_forget(socket);
	else
		play->asked++;
}

static void fill_report(struct init_report *report, struct input *input)
{
	static const int32_t numbers[] = {0, 1, 2, -1, 4095, 4096, INT32_MAX, INT32_MIN};

	report->kind = next_byte(input) % 16;
	report->id = next_byte(input) % 16;
	report->pid = numbers[next_byte(input) % 8];
	report->error = numbers[next_byte(input) % 8];
	report->status = (int32_t)(next_byte(input) << 8);
	report->status |= (int32_t)next_byte(input);
	for (size_t i = 0; i < sizeof(report->step); i += 4)
		memset(report->step + i, (int)next_byte(input), 4);
	memset(&report->user_us, (int)next_byte(input), 16);
}

static void say(struct play *play, unsigned how, struct input *input)
{
	struct init_report report[2] = {{.version = INIT_PROTOCOL_VERSION}};
	struct iovec part = {report, sizeof(report[0])};
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control = {0};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	size_t count = how >> 3 & 3;

	fill_report(&report[0], input);
	if (how & 0x40)
		report[0].version = next_byte(input);
	if (how & 0x80)
		part.iov_len = next_byte(input) % sizeof(report);
	if (count > 0) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
		for (size_t i = 0; i < count; i++)
			memcpy(CMSG_DATA(&control.header) + i * sizeof(int),
				&the_sources()[next_byte(input) % SOURCES], sizeof(int));
	}
	(void)sendmsg(play->theirs, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void turn(struct play *play, struct input *input)
{
	unsigned how = next_byte(input);

	switch (how % OPERATIONS) {
	case START_EXEC:
		start_exec(play);
		break;
	case PING:
		ping(play);
		break;
	case KILL:
		if (how > 0xf0) /* seldom: nothing interesting comes after */
			bubble_kill(play->bubble);
		else
			ask_socket(play, how & 0x80);
		break;
	case FORGET:
		forget_exec(play, how >> 3);
		break;
	default:
		say(play, how, input);
	}
	drain(play);
	if (!play->bubble->ended)
		handle_control(play->bubble, LOOP_READABLE);
}

/* It dies: its socket's end, and its pidfd where it said HELLO. */
static void end_play(struct play *play)
{
	struct bubble *bubble = play->bubble;

	(void)close(play->theirs);
	if (!bubble->ended)
		handle_control(bubble, LOOP_READABLE);
	if (!bubble->ended && bubble->pidfd >= 0)
		handle_pid_dead(bubble, LOOP_READABLE);
	CHECK(play->died == 1 && play->pings == play->pongs && play->asked == play->got);
	for (unsigned i = 0; i < play->run_count; i++)
		CHECK(play->runs[i].ended != play->runs[i].forgotten);
	bubble_destroy(bubble);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	struct play play;
	int lowest_free;

	(void)the_loop();
	(void)the_sources();
	lowest_free = dup(STDERR_FILENO);
	(void)close(lowest_free);
	open_play(&play, next_byte(&input));
	while (input.size > 0)
		turn(&play, &input);
	end_play(&play);
	CHECK(dup(STDERR_FILENO) == lowest_free);
	(void)close(lowest_free);
	return 0;
}
