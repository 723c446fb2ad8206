/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/reason.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void every_reason_has_its_own_word_and_a_meaning(void **state)
{
	for (unsigned i = 1; i < REASON_COUNT; i++) {
		const char *word = reason_word((enum reason)i);

		for (unsigned other = 1; other < i; other++)
			assert_string_not_equal(reason_word((enum reason)other), word);
		assert_int_equal(strspn(word, "abcdefghijklmnopqrstuvwxyz_"), strlen(word));
		assert_true(strlen(word) > 0);
		assert_true(strlen(reason_meaning((enum reason)i)) > 0);
	}
}

static void no_reason_is_an_empty_word(void **state)
{
	assert_string_equal(reason_word(REASON_NONE), "");
	assert_string_equal(reason_meaning(REASON_NONE), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_reason_has_its_own_word_and_a_meaning),
		cmocka_unit_test(no_reason_is_an_empty_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
