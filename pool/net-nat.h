/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * net-nat.h: a slirp4netns for one slot: the way out of network = nat. It runs as the slot's own
 * host user, never as root, sees neither the slot's processes nor its files, and dies with the slot
 * or the daemon. Threads: loop. No call blocks, except net_nat_check() and
 * net_nats_fini().
 */
#ifndef POOL_NET_NAT_H
#define POOL_NET_NAT_H

#include <stdint.h>
#include <sys/types.h>

struct error;
struct loop;
struct net_nat;

/* Whether it can work here for slots of that host user: the program, /dev/net/tun. -ENOENT, -EACCES
 * with the way out. */
int net_nat_check(uid_t uid, struct error *err);

/* Those that were killed and are not reaped yet, of a whole pool. Zeroed: none. */
struct net_nats {
	struct net_nat *dying;
};

/* Waits for them: they have had their SIGKILL. Blocks. */
void net_nats_fini(struct net_nats *nats);

struct net_nat_options {
	struct net_nats *nats; /* borrowed until the last of them is stopped and reaped */
	unsigned slot;
	int network_fd, user_fd; /* the slot's namespaces; borrowed for the call */
	int helper_fd, null_fd;  /* init's image, /dev/null; borrowed for the call */
	uid_t uid;
	gid_t gid;
	uint64_t timeout_ms;
};

struct net_nat_hooks {
	void (*up)(void *data);
	/* It could not start, or has ended. Once; nothing runs after it but net_nat_stop(). */
	void (*failed)(void *data, const struct error *why);
	void *data;
};

/* Hooks run later. -errno: nothing was started. */
int net_nat_start(struct loop *loop, const struct net_nat_options *options,
	const struct net_nat_hooks *hooks, struct net_nat **ret_nat, struct error *err);
/* Kills it; it is reaped behind the caller's back, by net_nats_fini() at the latest. Accepts NULL.
 */
void net_nat_stop(struct net_nat *nat);

/* Of what slirp4netns wrote the line that says why it failed; "" where it wrote nothing. Cuts the
 * text into lines. */
const char *net_nat_reason(char *said);

#endif
