/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "pool/bubble-private.h"

#ifndef SCM_PIDFD
#define SCM_PIDFD 0x04
#endif

/* A message that waits for room, with descriptors of its own. */
struct outgoing {
	struct outgoing *next;
	int fds[INIT_FDS_MAX];
	size_t fd_count;
	size_t size;
	char bytes[];
};

static int send_now(int socket, const struct message *message)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(INIT_FDS_MAX * sizeof(int))];
	} control = {0};
	struct msghdr header = {
		.msg_iov = (struct iovec *)message->parts, .msg_iovlen = message->part_count};
	size_t size = message->fd_count * sizeof(int);

	if (size > 0) {
		header.msg_control = &control;
		header.msg_controllen = CMSG_SPACE(size);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(size);
		memcpy(CMSG_DATA(&control.header), message->fds, size);
	}
	return sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static void outgoing_destroy(struct outgoing *outgoing)
{
	for (size_t i = 0; i < outgoing->fd_count; i++)
		(void)close(outgoing->fds[i]);
	free(outgoing);
}

static int outgoing_create(const struct message *message, struct outgoing **ret_outgoing)
{
	struct outgoing *outgoing;
	size_t size = 0;

	for (size_t i = 0; i < message->part_count; i++)
		size += message->parts[i].iov_len;
	outgoing = malloc(sizeof(*outgoing) + size);
	if (!outgoing)
		return -ENOMEM;
	*outgoing = (struct outgoing){0};
	for (size_t i = 0; i < message->part_count; i++) {
		memcpy(outgoing->bytes + outgoing->size, message->parts[i].iov_base,
			message->parts[i].iov_len);
		outgoing->size += message->parts[i].iov_len;
	}
	for (size_t i = 0; i < message->fd_count; i++) {
		int fd = fcntl(message->fds[i], F_DUPFD_CLOEXEC, 0);

		if (fd < 0) {
			outgoing_destroy(outgoing);
			return -EMFILE;
		}
		outgoing->fds[outgoing->fd_count++] = fd;
	}
	*ret_outgoing = outgoing;
	return 0;
}

static int enqueue(struct bubble *bubble, const struct message *message)
{
	struct outgoing *outgoing;
	int r = outgoing_create(message, &outgoing);

	if (r < 0)
		return r;
	*bubble->queue_end = outgoing;
	bubble->queue_end = &outgoing->next;
	loop_watch_events(bubble->control_watch, LOOP_READABLE | LOOP_WRITABLE);
	return 0;
}

int bubble_send(struct bubble *bubble, const struct message *message)
{
	int r;

	if (bubble->queue)
		return enqueue(bubble, message);
	r = send_now(bubble->control_fd, message);
	return r == -EAGAIN ? enqueue(bubble, message) : r;
}

/* As init would have said it, had it got the request. */
static void report_unsent(struct bubble *bubble, const struct outgoing *outgoing, int error)
{
	struct init_report report = {.kind = INIT_START_FAILED, .error = error, .step = "send"};
	struct init_request request;

	memcpy(&request, outgoing->bytes, sizeof(request)); /* what every message begins with */
	report.id = request.id;
	if (request.kind == INIT_EXEC)
		(void)bubble_handle_report(bubble, &report);
	report.kind = INIT_SOCKET_MADE;
	if (request.kind == INIT_SOCKET)
		(void)bubble_handle_socket(
			bubble, &report, &(struct attached){.fd = -1, .pidfd = -1});
}

void bubble_send_queued(struct bubble *bubble)
{
	struct outgoing *first;
	int r;

	while ((first = bubble->queue)) {
		struct iovec part = {.iov_base = first->bytes, .iov_len = first->size};
		struct message message = {.parts = &part,
			.part_count = 1,
			.fds = first->fds,
			.fd_count = first->fd_count};

		r = send_now(bubble->control_fd, &message);
		if (r == -EAGAIN)
			return;
		if (r == -EPIPE || r == -ECONNRESET)
			break; /* init is gone: its end loses the commands */
		bubble->queue = first->next;
		if (!bubble->queue)
			bubble->queue_end = &bubble->queue;
		if (r < 0)
			report_unsent(bubble, first, -r);
		outgoing_destroy(first);
	}
	loop_watch_events(bubble->control_watch, LOOP_READABLE);
}

void bubble_drop_queue(struct bubble *bubble)
{
	for (struct outgoing *next; bubble->queue; bubble->queue = next) {
		next = bubble->queue->next;
		outgoing_destroy(bubble->queue);
	}
	bubble->queue_end = &bubble->queue;
}

/* More than one descriptor of a kind is no honest message; the rest are closed. */
static bool keep_fd(const struct cmsghdr *c, int *kept)
{
	size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	bool fits = count == 1 && *kept < 0;

	for (size_t i = 0; i < count; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
		if (fits)
			*kept = fd;
		else
			(void)close(fd);
	}
	return fits;
}

static bool collect(struct msghdr *message, struct attached *attached)
{
	bool good = !(message->msg_flags & MSG_TRUNC);

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_RIGHTS)
			good = keep_fd(c, &attached->fd) && good;
		else if (c->cmsg_type == SCM_PIDFD)
			good = keep_fd(c, &attached->pidfd) && good;
		else if (c->cmsg_type == SCM_CREDENTIALS) {
			struct ucred sender;

			memcpy(&sender, CMSG_DATA(c), sizeof(sender));
			attached->pid = sender.pid;
		}
	}
	return good;
}

/* ECONNRESET says that the peer died without having read all; what it had said is still there. */
static ssize_t receive(int fd, struct msghdr *message)
{
	ssize_t size;

	do
		size = recvmsg(fd, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (size < 0 && (errno == ECONNRESET || errno == EINTR));
	return size;
}

/* Ends a text, and takes out what a terminal might obey. */
static void make_printable(char *text, size_t size)
{
	text[size - 1] = '\0';
	for (; *text; text++)
		if (!isprint((unsigned char)*text))
			*text = '?';
}

int bubble_receive(
	struct bubble *bubble, struct init_report *ret_report, struct attached *ret_attached)
{
	struct iovec part = {.iov_base = ret_report, .iov_len = sizeof(*ret_report)};
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(struct ucred)) +
			  2 * CMSG_SPACE(INIT_FDS_MAX * sizeof(int))];
	} control;
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.room)};
	ssize_t size = receive(bubble->control_fd, &message);
	bool full;

	*ret_attached = (struct attached){.fd = -1, .pidfd = -1};
	if (size < 0 && errno == EAGAIN)
		return 0;
	if (size <= 0)
		return -ENOTCONN;
	/* room there was, so it is the daemon that has no descriptors left */
	full = (message.msg_flags & MSG_CTRUNC) != 0;
	if (!collect(&message, ret_attached) || size != (ssize_t)sizeof(*ret_report) ||
		ret_report->version != INIT_PROTOCOL_VERSION || full) {
		closep(&ret_attached->fd);
		closep(&ret_attached->pidfd);
		return full ? -EMFILE : -EPROTO;
	}
	make_printable(ret_report->step, sizeof(ret_report->step));
	return 1;
}
