/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a daemon that died left in the journal: its leases ended with it. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "pool/events.h"
#include "providers/lease-table.h"

struct former {
	struct lease_table *table;
	struct strbuf *ids; /* each with its NUL */
};

static void end_former(void *data, const struct journal_lease *row)
{
	struct former *former = data;
	struct lease_table *table = former->table;
	struct released_lease memory = {
		.lease_id = row->lease_id,
		.trajectory_id = row->trajectory_id,
		.slot = row->slot,
		.generation = row->generation,
		.reusable = true, /* the pool clears every slot of before */
	};
	struct event event = {
		.kind = "lease",
		.id = row->lease_id,
		.from = row->state,
		.to = lease_state_name(LEASE_RELEASED),
		.reason = REASON_DAEMON_LOST,
		.generation = row->generation,
	};

	events_add(table->events, &event);
	released_add(table->released, &memory, loop_now_ms());
	strbuf_add(former->ids, row->lease_id, strlen(row->lease_id) + 1);
}

int lease_end_former(struct lease_table *table, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf ids = STRBUF_INIT;
	struct former former = {.table = table, .ids = &ids};
	int r = journal_each_lease(table->journal, end_former, &former, err);

	if (r < 0)
		return error_wrap(err, "the leases of the daemon before");
	if (strbuf_failed(&ids))
		return error_set(err, ENOMEM, "no memory for the leases of the daemon before");
	for (size_t at = 0; at < ids.size; at += strlen(ids.data + at) + 1)
		journal_drop_lease(table->journal, ids.data + at, NULL, NULL);
	return 0;
}
