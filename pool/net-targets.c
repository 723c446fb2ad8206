/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/net-targets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "config/settings.h"

enum { NAME_MAX_SIZE = 253 };

#define NAMES_NET 0xc6120000u /* 198.18.0.0/15 */

static bool is_hostname(const char *host)
{
	size_t len =
		strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_");

	return len > 0 && len <= NAME_MAX_SIZE && host[len] == '\0' && host[0] != '-' &&
	       host[0] != '.';
}

/* One machine's, and not "this one" or "any". */
static bool is_one_v4(struct in_addr address)
{
	uint32_t first = ntohl(address.s_addr) >> 24;

	return first != 0 && first < 224;
}

static bool is_one_v6(const struct in6_addr *address)
{
	return !IN6_IS_ADDR_UNSPECIFIED(address) && !IN6_IS_ADDR_MULTICAST(address) &&
	       !IN6_IS_ADDR_LINKLOCAL(address) && !IN6_IS_ADDR_V4MAPPED(address) &&
	       !IN6_IS_ADDR_V4COMPAT(address);
}

static bool looks_like_v4(const char *host)
{
	return host[strspn(host, "0123456789.")] == '\0';
}

static int read_host(struct net_target *target)
{
	if (inet_pton(AF_INET, target->host, &target->v4) == 1) {
		target->family = AF_INET;
		return is_one_v4(target->v4) ? 0 : -EINVAL;
	}
	if (strchr(target->host, ':')) {
		target->family = AF_INET6;
		if (inet_pton(AF_INET6, target->host, &target->v6) != 1)
			return -EINVAL;
		return IN6_IS_ADDR_LOOPBACK(&target->v6) || is_one_v6(&target->v6) ? 0 : -EINVAL;
	}
	target->is_name = true;
	return is_hostname(target->host) && !looks_like_v4(target->host) ? 0 : -EINVAL;
}

static int read_target(const char *word, struct net_target *target, struct error *err)
{
	const char *colon = strrchr(word, ':');
	size_t len = colon ? (size_t)(colon - word) : 0;
	bool bracketed = len >= 2 && word[0] == '[' && word[len - 1] == ']';

	if (bracketed) {
		word++;
		len -= 2;
	}
	target->host = strndup(word, len);
	if (!target->host)
		return error_set(err, ENOMEM, "no memory for slot.reach");
	target->port = colon ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
	if (target->port == 0 || read_host(target) < 0 || bracketed != (target->family == AF_INET6))
		return error_set(err, EINVAL,
			"slot.reach: '%s' is neither a name nor an address of one machine",
			target->host);
	return 0;
}

/* ---- What is listened on inside ---- */

static bool same_inside(const struct init_target *a, const struct init_target *b)
{
	return a->family == b->family && a->port == b->port &&
	       memcmp(a->address, b->address, sizeof(a->address)) == 0;
}

static int add_inside(struct net_targets *targets, unsigned target, const struct init_target *at,
	struct error *err)
{
	for (unsigned i = 0; i < targets->inside_count; i++)
		if (same_inside(&targets->inside[i], at))
			return 0;
	if (targets->inside_count == INIT_TARGETS_MAX)
		return error_set(err, EINVAL, "slot.reach: more than %d targets", INIT_TARGETS_MAX);
	targets->inside[targets->inside_count] = *at;
	targets->target_of[targets->inside_count] = target;
	targets->inside_count++;
	return 0;
}

static int add_v4(
	struct net_targets *targets, unsigned number, struct in_addr address, struct error *err)
{
	struct init_target at = {.family = AF_INET, .port = targets->targets[number].port};

	memcpy(at.address, &address, sizeof(address));
	return add_inside(targets, number, &at, err);
}

static int add_v6(struct net_targets *targets, unsigned number, const struct in6_addr *address,
	bool optional, struct error *err)
{
	struct init_target at = {
		.family = AF_INET6, .port = targets->targets[number].port, .optional = optional};

	memcpy(at.address, address, sizeof(*address));
	return add_inside(targets, number, &at, err);
}

static bool is_localhost(const struct net_target *target)
{
	return target->is_name && strcasecmp(target->host, "localhost") == 0;
}

static int add_localhost(struct net_targets *targets, unsigned number, struct error *err)
{
	int r = add_v4(targets, number, (struct in_addr){htonl(INADDR_LOOPBACK)}, err);

	return r < 0 ? r : add_v6(targets, number, &in6addr_loopback, true, err);
}

/* The one before it of the same name, or NULL. */
static const struct net_target *same_name(const struct net_targets *targets, unsigned number)
{
	for (unsigned i = 0; i < number; i++)
		if (targets->targets[i].is_name &&
			strcasecmp(targets->targets[i].host, targets->targets[number].host) == 0)
			return &targets->targets[i];
	return NULL;
}

static bool is_listed(const struct net_targets *targets, struct in_addr address)
{
	for (unsigned i = 0; i < targets->count; i++)
		if (!targets->targets[i].is_name && targets->targets[i].family == AF_INET &&
			targets->targets[i].v4.s_addr == address.s_addr)
			return true;
	return false;
}

/* No other name's, whose numbers differ by less than the count, and no listed machine's own. */
static struct in_addr choose_address(const struct net_targets *targets, unsigned number)
{
	struct in_addr address = {htonl(NAMES_NET + 1 + number)};

	while (is_listed(targets, address))
		address.s_addr = htonl(ntohl(address.s_addr) + targets->count);
	return address;
}

static int add_name(struct net_targets *targets, unsigned number, struct error *err)
{
	struct net_target *target = &targets->targets[number];
	const struct net_target *same = same_name(targets, number);

	if (same)
		target->v4 = same->v4;
	else
		target->v4 = choose_address(targets, number);
	return add_v4(targets, number, target->v4, err);
}

static int add_target(struct net_targets *targets, unsigned number, struct error *err)
{
	const struct net_target *target = &targets->targets[number];

	if (is_localhost(target))
		return add_localhost(targets, number, err);
	if (target->is_name)
		return add_name(targets, number, err);
	if (target->family == AF_INET)
		return add_v4(targets, number, target->v4, err);
	return add_v6(targets, number, &target->v6, false, err);
}

int net_targets_parse(
	const struct word_list *reach, struct net_targets *ret_targets, struct error *err)
{
	struct net_targets targets = {0};
	int r = 0;

	targets.targets = calloc(reach->count + 1, sizeof(*targets.targets));
	if (!targets.targets)
		return error_set(err, ENOMEM, "no memory for slot.reach");
	for (size_t i = 0; i < reach->count && r == 0; i++) {
		r = read_target(reach->words[i], &targets.targets[targets.count], err);
		targets.count++;
	}
	for (unsigned i = 0; i < targets.count && r == 0; i++)
		r = add_target(&targets, i, err);
	if (r < 0) {
		net_targets_fini(&targets);
		return r;
	}
	*ret_targets = targets;
	return 0;
}

void net_targets_fini(struct net_targets *targets)
{
	if (!targets)
		return;
	for (unsigned i = 0; i < targets->count; i++)
		free(targets->targets[i].host);
	free(targets->targets);
	*targets = (struct net_targets){0};
}

void net_targets_add_hosts(const struct net_targets *targets, struct strbuf *out)
{
	for (unsigned i = 0; i < targets->count; i++) {
		const struct net_target *target = &targets->targets[i];
		char text[INET_ADDRSTRLEN];

		if (!target->is_name || is_localhost(target) || same_name(targets, i))
			continue;
		if (inet_ntop(AF_INET, &target->v4, text, sizeof(text)))
			strbuf_addf(out, "%s\t%s\n", text, target->host);
	}
}
