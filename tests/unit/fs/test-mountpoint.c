/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/mountpoint.h"

#include <errno.h>
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

#include "base/error.h"

struct place {
	char top[64], state_dir[128], path[128];
};

static int set_up(void **state)
{
	struct place *place = calloc(1, sizeof(*place));

	if (!place)
		return -1;
	(void)snprintf(place->top, sizeof(place->top), "/tmp/test-mountpoint-XXXXXX");
	if (!mkdtemp(place->top))
		return -1;
	(void)snprintf(place->state_dir, sizeof(place->state_dir), "%s/state", place->top);
	(void)snprintf(place->path, sizeof(place->path), "%s/mnt", place->top);
	*state = place;
	return mkdir(place->state_dir, 0700);
}

static int tear_down(void **state)
{
	struct place *place = *state;

	(void)rmdir(place->path);
	(void)unlink(place->path);
	(void)rmdir(place->state_dir);
	(void)rmdir(place->top);
	free(place);
	return 0;
}

static void a_directory_that_is_not_there_is_made_and_removed_at_the_end(void **state)
{
	const struct place *place = *state;
	struct mountpoint point = {0};
	struct error err = ERROR_NONE;

	assert_int_equal(mountpoint_prepare(place->path, place->state_dir, &point, &err), 0);
	assert_true(point.made);
	assert_int_equal(access(place->path, F_OK), 0);
	mountpoint_fini(&point);
	assert_int_equal(access(place->path, F_OK), -1);
}

static void a_directory_that_was_there_stays(void **state)
{
	const struct place *place = *state;
	struct mountpoint point = {0};
	struct error err = ERROR_NONE;

	assert_int_equal(mkdir(place->path, 0755), 0);
	assert_int_equal(mountpoint_prepare(place->path, place->state_dir, &point, &err), 0);
	assert_false(point.made);
	mountpoint_fini(&point);
	assert_int_equal(access(place->path, F_OK), 0);
}

static void the_path_becomes_absolute_and_without_links(void **state)
{
	const struct place *place = *state;
	struct mountpoint point = {0};
	struct error err = ERROR_NONE;
	char odd[256];

	(void)snprintf(odd, sizeof(odd), "%s/state/../mnt//", place->top);
	assert_int_equal(mountpoint_prepare(odd, place->state_dir, &point, &err), 0);
	assert_string_equal(point.path, place->path);
	mountpoint_fini(&point);
}

static void a_file_is_refused(void **state)
{
	const struct place *place = *state;
	struct mountpoint point = {0};
	struct error err = ERROR_NONE;
	FILE *file = fopen(place->path, "w");

	assert_non_null(file);
	(void)fclose(file);
	assert_int_equal(mountpoint_prepare(place->path, place->state_dir, &point, &err), -ENOTDIR);
	assert_non_null(strstr(err.text, place->path));
}

static void a_missing_parent_is_named(void **state)
{
	const struct place *place = *state;
	struct mountpoint point = {0};
	struct error err = ERROR_NONE;
	char deep[256];

	(void)snprintf(deep, sizeof(deep), "%s/none/mnt", place->top);
	assert_int_equal(mountpoint_prepare(deep, place->state_dir, &point, &err), -ENOENT);
	assert_non_null(strstr(err.text, deep));
}

static void a_state_directory_below_the_mountpoint_is_refused(void **state)
{
	const struct place *place = *state;
	struct mountpoint point = {0};
	struct error err = ERROR_NONE;

	assert_int_equal(mountpoint_prepare(place->top, place->state_dir, &point, &err), -EINVAL);
	assert_non_null(strstr(err.text, place->state_dir));
	assert_int_equal(
		mountpoint_prepare(place->state_dir, place->state_dir, &point, &err), -EINVAL);
}

static void nothing_is_changed_by_a_check(void **state)
{
	const struct place *place = *state;
	struct error err = ERROR_NONE;

	assert_int_equal(mountpoint_check(place->path, &err), 0);
	assert_int_equal(access(place->path, F_OK), -1);
	assert_int_equal(mountpoint_check(place->state_dir, &err), 0);
	assert_int_equal(mountpoint_check("/no/such/place", &err), 0);
}

int main(void)
{
#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(a_directory_that_is_not_there_is_made_and_removed_at_the_end),
		CASE(a_directory_that_was_there_stays),
		CASE(the_path_becomes_absolute_and_without_links),
		CASE(a_file_is_refused),
		CASE(a_missing_parent_is_named),
		CASE(a_state_directory_below_the_mountpoint_is_refused),
		CASE(nothing_is_changed_by_a_check),
	};

	return cmocka_run_group_tests_name("fs/mountpoint", tests, NULL, NULL);
}
