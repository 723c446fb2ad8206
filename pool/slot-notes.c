/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is remembered of a slot for whoever looks at it: how long its starts and resets took, and
 * its log: what init and bwrap said since this generation's start, the latest few KiB. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "pool/events.h"
#include "pool/metrics.h"
#include "pool/pool-private.h"

enum { LOG_MOST = 4096, LINE_MOST = 512, STAMP = 48 };

static void stamp(char ret_text[STAMP])
{
	struct timespec now;
	struct tm tm;
	char text[24];

	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)gmtime_r(&now.tv_sec, &tm);
	(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(ret_text, STAMP, "%s.%03ldZ", text, now.tv_nsec / 1000000);
}

/* Whole lines, the oldest first. */
static void make_room(struct strbuf *log)
{
	while (log->size > LOG_MOST) {
		const char *end = memchr(log->data, '\n', log->size);

		strbuf_drop(log, end ? (size_t)(end + 1 - log->data) : log->size);
	}
}

void slot_note(struct slot *slot, enum slot_log which, const char *line)
{
	struct strbuf *log = &slot->notes.logs[which];
	size_t from, size = strnlen(line, LINE_MOST);
	char when[STAMP];

	if (!log->data)
		strbuf_init(log);
	stamp(when);
	strbuf_addf(log, "%s ", when);
	from = log->size;
	strbuf_add(log, line, size);
	strbuf_addc(log, '\n');
	if (strbuf_failed(log)) { /* for want of memory: what there is stays readable */
		strbuf_fini(log);
		return;
	}
	for (char *at = log->data + from; at < log->data + log->size - 1; at++)
		if (!isprint((unsigned char)*at))
			*at = '?';
	make_room(log);
}

void slot_log_render(const struct slot *slot, enum slot_log which, struct strbuf *out)
{
	const struct strbuf *log = &slot->notes.logs[which];

	if (log->data)
		strbuf_add(out, log->data, log->size);
}

void slot_notes_fini(struct slot_notes *notes)
{
	for (unsigned i = 0; i < SLOT_LOG_COUNT; i++)
		strbuf_fini(&notes->logs[i]);
}

static void begin_log(struct slot *slot)
{
	char line[64];

	slot_notes_fini(&slot->notes);
	(void)snprintf(line, sizeof(line), "generation %u", slot->generation);
	slot_note(slot, SLOT_LOG_INIT, line);
}

static double seconds_since(uint64_t ms)
{
	return (double)(loop_now_ms() - ms) / 1000;
}

static void note_ready(struct slot *slot, struct metrics *metrics)
{
	if (slot->notes.start_ms)
		histogram_add(&metrics->slot_start_seconds, seconds_since(slot->notes.start_ms));
	if (slot->notes.reset_ms)
		histogram_add(&metrics->slot_reset_seconds, seconds_since(slot->notes.reset_ms));
	slot->notes.start_ms = slot->notes.reset_ms = 0;
}

void slot_note_step(struct slot *slot, enum slot_state from)
{
	struct metrics *metrics = events_metrics(slot->pool->events);

	metrics->slot_states[slot->state]++;
	switch (slot->state) {
	case SLOT_STARTING:
	case SLOT_RESTARTING:
		slot->notes.start_ms = loop_now_ms();
		begin_log(slot);
		break;
	case SLOT_RELEASING:
		slot->notes.reset_ms = loop_now_ms();
		break;
	case SLOT_RESETTING:
		if (from == SLOT_LOST)
			slot->notes.reset_ms = loop_now_ms();
		break;
	case SLOT_READY:
		note_ready(slot, metrics);
		break;
	case SLOT_FAILED: /* what follows is a retry, which backoff stretches */
		slot->notes.reset_ms = 0;
		break;
	case SLOT_EMPTY:
	case SLOT_LEASED:
	case SLOT_DEAD:
	case SLOT_LOST:
		break;
	}
}
