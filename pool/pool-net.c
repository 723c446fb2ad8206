/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "config/settings.h"
#include "pool/events.h"
#include "pool/net.h"
#include "pool/pool-private.h"

/* Slots go on without it; whoever waits for an answer from there sees why here. */
static void handle_target(void *data, const char *target, const char *why)
{
	struct pool *pool = data;

	if (why)
		log_warn("[slot] reach: '%s' cannot be reached: %s", target, why);
	events_add(pool->events, &(struct event){
					 .kind = "daemon",
					 .id = target,
					 .from = why ? "REACHED" : "UNREACHABLE",
					 .to = why ? "UNREACHABLE" : "REACHED",
					 .why = why ? why : "",
				 });
}

int pool_open_net(struct pool *pool, struct error *err)
{
	int r = net_create(pool->loop, pool->config, &pool->net, err);

	if (r == 0)
		net_on_target(pool->net, handle_target, pool);
	for (unsigned i = 0; r == 0 && i < pool->slot_count; i++)
		r = slot_net_create(pool->net, i, &pool->slots[i]->net, err);
	return r;
}

static bool is_v6(const char *host)
{
	return strchr(host, ':') != NULL;
}

int slot_url(struct slot *slot, uint16_t port, struct strbuf *out, struct error *err)
{
	const char *host = slot->pool->config->pool.advertise_ip;
	uint16_t host_port;
	int r = slot_net_open_port(slot->net, port, &host_port, err);

	if (r < 0)
		return r;
	host = host[0] ? host : "127.0.0.1";
	strbuf_addf(out, is_v6(host) ? "http://[%s]:%u" : "http://%s:%u", host, host_port);
	return 0;
}

uint16_t slot_own_port(const struct slot *slot)
{
	return slot_net_own_port(slot->net);
}
