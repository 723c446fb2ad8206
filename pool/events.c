/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/events.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "pool/metrics.h"

struct line {
	uint64_t seq;
	char *text;
};

struct ring {
	size_t keep, first, count;
	struct line *lines; /* room for `keep` */
};

/* Commands are many: they have a ring of their own, or nothing else would stay for long. */
enum { OF_COMMANDS, OF_THE_REST, RING_COUNT };

struct events {
	uint64_t next_seq; /* of the next event, from 1; it counts the ones that memory was short
			      for too */
	struct ring rings[RING_COUNT];
	struct metrics metrics;
	events_added_fn *added;
	void *added_data;
};

int events_create(size_t keep, struct events **ret_events, struct error *err)
{
	struct events *events = calloc(1, sizeof(*events));

	for (unsigned i = 0; events && i < RING_COUNT; i++) {
		events->rings[i].keep = keep;
		events->rings[i].lines = calloc(keep + 1, sizeof(struct line));
		if (!events->rings[i].lines) {
			events_destroy(events);
			events = NULL;
		}
	}
	if (!events)
		return error_set(err, ENOMEM, "no memory for %zu events", keep);
	events->next_seq = 1;
	*ret_events = events;
	return 0;
}

void events_destroy(struct events *events)
{
	if (!events)
		return;
	for (unsigned i = 0; i < RING_COUNT; i++) {
		struct ring *ring = &events->rings[i];

		for (size_t j = 0; ring->lines && j < ring->keep; j++)
			free(ring->lines[j].text);
		free(ring->lines);
	}
	free(events);
}

static void add_text(struct strbuf *line, const char *key, const char *value)
{
	strbuf_addf(line, ",\"%s\":", key);
	json_add_cstring(line, value ? value : "");
}

/* more: further members, each with a comma behind it. */
static char *render(uint64_t seq, const struct event *event, const char *more)
{
	CLEANUP(strbuf_fini) struct strbuf line = STRBUF_INIT;
	struct timespec now;
	char *text, *fitting;
	size_t size;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	strbuf_addf(&line, "{\"seq\":%llu,\"ts\":%lld.%03ld", (unsigned long long)seq,
		(long long)now.tv_sec, now.tv_nsec / 1000000);
	strbuf_addf(&line, ",%s\"kind\":", more);
	json_add_cstring(&line, event->kind);
	add_text(&line, "id", event->id);
	add_text(&line, "from", event->from);
	add_text(&line, "to", event->to);
	add_text(&line, "reason", reason_word(event->reason));
	strbuf_addf(&line, ",\"generation\":%u", event->generation);
	if (event->why && *event->why)
		add_text(&line, "why", event->why);
	strbuf_adds(&line, "}\n");
	text = strbuf_take(&line, &size);
	fitting = text ? realloc(text, size + 1) : NULL; /* ten thousand are kept */
	return fitting ? fitting : text;
}

static bool is_command(const struct event *event)
{
	return !strcmp(event->kind, "exec");
}

static void say(const struct event *event)
{
	const char *from = event->from ? event->from : "", *arrow = *from ? " -> " : "";
	const char *word = reason_word(event->reason);
	const char *why = event->why ? event->why : "";

	(is_command(event) ? log_debug : log_info)("%s %s: %s%s%s%s%s%s, generation %u%s%s",
		event->kind, event->id, from, arrow, event->to, *word ? " (" : "", word,
		*word ? ")" : "", event->generation, *why ? ": " : "", why);
}

static void push(struct ring *ring, uint64_t seq, char *owned_text)
{
	size_t at = (ring->first + ring->count) % ring->keep;

	if (ring->count == ring->keep)
		ring->first = (ring->first + 1) % ring->keep;
	else
		ring->count++;
	free(ring->lines[at].text);
	ring->lines[at] = (struct line){.seq = seq, .text = owned_text};
}

void events_on_add(struct events *events, events_added_fn *added, void *data)
{
	events->added = added;
	events->added_data = data;
}

void events_add(struct events *events, const struct event *event)
{
	struct ring *ring = &events->rings[is_command(event) ? OF_COMMANDS : OF_THE_REST];
	uint64_t seq = events->next_seq++;
	char *text = render(seq, event, "");

	say(event);
	if (text && ring->keep)
		push(ring, seq, text);
	else
		free(text);
	if (events->added)
		events->added(events->added_data);
}

struct metrics *events_metrics(struct events *events)
{
	return &events->metrics;
}

uint64_t events_count(const struct events *events)
{
	return events->next_seq - 1;
}

/* NULL when there are not so many. */
static const struct line *line_at(const struct ring *ring, size_t i)
{
	return i < ring->count ? &ring->lines[(ring->first + i) % ring->keep] : NULL;
}

/* Where the first line of that seq, or of a later one, stands in the ring. */
static size_t find_seq(const struct ring *ring, uint64_t seq)
{
	size_t from = 0, to = ring->count;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (line_at(ring, middle)->seq < seq)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static void add_gap(uint64_t next_seq, uint64_t found_seq, struct strbuf *out)
{
	char missed[48];
	CLEANUP(freep) char *text = NULL;

	(void)snprintf(missed, sizeof(missed), "\"missed\":%llu,",
		(unsigned long long)(found_seq - next_seq));
	text = render(found_seq - 1, &(struct event){.kind = "gap", .id = "", .from = "", .to = ""},
		missed);
	if (text)
		strbuf_adds(out, text);
}

void events_read(const struct events *events, uint64_t *next_seq, size_t most, struct strbuf *out)
{
	const struct ring *a = &events->rings[OF_COMMANDS], *b = &events->rings[OF_THE_REST];
	size_t i = find_seq(a, *next_seq), j = find_seq(b, *next_seq), end = out->size + most;

	while (out->size < end) {
		const struct line *x = line_at(a, i), *y = line_at(b, j);
		const struct line *line = x && (!y || x->seq < y->seq) ? x : y;

		if (!line)
			return;
		if (*next_seq && line->seq > *next_seq)
			add_gap(*next_seq, line->seq, out);
		strbuf_adds(out, line->text);
		*next_seq = line->seq + 1;
		if (line == x)
			i++;
		else
			j++;
	}
}

void events_render(const struct events *events, struct strbuf *out)
{
	const struct ring *a = &events->rings[OF_COMMANDS], *b = &events->rings[OF_THE_REST];
	size_t i = 0, j = 0;

	while (i < a->count || j < b->count) {
		const struct line *x = line_at(a, i), *y = line_at(b, j);

		if (x && (!y || x->seq < y->seq)) {
			strbuf_adds(out, x->text);
			i++;
		} else {
			strbuf_adds(out, y->text);
			j++;
		}
	}
}
