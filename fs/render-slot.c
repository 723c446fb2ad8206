/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* slots/NNNN/health, and the logs of slots and leases. */
#include "base/strbuf.h"
#include "fs/control.h"
#include "fs/render.h"
#include "fs/tree.h"
#include "pool/pool.h"
#include "providers/lease.h"

static const char *health_word(enum slot_state state)
{
	switch (state) {
	case SLOT_READY:
	case SLOT_LEASED:
		return "ok";
	case SLOT_STARTING:
	case SLOT_RELEASING:
	case SLOT_RESETTING:
	case SLOT_RESTARTING:
		return "changing";
	case SLOT_FAILED:
	case SLOT_DEAD:
	case SLOT_LOST:
		return "down";
	case SLOT_EMPTY:
		break;
	}
	return "none";
}

/* One that is down was found so when it changed; one that lives has answered, or become READY. */
static double checked_at(const struct slot_view *view)
{
	bool down =
		view->state == SLOT_FAILED || view->state == SLOT_DEAD || view->state == SLOT_LOST;

	if (down)
		return view->since;
	return view->last_pong_at;
}

void render_slot_health(struct control *control, const struct node *node, struct strbuf *out)
{
	struct slot_view view = slot_view(node->slot);
	double when = checked_at(&view);

	(void)control;
	strbuf_adds(out, "{\"last_check\":");
	if (when > 0)
		strbuf_addf(out, "%.3f", when);
	else
		strbuf_adds(out, "null");
	/* the pool does not count the loss of a lent one */
	strbuf_addf(out, ",\"result\":\"%s\",\"failures\":%u}\n", health_word(view.state),
		view.failures + (view.state == SLOT_LOST));
}

static enum slot_log log_of(const struct node *node)
{
	bool bwrap = node->kind == NODE_SLOT_LOG_BWRAP || node->kind == NODE_LEASE_LOG_BWRAP;

	return bwrap ? SLOT_LOG_BWRAP : SLOT_LOG_INIT;
}

void render_log(struct control *control, const struct node *node, struct strbuf *out)
{
	(void)control;
	if (node->slot)
		slot_log_render(node->slot, log_of(node), out);
	else
		lease_render_log(node->lease, log_of(node), out);
}
