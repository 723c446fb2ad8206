/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "pool/events.h"
#include "pool/metrics.h"
#include "pool/pool-private.h"

static void a_log_keeps_its_latest_lines_whole_and_no_more_than_4_KiB(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	struct slot slot = {0};
	char line[64];

	slot_log_render(&slot, SLOT_LOG_INIT, &text);
	assert_int_equal(text.size, 0);
	for (unsigned i = 0; i < 1000; i++) {
		(void)snprintf(line, sizeof(line), "line %u", i);
		slot_note(&slot, SLOT_LOG_INIT, line);
	}
	slot_log_render(&slot, SLOT_LOG_INIT, &text);
	assert_in_range(text.size, 3000, 4096);
	assert_string_equal(text.data + text.size - 10, " line 999\n");
	/* a time and " line 9xx" each, the first one too */
	assert_int_equal(text.data[4], '-');
	assert_int_equal(text.size % strlen("2026-01-01T00:00:00.000Z line 999\n"), 0);
	strbuf_clear(&text);
	slot_log_render(&slot, SLOT_LOG_BWRAP, &text);
	assert_int_equal(text.size, 0);
	slot_notes_fini(&slot.notes);
}

static void what_a_terminal_might_obey_and_what_is_too_long_does_not_get_into_a_log(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	struct slot slot = {0};
	char line[2000];

	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	slot_note(&slot, SLOT_LOG_BWRAP, line);
	slot_log_render(&slot, SLOT_LOG_BWRAP, &text);
	assert_in_range(text.size, 500, 600);
	strbuf_clear(&text);
	slot_notes_fini(&slot.notes);
	slot_note(&slot, SLOT_LOG_BWRAP, "a\x1b[2Jb\nc\xff");
	slot_log_render(&slot, SLOT_LOG_BWRAP, &text);
	assert_non_null(strstr(text.data, " a?[2Jb?c?\n"));
	slot_notes_fini(&slot.notes);
}

static void go(struct slot *slot, enum slot_state to)
{
	enum slot_state from = slot->state;

	slot->state = to;
	slot_note_step(slot, from);
}

static uint64_t count(const struct histogram *histogram)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++)
		sum += histogram->buckets[i];
	return sum;
}

static void starts_and_resets_are_measured_and_a_failure_ends_the_measuring_of_a_reset(void **state)
{
	struct pool pool = {0};
	struct slot slot = {.pool = &pool};
	struct metrics *metrics;

	assert_int_equal(events_create(0, &pool.events, NULL), 0);
	metrics = events_metrics(pool.events);
	go(&slot, SLOT_STARTING);
	go(&slot, SLOT_READY);
	assert_int_equal(count(&metrics->slot_start_seconds), 1);
	assert_int_equal(count(&metrics->slot_reset_seconds), 0);
	go(&slot, SLOT_LEASED);
	go(&slot, SLOT_RELEASING);
	go(&slot, SLOT_RESETTING);
	go(&slot, SLOT_RESTARTING);
	go(&slot, SLOT_READY);
	assert_int_equal(count(&metrics->slot_start_seconds), 2);
	assert_int_equal(count(&metrics->slot_reset_seconds), 1);
	go(&slot, SLOT_LEASED);
	go(&slot, SLOT_LOST);
	go(&slot, SLOT_RESETTING);
	go(&slot, SLOT_RESTARTING);
	go(&slot, SLOT_FAILED);
	go(&slot, SLOT_RESTARTING);
	go(&slot, SLOT_READY);
	assert_int_equal(count(&metrics->slot_start_seconds), 3);
	assert_int_equal(count(&metrics->slot_reset_seconds), 1);
	assert_int_equal(metrics->slot_states[SLOT_READY], 3);
	assert_int_equal(metrics->slot_states[SLOT_FAILED], 1);
	slot_notes_fini(&slot.notes);
	events_destroy(pool.events);
}

static void a_value_counts_in_the_first_bucket_that_holds_it(void **state)
{
	struct histogram histogram = {0};

	histogram_add(&histogram, 0);
	histogram_add(&histogram, 0.001);
	histogram_add(&histogram, 0.0011);
	histogram_add(&histogram, 1800);
	histogram_add(&histogram, 1801);
	assert_int_equal(histogram.buckets[0], 2);
	assert_int_equal(histogram.buckets[1], 1);
	assert_int_equal(histogram.buckets[HISTOGRAM_BOUNDS - 1], 1);
	assert_int_equal(histogram.buckets[HISTOGRAM_BOUNDS], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_log_keeps_its_latest_lines_whole_and_no_more_than_4_KiB),
		cmocka_unit_test(
			what_a_terminal_might_obey_and_what_is_too_long_does_not_get_into_a_log),
		cmocka_unit_test(
			starts_and_resets_are_measured_and_a_failure_ends_the_measuring_of_a_reset),
		cmocka_unit_test(a_value_counts_in_the_first_bucket_that_holds_it),
	};

	log_set_level(LOG_LEVEL_WARN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
