/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Stands where bwrap is expected and does what no honest bwrap or init does. The word behind
 * "--fake" among its arguments, which comes through slot.bwrap_args, says what.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/init/protocol.h"

static void say_error(unsigned kind, unsigned id, int fd_count, int error)
{
	struct init_report report = {
		.version = INIT_PROTOCOL_VERSION, .kind = kind, .id = id, .pid = 2, .error = error};
	struct iovec part = {.iov_base = &report, .iov_len = sizeof(report)};
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control = {0};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	const int fds[2] = {0, 1};
	size_t size = (size_t)fd_count * sizeof(int);

	if (fd_count > 0) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(size);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(size);
		memcpy(CMSG_DATA(&control.header), fds, size);
	}
	memcpy(report.step, "a\033[31mb", 8);
	if (sendmsg(INIT_CONTROL_FD, &message, MSG_NOSIGNAL) < 0)
		exit(0);
}

static void say(unsigned kind, unsigned id, int fd_count)
{
	say_error(kind, id, fd_count, EACCES);
}

/* Until the other end is closed. */
static void wait_for_request(void)
{
	char bytes[sizeof(struct init_setup) + 8 * INIT_FILTER_MAX];

	if (recv(INIT_CONTROL_FD, bytes, sizeof(bytes), 0) <= 0)
		exit(0);
}

static void wait_for_ever(void)
{
	for (;;)
		wait_for_request();
}

static void be_ready(void)
{
	wait_for_request(); /* SETUP */
	say(INIT_HELLO, 0, 0);
	say(INIT_READY, 0, 1);
}

static void complain(void)
{
	(void)fprintf(stderr, "warning: something\nbwrap: setting up uid map: Permission denied\n");
	exit(1);
}

static void hang(void)
{
	wait_for_ever();
}

/* The child keeps the socket, as bwrap's would while it sets up; killing the parent alone leaves
 * it. */
static void hang_with_a_child(void)
{
	if (fork() == 0) {
		for (;;)
			pause();
	}
	wait_for_ever();
}

static void say_too_little(void)
{
	(void)send(INIT_CONTROL_FD, "x", 1, MSG_NOSIGNAL);
	wait_for_ever();
}

static void speak_another_version(void)
{
	struct init_report report = {.version = INIT_PROTOCOL_VERSION + 1, .kind = INIT_HELLO};

	(void)send(INIT_CONTROL_FD, &report, sizeof(report), MSG_NOSIGNAL);
	wait_for_ever();
}

static void be_ready_without_hello(void)
{
	say(INIT_READY, 0, 1);
	wait_for_ever();
}

static void be_ready_without_root(void)
{
	say(INIT_HELLO, 0, 0);
	say(INIT_READY, 0, 0);
	wait_for_ever();
}

static void send_two_descriptors(void)
{
	say(INIT_HELLO, 0, 0);
	say(INIT_READY, 0, 2);
	wait_for_ever();
}

static void fail_in_colour(void)
{
	say(INIT_HELLO, 0, 0);
	say(INIT_FAILED, 0, 0);
	exit(1);
}

static void be_done_with_nothing(void)
{
	be_ready();
	say(INIT_DONE, 77, 0);
	wait_for_ever();
}

static void start_twice(void)
{
	be_ready();
	wait_for_request(); /* EXEC */
	say(INIT_STARTED, 1, 0);
	say(INIT_STARTED, 1, 0);
	wait_for_ever();
}

static void fail_with_an_unknown_error(void)
{
	be_ready();
	wait_for_request();
	say_error(INIT_START_FAILED, 1, 0, 4000);
	wait_for_ever();
}

static void attach_to_done(void)
{
	be_ready();
	wait_for_request();
	say(INIT_STARTED, 1, 0);
	say(INIT_DONE, 1, 1);
	wait_for_ever();
}

static void say_nonsense(void)
{
	be_ready();
	say(4711, 0, 0);
	wait_for_ever();
}

static void answer_for_ever(void)
{
	be_ready();
	for (;;)
		say(INIT_PONG, 0, 0);
}

static void fall_silent(void)
{
	be_ready();
	for (;;)
		pause();
}

/* Each kill has failed. */
static void be_outrun(void)
{
	struct init_request request = {0};

	be_ready();
	while (recv(INIT_CONTROL_FD, &request, sizeof(request), 0) > 0) {
		if (request.kind == INIT_KILL)
			say_error(INIT_DONE, request.id, 0, ETIMEDOUT);
	}
}

static const struct {
	const char *word;
	void (*run)(void);
} acts[] = {
	{"complain", complain},
	{"hang", hang},
	{"hang-with-a-child", hang_with_a_child},
	{"too-little", say_too_little},
	{"another-version", speak_another_version},
	{"ready-without-hello", be_ready_without_hello},
	{"ready-without-root", be_ready_without_root},
	{"two-descriptors", send_two_descriptors},
	{"fail-in-colour", fail_in_colour},
	{"done-with-nothing", be_done_with_nothing},
	{"started-twice", start_twice},
	{"done-with-descriptor", attach_to_done},
	{"unknown-error", fail_with_an_unknown_error},
	{"nonsense", say_nonsense},
	{"pong-for-ever", answer_for_ever},
	{"silent", fall_silent},
	{"outrun", be_outrun},
};

int main(int argc, char **argv)
{
	const char *word = "";

	for (int i = 1; i + 1 < argc; i++) {
		if (strcmp(argv[i], "--fake") == 0)
			word = argv[i + 1];
	}
	for (size_t i = 0; i < sizeof(acts) / sizeof(*acts); i++) {
		if (strcmp(acts[i].word, word) == 0)
			acts[i].run();
	}
	return 99;
}
