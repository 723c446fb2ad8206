/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One look-up of a name at a time, however many connections wait for it, and a few names at a time,
 * each by a thread of its own: a server of names that does not answer holds up neither other names
 * nor those workers that slots are made and cleared by, and a disk that hangs holds up no name.
 * Nothing ends a look-up, so that its thread may outlive the net and the loop.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "base/thread.h"
#include "pool/net-private.h"

enum { AT_ONCE_MAX = 8 };

/* What the threads and the net share. */
struct net_resolver {
	pthread_mutex_t lock; /* guards every field after it; leaf */
	struct loop *loop;    /* NULL: the net has gone */
	unsigned refs;
};

struct net_lookup {
	struct net *net; /* NULL: it has gone */
	unsigned target;
	bool at_work;
	struct net_resolving *waiters;
	struct loop_task told;
	/* the thread's */
	struct net_resolver *resolver;
	char *host;
	uint16_t port;
	struct net_addresses found;
};

static void lookup_free(struct net_lookup *lookup)
{
	free(lookup->host);
	free(lookup);
}

/* ---- The thread ---- */

int net_resolver_create(struct loop *loop, struct net_resolver **ret_resolver)
{
	struct net_resolver *resolver = calloc(1, sizeof(*resolver));

	if (!resolver)
		return -ENOMEM;
	pthread_mutex_init(&resolver->lock, NULL);
	resolver->loop = loop;
	resolver->refs = 1;
	*ret_resolver = resolver;
	return 0;
}

/* The lock is held, and given up. */
static void unref_locked(struct net_resolver *resolver)
{
	bool last = --resolver->refs == 0;

	pthread_mutex_unlock(&resolver->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&resolver->lock);
	free(resolver);
}

static void look_up(struct net_lookup *lookup)
{
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

static void *run(void *data)
{
	struct net_lookup *lookup = data;
	struct net_resolver *resolver = lookup->resolver;

	look_up(lookup);
	pthread_mutex_lock(&resolver->lock);
	if (resolver->loop)
		loop_post(resolver->loop, &lookup->told);
	else
		lookup_free(lookup);
	unref_locked(resolver);
	return NULL;
}

static int start_thread(struct net_lookup *lookup)
{
	pthread_t thread;
	int r;

	pthread_mutex_lock(&lookup->resolver->lock);
	r = thread_start(&thread, run, lookup);
	if (r == 0) {
		(void)pthread_detach(thread);
		lookup->resolver->refs++;
	}
	pthread_mutex_unlock(&lookup->resolver->lock);
	return r;
}

/* ---- Who waits ---- */

static void tell(struct net_lookup *lookup)
{
	struct net_resolving *waiter;

	while ((waiter = lookup->waiters)) {
		DL_DELETE(lookup->waiters, waiter);
		waiter->lookup = NULL;
		waiter->done(waiter->data, lookup->found.count > 0 ? &lookup->found : NULL);
	}
}

static int begin(struct net_lookup *lookup)
{
	int r = start_thread(lookup);

	if (r == 0) {
		lookup->net->lookups_at_work++;
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

		if (!lookup || lookup->at_work)
			continue;
		if (begin(lookup) == 0 || net->lookups_at_work > 0) /* their end tries again */
			return;
		net->lookups[target] = NULL; /* no thread can be had */
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
		net->lookups_at_work--;
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
	lookup->resolver = net->resolver;
	lookup->told = (struct loop_task){.fn = handle_looked_up, .data = lookup};
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
		if (net->lookups_at_work < AT_ONCE_MAX && begin(lookup) < 0 &&
			net->lookups_at_work == 0) {
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
	if (!net->resolver)
		return;
	pthread_mutex_lock(&net->resolver->lock);
	net->resolver->loop = NULL;
	unref_locked(take_ptr(&net->resolver));
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
