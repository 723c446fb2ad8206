/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The sockets of these cases are blocking ones: no flag of theirs may hold the loop up. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#include "base/loop.h"
#include "pool/net-relay.h"

enum { DEADLINE_MS = 60000, BLOCK = 100000 };

struct world {
	struct loop *loop;
	struct net_relay *relay;
	int left, right; /* the peers of what the relay copies between */
	bool ended, late;
	struct loop_timer *deadline;
};

static void handle_ended(void *data)
{
	struct world *world = data;

	assert_false(world->ended);
	world->ended = true;
	world->relay = NULL;
}

static void handle_deadline(void *data)
{
	*(bool *)data = true;
}

static void start(struct world *world, const int left[2], const int right[2])
{
	world->left = left[0];
	world->right = right[0];
	assert_int_equal(
		net_relay_start(world->loop, left[1], right[1], handle_ended, world, &world->relay),
		0);
}

static void start_pairs(struct world *world)
{
	int left[2], right[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, left), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, right), 0);
	start(world, left, right);
}

/* A TCP connection: what is reset there is told. */
static void connect_tcp(int ends[2])
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
	assert_int_equal(listen(listener, 1), 0);
	ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(ends[0], (struct sockaddr *)&address, size), 0);
	ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(ends[1] >= 0);
	(void)close(listener);
}

static void start_tcp(struct world *world)
{
	int left[2], right[2];

	connect_tcp(left);
	connect_tcp(right);
	start(world, left, right);
}

static int set_up(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	world->left = world->right = -1;
	assert_int_equal(loop_create(&world->loop, NULL), 0);
	assert_int_equal(loop_timer_start(world->loop, DEADLINE_MS, handle_deadline, &world->late,
				 &world->deadline, NULL),
		0);
	*state = world;
	return 0;
}

static int tear_down(void **state)
{
	struct world *world = *state;

	net_relay_cut(world->relay);
	loop_timer_stop(world->deadline);
	(void)close(world->left);
	(void)close(world->right);
	loop_destroy(world->loop);
	free(world);
	return 0;
}

static void turn(struct world *world)
{
	(void)uv_run(loop_uv(world->loop), UV_RUN_ONCE);
	assert_false(world->late);
}

/* Until n bytes have come, or the end; gives how many. */
static size_t take(struct world *world, int fd, char *bytes, size_t size)
{
	size_t got = 0;

	while (got < size) {
		ssize_t n = recv(fd, bytes + got, size - got, MSG_DONTWAIT);

		if (n == 0)
			break;
		if (n > 0)
			got += (size_t)n;
		else if (errno == EAGAIN)
			turn(world);
		else
			fail_msg("%s", strerror(errno));
	}
	return got;
}

static void expect(struct world *world, int fd, const char *wanted)
{
	char bytes[64] = "";

	assert_int_equal(take(world, fd, bytes, strlen(wanted)), strlen(wanted));
	assert_string_equal(bytes, wanted);
}

static void expect_end(struct world *world, int fd)
{
	char byte;

	assert_int_equal(take(world, fd, &byte, 1), 0);
}

static void expect_reset(struct world *world, int fd)
{
	char byte;
	ssize_t n;

	while ((n = recv(fd, &byte, 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
		turn(world);
	assert_int_equal(n, -1);
	assert_int_equal(errno, ECONNRESET);
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
}

static void bytes_pass_both_ways(void **state)
{
	struct world *world = *state;

	start_pairs(world);
	say(world->left, "ping");
	expect(world, world->right, "ping");
	say(world->right, "pong");
	expect(world, world->left, "pong");
	assert_false(world->ended);
}

static void one_way_ends_and_the_other_goes_on(void **state)
{
	struct world *world = *state;

	start_pairs(world);
	say(world->left, "last words");
	assert_int_equal(shutdown(world->left, SHUT_WR), 0);
	expect(world, world->right, "last words");
	expect_end(world, world->right);
	for (int i = 0; i < 3; i++) {
		say(world->right, "still here");
		expect(world, world->left, "still here");
	}
	assert_false(world->ended);
	assert_int_equal(shutdown(world->right, SHUT_WR), 0);
	expect_end(world, world->left);
	while (!world->ended)
		turn(world);
}

/* As many as are taken while nobody reads. */
static size_t fill(struct world *world, int fd)
{
	static const char block[BLOCK];
	size_t sent = 0;
	int full = 0;

	while (full < 3) {
		ssize_t n = send(fd, block, sizeof(block), MSG_DONTWAIT);

		full = n < 0 ? full + 1 : 0;
		sent += n > 0 ? (size_t)n : 0;
		(void)uv_run(loop_uv(world->loop), UV_RUN_NOWAIT);
	}
	return sent;
}

static void a_reader_that_does_not_read_holds_the_writer_up(void **state)
{
	struct world *world = *state;
	static char bytes[4 << 20];
	size_t sent;

	start_pairs(world);
	sent = fill(world, world->left);
	assert_true(sent < sizeof(bytes));
	/* the other way is not held up */
	say(world->right, "meanwhile");
	expect(world, world->left, "meanwhile");
	assert_int_equal(shutdown(world->left, SHUT_WR), 0);
	assert_int_equal(take(world, world->right, bytes, sizeof(bytes)), sent);
}

static void nothing_is_done_while_a_writer_is_held_up(void **state)
{
	struct world *world = *state;
	int turns = 0;

	start_pairs(world);
	(void)fill(world, world->left);
	assert_int_equal(uv_run(loop_uv(world->loop), UV_RUN_NOWAIT) != 0, 1);
	loop_timer_restart(world->deadline, 100);
	while (!world->late && turns < 100) {
		(void)uv_run(loop_uv(world->loop), UV_RUN_ONCE);
		turns++;
	}
	assert_true(turns < 10); /* the timer's, and no spinning */
	world->late = false;
}

enum { PATTERN = 251 };

static void *pour(void *data)
{
	const struct world *world = data;
	static uint8_t block[PATTERN * 1024];

	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = (uint8_t)(i % PATTERN);
	for (uint64_t left = 1 << 30; left > 0;) {
		size_t size = left < sizeof(block) ? (size_t)left : sizeof(block);

		/* whole blocks, so that the pattern goes on */
		for (size_t at = 0; at < size;) {
			ssize_t n = send(world->left, block + at, size - at, MSG_NOSIGNAL);

			if (n <= 0)
				return NULL;
			at += (size_t)n;
		}
		left -= size;
	}
	(void)shutdown(world->left, SHUT_WR);
	return NULL;
}

static long resident_kib(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	long pages = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%*d %ld", &pages), 1);
	(void)fclose(file);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void a_gibibyte_passes_unchanged_and_leaves_no_trace(void **state)
{
	struct world *world = *state;
	static uint8_t bytes[1 << 20];
	uint64_t got = 0;
	long before;
	pthread_t writer;
	size_t n;

	start_tcp(world);
	memset(bytes, 1, sizeof(bytes));
	before = resident_kib();
	assert_int_equal(pthread_create(&writer, NULL, pour, world), 0);
	do {
		n = take(world, world->right, (char *)bytes, sizeof(bytes));
		for (size_t i = 0; i < n; i += 4093) /* not every one: it is a gibibyte */
			assert_int_equal(bytes[i], (got + i) % PATTERN);
		got += n;
	} while (n > 0);
	assert_int_equal(pthread_join(writer, NULL), 0);
	assert_int_equal(got, 1 << 30);
	assert_true(resident_kib() - before < 8 * 1024);
}

static void who_breaks_a_connection_breaks_the_other_too(void **state)
{
	struct world *world = *state;

	start_tcp(world);
	say(world->left, "half of wh");
	expect(world, world->right, "half of wh");
	net_reset(world->left);
	world->left = -1;
	expect_reset(world, world->right);
	assert_true(world->ended);
}

static void who_closes_while_he_is_still_sent_to_breaks_the_other_way(void **state)
{
	struct world *world = *state;

	start_tcp(world);
	(void)close(world->left);
	world->left = -1;
	expect_end(world, world->right);
	while (!world->ended) {
		(void)send(world->right, "x", 1, MSG_NOSIGNAL);
		turn(world);
	}
	assert_int_equal(send(world->right, "x", 1, MSG_NOSIGNAL), -1);
}

static void a_cut_resets_both_and_tells_nobody(void **state)
{
	struct world *world = *state;

	start_tcp(world);
	net_relay_cut(world->relay);
	world->relay = NULL;
	expect_reset(world, world->left);
	expect_reset(world, world->right);
	assert_false(world->ended);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(bytes_pass_both_ways),
		CASE(one_way_ends_and_the_other_goes_on),
		CASE(a_reader_that_does_not_read_holds_the_writer_up),
		CASE(nothing_is_done_while_a_writer_is_held_up),
		CASE(a_gibibyte_passes_unchanged_and_leaves_no_trace),
		CASE(who_breaks_a_connection_breaks_the_other_too),
		CASE(who_closes_while_he_is_still_sent_to_breaks_the_other_way),
		CASE(a_cut_resets_both_and_tells_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
