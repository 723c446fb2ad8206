/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config/suggest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void equal_words_are_no_edits_apart_in_any_case(void **state)
{
	assert_int_equal(edit_distance("", ""), 0);
	assert_int_equal(edit_distance("slots", "Slots"), 0);
}

static void each_insert_delete_replace_and_swap_is_one_edit(void **state)
{
	assert_int_equal(edit_distance("slot", "slots"), 1);
	assert_int_equal(edit_distance("slots", "slot"), 1);
	assert_int_equal(edit_distance("slots", "slats"), 1);
	assert_int_equal(edit_distance("slots", "sltos"), 1);
	assert_int_equal(edit_distance("ab", "ba"), 1);
	assert_int_equal(edit_distance("", "abc"), 3);
	assert_int_equal(edit_distance("kitten", "sitting"), 3);
}

static void overlong_words_are_infinitely_far(void **state)
{
	char word[200];

	memset(word, 'a', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	assert_true(edit_distance(word, "a") == SIZE_MAX);
	assert_true(edit_distance("a", word) == SIZE_MAX);
}

static void the_nearest_of_the_near_is_suggested(void **state)
{
	struct suggestion suggestion = {.typed = "max_outptu"};

	suggest_consider(&suggestion, "max_spool");
	suggest_consider(&suggestion, "max_output");
	suggest_consider(&suggestion, "max_outputs");
	assert_string_equal(suggestion.best, "max_output");
	assert_int_equal(suggestion.distance, 1);
}

static void what_is_far_is_not_suggested(void **state)
{
	struct suggestion suggestion = {.typed = "uid"};

	suggest_consider(&suggestion, "nofile");
	suggest_consider(&suggestion, "size");
	assert_null(suggestion.best);
	suggest_consider(&suggestion, "gid");
	assert_string_equal(suggestion.best, "gid");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_words_are_no_edits_apart_in_any_case),
		cmocka_unit_test(each_insert_delete_replace_and_swap_is_one_edit),
		cmocka_unit_test(overlong_words_are_infinitely_far),
		cmocka_unit_test(the_nearest_of_the_near_is_suggested),
		cmocka_unit_test(what_is_far_is_not_suggested),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
