/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/procfs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/strbuf.h"

static void fields_are_counted_behind_the_name(void **state)
{
	static const char stat[] = "7 (a ) S) (b) R 1 2 33\n";

	(void)state;
	assert_int_equal(*procfs_stat_field(stat, 3), 'R');
	assert_int_equal(strncmp(procfs_stat_field(stat, 6), "33", 2), 0);
	assert_null(procfs_stat_field(stat, 7));
	assert_null(procfs_stat_field(stat, 2));
	assert_null(procfs_stat_field("", 3));
	assert_null(procfs_stat_field("7 (cut", 3));
	assert_null(procfs_stat_field("7 (cut)", 3));
}

static void check_path(const char *written, const char *path)
{
	struct strbuf text = STRBUF_INIT;

	procfs_add_path(&text, written, strlen(written));
	assert_string_equal(text.data, path);
	strbuf_fini(&text);
}

static void a_path_of_mountinfo_is_unescaped(void **state)
{
	(void)state;
	check_path("", "");
	check_path("/plain", "/plain");
	check_path("/a\\040b\\134c\\012", "/a b\\c\n");
	check_path("/\\040", "/ ");
	check_path("/no\\04", "/no\\04");
	check_path("/no\\089", "/no\\089");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_are_counted_behind_the_name),
		cmocka_unit_test(a_path_of_mountinfo_is_unescaped),
	};

	return cmocka_run_group_tests_name("base/procfs", tests, NULL, NULL);
}
