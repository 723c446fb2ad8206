/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The log of a lease's sandbox: asked for while the lease has it, kept when it is given back. */
#include "providers/lease-table.h"

void lease_render_log(const struct lease *lease, enum slot_log which, struct strbuf *out)
{
	if (lease->box && lease->table->ops->log)
		lease->table->ops->log(lease->box, which, out);
	else if (lease->logs[which].data)
		strbuf_add(out, lease->logs[which].data, lease->logs[which].size);
}

void lease_keep_logs(struct lease *lease)
{
	for (unsigned i = 0; lease->table->ops->log && i < SLOT_LOG_COUNT; i++) {
		strbuf_init(&lease->logs[i]);
		lease->table->ops->log(lease->box, (enum slot_log)i, &lease->logs[i]);
	}
}

void lease_drop_logs(struct lease *lease)
{
	for (unsigned i = 0; i < SLOT_LOG_COUNT; i++)
		strbuf_fini(&lease->logs[i]);
}
