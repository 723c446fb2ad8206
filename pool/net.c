/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/net.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/strbuf.h"
#include "config/settings.h"
#include "pool/bubble.h"
#include "pool/net-private.h"

enum { BACKLOG = 1024, NAT_START_MS = 20000 };

/* ---- What the configuration means ---- */

bool net_is_forwarded(const struct config *config)
{
	return config->slot.network == NETWORK_FORWARD || config->slot.network == NETWORK_NAT;
}

void net_add_hosts(const struct config *config, struct strbuf *out)
{
	struct net_targets targets;

	if (!net_is_forwarded(config) || net_targets_parse(&config->slot.reach, &targets, NULL) < 0)
		return; /* whoever makes the slots says why */
	net_targets_add_hosts(&targets, out);
	net_targets_fini(&targets);
}

/* ---- The ports of the host ---- */

static int resolve_bind_host(struct net *net, struct error *err)
{
	const char *host = net->config->pool.bind_host;
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *found = NULL;
	int r = getaddrinfo(strcmp(host, "*") == 0 ? NULL : host, "0", &hints, &found);

	if (r != 0)
		return error_set(err, EINVAL, "pool.bind_host: '%s': %s", host, gai_strerror(r));
	memcpy(&net->bind_address, found->ai_addr, found->ai_addrlen);
	net->bind_size = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

static void set_port(struct sockaddr_storage *address, uint16_t port)
{
	if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)address)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)address)->sin_port = htons(port);
}

static uint16_t port_of(int fd)
{
	struct sockaddr_storage address = {0};
	socklen_t size = sizeof(address);

	if (getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		return 0;
	if (address.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
	return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

/* Not listened on: who connects is refused. The option lets it have a port on which connections of
 * a former daemon's linger. */
static int bind_port(const struct net *net, uint16_t port, int *ret_fd)
{
	const int on = 1;
	struct sockaddr_storage address = net->bind_address;
	CLEANUP(closep)
	int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);

	if (fd < 0)
		return -errno;
	set_port(&address, port);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&address, net->bind_size) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

static void say_moved(const struct net *net, unsigned first, unsigned count)
{
	unsigned port = net->config->pool.base_port + first;

	if (count == 1)
		log_warn("port %u is in use by another program: slot %04u has another one", port,
			first);
	else if (count > 1)
		log_warn(
			"%u ports from %u on are in use by other programs: their slots have others",
			count, port);
}

static int bind_slot_ports(struct net *net, struct error *err)
{
	unsigned moved = 0, first = 0;

	for (unsigned i = 0; i < net->slot_count; i++) {
		uint16_t port = (uint16_t)(net->config->pool.base_port + i);
		int r = bind_port(net, port, &net->port_fds[i]);

		if (r == -EADDRINUSE) {
			first = moved++ == 0 ? i : first;
			r = bind_port(net, 0, &net->port_fds[i]);
		}
		if (r < 0)
			return error_errno(err, -r, "cannot have port %u of pool.bind_host '%s'",
				port, net->config->pool.bind_host);
	}
	say_moved(net, first, moved);
	return 0;
}

/* ---- The net as a whole ---- */

static unsigned links_allowed(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return 1u << 20;
	return (unsigned)(limit.rlim_cur / 4); /* two descriptors each */
}

static int fill(struct net *net, struct error *err)
{
	int r;

	if (!net_is_forwarded(net->config))
		return 0;
	r = net_targets_parse(&net->config->slot.reach, &net->targets, err);
	if (r == 0 && net->config->slot.network == NETWORK_NAT)
		r = net_nat_check(geteuid() == 0 ? net->config->slot.uid_base : geteuid(), err);
	if (r < 0)
		return r;
	net->lookups = calloc(net->targets.count + 1, sizeof(struct net_lookup *));
	net->states = calloc(net->targets.count + 1, sizeof(*net->states));
	net->port_fds = malloc(net->slot_count * sizeof(int));
	if (!net->lookups || !net->states || !net->port_fds ||
		net_resolver_create(net->loop, &net->resolver) < 0)
		return error_set(err, ENOMEM, "no memory for the slots' network");
	for (unsigned i = 0; i < net->slot_count; i++)
		net->port_fds[i] = -1;
	r = resolve_bind_host(net, err);
	return r < 0 ? r : bind_slot_ports(net, err);
}

int net_create(
	struct loop *loop, const struct config *config, struct net **ret_net, struct error *err)
{
	struct net *net = calloc(1, sizeof(*net));
	int r;

	if (!net)
		return error_set(err, ENOMEM, "no memory for the slots' network");
	net->loop = loop;
	net->config = config;
	net->slot_count = config->pool.slots;
	net->link_max = links_allowed();
	r = fill(net, err);
	if (r < 0) {
		net_destroy(net);
		return r;
	}
	*ret_net = net;
	return 0;
}

void net_on_target(struct net *net, net_target_fn *fn, void *data)
{
	net->on_target = fn;
	net->on_target_data = data;
}

void net_note_target(struct net *net, unsigned target, const char *why)
{
	struct net_target_state *state = &net->states[target];
	uint64_t now = loop_now_ms();

	if (state->failing == (why != NULL) || !net->on_target)
		return;
	if (why && state->said_ms && now - state->said_ms < QUIET_MS)
		return;
	state->failing = why != NULL;
	state->said_ms = now;
	net->on_target(net->on_target_data, net->config->slot.reach.words[target], why);
}

void net_destroy(struct net *net)
{
	if (!net)
		return;
	net_nats_fini(&net->nats);
	net_resolve_abandon(net);
	for (unsigned i = 0; net->port_fds && i < net->slot_count; i++)
		closep(&net->port_fds[i]);
	free(net->port_fds);
	free(net->states);
	net_targets_fini(&net->targets);
	free(net);
}

/* ---- A slot's part ---- */

int slot_net_create(struct net *net, unsigned number, struct slot_net **ret_slot, struct error *err)
{
	struct slot_net *slot = calloc(1, sizeof(*slot));
	int r;

	assert(number < net->slot_count);
	if (!slot)
		return error_set(err, ENOMEM, "no memory for a slot's network");
	slot->net = net;
	slot->number = number;
	slot->port_fd = net->port_fds ? take_fd(&net->port_fds[number]) : -1;
	r = loop_timer_start(net->loop, PAUSE_MS, net_handle_pause_over, slot, &slot->pause, err);
	if (r < 0) {
		slot_net_destroy(slot);
		return r;
	}
	slot->own_port = (uint16_t)(net->config->pool.base_port + number);
	if (slot->port_fd >= 0)
		slot->own_port = port_of(slot->port_fd);
	*ret_slot = slot;
	return 0;
}

static void close_doors(struct net_door **doors)
{
	while (*doors)
		net_door_close(*doors);
}

void slot_net_destroy(struct slot_net *slot)
{
	if (!slot)
		return;
	slot_net_detach(slot);
	loop_timer_stop(slot->pause);
	closep(&slot->port_fd);
	free(slot);
}

/* Without memory for a listener's door that target cannot be reached until the slot is started
 * again. */
static void open_targets(struct slot_net *slot)
{
	const struct net_targets *targets = &slot->net->targets;

	for (unsigned i = 0; i < targets->inside_count; i++) {
		struct net_door door = {.outward = true, .target = targets->target_of[i]};

		door.fd = bubble_take_listener(slot->bubble, i);
		if (door.fd >= 0 && net_door_open(slot, &door, NULL) < 0)
			closep(&door.fd);
	}
}

static void start_nat(struct slot_net *slot, uid_t uid, gid_t gid)
{
	const struct net_nat_options options = {
		.nats = &slot->net->nats,
		.slot = slot->number,
		.network_fd = bubble_namespace(slot->bubble, INIT_NAMESPACE_NETWORK),
		.user_fd = bubble_namespace(slot->bubble, INIT_NAMESPACE_USER),
		.helper_fd = bubble_helper_fd(slot->bubble),
		.null_fd = bubble_null_fd(slot->bubble),
		.uid = uid,
		.gid = gid,
		.timeout_ms = NAT_START_MS,
	};
	const struct net_nat_hooks hooks = {
		.up = slot->hooks.up, .failed = slot->hooks.failed, .data = slot->hooks.data};
	struct error err = ERROR_NONE;
	int r = net_nat_start(slot->net->loop, &options, &hooks, &slot->nat, &err);

	bubble_forget_namespaces(slot->bubble);
	if (r < 0)
		slot->hooks.failed(slot->hooks.data, &err);
}

void slot_net_attach(struct slot_net *slot, struct bubble *bubble, uid_t uid, gid_t gid,
	const struct slot_net_hooks *hooks)
{
	slot->bubble = bubble;
	slot->hooks = *hooks;
	open_targets(slot);
	if (slot->net->config->slot.network == NETWORK_NAT)
		start_nat(slot, uid, gid);
	else
		hooks->up(hooks->data);
}

void slot_net_detach(struct slot_net *slot)
{
	slot_net_take_back(slot);
	close_doors(&slot->out);
	net_nat_stop(take_ptr(&slot->nat));
	slot->bubble = NULL;
}

void slot_net_lend(struct slot_net *slot)
{
	slot->lent = true;
	net_doors_update(slot);
}

void slot_net_take_back(struct slot_net *slot)
{
	slot->lent = false;
	close_doors(&slot->in);
	slot->port_count = 0;
	slot->own_port_used = false;
	net_links_cut(slot);
	net_doors_update(slot);
}

uint16_t slot_net_own_port(const struct slot_net *slot)
{
	return slot->net->config->slot.network == NETWORK_NONE ? 0 : slot->own_port;
}

static struct net_door *find_port(const struct slot_net *slot, uint16_t inside)
{
	struct net_door *door;

	DL_FOREACH (slot->in, door)
		if (door->inside == inside)
			return door;
	return NULL;
}

static int listen_at(struct net_door *door)
{
	if (listen(door->fd, BACKLOG) < 0)
		return -errno;
	door->host_port = port_of(door->fd);
	return 0;
}

/* Its number is the slot's, whoever else has managed to listen there meanwhile. */
static int listen_at_own(struct slot_net *slot, struct net_door *door)
{
	int r;

	if (slot->own_port_used)
		return -EADDRINUSE;
	slot->own_port_used = true;
	door->fd = slot->port_fd;
	door->keep = true;
	r = listen_at(door);
	if (r == -EADDRINUSE)
		log_warn("port %u is in use by another program: slot %04u has another one for now",
			slot->own_port, slot->number);
	return r;
}

static int listen_somewhere(struct slot_net *slot, struct net_door *door)
{
	int r = listen_at_own(slot, door);

	if (r != -EADDRINUSE)
		return r;
	door->fd = -1;
	door->keep = false;
	r = bind_port(slot->net, 0, &door->fd);
	return r < 0 ? r : listen_at(door);
}

static int open_port(
	struct slot_net *slot, uint16_t inside, uint16_t *ret_host_port, struct error *err)
{
	struct net_door door = {.fd = -1, .inside = inside};
	int r;

	if (slot->port_count >= NET_PORTS_MAX)
		return error_set(err, EMFILE, "slot %04u has %d ports open, the most there may be",
			slot->number, NET_PORTS_MAX);
	r = listen_somewhere(slot, &door);
	if (r == 0)
		r = net_door_open(slot, &door, NULL);
	if (r < 0) {
		slot->own_port_used = slot->own_port_used && !door.keep;
		if (door.keep)
			(void)shutdown(door.fd, SHUT_RDWR);
		else
			closep(&door.fd);
		return error_errno(
			err, -r, "cannot open port %u of slot %04u", inside, slot->number);
	}
	slot->port_count++;
	net_doors_update(slot);
	*ret_host_port = door.host_port;
	return 0;
}

/* Whoever listens there does so on the host: a blackbox server where it is told to (BBS_PORT), any
 * other at the port that it has. */
static uint16_t port_on_host(const struct slot_net *slot, uint16_t inside)
{
	const struct config *config = slot->net->config;
	bool is_server = config->pool.mode == POOL_BLACKBOX && inside == config->blackbox.port;

	return is_server ? slot->own_port : inside;
}

int slot_net_open_port(
	struct slot_net *slot, uint16_t inside, uint16_t *ret_host_port, struct error *err)
{
	const struct net_door *door = find_port(slot, inside);

	if (slot->net->config->slot.network == NETWORK_NONE)
		return error_set(err, EOPNOTSUPP,
			"port %u cannot be reached: [slot] network is none", inside);
	if (!slot->bubble || !slot->lent)
		return error_reason(err, ENOTCONN, REASON_SLOT_LOST,
			"port %u cannot be reached: slot %04u is not in use", inside, slot->number);
	if (slot->net->config->slot.network == NETWORK_HOST) {
		*ret_host_port = port_on_host(slot, inside);
		return 0;
	}
	if (!door)
		return open_port(slot, inside, ret_host_port, err);
	*ret_host_port = door->host_port;
	return 0;
}
