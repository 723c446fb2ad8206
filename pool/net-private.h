/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * net-private.h: what the files of net.h share.
 *
 *	net.c          the slots' host ports, and a slot's part from attach to detach
 *	net-door.c     a listener, on the host or inside, and who may come in by it
 *	net-link.c     one connection, from accept to its end
 *	net-resolve.c  names of targets, looked up on threads of its own
 *	net-relay.c    two sockets, copied between
 *
 * Threads: loop.
 */
#ifndef POOL_NET_PRIVATE_H
#define POOL_NET_PRIVATE_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "pool/net-nat.h"
#include "pool/net-targets.h"
#include "pool/net.h"

struct bubble;
struct bubble_socket;
struct loop;
struct loop_timer;
struct loop_watch;
struct net_door;
struct net_link;
struct net_nat;
struct net_relay;
struct net_lookup;
struct net_resolver;

enum {
	CONNECT_MS = 10000,     /* an address that does not answer */
	QUIET_MS = 60000,       /* between two words about a target that comes and goes */
	PAUSE_MS = 100,         /* no descriptors left: who knocks waits so long */
	ADDRESSES_MAX = 8,      /* of a name */
	ACCEPTED_PER_TURN = 16, /* others must have their turn */
};

struct net_addresses {
	unsigned count;
	struct {
		struct sockaddr_storage address;
		socklen_t size;
	} list[ADDRESSES_MAX];
};

struct net {
	struct loop *loop;
	const struct config *config;
	struct net_targets targets;
	struct net_lookup **lookups; /* by target; NULL where none is wanted */
	unsigned lookups_at_work;
	struct net_resolver *resolver;
	struct net_target_state {
		bool failing;
		uint64_t said_ms;
	} * states; /* by target */
	net_target_fn *on_target;
	void *on_target_data;
	struct net_nats nats;
	struct sockaddr_storage bind_address; /* of bind_host, without a port */
	socklen_t bind_size;
	int *port_fds; /* by slot: bound and not listened on; -1: a slot_net has it */
	unsigned slot_count;
	unsigned link_count, link_max; /* of all slots: half of the descriptors there may be */
};

struct slot_net {
	struct net *net;
	unsigned number;
	int port_fd; /* its own host port, bound; -1: the network has none */
	uint16_t own_port;
	struct bubble *bubble; /* NULL: not READY */
	struct slot_net_hooks hooks;
	struct net_nat *nat; /* NULL: none is wanted, or it has failed */
	bool lent, own_port_used;
	struct net_door *in, *out; /* host ports; listeners inside */
	unsigned port_count;
	struct net_link *links;
	unsigned in_count, out_count;
	bool paused;
	struct loop_timer *pause; /* until doors are opened again */
};

/* net-door.c */

/* A listener. Takes fd over; with keep it is only listened on no more at the end, and stays bound
 * and open. */
struct net_door {
	struct net_door *prev, *next;
	struct slot_net *slot;
	int fd;
	bool keep;
	struct loop_watch *watch;
	bool is_open;       /* the watch is on */
	bool outward;       /* a target's, inside; else a port of the host's */
	unsigned target;    /* outward */
	uint16_t inside;    /* inward: the port that it leads to */
	uint16_t host_port; /* inward */
};

/* Nobody can come in by it until the watch says so. -errno; fd stays the caller's then. */
int net_door_open(struct slot_net *slot, const struct net_door *what, struct net_door **ret_door);
void net_door_close(struct net_door *door); /* and takes it out of its list */
/* As many may come in as there is room for. */
void net_doors_update(struct slot_net *slot);
/* There is no room at all now: all doors of the slot are shut for a moment. */
void net_doors_pause(struct slot_net *slot);
void net_handle_pause_over(void *data); /* of slot_net::pause; data is the slot_net */

/* net.c */

/* What a connection to the target has come to; NULL: it was made. */
void net_note_target(struct net *net, unsigned target, const char *why);

/* net-link.c */

/* Takes the accepted fd over, also when it comes to nothing. */
void net_link_begin(struct net_door *door, int owned_fd);
void net_links_cut(struct slot_net *slot);

/* net-resolve.c */

/* One who waits for a name; embedded. */
struct net_resolving {
	struct net_resolving *prev, *next;
	struct net_lookup *lookup; /* NULL: nothing is awaited */
	/* Runs once, later. addresses NULL: the name has none. */
	void (*done)(void *data, const struct net_addresses *addresses);
	void *data;
};

int net_resolver_create(struct loop *loop, struct net_resolver **ret_resolver);
/* Looks the target's name up. -ENOMEM: done() does not run. */
int net_resolve(struct net *net, unsigned target, struct net_resolving *waiter);
/* Harmless when nothing is awaited. */
void net_resolve_cancel(struct net_resolving *waiter);
/* The net goes: nobody waits any more, and threads may still be at it. */
void net_resolve_abandon(struct net *net);
/* The address of a target that is one. */
void net_target_address(const struct net_target *target, struct net_addresses *ret_addresses);

#endif
