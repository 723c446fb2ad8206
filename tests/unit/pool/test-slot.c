/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* UPDATE_GOLDEN=1 build/tests/unit/pool/test-pool-slot rewrites the golden file, with GOLDEN_DIR as
 * Meson sets it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "pool/slot.h"

static void every_pair_either_moves_as_the_table_says_or_leaves_the_state_alone(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf table = STRBUF_INIT;
	unsigned moves = 0, lines = 0;

	slot_table_render(&table);
	for (int from = 0; from < SLOT_STATE_COUNT; from++) {
		for (int on = 0; on < SLOT_EVENT_COUNT; on++) {
			enum slot_state to = (enum slot_state)77;
			char row[64];

			if (!slot_next_state((enum slot_state)from, (enum slot_event)on, &to)) {
				assert_int_equal(to, 77);
				continue;
			}
			moves++;
			(void)snprintf(row, sizeof(row), "%s %s %s\n",
				slot_state_name((enum slot_state)from),
				slot_event_name((enum slot_event)on), slot_state_name(to));
			assert_non_null(strstr(table.data, row));
		}
	}
	for (const char *p = table.data; (p = strchr(p, '\n')); p++)
		lines++;
	assert_int_equal(moves, lines); /* no pair stands twice */
}

/* Follows the events from a state and gives where they lead. */
static enum slot_state walk(enum slot_state from, const enum slot_event *events, size_t count)
{
	for (size_t i = 0; i < count; i++)
		assert_true(slot_next_state(from, events[i], &from));
	return from;
}

#define WALK(from, ...)                                                                            \
	walk(from, (const enum slot_event[]){__VA_ARGS__},                                         \
		sizeof((const enum slot_event[]){__VA_ARGS__}) / sizeof(enum slot_event))

static void an_ordinary_life_leads_back_to_ready(void **state)
{
	assert_int_equal(WALK(SLOT_EMPTY, SLOT_SPAWN, SLOT_BOOTED, SLOT_LEND, SLOT_RELEASE,
				 SLOT_KILLED, SLOT_SPAWN, SLOT_BOOTED),
		SLOT_READY);
}

static void a_lost_slot_waits_for_its_holder(void **state)
{
	enum slot_state to;

	assert_int_equal(WALK(SLOT_READY, SLOT_LEND, SLOT_DIED), SLOT_LOST);
	assert_false(slot_next_state(SLOT_LOST, SLOT_SPAWN, &to));
	assert_int_equal(WALK(SLOT_LOST, SLOT_RELEASE, SLOT_SPAWN, SLOT_BOOTED), SLOT_READY);
}

static void a_slot_is_lent_from_ready_alone(void **state)
{
	for (int from = 0; from < SLOT_STATE_COUNT; from++) {
		enum slot_state to;

		assert_int_equal(
			slot_next_state((enum slot_state)from, SLOT_LEND, &to), from == SLOT_READY);
	}
}

static void a_stop_reaches_empty_from_every_state(void **state)
{
	for (int from = 0; from < SLOT_STATE_COUNT; from++) {
		enum slot_state at = (enum slot_state)from;

		if (at == SLOT_EMPTY)
			continue;
		(void)slot_next_state(
			at, SLOT_STOP, &at); /* RELEASING and RESETTING are on their way already */
		if (at == SLOT_RELEASING)
			assert_true(slot_next_state(at, SLOT_KILLED, &at));
		assert_true(slot_next_state(at, SLOT_CLEARED, &at));
		assert_int_equal(at, SLOT_EMPTY);
	}
}

static void a_start_that_fails_can_be_tried_again(void **state)
{
	assert_int_equal(WALK(SLOT_EMPTY, SLOT_SPAWN, SLOT_BROKE, SLOT_SPAWN, SLOT_BROKE,
				 SLOT_SPAWN, SLOT_BOOTED),
		SLOT_READY);
}

static void the_table_as_text_is_the_golden_file(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf table = STRBUF_INIT, golden = STRBUF_INIT;
	CLEANUP(fclosep) FILE *file = NULL;
	const char *dir = getenv("GOLDEN_DIR");
	char path[4096];
	size_t size;

	assert_non_null(dir);
	slot_table_render(&table);
	(void)snprintf(path, sizeof(path), "%s/slot-table.txt", dir);
	file = fopen(path, getenv("UPDATE_GOLDEN") ? "w+" : "r");
	assert_non_null(file);
	if (getenv("UPDATE_GOLDEN"))
		assert_int_equal(fwrite(table.data, 1, table.size, file), table.size);
	rewind(file);
	size = fread(strbuf_room(&golden, 65536), 1, 65536, file);
	strbuf_grown(&golden, size);
	assert_string_equal(table.data, golden.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			every_pair_either_moves_as_the_table_says_or_leaves_the_state_alone),
		cmocka_unit_test(an_ordinary_life_leads_back_to_ready),
		cmocka_unit_test(a_lost_slot_waits_for_its_holder),
		cmocka_unit_test(a_slot_is_lent_from_ready_alone),
		cmocka_unit_test(a_stop_reaches_empty_from_every_state),
		cmocka_unit_test(a_start_that_fails_can_be_tried_again),
		cmocka_unit_test(the_table_as_text_is_the_golden_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
