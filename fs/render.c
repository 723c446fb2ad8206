/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/render.h"

#include "base/strbuf.h"
#include "config/settings.h"
#include "fs/control.h"
#include "fs/inode.h"
#include "fs/tree.h"
#include "pool/events.h"
#include "pool/pool.h"
#include "providers/lease.h"

void render_config(struct control *control, const struct node *node, struct strbuf *out)
{
	config_show(control->config, true, out);
}

void render_events(struct control *control, const struct node *node, struct strbuf *out)
{
	events_render(control->events, out);
}

void render_last_error(struct control *control, const struct node *node, struct strbuf *out)
{
	const struct inode *inode = inode_find(control, node_ino(node->kind, node->object));

	if (inode)
		strbuf_add(out, inode->text.data, inode->text.size);
}

void render_lease_json(struct control *control, const struct node *node, struct strbuf *out)
{
	lease_render(node->lease, out);
}

void render_lease_state(struct control *control, const struct node *node, struct strbuf *out)
{
	strbuf_addf(out, "%s\n", lease_state_name(lease_state(node->lease)));
}

void render_ttl(struct control *control, const struct node *node, struct strbuf *out)
{
	double left = lease_seconds_left(node->lease);

	if (left < 0)
		strbuf_adds(out, "unlimited\n");
	else
		strbuf_addf(out, "%.0f\n", left);
}

void render_hold(struct control *control, const struct node *node, struct strbuf *out)
{
	strbuf_addf(out, "%u\n", lease_holders(node->lease));
}

void render_slot_state(struct control *control, const struct node *node, struct strbuf *out)
{
	strbuf_addf(out, "%s\n", slot_state_name(slot_view(node->slot).state));
}

void render_slot_generation(struct control *control, const struct node *node, struct strbuf *out)
{
	strbuf_addf(out, "%u\n", slot_view(node->slot).generation);
}

void render_slot_lease(struct control *control, const struct node *node, struct strbuf *out)
{
	const char *holder = slot_view(node->slot).holder;
	const struct lease *lease = *holder ? lease_find(control->leases, holder) : NULL;

	if (lease)
		strbuf_addf(out, "%s\n", lease_id(lease));
}

void render_slot_pid(struct control *control, const struct node *node, struct strbuf *out)
{
	pid_t pid = slot_view(node->slot).pid;

	if (pid > 0)
		strbuf_addf(out, "%d\n", (int)pid);
}

void render_slot_last_error(struct control *control, const struct node *node, struct strbuf *out)
{
	const char *text = slot_view(node->slot).last_error;

	if (*text)
		strbuf_addf(out, "%s\n", text);
}
