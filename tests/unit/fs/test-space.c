/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/space.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/loop.h"

enum { DEADLINE_MS = 10000 };

static void what_a_worker_finds_is_known_to_a_later_call(void **state)
{
	char path[] = "/tmp/dressagefs-space-XXXXXX";
	uint64_t deadline = loop_now_ms() + DEADLINE_MS;
	struct statvfs now;
	struct space *space;
	struct loop *loop;

	(void)state;
	assert_non_null(mkdtemp(path));
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(loop_create(&loop, NULL), 0);
	assert_int_equal(space_create(path, &space, NULL), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	space_read(space, loop, &now);
	assert_int_equal(now.f_frsize, 0);
	while (now.f_frsize == 0 && loop_now_ms() < deadline) {
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		space_read(space, loop, &now);
	}
	assert_int_equal(rmdir(path), 0);
	assert_int_not_equal(now.f_frsize, 0);
	space_destroy(space);
	loop_destroy(loop);
}

/* Built with a sanitizer this sees a worker that comes back to what is gone. */
static void it_may_end_while_a_worker_asks(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 100; round++) {
		struct statvfs now;
		struct space *space;
		struct loop *loop;

		assert_int_equal(loop_create(&loop, NULL), 0);
		assert_int_equal(space_create("/", &space, NULL), 0);
		space_read(space, loop, &now);
		space_destroy(space);
		loop_destroy(loop);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_worker_finds_is_known_to_a_later_call),
		cmocka_unit_test(it_may_end_while_a_worker_asks),
	};

	return cmocka_run_group_tests_name("space", tests, NULL, NULL);
}
