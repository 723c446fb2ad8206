/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/net-relay.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/loop.h"

/* Of one connection before others have their turn: 256 KiB. */
enum { ROUNDS = 4 };

struct side {
	struct net_relay *relay;
	int fd;
	struct loop_watch *watch;
	unsigned wanted; /* of enum loop_events */
};

/* One way: from sides[n] to the other. */
struct way {
	struct side *from, *to;
	char *kept; /* what `to` had no room for; NULL: nothing */
	size_t at, size;
	bool ended;  /* nothing more comes */
	bool passed; /* and the other side has been told so */
};

struct net_relay {
	struct side sides[2];
	struct way ways[2];
	net_relay_ended_fn *ended;
	void *data;
};

void net_reset(int fd)
{
	const struct linger at_once = {.l_onoff = 1};

	if (fd < 0)
		return;
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	(void)close(fd);
}

static bool is_for_now(int error)
{
	return error == EAGAIN || error == EINTR || error == ENOBUFS || error == ENOMEM;
}

/* How much of it was taken, maybe 0, or -errno. */
static ssize_t pass(const struct side *to, const char *bytes, size_t size)
{
	ssize_t n = send(to->fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return is_for_now(errno) ? 0 : -errno;
	return n;
}

static int keep(struct way *way, const char *bytes, size_t size)
{
	way->kept = malloc(size);
	if (!way->kept)
		return -ENOMEM;
	memcpy(way->kept, bytes, size);
	way->at = 0;
	way->size = size;
	return 0;
}

static int pass_kept(struct way *way)
{
	ssize_t n;

	if (!way->kept)
		return 0;
	n = pass(way->to, way->kept + way->at, way->size - way->at);
	if (n < 0)
		return (int)n;
	way->at += (size_t)n;
	if (way->at == way->size)
		free(take_ptr(&way->kept));
	return 0;
}

/* 1: something was passed on, and there may be more; 0: not now; -errno. */
static int pass_some(struct way *way)
{
	char bytes[NET_RELAY_KEPT];
	ssize_t size = recv(way->from->fd, bytes, sizeof(bytes), MSG_DONTWAIT), taken;

	if (size < 0)
		return is_for_now(errno) ? 0 : -errno;
	if (size == 0) {
		way->ended = true;
		return 0;
	}
	taken = pass(way->to, bytes, (size_t)size);
	if (taken < 0)
		return (int)taken;
	if (taken < size)
		return keep(way, bytes + taken, (size_t)(size - taken));
	return 1;
}

static int work(struct way *way)
{
	int r = pass_kept(way), rounds = ROUNDS;

	while (r == 0 && !way->kept && !way->ended && rounds-- > 0) {
		r = pass_some(way);
		if (r <= 0)
			break;
		r = 0;
	}
	if (r == 0 && way->ended && !way->kept && !way->passed) {
		way->passed = true;
		/* ENOTCONN: the other side has broken, and its own way will say so */
		(void)shutdown(way->to->fd, SHUT_WR);
	}
	return r < 0 ? r : 0;
}

static void want(struct side *side, const struct way *out, const struct way *in)
{
	unsigned wanted =
		(!out->ended && !out->kept ? LOOP_READABLE : 0) | (in->kept ? LOOP_WRITABLE : 0);

	if (wanted == side->wanted)
		return;
	side->wanted = wanted;
	loop_watch_events(side->watch, wanted);
}

static void relay_free(struct net_relay *relay, bool reset)
{
	for (int i = 0; i < 2; i++) {
		loop_watch_stop(relay->sides[i].watch);
		free(relay->ways[i].kept);
		if (reset)
			net_reset(relay->sides[i].fd);
		else
			closep(&relay->sides[i].fd);
	}
	free(relay);
}

static void end(struct net_relay *relay, bool broken)
{
	relay->ended(relay->data);
	relay_free(relay, broken);
}

/* What can be read goes from this side, what can be written to it. */
static void handle_ready(void *data, unsigned events)
{
	const struct side *side = data;
	struct net_relay *relay = side->relay;
	struct way *out = &relay->ways[side - relay->sides],
		   *in = &relay->ways[relay->sides + 1 - side];
	int r = events & LOOP_READABLE ? work(out) : 0;

	if (r == 0 && events & LOOP_WRITABLE)
		r = work(in);
	if (r < 0 || (out->passed && in->passed)) {
		end(relay, r < 0);
		return;
	}
	want(&relay->sides[0], &relay->ways[0], &relay->ways[1]);
	want(&relay->sides[1], &relay->ways[1], &relay->ways[0]);
}

int net_relay_start(struct loop *loop, int owned_a, int owned_b, net_relay_ended_fn *ended,
	void *data, struct net_relay **ret_relay)
{
	struct net_relay *relay = calloc(1, sizeof(*relay));
	const int fds[2] = {owned_a, owned_b};
	int r = relay ? 0 : -ENOMEM;

	for (int i = 0; i < 2 && r == 0; i++) {
		struct side *side = &relay->sides[i];

		*side = (struct side){.relay = relay, .fd = fds[i], .wanted = LOOP_READABLE};
		relay->ways[i] = (struct way){.from = side, .to = &relay->sides[1 - i]};
		r = loop_watch_start(
			loop, fds[i], LOOP_READABLE, handle_ready, side, &side->watch, NULL);
	}
	if (r < 0) {
		if (relay) {
			loop_watch_stop(relay->sides[0].watch);
			loop_watch_stop(relay->sides[1].watch);
		}
		free(relay);
		return r;
	}
	relay->ended = ended;
	relay->data = data;
	*ret_relay = relay;
	return 0;
}

void net_relay_cut(struct net_relay *relay)
{
	if (relay)
		relay_free(relay, true);
}
