/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * net-targets.h: [slot] reach, read: where the daemon connects to, and what init listens on inside
 * for it. Pure. Threads: any.
 *
 * An address is listened on as it is. A name is given an address of its own, of a range that
 * belongs to nobody (198.18.0.0/15), in the slot's /etc/hosts; `localhost` is the slot's own
 * loopback. The daemon looks names up itself, at each connection.
 */
#ifndef POOL_NET_TARGETS_H
#define POOL_NET_TARGETS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/init/protocol.h"

struct error;
struct strbuf;
struct word_list;

struct net_target {
	char *host; /* without brackets */
	uint16_t port;
	bool is_name;
	int family;         /* of an address; of a name 0 */
	struct in_addr v4;  /* an address; of a name, the one that it has inside */
	struct in6_addr v6; /* an address */
};

struct net_targets {
	struct net_target *targets;
	unsigned count;
	/* What init is told, and of which target each is. */
	struct init_target inside[INIT_TARGETS_MAX];
	unsigned target_of[INIT_TARGETS_MAX];
	unsigned inside_count;
};

/* Reads host:port words; one that says the same as another is left out. -EINVAL: no host that
 * anybody can connect to, or too many. Never fails for an empty list. */
int net_targets_parse(
	const struct word_list *reach, struct net_targets *ret_targets, struct error *err);
void net_targets_fini(struct net_targets *targets); /* Accepts NULL and a zeroed one */

/* Appends the lines of /etc/hosts that give names their addresses. */
void net_targets_add_hosts(const struct net_targets *targets, struct strbuf *out);

#endif
