/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/events.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"

struct events {
	uint64_t next_seq; /* of the next event, from 1; it counts the ones that memory was short
			      for too */
	size_t keep;
	size_t first, count;
	char *lines[]; /* a ring of `keep` */
};

int events_create(size_t keep, struct events **ret_events, struct error *err)
{
	struct events *events = calloc(1, sizeof(*events) + keep * sizeof(events->lines[0]));

	if (!events)
		return error_set(err, ENOMEM, "no memory for %zu events", keep);
	events->keep = keep;
	events->next_seq = 1;
	*ret_events = events;
	return 0;
}

void events_destroy(struct events *events)
{
	if (!events)
		return;
	for (size_t i = 0; i < events->keep; i++)
		free(events->lines[i]);
	free(events);
}

static void add_text(struct strbuf *line, const char *key, const char *value)
{
	strbuf_addf(line, ",\"%s\":", key);
	json_add_cstring(line, value ? value : "");
}

static char *render(uint64_t seq, const struct event *event)
{
	CLEANUP(strbuf_fini) struct strbuf line = STRBUF_INIT;
	struct timespec now;
	size_t size;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	strbuf_addf(&line, "{\"seq\":%llu,\"ts\":%lld.%03ld", (unsigned long long)seq,
		(long long)now.tv_sec, now.tv_nsec / 1000000);
	add_text(&line, "kind", event->kind);
	add_text(&line, "id", event->id);
	add_text(&line, "from", event->from);
	add_text(&line, "to", event->to);
	add_text(&line, "reason", reason_word(event->reason));
	strbuf_addf(&line, ",\"generation\":%u", event->generation);
	if (event->why && *event->why)
		add_text(&line, "why", event->why);
	strbuf_adds(&line, "}\n");
	return strbuf_take(&line, &size);
}

static void say(const struct event *event)
{
	const char *from = event->from ? event->from : "", *arrow = *from ? " -> " : "";
	const char *word = reason_word(event->reason);
	const char *why = event->why ? event->why : "";

	log_info("%s %s: %s%s%s%s%s%s, generation %u%s%s", event->kind, event->id, from, arrow,
		event->to, *word ? " (" : "", word, *word ? ")" : "", event->generation,
		*why ? ": " : "", why);
}

void events_add(struct events *events, const struct event *event)
{
	char *line = render(events->next_seq++, event);
	size_t at;

	say(event);
	if (!line || !events->keep) {
		free(line);
		return;
	}
	at = (events->first + events->count) % events->keep;
	if (events->count == events->keep)
		events->first = (events->first + 1) % events->keep;
	else
		events->count++;
	free(events->lines[at]);
	events->lines[at] = line;
}

void events_render(const struct events *events, struct strbuf *out)
{
	for (size_t i = 0; i < events->count; i++)
		strbuf_adds(out, events->lines[(events->first + i) % events->keep]);
}
