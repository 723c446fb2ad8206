/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "base/cleanup.h"
#include "base/json-fields.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "providers/lease-table.h"

const struct sandbox_service *lease_service(const struct lease *lease, unsigned number)
{
	return number < lease->spec.service_count ? &lease->spec.services[number] : NULL;
}

bool lease_has_endpoints(const struct lease *lease)
{
	return lease->table->ops->url && lease->spec.service_count > 0;
}

int lease_url(struct lease *lease, uint16_t port, struct strbuf *out, struct error *err)
{
	int r = lease_check_active(lease, err);

	if (r < 0)
		return r;
	if (!lease->table->ops->url)
		return error_set(err, EOPNOTSUPP, "this provider's sandboxes have no endpoints");
	return lease->table->ops->url(lease->box, port, out, err);
}

static void render_endpoint(
	struct lease *lease, const struct sandbox_service *service, struct strbuf *out)
{
	CLEANUP(strbuf_fini) struct strbuf url = STRBUF_INIT;

	if (lease_url(lease, service->port, &url, NULL) < 0)
		return;
	json_add_key(out, service->name);
	strbuf_addc(out, '{');
	json_add_text_key(out, "url", url.data);
	json_add_key(out, "headers");
	strbuf_adds(out, "{}}");
}

void lease_render_endpoints(const struct lease *lease, struct strbuf *out)
{
	json_add_key(out, "endpoints");
	strbuf_addc(out, '{');
	for (unsigned i = 0; lease_has_endpoints(lease) && i < lease->spec.service_count; i++)
		render_endpoint((struct lease *)lease, &lease->spec.services[i], out);
	strbuf_addc(out, '}');
}
