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

/* Ten thousand are kept: in places of their own, for among all else that is allocated and freed
 * they would hold the heap apart. */
struct line {
	uint64_t seq;
	char *longer; /* NULL: the text fits */
	char text[240];
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
			free(ring->lines[j].longer);
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
static void render(uint64_t seq, const struct event *event, const char *more, struct strbuf *out)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	strbuf_addf(out, "{\"seq\":%llu,\"ts\":%lld.%03ld", (unsigned long long)seq,
		(long long)now.tv_sec, now.tv_nsec / 1000000);
	strbuf_addf(out, ",%s\"kind\":", more);
	json_add_cstring(out, event->kind);
	add_text(out, "id", event->id);
	add_text(out, "from", event->from);
	add_text(out, "to", event->to);
	add_text(out, "reason", reason_word(event->reason));
	strbuf_addf(out, ",\"generation\":%u", event->generation);
	if (event->why && *event->why)
		add_text(out, "why", event->why);
	strbuf_adds(out, "}\n");
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

static const char *text_of(const struct line *line)
{
	return line->longer ? line->longer : line->text;
}

static void push(struct ring *ring, uint64_t seq, const struct strbuf *text)
{
	bool fits = text->size < sizeof(ring->lines->text);
	char *longer = fits ? NULL : strdup(text->data);
	struct line *line;

	if (!ring->keep || (!fits && !longer))
		return;
	line = &ring->lines[(ring->first + ring->count) % ring->keep];
	if (ring->count == ring->keep)
		ring->first = (ring->first + 1) % ring->keep;
	else
		ring->count++;
	free(line->longer);
	line->seq = seq;
	line->longer = longer;
	if (fits)
		memcpy(line->text, text->data, text->size + 1);
}

void events_on_add(struct events *events, events_added_fn *added, void *data)
{
	events->added = added;
	events->added_data = data;
}

void events_add(struct events *events, const struct event *event)
{
	struct ring *ring = &events->rings[is_command(event) ? OF_COMMANDS : OF_THE_REST];
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	uint64_t seq = events->next_seq++;

	render(seq, event, "", &text);
	say(event);
	if (!strbuf_failed(&text))
		push(ring, seq, &text);
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

	(void)snprintf(missed, sizeof(missed), "\"missed\":%llu,",
		(unsigned long long)(found_seq - next_seq));
	render(found_seq - 1, &(struct event){.kind = "gap", .id = "", .from = "", .to = ""},
		missed, out);
}

/* The next in order of both rings, after which the places count one more; NULL: none. */
static const struct line *next_line(
	const struct events *events, size_t *commands_at, size_t *rest_at)
{
	const struct line *command = line_at(&events->rings[OF_COMMANDS], *commands_at);
	const struct line *other = line_at(&events->rings[OF_THE_REST], *rest_at);

	if (command && (!other || command->seq < other->seq)) {
		(*commands_at)++;
		return command;
	}
	if (other)
		(*rest_at)++;
	return other;
}

void events_read(const struct events *events, uint64_t *next_seq, size_t most, struct strbuf *out)
{
	size_t i = find_seq(&events->rings[OF_COMMANDS], *next_seq);
	size_t j = find_seq(&events->rings[OF_THE_REST], *next_seq), end = out->size + most;
	const struct line *line;

	while (out->size < end && (line = next_line(events, &i, &j))) {
		if (*next_seq && line->seq > *next_seq)
			add_gap(*next_seq, line->seq, out);
		strbuf_adds(out, text_of(line));
		*next_seq = line->seq + 1;
	}
}

void events_render(const struct events *events, struct strbuf *out)
{
	size_t i = 0, j = 0;
	const struct line *line;

	while ((line = next_line(events, &i, &j)))
		strbuf_adds(out, text_of(line));
}
