/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * net-relay.h: copies between two connected stream sockets, both ways, until both ways have ended.
 *
 * A way that ends (end of file) is ended on the other side too (shutdown), after all of it has been
 * passed on; the other way goes on. A connection that breaks breaks the other one: both are reset,
 * so that nobody takes half a stream for a whole one. Of each way at most NET_RELAY_KEPT bytes are
 * held, and memory is held only while a reader is slower than the writer, who is not read from
 * meanwhile. Threads: loop. No call blocks, whatever flags the sockets have.
 */
#ifndef POOL_NET_RELAY_H
#define POOL_NET_RELAY_H

#include <stdint.h>

struct loop;
struct net_relay;

enum { NET_RELAY_KEPT = 64 * 1024 };

/* Both ways have ended, or the connection broke. The relay is closed and freed after the call. */
typedef void net_relay_ended_fn(void *data);

/* Takes both descriptors over on success. -ENOMEM, or what the loop says. */
int net_relay_start(struct loop *loop, int owned_a, int owned_b, net_relay_ended_fn *ended,
	void *data, struct net_relay **ret_relay);
/* Resets both connections now; ended() does not run. Accepts NULL. */
void net_relay_cut(struct net_relay *relay);

/* Closes a connection so that its peer gets a reset, not an end. Accepts -1. */
void net_reset(int fd);

#endif
