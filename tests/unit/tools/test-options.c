/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those: */
#include <cmocka.h>
#include <getopt.h>
#include <string.h>

#include "tools/options.h"

static int parse(struct daemon_options *ret_options, int argc, ...)
{
	char *words[16] = {0}, name[] = "dressagefs";
	va_list args;

	words[0] = name;
	va_start(args, argc);
	for (int i = 1; i <= argc; i++)
		words[i] = va_arg(args, char *);
	va_end(args);
	optind = 0; /* glibc: begin anew */
	return options_parse(argc + 1, words, ret_options);
}

static void a_mountpoint_and_nothing_else_is_enough(void **state)
{
	struct daemon_options options;

	(void)state;
	assert_int_equal(parse(&options, 1, "/mnt"), -1);
	assert_string_equal(options.mountpoint, "/mnt");
	assert_false(options.foreground || options.check || options.read_only);
	assert_int_equal(options.ready_fd, -1);
	assert_int_equal(options.override_count, 0);
	options_fini(&options);
}

static void a_comma_ends_an_option_only_where_another_begins(void **state)
{
	struct daemon_options options;

	(void)state;
	assert_int_equal(
		parse(&options, 2, "-o", "archive.dirs=home,work,pool.slots=4,ro,allow_other"), -1);
	assert_int_equal(options.override_count, 3);
	assert_string_equal(options.overrides[0], "archive.dirs=home,work");
	assert_string_equal(options.overrides[1], "pool.slots=4");
	assert_string_equal(options.overrides[2], "mount.allow_other=on");
	assert_null(options.overrides[3]);
	assert_true(options.read_only);
	options_fini(&options);
}

static void a_value_may_hold_words_that_look_like_options(void **state)
{
	struct daemon_options options;

	(void)state;
	assert_int_equal(parse(&options, 2, "-o", "archive.dirs=rock,robe,a=b"), -1);
	assert_int_equal(options.override_count, 1);
	assert_string_equal(options.overrides[0], "archive.dirs=rock,robe,a=b");
	options_fini(&options);
}

static void rw_takes_ro_back(void **state)
{
	struct daemon_options options;

	(void)state;
	assert_int_equal(parse(&options, 4, "-o", "ro", "-o", "rw"), -1);
	assert_false(options.read_only);
	options_fini(&options);
}

static void settings_keep_their_order_so_that_the_last_one_wins(void **state)
{
	struct daemon_options options;

	(void)state;
	assert_int_equal(parse(&options, 5, "-o", "pool.slots=1", "-f", "-o", "pool.slots=2"), -1);
	assert_true(options.foreground);
	assert_string_equal(options.overrides[0], "pool.slots=1");
	assert_string_equal(options.overrides[1], "pool.slots=2");
	options_fini(&options);
}

static void what_is_no_option_is_a_usage_error(void **state)
{
	struct daemon_options options;

	(void)state;
	assert_int_equal(parse(&options, 2, "-o", "bogus"), 2);
	assert_int_equal(parse(&options, 1, "--bogus"), 2);
	assert_int_equal(parse(&options, 2, "/mnt", "/mnt2"), 2);
}

static void ended_options_can_be_ended_again(void **state)
{
	struct daemon_options options;

	(void)state;
	assert_int_equal(parse(&options, 2, "-o", "a.b=c"), -1);
	options_fini(&options);
	options_fini(&options);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mountpoint_and_nothing_else_is_enough),
		cmocka_unit_test(a_comma_ends_an_option_only_where_another_begins),
		cmocka_unit_test(a_value_may_hold_words_that_look_like_options),
		cmocka_unit_test(rw_takes_ro_back),
		cmocka_unit_test(settings_keep_their_order_so_that_the_last_one_wins),
		cmocka_unit_test(what_is_no_option_is_a_usage_error),
		cmocka_unit_test(ended_options_can_be_ended_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
