/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One look-up of a name at a time, however many connections wait for it, and one of all names at a
 * time: a server of names that does not answer takes one of the workers that slots are made by, and
 * no more, whatever slots do.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "pool/net-private.h"

struct net_lookup {
	struct net *net; /* NULL: it has gone */
	unsigned target;
	bool at_work;
	struct net_resolving *waiters;
	/* the worker's */
	char *host;
	uint16_t port;
	struct net_addresses found;
};

static void lookup_free(struct net_lookup *lookup)
{
	free(lookup->host);
	free(lookup);
}

static void look_up(void *data)
{
	struct net_lookup *lookup = data;
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all = NULL;
	char port[8];

	(void)snprintf(port, sizeof(port), "%u", lookup->port);
	if (getaddrinfo(lookup->host, port, &hints, &all) != 0)
		return;
	for (const struct addrinfo *at = all; at && lookup->found.count < ADDRESSES_MAX;
		at = at->ai_next) {
		unsigned n = lookup->found.count;

		if (at->ai_family != AF_INET && at->ai_family != AF_INET6)
			continue;
		memcpy(&lookup->found.list[n].address, at->ai_addr, at->ai_addrlen);
		lookup->found.list[n].size = at->ai_addrlen;
		lookup->found.count++;
	}
	freeaddrinfo(all);
}

static void tell(struct net_lookup *lookup)
{
	struct net_resolving *waiter;

	while ((waiter = lookup->waiters)) {
		DL_DELETE(lookup->waiters, waiter);
		waiter->lookup = NULL;
		waiter->done(waiter->data, lookup->found.count > 0 ? &lookup->found : NULL);
	}
}

static void handle_looked_up(void *data);

static int begin(struct net_lookup *lookup)
{
	struct net *net = lookup->net;
	int r = loop_work(net->loop, look_up, handle_looked_up, lookup, NULL);

	if (r == 0) {
		net->lookup_at_work = true;
		lookup->at_work = true;
	}
	return r;
}

/* Whose turn it is: the next target's after that one's, so that nobody waits for ever. */
static void begin_next(struct net *net, unsigned last)
{
	for (unsigned i = 1; i <= net->targets.count; i++) {
		unsigned target = (last + i) % net->targets.count;
		struct net_lookup *lookup = net->lookups[target];

		if (!lookup)
			continue;
		if (begin(lookup) == 0)
			return;
		net->lookups[target] = NULL; /* no memory */
		tell(lookup);
		lookup_free(lookup);
	}
}

static void handle_looked_up(void *data)
{
	struct net_lookup *lookup = data;
	struct net *net = lookup->net;

	if (net) {
		net->lookups[lookup->target] = NULL; /* who asks from now on asks anew */
		net->lookup_at_work = false;
		begin_next(net, lookup->target);
		tell(lookup);
	}
	lookup_free(lookup);
}

static struct net_lookup *lookup_create(struct net *net, unsigned target)
{
	struct net_lookup *lookup = calloc(1, sizeof(*lookup));

	if (!lookup)
		return NULL;
	lookup->net = net;
	lookup->target = target;
	lookup->port = net->targets.targets[target].port;
	lookup->host = strdup(net->targets.targets[target].host);
	if (!lookup->host) {
		free(lookup);
		return NULL;
	}
	return lookup;
}

int net_resolve(struct net *net, unsigned target, struct net_resolving *waiter)
{
	struct net_lookup *lookup = net->lookups[target];

	if (!lookup) {
		lookup = lookup_create(net, target);
		if (!lookup)
			return -ENOMEM;
		if (!net->lookup_at_work && begin(lookup) < 0) {
			lookup_free(lookup);
			return -ENOMEM;
		}
		net->lookups[target] = lookup;
	}
	waiter->lookup = lookup;
	DL_APPEND(lookup->waiters, waiter);
	return 0;
}

void net_resolve_cancel(struct net_resolving *waiter)
{
	if (!waiter->lookup)
		return;
	DL_DELETE(waiter->lookup->waiters, waiter);
	waiter->lookup = NULL;
}

void net_resolve_abandon(struct net *net)
{
	for (unsigned i = 0; net->lookups && i < net->targets.count; i++) {
		struct net_lookup *lookup = net->lookups[i];

		if (!lookup)
			continue;
		lookup->net = NULL;
		if (!lookup->at_work)
			lookup_free(lookup);
	}
	free(net->lookups);
	net->lookups = NULL;
}

void net_target_address(const struct net_target *target, struct net_addresses *ret_addresses)
{
	struct sockaddr_in v4 = {
		.sin_family = AF_INET, .sin_port = htons(target->port), .sin_addr = target->v4};
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6, .sin6_port = htons(target->port), .sin6_addr = target->v6};

	*ret_addresses = (struct net_addresses){.count = 1};
	if (target->family == AF_INET) {
		memcpy(&ret_addresses->list[0].address, &v4, sizeof(v4));
		ret_addresses->list[0].size = sizeof(v4);
	} else {
		memcpy(&ret_addresses->list[0].address, &v6, sizeof(v6));
		ret_addresses->list[0].size = sizeof(v6);
	}
}
