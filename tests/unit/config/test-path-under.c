/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config/path-under.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void a_directory_is_under_itself_and_what_is_below(void **state)
{
	assert_true(path_is_under("/no/such", "/no/such"));
	assert_true(path_is_under("/no/such/file", "/no/such"));
	assert_true(path_is_under("/no/such/file", "/no/such/"));
	assert_true(path_is_under("/no//such/./file", "/no/such"));
}

static void a_name_that_begins_alike_is_not_under(void **state)
{
	assert_false(path_is_under("/no/such2", "/no/such"));
	assert_false(path_is_under("/no", "/no/such"));
	assert_false(path_is_under("/", "/no/such"));
}

static void dot_dot_is_followed(void **state)
{
	assert_true(path_is_under("/no/x/../such/file", "/no/such"));
	assert_true(path_is_under("/no/such", "/no/x/../such"));
	assert_true(path_is_under("/../../no/such/y", "/no/such"));
}

static void everything_is_under_the_root(void **state)
{
	assert_true(path_is_under("/", "/"));
	assert_true(path_is_under("/a", "/"));
	assert_true(path_is_under("/a", "/a/.."));
}

/* <dir>/real, <dir>/link -> real, <dir>/up -> ../<dir>/real, <dir>/loop -> loop */
struct links {
	char dir[64], real[80], link[80], up[80], loop[80];
};

static int links_make(void **state)
{
	struct links *links = calloc(1, sizeof(*links));
	char target[80];

	if (!links)
		return -1;
	(void)snprintf(links->dir, sizeof(links->dir), "/tmp/dressage-under-XXXXXX");
	if (!mkdtemp(links->dir))
		return -1;
	(void)snprintf(links->real, sizeof(links->real), "%s/real", links->dir);
	(void)snprintf(links->link, sizeof(links->link), "%s/link", links->dir);
	(void)snprintf(links->up, sizeof(links->up), "%s/up", links->dir);
	(void)snprintf(links->loop, sizeof(links->loop), "%s/loop", links->dir);
	(void)snprintf(target, sizeof(target), "../%s/real", strrchr(links->dir, '/') + 1);
	*state = links;
	return mkdir(links->real, 0700) || symlink(links->real, links->link) ||
	       symlink(target, links->up) || symlink("loop", links->loop);
}

static int links_remove(void **state)
{
	struct links *links = *state;

	(void)unlink(links->loop);
	(void)unlink(links->up);
	(void)unlink(links->link);
	(void)rmdir(links->real);
	(void)rmdir(links->dir);
	free(links);
	return 0;
}

static void symlinks_are_followed_on_both_sides(void **state)
{
	const struct links *links = *state;
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/x/y", links->link);
	assert_true(path_is_under(path, links->real));
	assert_true(path_is_under(path, links->up));
	(void)snprintf(path, sizeof(path), "%s/x/y", links->real);
	assert_true(path_is_under(path, links->link));
	(void)snprintf(path, sizeof(path), "%s/z", links->dir);
	assert_false(path_is_under(path, links->real));
	assert_true(path_is_under(path, links->dir));
}

static void a_way_that_only_passes_through_counts(void **state)
{
	const struct links *links = *state;
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/../z", links->link);
	assert_true(path_is_under(path, links->real));
}

static void a_loop_of_symlinks_ends(void **state)
{
	const struct links *links = *state;

	assert_false(path_is_under(links->loop, links->real));
}

static void an_overlong_path_ends(void **state)
{
	static char path[20000];
	size_t i;

	for (i = 0; i + 2 < sizeof(path); i += 2)
		memcpy(path + i, "/a", 2);
	assert_false(path_is_under(path, "/no/such"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_directory_is_under_itself_and_what_is_below),
		cmocka_unit_test(a_name_that_begins_alike_is_not_under),
		cmocka_unit_test(dot_dot_is_followed),
		cmocka_unit_test(everything_is_under_the_root),
		cmocka_unit_test_setup_teardown(
			symlinks_are_followed_on_both_sides, links_make, links_remove),
		cmocka_unit_test_setup_teardown(
			a_way_that_only_passes_through_counts, links_make, links_remove),
		cmocka_unit_test_setup_teardown(a_loop_of_symlinks_ends, links_make, links_remove),
		cmocka_unit_test(an_overlong_path_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
