/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/mounts.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static void lines_are_read_one_after_another_and_others_passed_over(void **state)
{
	const char *at = "22 1 0:20 / /proc rw,nosuid shared:9 - proc proc rw\n"
			 "\n"
			 "30 25 0:26 - cgroup2 cgroup2 rw\n"
			 "no table at all\n"
			 "50 1 0:50 /leases/t /mnt/a\\040b rw - fuse.dressage dressagefs rw";
	struct mount_line mount;

	assert_true(mount_next(&at, &mount));
	assert_int_equal(mount.id, 22);
	assert_true(mount_is_at(&mount, "/proc"));
	assert_false(mount_is_at(&mount, "/pro"));
	assert_false(mount_is_dressage(&mount));
	assert_true(mount_next(&at, &mount));
	assert_int_equal(mount.id, 50);
	assert_int_equal(mount.root_len, strlen("/leases/t"));
	assert_memory_equal(mount.root, "/leases/t", mount.root_len);
	assert_true(mount_is_at(&mount, "/mnt/a b"));
	assert_true(mount_is_dressage(&mount));
	assert_false(mount_next(&at, &mount));
	assert_false(mount_next(&at, &mount));
}

static void what_answers_and_what_is_not_there_is_not_dead(void **state)
{
	struct stat st;

	assert_int_equal(mount_look("/proc", &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(mount_look("/proc/not-there", &st), -ENOENT);
	assert_false(mount_is_dead(0));
	assert_false(mount_is_dead(-ENOENT));
	assert_true(mount_is_dead(-ENOTCONN));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_read_one_after_another_and_others_passed_over),
		cmocka_unit_test(what_answers_and_what_is_not_there_is_not_dead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
