/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Inward, a client of the host's is taken to a port inside: init is asked for a socket, which is
 * connected to 127.0.0.1, and if nobody listens there another one to ::1. Outward, a program inside
 * is taken to the target whose listener it has found, and to nothing else.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "pool/bubble.h"
#include "pool/net-private.h"
#include "pool/net-relay.h"

struct net_link {
	struct net_link *prev, *next;
	struct slot_net *slot;
	bool outward;
	unsigned target;                /* outward */
	int error;                      /* of the last address that was tried; 0: there is none */
	int near_fd;                    /* who came; -1: the relay has it */
	int far_fd;                     /* being connected; -1: none, or the relay's */
	struct net_addresses addresses; /* where to, in this order */
	unsigned next_address;
	struct bubble_socket *asked;    /* inward: a socket on its way */
	struct net_resolving resolving; /* outward */
	struct loop_watch *connecting;
	struct loop_timer *deadline;
	struct net_relay *relay;
};

static void stop_connecting(struct net_link *link)
{
	loop_watch_stop(take_ptr(&link->connecting));
	loop_timer_stop(take_ptr(&link->deadline));
}

/* Who came gets a reset if he was not taken anywhere. */
static void link_free(struct net_link *link)
{
	struct slot_net *slot = link->slot;

	stop_connecting(link);
	bubble_socket_forget(link->asked);
	net_resolve_cancel(&link->resolving);
	net_relay_cut(link->relay);
	net_reset(link->near_fd);
	closep(&link->far_fd);
	DL_DELETE(slot->links, link);
	if (link->outward)
		slot->out_count--;
	else
		slot->in_count--;
	slot->net->link_count--;
	free(link);
}

static void link_end(struct net_link *link)
{
	struct slot_net *slot = link->slot;

	link_free(link);
	net_doors_update(slot);
}

static void handle_relay_ended(void *data)
{
	struct net_link *link = data;

	link->relay = NULL;
	link_end(link);
}

/* Small messages go at once, and a machine that vanishes is noticed in two minutes. */
static void tune(int fd)
{
	static const struct {
		int level, option, value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, 60},
		{IPPROTO_TCP, TCP_KEEPINTVL, 15},
		{IPPROTO_TCP, TCP_KEEPCNT, 4},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		(void)setsockopt(fd, options[i].level, options[i].option, &options[i].value,
			sizeof(options[i].value));
}

static void handle_connected(struct net_link *link)
{
	stop_connecting(link);
	if (link->outward)
		net_note_target(link->slot->net, link->target, NULL);
	tune(link->near_fd);
	tune(link->far_fd);
	if (net_relay_start(link->slot->net->loop, link->near_fd, link->far_fd, handle_relay_ended,
		    link, &link->relay) < 0) {
		link_end(link);
		return;
	}
	link->near_fd = link->far_fd = -1;
}

static void try_next(struct net_link *link);

static void give_address_up(struct net_link *link, int error)
{
	link->error = error;
	stop_connecting(link);
	closep(&link->far_fd);
	link->far_fd = -1;
	link->next_address++;
	try_next(link);
}

static void handle_connecting(void *data, unsigned events)
{
	struct net_link *link = data;
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(link->far_fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error != 0)
		give_address_up(link, error);
	else
		handle_connected(link);
}

static void handle_deadline(void *data)
{
	give_address_up(data, ETIMEDOUT);
}

static bool await_connection(struct net_link *link)
{
	struct loop *loop = link->slot->net->loop;

	return loop_watch_start(loop, link->far_fd, LOOP_WRITABLE, handle_connecting, link,
		       &link->connecting, NULL) == 0 &&
	       loop_timer_start(loop, CONNECT_MS, handle_deadline, link, &link->deadline, NULL) ==
		       0;
}

/* far_fd is a new socket. */
static void connect_far(struct net_link *link)
{
	unsigned n = link->next_address;
	int r = connect(link->far_fd, (struct sockaddr *)&link->addresses.list[n].address,
		link->addresses.list[n].size);

	if (r == 0) {
		handle_connected(link);
		return;
	}
	if (errno != EINPROGRESS)
		give_address_up(link, errno);
	else if (!await_connection(link))
		give_address_up(link, ENOMEM);
}

/* From init. */
static void handle_socket(void *data, int fd)
{
	struct net_link *link = data;

	link->asked = NULL;
	link->far_fd = fd < 0 ? -1 : fd;
	if (fd < 0)
		give_address_up(link, -fd);
	else
		connect_far(link);
}

/* The daemon's own want of something says nothing of the target. */
static void note_failure(const struct net_link *link)
{
	bool own = link->error == EMFILE || link->error == ENFILE || link->error == ENOBUFS ||
		   link->error == ENOMEM;

	if (!link->outward || own)
		return;
	net_note_target(link->slot->net, link->target,
		link->error ? strerrordesc_np(link->error) : "the name has no address");
}

static void try_next(struct net_link *link)
{
	int family;

	if (link->next_address >= link->addresses.count) {
		note_failure(link);
		link_end(link);
		return;
	}
	family = link->addresses.list[link->next_address].address.ss_family;
	if (!link->outward) {
		if (bubble_socket_ask(link->slot->bubble, family == AF_INET6, handle_socket, link,
			    &link->asked) < 0)
			link_end(link);
		return;
	}
	link->far_fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
	if (link->far_fd < 0)
		give_address_up(link, errno);
	else
		connect_far(link);
}

static void set_inside(struct net_addresses *addresses, uint16_t port)
{
	struct net_target v4 = {
		.port = port, .family = AF_INET, .v4.s_addr = htonl(INADDR_LOOPBACK)};
	struct net_target v6 = {.port = port, .family = AF_INET6, .v6 = in6addr_loopback};
	struct net_addresses second;

	net_target_address(&v4, addresses);
	net_target_address(&v6, &second);
	addresses->list[1] = second.list[0];
	addresses->count = 2;
}

static void handle_resolved(void *data, const struct net_addresses *addresses)
{
	struct net_link *link = data;

	if (addresses)
		link->addresses = *addresses;
	try_next(link); /* without any: that is the end */
}

static void begin_outward(struct net_link *link, unsigned number)
{
	struct net *net = link->slot->net;
	const struct net_target *target = &net->targets.targets[number];

	link->target = number;
	link->resolving.done = handle_resolved;
	link->resolving.data = link;
	if (!target->is_name) {
		net_target_address(target, &link->addresses);
		try_next(link);
	} else if (net_resolve(net, number, &link->resolving) < 0) {
		link_end(link);
	}
}

void net_link_begin(struct net_door *door, int owned_fd)
{
	struct slot_net *slot = door->slot;
	struct net_link *link = calloc(1, sizeof(*link));

	if (!link) {
		net_reset(owned_fd);
		return;
	}
	link->slot = slot;
	link->outward = door->outward;
	link->near_fd = owned_fd;
	link->far_fd = -1;
	DL_APPEND(slot->links, link);
	slot->net->link_count++;
	if (door->outward) {
		slot->out_count++;
		begin_outward(link, door->target);
		return;
	}
	slot->in_count++;
	set_inside(&link->addresses, door->inside);
	try_next(link);
}

void net_links_cut(struct slot_net *slot)
{
	while (slot->links)
		link_free(slot->links);
}
