/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* test-net-resolve.c: names of `reach`, some of which nobody answers for. getaddrinfo() is ours. */
#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/loop.h"
#include "config/settings.h"
#include "pool/net-private.h"

enum { SILENT_COUNT = 7, TARGET_COUNT = SILENT_COUNT + 2, QUICK = SILENT_COUNT, UV_WORKERS = 4 };

/* Names that begin with "silent" are answered when the gate opens. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool open;
	unsigned waiting;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static void wait_at_gate(void)
{
	pthread_mutex_lock(&gate.lock);
	gate.waiting++;
	pthread_cond_broadcast(&gate.moved);
	while (!gate.open)
		pthread_cond_wait(&gate.moved, &gate.lock);
	gate.waiting--;
	pthread_cond_broadcast(&gate.moved);
	pthread_mutex_unlock(&gate.lock);
}

static void await_waiting(unsigned count)
{
	pthread_mutex_lock(&gate.lock);
	while (gate.waiting != count)
		pthread_cond_wait(&gate.moved, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
}

static void set_gate(bool open)
{
	pthread_mutex_lock(&gate.lock);
	gate.open = open;
	pthread_cond_broadcast(&gate.moved);
	pthread_mutex_unlock(&gate.lock);
}

int __real_getaddrinfo(
	const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res);
int __wrap_getaddrinfo(
	const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res);

int __wrap_getaddrinfo(
	const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res)
{
	if (strncmp(node, "silent", 6) == 0)
		wait_at_gate();
	return __real_getaddrinfo("127.0.0.1", service, hints, res);
}

struct world {
	struct loop *loop;
	struct net net;
	struct net_resolving waiting[TARGET_COUNT];
	unsigned told, wanted;
};

static void handle_told(void *data, const struct net_addresses *addresses)
{
	struct world *world = data;

	assert_non_null(addresses);
	assert_int_equal(addresses->list[0].address.ss_family, AF_INET);
	if (++world->told == world->wanted)
		loop_stop(world->loop);
}

static int set_up(void **state)
{
	static char names[TARGET_COUNT][24];
	static char *words[TARGET_COUNT + 1];
	struct world *world = calloc(1, sizeof(*world));

	for (unsigned i = 0; i < TARGET_COUNT; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "%s-%u.test:80",
			i < SILENT_COUNT ? "silent" : "quick", i);
		words[i] = names[i];
	}
	assert_int_equal(loop_create(&world->loop, NULL), 0);
	assert_int_equal(net_targets_parse(&(struct word_list){words, TARGET_COUNT},
				 &world->net.targets, NULL),
		0);
	world->net.loop = world->loop;
	world->net.lookups = calloc(TARGET_COUNT + 1, sizeof(struct net_lookup *));
	assert_int_equal(net_resolver_create(world->loop, &world->net.resolver), 0);
	*state = world;
	return 0;
}

static int tear_down(void **state)
{
	struct world *world = *state;

	net_resolve_abandon(&world->net);
	net_targets_fini(&world->net.targets);
	loop_destroy(world->loop);
	free(world);
	set_gate(true);
	await_waiting(0);
	set_gate(false);
	return 0;
}

static void ask(struct world *world, unsigned target)
{
	struct net_resolving *waiting = &world->waiting[target];

	*waiting = (struct net_resolving){.done = handle_told, .data = world};
	assert_int_equal(net_resolve(&world->net, target, waiting), 0);
}

static void ask_the_silent(struct world *world)
{
	for (unsigned i = 0; i < SILENT_COUNT; i++)
		ask(world, i);
	await_waiting(SILENT_COUNT);
}

static void await_told(struct world *world, unsigned count)
{
	world->wanted = count;
	if (world->told < count)
		loop_run(world->loop);
}

static void a_name_is_found_while_seven_others_are_not_answered_for(void **state)
{
	struct world *world = *state;

	ask_the_silent(world);
	ask(world, QUICK);
	await_told(world, 1);
	ask(world, QUICK);
	ask(world, QUICK + 1);
	await_told(world, 3);
	set_gate(true);
	await_told(world, 3 + SILENT_COUNT);
}

static void nothing(void *data)
{
	(void)data;
}

static void stop_loop(void *data)
{
	loop_stop(data);
}

static void names_that_are_not_answered_for_take_no_worker_of_others(void **state)
{
	struct world *world = *state;

	ask_the_silent(world);
	assert_int_equal(loop_work(world->loop, nothing, stop_loop, world->loop, NULL), 0);
	loop_run(world->loop);
	assert_int_equal(world->told, 0);
}

static void hang(void *data)
{
	(void)data;
	wait_at_gate();
}

static void a_name_is_found_while_all_workers_hang(void **state)
{
	struct world *world = *state;

	for (unsigned i = 0; i < UV_WORKERS; i++)
		assert_int_equal(loop_work(world->loop, hang, nothing, world, NULL), 0);
	await_waiting(UV_WORKERS);
	ask(world, QUICK);
	await_told(world, 1);
	set_gate(true); /* the loop's end waits for its workers */
}

/* What tear_down() does, and the threads find neither net nor loop. */
static void an_end_does_not_wait_for_names(void **state)
{
	ask_the_silent(*state);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_name_is_found_while_seven_others_are_not_answered_for),
		CASE(names_that_are_not_answered_for_take_no_worker_of_others),
		CASE(a_name_is_found_while_all_workers_hang),
		CASE(an_end_does_not_wait_for_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
