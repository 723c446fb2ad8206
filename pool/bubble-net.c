/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "pool/bubble-private.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

struct bubble_socket {
	struct bubble *bubble;
	uint32_t id;
	bubble_socket_fn *got; /* NULL: forgotten */
	void *data;
	UT_hash_handle hh;
};

/* ---- What init sends is looked at before it is used ---- */

static int option_of(int fd, int option)
{
	int value = -1;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &size) < 0 ? -1 : value;
}

static bool is_of_slot(const struct bubble *bubble, int fd)
{
	uint64_t cookie = 0;
	socklen_t size = sizeof(cookie);

	if (bubble->kit->network_cookie == 0)
		return true;
	return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) == 0 &&
	       cookie != bubble->kit->network_cookie;
}

static bool is_tcp(const struct bubble *bubble, int fd, bool listening)
{
	int domain = option_of(fd, SO_DOMAIN);

	return (domain == AF_INET || domain == AF_INET6) && option_of(fd, SO_TYPE) == SOCK_STREAM &&
	       option_of(fd, SO_PROTOCOL) == IPPROTO_TCP &&
	       option_of(fd, SO_ACCEPTCONN) == listening && is_of_slot(bubble, fd) &&
	       fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

static int handle_listener(
	struct bubble *bubble, const struct init_report *report, struct attached *attached)
{
	if (bubble->ready || report->id >= bubble->kit->targets.inside_count ||
		bubble->listeners[report->id] >= 0 || !is_tcp(bubble, attached->fd, true))
		return -EPROTO;
	bubble->listeners[report->id] = take_fd(&attached->fd);
	return 0;
}

static int handle_namespace(
	struct bubble *bubble, const struct init_report *report, struct attached *attached)
{
	static const int types[INIT_NAMESPACE_COUNT] = {
		[INIT_NAMESPACE_NETWORK] = CLONE_NEWNET, [INIT_NAMESPACE_USER] = CLONE_NEWUSER};

	if (bubble->ready || !(bubble->kit->setup.network & INIT_NETWORK_NAMESPACES) ||
		report->id >= INIT_NAMESPACE_COUNT || bubble->namespaces[report->id] >= 0 ||
		ioctl(attached->fd, NS_GET_NSTYPE) != types[report->id])
		return -EPROTO;
	bubble->namespaces[report->id] = take_fd(&attached->fd);
	return 0;
}

static void answer(struct bubble_socket *asked, int fd)
{
	HASH_DEL(asked->bubble->sockets, asked);
	if (asked->got)
		asked->got(asked->data, fd);
	else
		closep(&fd);
	free(asked);
}

static int handle_made(
	struct bubble *bubble, const struct init_report *report, struct attached *attached)
{
	struct bubble_socket *asked;

	HASH_FIND(hh, bubble->sockets, &report->id, sizeof(report->id), asked);
	if (!asked)
		return -EPROTO;
	if (attached->fd < 0 ? report->error <= 0 || report->error > 4095
			     : !is_tcp(bubble, attached->fd, false))
		return -EPROTO;
	answer(asked, attached->fd < 0 ? -report->error : take_fd(&attached->fd));
	return 0;
}

int bubble_handle_socket(
	struct bubble *bubble, const struct init_report *report, struct attached *attached)
{
	if (report->kind == INIT_LISTENER)
		return handle_listener(bubble, report, attached);
	if (report->kind == INIT_NAMESPACE)
		return handle_namespace(bubble, report, attached);
	return handle_made(bubble, report, attached);
}

bool bubble_has_network(const struct bubble *bubble)
{
	const struct net_targets *targets = &bubble->kit->targets;
	bool wanted = bubble->kit->setup.network & INIT_NETWORK_NAMESPACES;

	for (unsigned i = 0; wanted && i < INIT_NAMESPACE_COUNT; i++)
		if (bubble->namespaces[i] < 0)
			return false;
	for (unsigned i = 0; i < targets->inside_count; i++)
		if (bubble->listeners[i] < 0 && !targets->inside[i].optional)
			return false;
	return true;
}

/* ---- For the caller ---- */

int bubble_take_listener(struct bubble *bubble, unsigned number)
{
	return take_fd(&bubble->listeners[number]);
}

int bubble_namespace(const struct bubble *bubble, enum init_namespace which)
{
	return bubble->namespaces[which];
}

void bubble_forget_namespaces(struct bubble *bubble)
{
	for (unsigned i = 0; i < INIT_NAMESPACE_COUNT; i++) {
		closep(&bubble->namespaces[i]);
		bubble->namespaces[i] = -1;
	}
}

int bubble_helper_fd(const struct bubble *bubble)
{
	return bubble->kit->image_fd;
}

int bubble_socket_ask(struct bubble *bubble, bool v6, bubble_socket_fn *got, void *data,
	struct bubble_socket **ret_socket)
{
	struct init_request request = {.kind = INIT_SOCKET, .flags = v6 ? INIT_SOCKET_V6 : 0};
	struct iovec part = {.iov_base = &request, .iov_len = sizeof(request)};
	struct message message = {.parts = &part, .part_count = 1};
	struct bubble_socket *asked;
	int r;

	if (!bubble_is_alive(bubble))
		return -ENOTCONN;
	asked = calloc(1, sizeof(*asked));
	if (!asked)
		return -ENOMEM;
	asked->bubble = bubble;
	asked->id = request.id = ++bubble->next_socket_id;
	asked->got = got;
	asked->data = data;
	r = bubble_send(bubble, &message);
	if (r < 0) {
		free(asked);
		return r;
	}
	HASH_ADD(hh, bubble->sockets, id, sizeof(asked->id), asked);
	*ret_socket = asked;
	return 0;
}

void bubble_socket_forget(struct bubble_socket *socket)
{
	if (socket)
		socket->got = NULL;
}

/* ---- Life ---- */

void bubble_init_sockets(struct bubble *bubble)
{
	for (unsigned i = 0; i < INIT_TARGETS_MAX; i++)
		bubble->listeners[i] = -1;
	for (unsigned i = 0; i < INIT_NAMESPACE_COUNT; i++)
		bubble->namespaces[i] = -1;
}

void bubble_lose_sockets(struct bubble *bubble)
{
	struct bubble_socket *asked, *next;

	HASH_ITER (hh, bubble->sockets, asked, next)
		answer(asked, -ENOTCONN);
}

void bubble_forget_sockets(struct bubble *bubble)
{
	struct bubble_socket *asked, *next;

	HASH_ITER (hh, bubble->sockets, asked, next) {
		HASH_DEL(bubble->sockets, asked);
		free(asked);
	}
	for (unsigned i = 0; i < INIT_TARGETS_MAX; i++)
		closep(&bubble->listeners[i]);
	bubble_forget_namespaces(bubble);
}
