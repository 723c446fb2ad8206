/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/strbuf.h"
#include "fs/render.h"
#include "fs/tree.h"
#include "pool/pool.h"

static void render_one(void *data, const struct slot_limit *limit)
{
	struct strbuf *out = data;

	if (*limit->why)
		strbuf_addf(out, "%s %s: %s\n", limit->name, limit->value, limit->why);
	else
		strbuf_addf(out, "%s %s %s\n", limit->name, limit->value, limit->mechanism);
}

void render_slot_limits(struct control *control, const struct node *node, struct strbuf *out)
{
	slot_each_limit(node->slot, render_one, out);
	slot_each_isolation(node->slot, render_one, out);
}
