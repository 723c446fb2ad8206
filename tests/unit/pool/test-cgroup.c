/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "pool/cgroup.h"
#include "pool/cgroup1.h"
#include "pool/process.h"

static void assert_located(const char *mountinfo, const char *self, const char *path)
{
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;
	struct error err = ERROR_NONE;

	if (cgroup_locate(mountinfo, self, &out, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(out.data, path);
}

static void assert_not_located(const char *mountinfo, const char *self)
{
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;

	assert_int_equal(cgroup_locate(mountinfo, self, &out, NULL), -ENOENT);
}

#define V2(root, point)                                                                            \
	"30 25 0:26 " root " " point " rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1    "31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
#define OTHER "25 1 0:24 / /sys rw - sysfs sysfs rw\n"

static void our_cgroup_is_found_below_the_unified_mount(void **state)
{
	assert_located(OTHER V2("/", "/sys/fs/cgroup"), "0::/user.slice/a.scope\n",
		"/sys/fs/cgroup/user.slice/a.scope");
	assert_located(OTHER V2("/", "/sys/fs/cgroup"), "0::/\n", "/sys/fs/cgroup");
}

static void a_hybrid_machine_has_it_beside_the_first_version(void **state)
{
	assert_located(OTHER V1 V2("/", "/sys/fs/cgroup/unified"), "4:memory:/x\n0::/y\n",
		"/sys/fs/cgroup/unified/y");
	assert_located(OTHER V1 V2("/", "/sys/fs/cgroup/unified"), "4:memory:/x\n0::/\n",
		"/sys/fs/cgroup/unified");
}

static void a_mount_of_a_subtree_shows_only_what_is_in_it(void **state)
{
	assert_located(V2("/pod", "/cg"), "0::/pod/a\n", "/cg/a");
	assert_located(V2("/pod", "/cg"), "0::/pod\n", "/cg");
	assert_not_located(V2("/pod", "/cg"), "0::/podium/a\n");
	assert_located(V2("/pod", "/cg") V2("/", "/all"), "0::/other\n", "/all/other");
}

static void blanks_in_the_mount_point_are_unescaped(void **state)
{
	assert_located(V2("/", "/my\\040cgroups"), "0::/a\n", "/my cgroups/a");
}

static void without_a_second_version_there_is_none(void **state)
{
	assert_not_located(OTHER V1, "0::/\n");
	assert_not_located(OTHER V2("/", "/sys/fs/cgroup"), "4:memory:/x\n");
	assert_not_located(OTHER V2("/", "/sys/fs/cgroup"), "0::/../outside\n");
	assert_not_located("", "");
}

static void lines_that_are_cut_are_passed_over(void **state)
{
	assert_not_located(
		"30 25 0:26 - cgroup2 cgroup2 rw\n30 25\n - cgroup2 \n - cgroup2", "0::/\n");
	assert_located("garbage\n" V2("/", "/cg"), "0::/a", "/cg/a");
}

static void assert_located1(
	const char *mountinfo, const char *self, const char *controller, const char *path)
{
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;
	struct error err = ERROR_NONE;

	if (cgroup1_locate(mountinfo, self, controller, &out, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(out.data, path);
}

static void assert_not_located1(const char *mountinfo, const char *self, const char *controller)
{
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;

	assert_int_equal(cgroup1_locate(mountinfo, self, controller, &out, NULL), -ENOENT);
}

#define CPU "32 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"

static void a_hierarchy_of_the_first_version_is_found_by_its_controller(void **state)
{
	assert_located1(OTHER V1 CPU, "5:cpu,cpuacct:/c\n4:memory:/x/y\n0::/z\n", "memory",
		"/sys/fs/cgroup/memory/x/y");
	assert_located1(OTHER V1 CPU, "5:cpu,cpuacct:/c\n4:memory:/x/y\n0::/z\n", "cpu",
		"/sys/fs/cgroup/cpu,cpuacct/c");
	assert_located1(OTHER V1 CPU, "5:cpuacct,cpu:/c\n4:memory:/\n0::/z", "memory",
		"/sys/fs/cgroup/memory");
	assert_located1("31 25 0:27 /docker/a /cg/memory rw - cgroup cgroup rw,memory\n",
		"4:memory:/docker/a/b\n", "memory", "/cg/memory/b");
}

static void a_controller_is_not_found_where_another_begins_like_it(void **state)
{
	assert_not_located1(
		"32 25 0:28 / /cg rw - cgroup cgroup rw,cpuacct,cpuset\n", "5:cpu:/c\n", "cpu");
	assert_not_located1(CPU, "5:cpuacct,cpuset:/c\n0::/\n", "cpu");
	assert_not_located1(V2("/", "/cg"), "4:memory:/x\n0::/\n", "memory");
	assert_not_located1(OTHER, "4:memory:/x\n", "memory");
	assert_not_located1(V1, "4:memory:/../outside\n", "memory");
	assert_not_located1(V1, "4:memory\nmemory\n::\n", "memory");
	assert_not_located1("", "", "memory");
}

static void a_process_is_told_by_the_time_of_its_birth(void **state)
{
	uint64_t born = process_starttime(getpid());

	assert_true(born > 0);
	assert_int_equal(
		process_kill(getpid(), born + 1, 1000), 0); /* it would not be us: we live */
	assert_int_equal(process_starttime(0x3fffffff), 0);
	assert_int_equal(process_kill(0x3fffffff, 1, 1000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(our_cgroup_is_found_below_the_unified_mount),
		cmocka_unit_test(a_hybrid_machine_has_it_beside_the_first_version),
		cmocka_unit_test(a_mount_of_a_subtree_shows_only_what_is_in_it),
		cmocka_unit_test(blanks_in_the_mount_point_are_unescaped),
		cmocka_unit_test(without_a_second_version_there_is_none),
		cmocka_unit_test(lines_that_are_cut_are_passed_over),
		cmocka_unit_test(a_hierarchy_of_the_first_version_is_found_by_its_controller),
		cmocka_unit_test(a_controller_is_not_found_where_another_begins_like_it),
		cmocka_unit_test(a_process_is_told_by_the_time_of_its_birth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
