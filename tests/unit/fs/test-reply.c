/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/reply.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/utf8.h"

static void a_failure_is_given_to_the_kernel_as_its_errno(void **state)
{
	assert_int_equal(reply_errno(-ENOENT), ENOENT);
	assert_int_equal(reply_errno(-ENOTCONN), ENOTCONN);
	assert_int_equal(reply_errno(0), 0);
	assert_int_equal(reply_errno(7), 0);
}

static void an_operation_is_never_switched_off_for_the_whole_mount(void **state)
{
	assert_int_equal(reply_errno(-ENOSYS), ENOTSUP);
}

static void what_the_kernel_would_refuse_is_given_as_EIO(void **state)
{
	assert_int_equal(reply_errno(-512), EIO);
	assert_int_equal(reply_errno(-100000), EIO);
}

static void check_readable(const char *text, const char *wanted)
{
	struct error err = ERROR_NONE;

	(void)snprintf(err.text, sizeof(err.text), "%s", text);
	reply_make_readable(&err);
	assert_string_equal(err.text, wanted);
}

static void a_sentence_becomes_one_line_of_UTF_8(void **state)
{
	check_readable("plain, and ü", "plain, and ü");
	check_readable("a\nb\x7f\x01", "a\\x0ab\\x7f\\x01");
	check_readable("not \xff utf-8 \xc0\xaf", "not \\xff utf-8 \\xc0\\xaf");
	check_readable("cut \xe2\x82", "cut \\xe2\\x82");
	check_readable("", "");
}

static void a_sentence_that_grows_too_long_is_cut_between_characters(void **state)
{
	struct error err = ERROR_NONE;

	memset(err.text, 0xff, sizeof(err.text) - 1);
	reply_make_readable(&err);
	assert_true(strlen(err.text) < sizeof(err.text));
	assert_true(strlen(err.text) % 4 == 0);
	for (size_t i = 0; i + 2 < sizeof(err.text); i += 2)
		memcpy(err.text + i, "ü", 2);
	reply_make_readable(&err);
	assert_true(utf8_valid(err.text, strlen(err.text)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failure_is_given_to_the_kernel_as_its_errno),
		cmocka_unit_test(an_operation_is_never_switched_off_for_the_whole_mount),
		cmocka_unit_test(what_the_kernel_would_refuse_is_given_as_EIO),
		cmocka_unit_test(a_sentence_becomes_one_line_of_UTF_8),
		cmocka_unit_test(a_sentence_that_grows_too_long_is_cut_between_characters),
	};

	return cmocka_run_group_tests_name("fs/reply", tests, NULL, NULL);
}
