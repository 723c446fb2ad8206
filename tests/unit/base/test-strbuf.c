/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/strbuf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"

static void an_empty_buffer_is_a_string(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf buf = STRBUF_INIT;

	assert_string_equal(buf.data, "");
	strbuf_add(&buf, NULL, 0);
	strbuf_adds(&buf, "");
	strbuf_drop(&buf, 5);
	strbuf_cut(&buf, 0);
	strbuf_clear(&buf);
	assert_string_equal(buf.data, "");
	assert_int_equal(buf.size, 0);
	assert_false(strbuf_failed(&buf));
}

static void bytes_are_appended_and_stay_a_string(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf buf = STRBUF_INIT;

	for (unsigned i = 0; i < 1000; i++) {
		strbuf_add(&buf, "a\0", 2);
		strbuf_addf(&buf, "%u", i % 10);
		strbuf_addc(&buf, '.');
		assert_int_equal(buf.data[buf.size], '\0');
	}
	assert_int_equal(buf.size, 4000);
	assert_memory_equal(buf.data + 4 * 999, "a\0009.", 4);
}

static void the_head_can_be_dropped_and_the_tail_cut(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf buf = STRBUF_INIT;

	strbuf_adds(&buf, "0123456789");
	strbuf_drop(&buf, 3);
	assert_string_equal(buf.data, "3456789");
	strbuf_cut(&buf, 4);
	assert_string_equal(buf.data, "3456");
	strbuf_cut(&buf, 100);
	assert_int_equal(buf.size, 4);
	strbuf_drop(&buf, 100);
	assert_string_equal(buf.data, "");
}

static void room_that_was_written_counts_when_it_is_said(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf buf = STRBUF_INIT;
	char *room = strbuf_room(&buf, 100);

	assert_non_null(room);
	assert_int_equal(buf.size, 0);
	memcpy(room, "abc", 3);
	strbuf_grown(&buf, 3);
	assert_string_equal(buf.data, "abc");
}

static void a_failed_buffer_keeps_what_it_has_and_takes_no_more(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf buf = STRBUF_INIT;
	size_t size = 1;

	strbuf_adds(&buf, "abc");
	assert_null(strbuf_room(&buf, SIZE_MAX));
	assert_true(strbuf_failed(&buf));
	strbuf_adds(&buf, "def");
	strbuf_addf(&buf, "%d", 1);
	assert_string_equal(buf.data, "abc");
	assert_null(strbuf_take(&buf, &size));
	assert_int_equal(size, 0);
	assert_false(strbuf_failed(&buf));
	strbuf_adds(&buf, "new");
	assert_string_equal(buf.data, "new");
}

static void clearing_forgets_a_failure(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf buf = STRBUF_INIT;

	(void)strbuf_room(&buf, SIZE_MAX / 2);
	assert_true(strbuf_failed(&buf));
	strbuf_clear(&buf);
	strbuf_adds(&buf, "x");
	assert_string_equal(buf.data, "x");
}

static void a_taken_text_is_the_takers(void **state)
{
	struct strbuf buf = STRBUF_INIT;
	size_t size = 0;
	char *text;

	strbuf_adds(&buf, "abc");
	text = strbuf_take(&buf, &size);
	assert_string_equal(text, "abc");
	assert_int_equal(size, 3);
	free(text);
	assert_string_equal(buf.data, "");
	text = strbuf_take(&buf, NULL);
	assert_string_equal(text, "");
	free(text);
}

static void a_zeroed_buffer_can_be_ended_and_filled(void **state)
{
	struct strbuf buf = {0};

	strbuf_fini(NULL);
	strbuf_fini(&buf);
	buf = (struct strbuf){0};
	strbuf_adds(&buf, "x");
	assert_string_equal(buf.data, "x");
	strbuf_fini(&buf);
	assert_string_equal(buf.data, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_buffer_is_a_string),
		cmocka_unit_test(bytes_are_appended_and_stay_a_string),
		cmocka_unit_test(the_head_can_be_dropped_and_the_tail_cut),
		cmocka_unit_test(room_that_was_written_counts_when_it_is_said),
		cmocka_unit_test(a_failed_buffer_keeps_what_it_has_and_takes_no_more),
		cmocka_unit_test(clearing_forgets_a_failure),
		cmocka_unit_test(a_taken_text_is_the_takers),
		cmocka_unit_test(a_zeroed_buffer_can_be_ended_and_filled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
