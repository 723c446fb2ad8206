/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * net.h: what goes in and out of slots by network, and nothing else does.
 *
 *	in	slot_net_open_port(): a host port whose connections end at a port inside
 *	out	[slot] reach: init listens inside on each target's own address, the daemon connects
 *
 * A connection is two sockets, one in the slot's network namespace and one in the host's, and the
 * daemon copies between them (net-relay.h). init's part is small: it hands out the listeners of
 * `reach` before anything hostile runs, and a new socket of its namespace whenever asked.
 *
 * Host ports belong to the slot: they stay bound for the daemon's life, and are listened on only
 * while the slot is lent. So a connection is made with the present tenant or refused by the kernel;
 * the end of a loan resets those that are there. Threads: loop. No call blocks, except
 * net_create().
 */
#ifndef POOL_NET_H
#define POOL_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct bubble;
struct config;
struct error;
struct loop;
struct net;
struct slot_net;
struct strbuf;

enum {
	NET_LINKS_MAX = 512, /* connections of a slot, in each direction: more wait in line */
	NET_PORTS_MAX = 256, /* host ports of a slot at once */
};

/*
 * Reads [slot] reach and binds every slot's host port, where the network has them. A port that is
 * taken costs that slot its number and no more: it gets another, with a warning. -EINVAL: a target
 * that nobody can connect to. -errno: bind_host is no address of this machine, or not ours to use;
 * nat cannot work here.
 * May look up bind_host. Config is borrowed until net_destroy().
 */
int net_create(
	struct loop *loop, const struct config *config, struct net **ret_net, struct error *err);
/*
 * A target of `reach` cannot be reached any more (why), or can be again (NULL), as the latest
 * connection has shown. About one that comes and goes no more than once a minute.
 */
typedef void net_target_fn(void *data, const char *target, const char *why);
void net_on_target(struct net *net, net_target_fn *fn, void *data);
void net_destroy(struct net *net); /* after every slot_net. Accepts NULL */

/* The part of slot `number` (less than [pool] slots). */
int slot_net_create(
	struct net *net, unsigned number, struct slot_net **ret_slot, struct error *err);
void slot_net_destroy(struct slot_net *slot); /* Accepts NULL */

struct slot_net_hooks {
	/* It has its network: once, maybe before slot_net_attach() returns. */
	void (*up)(void *data);
	/* It does not get it, or has it no longer: the slot is of no use. At most once, last. */
	void (*failed)(void *data, const struct error *why);
	void *data;
};

/* The slot's bubble is READY; it is borrowed until slot_net_detach(), which is called when it is
 * dead and after which no hook runs. uid, gid: the slot's on the host. */
void slot_net_attach(struct slot_net *slot, struct bubble *bubble, uid_t uid, gid_t gid,
	const struct slot_net_hooks *hooks);
void slot_net_detach(struct slot_net *slot);
/* The slot has a tenant; he is gone: his ports are closed, every connection is reset. */
void slot_net_lend(struct slot_net *slot);
void slot_net_take_back(struct slot_net *slot);

/* The host port that the tenant's first port has. 0: there is none. */
uint16_t slot_net_own_port(const struct slot_net *slot);
/*
 * Opens the port inside to the host, if it is not open yet, until the end of the loan. The first of
 * a loan has the slot's own host port, others one that is free. Nobody need listen inside: such
 * connections are reset. -EOPNOTSUPP: the network is none; -ENOTCONN: not lent, or dead; -EMFILE:
 * NET_PORTS_MAX are open.
 */
int slot_net_open_port(
	struct slot_net *slot, uint16_t inside, uint16_t *ret_host_port, struct error *err);

/* What the configuration means for whoever makes slots. Pure; any thread. */

#define NET_NAT_RESOLVER "10.0.2.3" /* slirp4netns's own, inside */

/* The slots have networks of their own that the daemon forwards to: forward and nat. */
bool net_is_forwarded(const struct config *config);
/* Appends the lines of /etc/hosts that names of `reach` need inside. */
void net_add_hosts(const struct config *config, struct strbuf *out);

#endif
