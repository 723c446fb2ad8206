/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void setting_an_error_gives_its_negative_code_and_a_text(void **state)
{
	struct error err = {.reason = REASON_OOM};

	assert_int_equal(error_set(&err, ENOENT, "no lease '%s'", "a"), -ENOENT);
	assert_int_equal(err.code, ENOENT);
	assert_int_equal(err.reason, REASON_NONE);
	assert_string_equal(err.text, "no lease 'a'");
}

static void a_reason_is_kept_through_wrapping(void **state)
{
	struct error err;

	assert_int_equal(
		error_reason(&err, EAGAIN, REASON_POOL_EXHAUSTED, "all %d in use", 4), -EAGAIN);
	assert_int_equal(error_wrap(&err, "create '%s'", "t1"), -EAGAIN);
	assert_int_equal(err.reason, REASON_POOL_EXHAUSTED);
	assert_string_equal(err.text, "create 't1': all 4 in use");
}

static void an_errno_error_ends_with_its_meaning(void **state)
{
	struct error err;

	assert_int_equal(error_errno(&err, ENOENT, "cannot open '%s'", "f"), -ENOENT);
	assert_string_equal(err.text, "cannot open 'f': No such file or directory");
	assert_int_equal(error_errno(&err, 99999, "cannot"), -99999);
	assert_string_equal(err.text, "cannot: error 99999");
}

static void nobody_has_to_want_the_text(void **state)
{
	assert_int_equal(error_set(NULL, EINVAL, "x"), -EINVAL);
	assert_int_equal(error_reason(NULL, EBUSY, REASON_DRAINING, "x"), -EBUSY);
	assert_int_equal(error_errno(NULL, EPERM, "x"), -EPERM);
	assert_int_equal(error_wrap(NULL, "x"), -EIO);
}

static void a_long_text_is_cut_and_stays_a_string(void **state)
{
	char text[2000];
	struct error err;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	(void)error_set(&err, EIO, "%s", text);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(error_wrap(&err, "%s", text), -EIO);
	assert_true(strlen(err.text) < sizeof(err.text));
	(void)error_errno(&err, EIO, "%s", text);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

static void a_text_may_quote_the_former_one(void **state)
{
	struct error err;

	(void)error_set(&err, EIO, "inner");
	(void)error_set(&err, EINVAL, "outer (%s)", err.text);
	assert_string_equal(err.text, "outer (inner)");
}

static void a_code_has_its_symbolic_name(void **state)
{
	assert_string_equal(error_name(EAGAIN), "EAGAIN");
	assert_string_equal(error_name(EPROTOTYPE), "EPROTOTYPE");
	assert_string_equal(error_name(0), "EIO");
	assert_string_equal(error_name(-1), "EIO");
	assert_string_equal(error_name(99999), "EIO");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(setting_an_error_gives_its_negative_code_and_a_text),
		cmocka_unit_test(a_reason_is_kept_through_wrapping),
		cmocka_unit_test(an_errno_error_ends_with_its_meaning),
		cmocka_unit_test(nobody_has_to_want_the_text),
		cmocka_unit_test(a_long_text_is_cut_and_stays_a_string),
		cmocka_unit_test(a_text_may_quote_the_former_one),
		cmocka_unit_test(a_code_has_its_symbolic_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
