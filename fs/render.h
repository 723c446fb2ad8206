/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * render.h: what the snapshot files say. Each appends the whole text of its file as it is now.
 * Threads: loop.
 */
#ifndef FS_RENDER_H
#define FS_RENDER_H

struct control;
struct node;
struct strbuf;

typedef void render_fn(struct control *control, const struct node *node, struct strbuf *out);

render_fn render_status;      /* a table for people */
render_fn render_status_json; /* the same for programs: docs/control-files.md, Keys, lists them */
render_fn render_metrics;     /* Prometheus text: docs/observability.md */
render_fn render_config, render_events, render_last_error;
render_fn render_lease_json, render_lease_state, render_ttl, render_hold, render_endpoint;
render_fn render_slot_state, render_slot_generation, render_slot_lease, render_slot_pid,
	render_slot_limits, render_slot_health, render_slot_last_error;
render_fn render_log; /* of a slot or a lease, which of both the node says */

#endif
