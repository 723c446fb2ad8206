/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <limits.h>

#include "base/json-fields.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "config/settings.h"
#include "providers/lease-table.h"

static void add_capabilities(struct strbuf *out, unsigned capabilities)
{
	static const struct {
		enum sandbox_capability bit;
		const char *word;
	} words[] = {
		{SANDBOX_COMMAND, "command"},
		{SANDBOX_FILE, "file"},
		{SANDBOX_PUBLIC_URL, "public_url"},
	};
	const char *comma = "";

	json_add_key(out, "capabilities");
	strbuf_addc(out, '[');
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!(capabilities & words[i].bit))
			continue;
		strbuf_adds(out, comma);
		json_add_cstring(out, words[i].word);
		comma = ",";
	}
	strbuf_addc(out, ']');
}

static void add_slot(struct strbuf *out, unsigned slot, uint32_t generation)
{
	if (slot == UINT_MAX)
		return;
	json_add_count_key(out, "slot_id", slot);
	json_add_count_key(out, "generation", generation);
}

static void add_metadata(struct strbuf *out, const struct lease *lease)
{
	const struct lease_table *table = lease->table;
	const struct config *config = table->config;
	bool blackbox_pool = config->pool.mode == POOL_BLACKBOX;
	bool blackbox = config->dressage.paddock_mode == PADDOCK_BLACKBOX;

	json_add_key(out, "metadata");
	strbuf_addc(out, '{');
	json_add_text_key(out, "pool_mode", blackbox_pool ? "blackbox" : "command_only");
	json_add_text_key(out, "paddock_mode", blackbox ? "blackbox" : "whitebox");
	json_add_text_key(out, "lease_id", lease->id);
	json_add_text_key(out, "node_id", table->node_id);
	json_add_text_key(out, "node_ip", table->node_ip);
	add_slot(out, lease->slot, lease->generation);
	if (lease->slot != UINT_MAX)
		json_add_count_key(out, "port",
			lease->port ? lease->port : config->pool.base_port + lease->slot);
	strbuf_addc(out, '}');
}

static const char *sandbox_id(const struct lease *lease)
{
	return lease->sandbox_id[0] ? lease->sandbox_id : lease->id;
}

void lease_render(const struct lease *lease, struct strbuf *out)
{
	const struct sandbox_provider_ops *ops = lease->table->ops;

	strbuf_addc(out, '{');
	json_add_text_key(out, "trajectory_id", lease->spec.trajectory_id);
	json_add_text_key(out, "provider", ops->name);
	json_add_text_key(out, "sandbox_id", sandbox_id(lease));
	lease_render_endpoints(lease, out);
	add_capabilities(
		out, ops->capabilities | (lease_has_endpoints(lease) ? SANDBOX_PUBLIC_URL : 0));
	add_metadata(out, lease);
	json_add_text_key(out, "name", lease->name);
	json_add_text_key(out, "state", lease_state_name(lease->state));
	if (lease->deadline > 0)
		json_add_seconds_key(out, "deadline", lease->deadline);
	else
		json_add_text_key(out, "deadline", NULL);
	json_add_text_key(out, "reason", lease->reason ? reason_word(lease->reason) : NULL);
	strbuf_adds(out, "}\n");
}

void lease_render_end(const struct lease_table *table, const struct released_lease *lease,
	bool already, struct strbuf *out)
{
	strbuf_addc(out, '{');
	json_add_bool_key(out, "released", true);
	json_add_bool_key(out, "release_queued", !lease->reusable);
	json_add_bool_key(out, "already_released", already);
	json_add_text_key(out, "trajectory_id", lease->trajectory_id);
	json_add_text_key(out, "lease_id", lease->lease_id);
	add_slot(out, lease->slot, lease->generation);
	json_add_text_key(out, "node_id", table->node_id);
	json_add_text_key(out, "node_ip", table->node_ip);
	json_add_bool_key(out, "slot_reusable", lease->reusable);
	strbuf_adds(out, "}\n");
}
