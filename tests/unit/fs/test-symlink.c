/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fs/symlink.h"

static void shows(const char *text, unsigned depth, const char *wanted)
{
	char shown[SYMLINK_TEXT_SIZE];

	assert_int_equal(symlink_show(text, depth, shown), 0);
	assert_string_equal(shown, wanted);
	if (text[0] == '/')
		assert_int_equal(symlink_shown_size(symlink_rest(text), depth), strlen(wanted));
}

static void refuses(const char *text, unsigned depth, int code)
{
	char shown[SYMLINK_TEXT_SIZE] = "untouched";

	assert_int_equal(symlink_show(text, depth, shown), -code);
	assert_string_equal(shown, "untouched");
}

static void a_relative_text_without_dots_is_shown_as_it_is(void **state)
{
	shows("a", 0, "a");
	shows("a/b/c", 0, "a/b/c");
	shows("./a", 0, "./a");
	shows("a//b/./c/", 0, "a//b/./c/");
	shows(".", 0, ".");
	shows("...", 0, "...");
	shows("..a/b..", 0, "..a/b..");
	shows("\xff\n", 0, "\xff\n");
}

static void it_may_climb_as_far_as_it_is_deep_and_no_further(void **state)
{
	shows("..", 1, "..");
	shows("../a", 1, "../a");
	shows("../../a", 2, "../../a");
	shows("./../a", 1, "./../a");
	shows("..//.././x", 2, "..//.././x");
	shows("..", 7, "..");
	refuses("..", 0, EPERM);
	refuses("../../a", 1, EPERM);
	refuses("./..//./../a", 1, EPERM);
	refuses("../", 0, EPERM);
}

static void a_climb_after_a_name_is_refused_however_deep_the_link_is(void **state)
{
	refuses("a/..", 9, EPERM);
	refuses("../a/../b", 9, EPERM);
	refuses("a/./../b", 9, EPERM);
	refuses("d/../../../../..", 9, EPERM);
	refuses(".../..", 9, EPERM);
}

static void an_absolute_text_is_shown_from_the_root_of_the_lease(void **state)
{
	shows("/a/b", 0, "a/b");
	shows("/a/b", 1, "../a/b");
	shows("/a/b", 3, "../../../a/b");
	shows("///a/", 1, "../a/");
	shows("/", 0, ".");
	shows("/", 1, "..");
	shows("/", 2, "../..");
	shows("/.", 1, "../.");
	shows("/etc/passwd", 2, "../../etc/passwd");
}

static void an_absolute_text_that_climbs_is_refused(void **state)
{
	refuses("/..", 0, EPERM);
	refuses("/a/../b", 5, EPERM);
	refuses("/../../etc/passwd", 5, EPERM);
	refuses("//..", 5, EPERM);
}

static void an_empty_text_is_refused(void **state)
{
	refuses("", 0, EPERM);
	refuses("", 5, EPERM);
}

static void a_text_that_would_be_too_long_is_said_to_be(void **state)
{
	char text[SYMLINK_TEXT_SIZE], shown[SYMLINK_TEXT_SIZE];

	memset(text, 'a', sizeof(text));
	text[0] = '/';
	text[sizeof(text) - 1] = '\0'; /* 4095 bytes: the longest that exists */
	assert_int_equal(symlink_show(text, 0, shown), 0);
	assert_int_equal(strlen(shown), sizeof(text) - 2);
	assert_int_equal(symlink_show(text, 1, shown), -ENAMETOOLONG);
	text[sizeof(text) - 3] = '\0'; /* three bytes of room */
	assert_int_equal(symlink_show(text, 1, shown), 0);
	assert_int_equal(strlen(shown), sizeof(text) - 1);
	assert_int_equal(symlink_show("/a", UINT32_MAX, shown), -ENAMETOOLONG);
	assert_int_equal(symlink_show("/a", SYMLINK_TEXT_SIZE / 3, shown), -ENAMETOOLONG);
}

static void its_kind_is_known_without_a_depth(void **state)
{
	unsigned climbs = 99;

	assert_int_equal(symlink_classify("../../x", &climbs), SYMLINK_RELATIVE);
	assert_int_equal(climbs, 2);
	assert_int_equal(symlink_classify("/x", &climbs), SYMLINK_ABSOLUTE);
	assert_int_equal(climbs, 0);
	assert_int_equal(symlink_classify("x/../y", &climbs), SYMLINK_REFUSED);
	assert_int_equal(climbs, 0);
}

/* What a kernel would make of the text, counted over its parts: never above the root. */
static int lowest_level(const char *text, int level)
{
	int lowest = level;

	while (*text) {
		size_t size = strcspn(text, "/");

		if (size == 2 && memcmp(text, "..", 2) == 0)
			level--;
		else if (size > 0 && !(size == 1 && *text == '.'))
			level++;
		if (level < lowest)
			lowest = level;
		text += size + strspn(text + size, "/");
	}
	return lowest;
}

static void no_text_that_is_shown_leaves_the_lease(void **state)
{
	static const char *const parts[] = {"..", "a", "/", ".", "../", "//", "..b"};
	enum { PARTS = sizeof(parts) / sizeof(parts[0]), LENGTH = 5 };
	char text[64], shown[SYMLINK_TEXT_SIZE];
	unsigned n, i, rest, total = 1, tried = 0, depth;

	for (i = 0; i < LENGTH; i++)
		total *= PARTS;
	for (n = 0; n < total; n++) {
		for (text[0] = '\0', rest = n, i = 0; i < LENGTH; i++, rest /= PARTS)
			strncat(text, parts[rest % PARTS], sizeof(text) - strlen(text) - 1);
		for (depth = 0; depth < 4; depth++) {
			if (symlink_show(text, depth, shown) < 0)
				continue;
			tried++;
			assert_true(shown[0] != '/');
			assert_true(lowest_level(shown, (int)depth) >= 0);
		}
	}
	assert_true(tried > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_relative_text_without_dots_is_shown_as_it_is),
		cmocka_unit_test(it_may_climb_as_far_as_it_is_deep_and_no_further),
		cmocka_unit_test(a_climb_after_a_name_is_refused_however_deep_the_link_is),
		cmocka_unit_test(an_absolute_text_is_shown_from_the_root_of_the_lease),
		cmocka_unit_test(an_absolute_text_that_climbs_is_refused),
		cmocka_unit_test(an_empty_text_is_refused),
		cmocka_unit_test(a_text_that_would_be_too_long_is_said_to_be),
		cmocka_unit_test(its_kind_is_known_without_a_depth),
		cmocka_unit_test(no_text_that_is_shown_leaves_the_lease),
	};

	return cmocka_run_group_tests_name("symlink", tests, NULL, NULL);
}
