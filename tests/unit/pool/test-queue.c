/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pool/pool-private.h"
#include "pool/queue.h"

static bool nobody(void *data, const struct waiter *waiter)
{
	return false;
}

static bool the_named_one(void *data, const struct waiter *waiter)
{
	return !strcmp(waiter->holder, data);
}

static void the_first_to_ask_is_the_first_to_be_served(void **state)
{
	struct queue queue = {0};
	struct waiter waiters[3] = {{.holder = "a"}, {.holder = "b"}, {.holder = "c"}};

	for (unsigned i = 0; i < 3; i++)
		queue_push(&queue, &waiters[i]);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(queue.count, 3 - i);
		assert_ptr_equal(queue_first(&queue, nobody, NULL), &waiters[i]);
		queue_remove(&queue, &waiters[i]);
	}
	assert_null(queue_first(&queue, nobody, NULL));
	assert_null(queue.first);
	assert_null(queue.last);
}

static void one_that_is_blocked_keeps_its_place_and_holds_nobody_up(void **state)
{
	struct queue queue = {0};
	struct waiter a = {.holder = "a"}, b = {.holder = "b"};

	queue_push(&queue, &a);
	queue_push(&queue, &b);
	assert_ptr_equal(queue_first(&queue, the_named_one, (void *)"a"), &b);
	assert_ptr_equal(queue_first(&queue, nobody, NULL), &a);
	queue_remove(&queue, &b);
	assert_null(queue_first(&queue, the_named_one, (void *)"a"));
}

static void any_waiter_can_leave(void **state)
{
	struct queue queue = {0};
	struct waiter waiters[5] = {{.holder = "0"}, {.holder = "1"}, {.holder = "2"},
		{.holder = "3"}, {.holder = "4"}};

	for (unsigned i = 0; i < 5; i++)
		queue_push(&queue, &waiters[i]);
	queue_remove(&queue, &waiters[2]);
	queue_remove(&queue, &waiters[4]);
	queue_remove(&queue, &waiters[0]);
	assert_ptr_equal(queue.first, &waiters[1]);
	assert_ptr_equal(queue.last, &waiters[3]);
	assert_ptr_equal(queue.first->next, queue.last);
	assert_ptr_equal(queue.last->prev, queue.first);
	queue_push(&queue, &waiters[2]);
	assert_ptr_equal(queue.last, &waiters[2]);
	assert_int_equal(queue.count, 3);
}

static void the_backoff_doubles_from_a_fifth_of_a_second_to_half_a_minute(void **state)
{
	assert_int_equal(supervisor_backoff_ms(1, 0), 100);
	assert_int_equal(supervisor_backoff_ms(1, 1023), 200);
	assert_int_equal(supervisor_backoff_ms(2, 1023), 400);
	assert_int_equal(supervisor_backoff_ms(8, 1023), 25600);
	for (unsigned failures = 9; failures < 1000000; failures *= 3) {
		assert_int_equal(supervisor_backoff_ms(failures, 1023), 30000);
		assert_int_equal(supervisor_backoff_ms(failures, 0), 15000);
	}
	for (uint32_t random = 0; random < 5000; random++)
		assert_in_range(supervisor_backoff_ms(3, random), 400, 800);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_to_ask_is_the_first_to_be_served),
		cmocka_unit_test(one_that_is_blocked_keeps_its_place_and_holds_nobody_up),
		cmocka_unit_test(any_waiter_can_leave),
		cmocka_unit_test(the_backoff_doubles_from_a_fifth_of_a_second_to_half_a_minute),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
