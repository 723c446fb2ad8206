/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* status and status.json: one count of slots and leases, shown twice. */
#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "config/settings.h"
#include "fs/control.h"
#include "fs/render.h"
#include "pool/pool.h"
#include "providers/lease.h"

enum { STATE_COUNT = SLOT_LOST + 1, LEASE_STATE_COUNT = LEASE_LOST + 1 };

struct summary {
	struct pool *pool; /* NULL: the provider has none */
	unsigned slots;
	unsigned in_state[STATE_COUNT];
	unsigned leases[LEASE_STATE_COUNT], tracked;
	unsigned queue;
	bool draining;
	char host[HOST_NAME_MAX + 1];
	const char *last_error; /* of any slot; "" when there is none */
};

static void count_slots(struct summary *summary)
{
	summary->slots = pool_slot_count(summary->pool);
	summary->queue = pool_queue_length(summary->pool);
	for (unsigned number = 0; number < summary->slots; number++) {
		struct slot_view view = slot_view(pool_slot(summary->pool, number));

		summary->in_state[view.state]++;
		if (*view.last_error)
			summary->last_error = view.last_error;
	}
}

static struct summary summarize(const struct control *control)
{
	struct summary summary = {
		.pool = lease_table_pool(control->leases),
		.draining = lease_table_is_draining(control->leases),
		.last_error = "",
	};

	if (summary.pool)
		count_slots(&summary);
	for (unsigned state = 0; state < LEASE_STATE_COUNT; state++)
		summary.leases[state] = lease_count(control->leases, (enum lease_state)state);
	for (struct lease *lease = lease_next(control->leases, NULL); lease;
		lease = lease_next(control->leases, lease))
		summary.tracked++;
	(void)gethostname(summary.host, sizeof(summary.host) - 1);
	return summary;
}

static const char *pool_mode_word(const struct config *config)
{
	return config->pool.mode == POOL_BLACKBOX ? "blackbox" : "command_only";
}

static const struct lease *holder_lease(const struct control *control, const struct slot_view *view)
{
	return *view->holder ? lease_find(control->leases, view->holder) : NULL;
}

static void add_time(struct strbuf *out, double when)
{
	time_t seconds = (time_t)when;
	struct tm parts;
	char text[32] = "-";

	if (localtime_r(&seconds, &parts))
		(void)strftime(text, sizeof(text), "%F %T", &parts);
	strbuf_adds(out, text);
}

/* One line a slot; names are shown as in leases/, where control bytes are encoded. */
static void add_slot_line(
	const struct control *control, const struct slot_view *view, struct strbuf *out)
{
	const struct lease *lease = holder_lease(control, view);

	strbuf_addf(out, "%04u  %-10s  %10u  %7d  ", view->number, slot_state_name(view->state),
		view->generation, (int)view->pid);
	add_time(out, view->since);
	strbuf_addf(out, "  %s", lease ? lease_name(lease) : "-");
	if (*view->last_error && view->state != SLOT_READY && view->state != SLOT_LEASED)
		strbuf_addf(out, "  (%s)", view->last_error);
	strbuf_addc(out, '\n');
}

static void add_lease_line(const struct lease *lease, struct strbuf *out)
{
	const char *reason = reason_word(lease_reason(lease));

	strbuf_addf(out, "%-10s  ", lease_state_name(lease_state(lease)));
	add_time(out, lease_created_at(lease));
	strbuf_addf(out, "  %s%s%s%s\n", lease_name(lease), *reason ? "  (" : "", reason,
		*reason ? ")" : "");
}

void render_status(struct control *control, const struct node *node, struct strbuf *out)
{
	struct summary summary = summarize(control);

	strbuf_addf(out, "dressagefs " DRESSAGE_VERSION " on %s, provider %s, pool mode %s%s\n",
		summary.host, control->config->dressage.provider, pool_mode_word(control->config),
		summary.draining ? ", draining" : "");
	strbuf_addf(out, "slots   %u: %u ready, %u leased, %u lost, %u failed\n", summary.slots,
		summary.in_state[SLOT_READY], summary.in_state[SLOT_LEASED],
		summary.in_state[SLOT_LOST],
		summary.in_state[SLOT_FAILED] + summary.in_state[SLOT_DEAD]);
	strbuf_addf(out, "leases  %u: %u active, %u expired, %u lost; %u waiting for a slot\n",
		summary.tracked, summary.leases[LEASE_ACTIVE], summary.leases[LEASE_EXPIRED],
		summary.leases[LEASE_LOST], summary.queue);
	if (summary.slots > 0)
		strbuf_adds(out,
			"\nSLOT  STATE       GENERATION      PID  SINCE                LEASE\n");
	for (unsigned number = 0; number < summary.slots; number++) {
		struct slot_view view = slot_view(pool_slot(summary.pool, number));

		add_slot_line(control, &view, out);
	}
	if (summary.tracked > 0)
		strbuf_adds(out, "\nLEASE       SINCE                NAME\n");
	for (struct lease *lease = lease_next(control->leases, NULL); lease;
		lease = lease_next(control->leases, lease))
		add_lease_line(lease, out);
}

static void add_totals(
	const struct control *control, const struct summary *summary, struct strbuf *out)
{
	strbuf_addf(out,
		"{\"version\":\"" DRESSAGE_VERSION
		"\",\"provider\":\"%s\",\"closed\":%s,\"pool_mode\":\"%s\"",
		control->config->dressage.provider, control->ended ? "true" : "false",
		pool_mode_word(control->config));
	strbuf_addf(out,
		",\"total_capacity\":%u,\"total_ready\":%u,\"total_leased\":%u,\"total_resetting\":%u",
		summary->slots, summary->in_state[SLOT_READY], summary->in_state[SLOT_LEASED],
		summary->in_state[SLOT_RELEASING] + summary->in_state[SLOT_RESETTING]);
	strbuf_addf(out,
		",\"total_restarting\":%u,\"total_failed\":%u,\"total_lost\":%u,\"queue\":%u",
		summary->in_state[SLOT_STARTING] + summary->in_state[SLOT_RESTARTING],
		summary->in_state[SLOT_FAILED] + summary->in_state[SLOT_DEAD],
		summary->in_state[SLOT_LOST], summary->queue);
}

static void add_node(
	const struct control *control, const struct summary *summary, struct strbuf *out)
{
	strbuf_adds(out, ",\"nodes\":[{\"node_id\":");
	json_add_cstring(out, lease_table_node_id(control->leases));
	strbuf_adds(out, ",\"node_ip\":");
	json_add_cstring(out, control->config->pool.advertise_ip);
	strbuf_adds(out, ",\"hostname\":");
	json_add_cstring(out, summary->host);
	strbuf_addf(out,
		",\"capacity\":%u,\"alive\":true,\"ready\":%u,\"leased\":%u,\"used\":%u,\"free\":%u",
		summary->slots, summary->in_state[SLOT_READY], summary->in_state[SLOT_LEASED],
		summary->slots - summary->in_state[SLOT_READY], summary->in_state[SLOT_READY]);
	strbuf_addf(out,
		",\"resetting\":%u,\"restarting\":%u,\"failed\":%u,\"lost\":%u,\"draining\":%s",
		summary->in_state[SLOT_RELEASING] + summary->in_state[SLOT_RESETTING],
		summary->in_state[SLOT_STARTING] + summary->in_state[SLOT_RESTARTING],
		summary->in_state[SLOT_FAILED] + summary->in_state[SLOT_DEAD],
		summary->in_state[SLOT_LOST], summary->draining ? "true" : "false");
	/* a fixed number of digits, so that the size looked up is the size read */
	strbuf_addf(out, ",\"last_heartbeat_ts\":%.3f,\"last_error\":", unix_now());
	json_add_cstring(out, summary->last_error);
	strbuf_adds(out, "}]");
}

static void add_slot(
	const struct control *control, const struct slot_view *view, struct strbuf *out)
{
	const struct lease *lease = holder_lease(control, view);
	bool seen = view->last_pong_at > 0;

	strbuf_addf(out, "{\"slot\":%u,\"state\":\"%s\",\"generation\":%u,\"pid\":%d,\"lease\":",
		view->number, slot_state_name(view->state), view->generation, (int)view->pid);
	json_add_cstring(out, lease ? lease_id(lease) : "");
	strbuf_adds(out, ",\"trajectory\":");
	json_add_cstring(out, view->holder);
	strbuf_addf(out, ",\"since\":%.3f,\"last_health\":", view->since);
	if (seen)
		strbuf_addf(out, "%.3f", view->last_pong_at);
	else
		strbuf_adds(out, "null");
	strbuf_addf(out, ",\"failing\":%s,\"last_error\":", view->failing ? "true" : "false");
	json_add_cstring(out, view->last_error);
	strbuf_addc(out, '}');
}

void render_status_json(struct control *control, const struct node *node, struct strbuf *out)
{
	struct summary summary = summarize(control);

	add_totals(control, &summary, out);
	add_node(control, &summary, out);
	strbuf_addf(out,
		",\"leases\":{\"active\":%u,\"releasing\":%u,\"tracked\":%u,\"expired\":%u,\"lost\":%u}",
		summary.leases[LEASE_ACTIVE], summary.leases[LEASE_RELEASING], summary.tracked,
		summary.leases[LEASE_EXPIRED], summary.leases[LEASE_LOST]);
	strbuf_adds(out, ",\"slots\":[");
	for (unsigned number = 0; number < summary.slots; number++) {
		struct slot_view view = slot_view(pool_slot(summary.pool, number));

		strbuf_adds(out, number > 0 ? "," : "");
		add_slot(control, &view, out);
	}
	strbuf_adds(out, "]}\n");
}
