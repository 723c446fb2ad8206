/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "pool/net-nat.h"

static void assert_reason(const char *said, const char *wanted)
{
	char text[200];

	(void)snprintf(text, sizeof(text), "%s", said);
	assert_string_equal(net_nat_reason(text), wanted);
}

static void the_line_that_tells_stands_before_those_that_do_not(void **state)
{
	assert_reason("setns(CLONE_NEWNET): Invalid argument\nchild failed(1)",
		"setns(CLONE_NEWNET): Invalid argument");
	assert_reason(
		"WARNING: Support for seccomp is experimental\nenable_seccomp failed\ndo_slirp failed\nparent failed",
		"enable_seccomp failed");
	assert_reason("sent tapfd=5\nreceived tapfd=5\nslirp_new failed", "slirp_new failed");
}

static void where_nothing_is_told_the_failure_itself_is_named(void **state)
{
	assert_reason("child failed(1)", "child failed(1)");
	assert_reason("WARNING: too many arguments\nchild failed(1)", "child failed(1)");
	assert_reason("", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_line_that_tells_stands_before_those_that_do_not),
		cmocka_unit_test(where_nothing_is_told_the_failure_itself_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
