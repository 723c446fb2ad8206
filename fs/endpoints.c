/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/endpoints.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "fs/render.h"
#include "providers/lease-name.h"
#include "providers/lease.h"

static struct node endpoint_node(const struct node *parent, uint16_t port)
{
	struct node node = *parent;

	node.kind = NODE_ENDPOINT;
	node.object = parent->object << 16 | port;
	return node;
}

static bool service_name(const struct sandbox_service *service, char *ret_name)
{
	return lease_name_encode(service->name, strlen(service->name), ret_name, NULL) == 0;
}

/* A service's port, or the number itself; 0: neither. */
static uint16_t port_of(const struct lease *lease, const char *name)
{
	const struct sandbox_service *service;
	char encoded[LEASE_NAME_MAX + 1];
	unsigned number = 0;
	int used = 0;

	for (unsigned i = 0; (service = lease_service(lease, i)); i++)
		if (service_name(service, encoded) && strcmp(encoded, name) == 0)
			return service->port;
	if (name[0] < '1' || name[0] > '9' || sscanf(name, "%5u%n", &number, &used) != 1 ||
		name[used] != '\0' || number > 65535)
		return 0;
	return (uint16_t)number;
}

int endpoints_find(const struct node *parent, const char *name, struct node *ret_node)
{
	CLEANUP(strbuf_fini) struct strbuf url = STRBUF_INIT;
	uint16_t port = port_of(parent->lease, name);
	int r = port ? lease_url(parent->lease, port, &url, NULL) : -ENOENT;

	if (r == -EOPNOTSUPP) /* there is no way to any port */
		return -ENOENT;
	if (r < 0)
		return r;
	*ret_node = endpoint_node(parent, port);
	return 0;
}

int endpoints_check(const struct node *node, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf url = STRBUF_INIT;

	return lease_url(node->lease, (uint16_t)node->object, &url, err);
}

void endpoints_each(const struct node *parent, tree_visit_fn *visit, void *data)
{
	const struct sandbox_service *service;
	char name[LEASE_NAME_MAX + 1];

	if (lease_check_active(parent->lease, NULL) < 0)
		return;
	for (unsigned i = 0; (service = lease_service(parent->lease, i)); i++) {
		struct node node = endpoint_node(parent, service->port);

		if (service_name(service, name))
			visit(data, name, &node);
	}
}

void render_endpoint(struct control *control, const struct node *node, struct strbuf *out)
{
	CLEANUP(strbuf_fini) struct strbuf url = STRBUF_INIT;

	if (lease_url(node->lease, (uint16_t)node->object, &url, NULL) == 0)
		strbuf_addf(out, "%s\n", url.data);
}
