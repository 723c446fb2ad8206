/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A command's result as JSON: a large one on a worker, so that the loop goes on meanwhile. */
#include <errno.h>
#include <stdlib.h>

#include "base/strbuf.h"
#include "providers/lease-table.h"

enum { RENDER_AT_ONCE_MAX = 64 * 1024 }; /* bytes of both streams: some tenths of a millisecond */

/* The worker looks at nothing but this. */
struct rendering {
	struct lease_table *table;
	struct lease *lease; /* counted: what place points to */
	struct sandbox_place place;
	struct command command;
	struct command_result result;
	struct strbuf reply;
	lease_rendered_fn *done;
	void *data;
};

static struct sandbox_place place_of(const struct lease *lease)
{
	return (struct sandbox_place){
		.lease_id = lease->id,
		.trajectory_id = lease->spec.trajectory_id,
		.node_id = lease->table->node_id,
		.node_ip = lease->table->node_ip,
		.slot = lease->slot,
		.generation = lease->generation,
	};
}

void lease_render_result(const struct lease *lease, const struct command *command,
	const struct command_result *result, struct strbuf *out)
{
	struct sandbox_place place = place_of(lease);

	command_result_render(&place, command, result, out);
}

static void render(void *data)
{
	struct rendering *rendering = data;

	command_result_render(
		&rendering->place, &rendering->command, &rendering->result, &rendering->reply);
	command_result_fini(&rendering->result); /* not needed any more: it may be large */
}

static void tell(lease_rendered_fn *done, void *data, struct strbuf *reply)
{
	struct error err = ERROR_NONE;
	int r = 0;

	if (strbuf_failed(reply))
		r = error_set(&err, ENOMEM, "no memory for the result of the command");
	done(data, r, reply, &err);
}

static void finish(void *data)
{
	struct rendering *rendering = data;
	struct lease_table *table = rendering->table;

	tell(rendering->done, rendering->data, &rendering->reply);
	command_fini(&rendering->command);
	command_result_fini(&rendering->result);
	strbuf_fini(&rendering->reply);
	lease_unref(rendering->lease);
	free(rendering);
	table->renderings--;
	lease_table_check_stopped(table);
}

/* False: it cannot be, and nothing was taken over. */
static bool render_by_worker(struct lease *lease, struct command *command,
	struct command_result *result, lease_rendered_fn *done, void *data)
{
	struct rendering *rendering = calloc(1, sizeof(*rendering));

	if (!rendering)
		return false;
	rendering->table = lease->table;
	rendering->lease = lease;
	rendering->place = place_of(lease);
	rendering->command = *command;
	rendering->result = *result;
	strbuf_init(&rendering->reply);
	rendering->done = done;
	rendering->data = data;
	if (loop_work(lease->table->loop, render, finish, rendering, NULL) < 0) {
		free(rendering);
		return false;
	}
	(void)lease_ref(lease);
	lease->table->renderings++;
	*command = COMMAND_INIT;
	command_result_init(result);
	return true;
}

void lease_render_result_later(struct lease *lease, struct command *command,
	struct command_result *result, lease_rendered_fn *done, void *data)
{
	struct strbuf reply;

	if (result->out.size + result->err.size > RENDER_AT_ONCE_MAX &&
		render_by_worker(lease, command, result, done, data))
		return;
	strbuf_init(&reply);
	lease_render_result(lease, command, result, &reply);
	tell(done, data, &reply);
	strbuf_fini(&reply);
}
