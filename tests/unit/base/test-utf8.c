/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strbuf.h"

/* As the definition has it: the code point decoded, then encoded again. */
static size_t sequence_by_definition(const unsigned char *s, size_t size)
{
	static const unsigned long least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t len = s[0] < 0x80       ? 1
		     : s[0] >> 5 == 6  ? 2
		     : s[0] >> 4 == 14 ? 3
		     : s[0] >> 3 == 30 ? 4
				       : 0;
	unsigned long code = len == 1 ? s[0] : len ? s[0] & (0xffu >> (len + 1)) : 0;

	if (!len || len > size)
		return 0;
	for (size_t i = 1; i < len; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	return code >= least[len] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? len : 0;
}

static void every_beginning_is_judged_as_the_definition_does(void **state)
{
	static const unsigned char thirds[] = {0x00, 0x7f, 0x80, 0xbf, 0xc0, 0xff};

	for (unsigned a = 0; a < 256; a++)
		for (unsigned b = 0; b < 256; b++)
			for (size_t i = 0; i < sizeof(thirds) * sizeof(thirds); i++) {
				unsigned char s[4] = {(unsigned char)a, (unsigned char)b,
					thirds[i % sizeof(thirds)], thirds[i / sizeof(thirds)]};

				for (size_t size = 1; size <= 4; size++)
					assert_int_equal(utf8_sequence((char *)s, size),
						sequence_by_definition(s, size));
			}
}

static void no_bytes_are_no_sequence_but_valid(void **state)
{
	assert_int_equal(utf8_sequence("", 0), 0);
	assert_true(utf8_valid("", 0));
	assert_true(utf8_valid_so_far("", 0));
}

static void a_prefix_ends_where_the_first_bad_byte_stands(void **state)
{
	char text[64];

	for (size_t bad = 0; bad < sizeof(text); bad++) {
		memset(text, 'a', sizeof(text));
		text[bad] = (char)0xff;
		assert_int_equal(utf8_valid_prefix(text, sizeof(text)), bad);
		assert_int_equal(utf8_valid_prefix(text, bad), bad);
		text[bad] = (char)0xc3;
		assert_int_equal(utf8_valid_prefix(text, sizeof(text)), bad);
	}
}

static void an_unfinished_character_is_valid_so_far(void **state)
{
	static const char horse[] = "abc\xf0\x9f\x90\x8e";

	for (size_t size = 0; size <= 7; size++)
		assert_true(utf8_valid_so_far(horse, size));
	assert_false(utf8_valid("abc\xf0\x9f\x90", 6));
	assert_false(utf8_valid_so_far("\xed\xa0", 2));
	assert_false(utf8_valid_so_far("\xf4\x90", 2));
	assert_false(utf8_valid_so_far("\xc0", 1));
	assert_false(utf8_valid_so_far("\xf0\x9f\x90x", 4));
}

static void what_is_broken_is_replaced_byte_by_byte(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;

	utf8_add_repaired(&out,
		"a\xff\xf0\x9f"
		"b\0c\xc3",
		8);
	assert_int_equal(out.size, 4 + 4 * 3);
	assert_memory_equal(out.data,
		"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
		"b\0c\xef\xbf\xbd",
		out.size);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_beginning_is_judged_as_the_definition_does),
		cmocka_unit_test(no_bytes_are_no_sequence_but_valid),
		cmocka_unit_test(a_prefix_ends_where_the_first_bad_byte_stands),
		cmocka_unit_test(an_unfinished_character_is_valid_so_far),
		cmocka_unit_test(what_is_broken_is_replaced_byte_by_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
