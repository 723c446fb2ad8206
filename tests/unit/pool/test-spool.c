/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Spools without commands: the test itself is the writer. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "base/strbuf.h"
#include "pool/spool.h"

enum { DEADLINE_MS = 30000, BIG = 3 << 20 };

struct world {
	char dir[64], spools[96];
	struct loop *loop;
	struct spooler *spooler;
	struct spool_account *account;
	struct spool *victim; /* goes when room is asked for */
	unsigned asked;
	int thief; /* takes all out of that pipe when room is asked for; 0: nobody does */
};

static struct world world, *w = &world;

static void read_all(int fd)
{
	char bytes[4096];
	ssize_t n;

	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		continue;
	assert_int_equal(errno, EAGAIN);
}

static bool make_room(void *data, struct spool *spool)
{
	struct spool *victim = take_ptr(&w->victim);

	assert_ptr_equal(data, w);
	w->asked++;
	if (w->thief > 0)
		read_all(w->thief);
	if (victim)
		spool_drop(victim);
	return victim != NULL;
}

static void open_world(uint64_t budget)
{
	*w = (struct world){.dir = "/tmp/dressage-spool-XXXXXX"};
	assert_non_null(mkdtemp(w->dir));
	(void)snprintf(w->spools, sizeof(w->spools), "%s/spools", w->dir);
	assert_int_equal(loop_create(&w->loop, NULL), 0);
	assert_int_equal(spooler_create(w->loop, w->spools, &w->spooler, NULL), 0);
	assert_int_equal(spool_account_create(budget, make_room, w, &w->account, NULL), 0);
}

static int set_up(void **state)
{
	open_world(UINT64_C(1) << 30);
	return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static int tear_down(void **state)
{
	spool_account_close(w->account);
	spooler_destroy(w->spooler);
	loop_destroy(w->loop);
	assert_int_equal(access(w->spools, F_OK), -1);
	(void)nftw(w->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	return 0;
}

static unsigned count_entries(const char *path)
{
	CLEANUP(closedirp) DIR *dir = opendir(path);
	struct dirent *entry;
	unsigned count = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	return count;
}

static unsigned count_files(void)
{
	return count_entries(w->spools);
}

/* The loop turns until it is so. */
#define WAIT_UNTIL(condition)                                                                      \
	do {                                                                                       \
		uint64_t late_ms_ = loop_now_ms() + DEADLINE_MS;                                   \
		while (!(condition)) {                                                             \
			assert_true(loop_now_ms() < late_ms_);                                     \
			(void)uv_run(loop_uv(w->loop), UV_RUN_NOWAIT);                             \
			(void)poll(NULL, 0, 1);                                                    \
		}                                                                                  \
	} while (false)

static struct spool *make(uint64_t max, int *ret_fd)
{
	struct spool *spool;

	assert_int_equal(spool_create(w->spooler, w->account, max, &spool, NULL), 0);
	assert_int_equal(spool_open_pipe(spool, geteuid(), getegid(), ret_fd, NULL), 0);
	assert_int_equal(fcntl(*ret_fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(spool_start(spool, NULL), 0);
	return spool;
}

static char byte_at(size_t at)
{
	return (char)((at * 2654435761u) >> 13);
}

/* Bytes that tell where they stand, from `from` on. */
static void write_bytes(int fd, size_t from, size_t size)
{
	char *bytes = malloc(size);
	size_t done = 0;

	for (size_t i = 0; i < size; i++)
		bytes[i] = byte_at(from + i);
	while (done < size) {
		ssize_t n = write(fd, bytes + done, size - done);

		if (n > 0)
			done += (size_t)n;
		else
			assert_int_equal(errno, EAGAIN);
		(void)uv_run(loop_uv(w->loop), UV_RUN_NOWAIT);
		if (n < 0)
			(void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 5);
	}
	free(bytes);
}

static void assert_holds(struct spool *spool, size_t size)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	assert_int_equal(spool_size(spool), size);
	assert_int_equal(spool_read_head(spool, size + 1, &text), 0);
	assert_int_equal(text.size, size);
	for (size_t i = 0; i < size; i++)
		if (text.data[i] != byte_at(i))
			fail_msg("byte %zu of %zu is wrong", i, size);
}

static void what_is_little_makes_no_file(void **state)
{
	struct spool *spool;
	int fd;

	spool = make(BIG, &fd);
	write_bytes(fd, 0, 100);
	write_bytes(fd, 100, 900);
	(void)close(fd);
	WAIT_UNTIL(spool_pipe_closed(spool));
	spool_finish(spool);
	assert_true(spool_finished(spool));
	assert_true(spool_in_memory(spool));
	assert_holds(spool, 1000);
	assert_int_equal(count_files(), 0);
	spool_unref(spool);
}

static void what_is_much_is_in_a_file_byte_for_byte_and_is_read_while_it_comes(void **state)
{
	char chunk[3000];
	struct spool_reader reader;
	struct spool *spool;
	uint64_t at = 0;
	ssize_t n;
	int fd;

	spool = make(BIG, &fd);
	reader = spool_reader(spool);
	for (size_t from = 0; from < BIG; from += BIG / 8) {
		write_bytes(fd, from, BIG / 8);
		while ((n = spool_read(&reader, chunk, sizeof(chunk), at)) > 0) {
			for (ssize_t i = 0; i < n; i++)
				assert_int_equal(chunk[i], byte_at((size_t)(at + (uint64_t)i)));
			at += (uint64_t)n;
		}
		assert_int_equal(n, 0);
	}
	(void)close(fd);
	WAIT_UNTIL(spool_pipe_closed(spool));
	spool_finish(spool);
	WAIT_UNTIL(spool_finished(spool));
	assert_true(at > BIG / 2);
	assert_holds(spool, BIG);
	assert_int_equal(count_files(), 1);
	assert_int_equal(spool_counts(spool).dropped, 0);
	assert_true(spool_reader_fd(&reader) >= 0);
	spool_unref(spool);
	assert_int_equal(spool_read(&reader, chunk, sizeof(chunk), BIG - 100), 100);
	spool_reader_fini(&reader);
	WAIT_UNTIL(count_files() == 0);
}

static void many_at_once_leave_no_file_behind(void **state)
{
	enum { MANY = 20 };
	struct spool *spools[MANY];
	int fds[MANY];

	for (unsigned i = 0; i < MANY; i++) {
		spools[i] = make(BIG, &fds[i]);
		write_bytes(fds[i], 0, 100000);
	}
	for (unsigned i = 0; i < MANY; i++) {
		(void)close(fds[i]);
		spool_finish(spools[i]);
	}
	for (unsigned i = 0; i < MANY; i++) {
		WAIT_UNTIL(spool_finished(spools[i]));
		assert_holds(spools[i], 100000);
	}
	assert_int_equal(count_files(), MANY);
	for (unsigned i = 0; i < MANY; i++)
		spool_unref(spools[i]);
	WAIT_UNTIL(count_files() == 0);
}

static void beyond_the_cap_bytes_are_counted_and_the_writer_goes_on(void **state)
{
	struct spool *spool;
	int fd;

	spool = make(100000, &fd);
	write_bytes(fd, 0, BIG);
	(void)close(fd);
	WAIT_UNTIL(spool_pipe_closed(spool));
	assert_holds(spool, 100000);
	assert_int_equal(spool_counts(spool).dropped, BIG - 100000);
	assert_int_equal(spool_counts(spool).error, 0);
	spool_unref(spool);
}

/* A world with so much room, all of it taken by one that gives it back when it is asked. */
static struct spool *open_full_world(void **state, size_t size)
{
	struct spool *spool;
	int fd;

	(void)tear_down(state);
	open_world(size);
	spool = make(BIG, &fd);
	write_bytes(fd, 0, size);
	(void)close(fd);
	WAIT_UNTIL(spool_pipe_closed(spool));
	w->victim = spool;
	return spool;
}

static void who_needs_room_gets_that_of_an_older_one_or_is_cut(void **state)
{
	struct spool *old, *new;
	int fd;

	(void)tear_down(state);
	open_world(1000000);
	old = make(BIG, &fd);
	write_bytes(fd, 0, 600000);
	(void)close(fd);
	WAIT_UNTIL(spool_pipe_closed(old));
	assert_holds(old, 600000);
	w->victim = old;
	new = make(BIG, &fd);
	write_bytes(fd, 0, 1200000);
	(void)close(fd);
	WAIT_UNTIL(spool_pipe_closed(new));
	assert_int_equal(w->asked, 2);
	assert_holds(new, 1000000);
	assert_int_equal(spool_counts(new).dropped, 200000);
	assert_holds(old, 600000); /* for who has it still */
	spool_unref(old);
	spool_unref(new);
}

static void room_that_one_stream_got_is_room_for_another_that_waits_too(void **state)
{
	struct spool *old, *first, *second;
	int fd;

	old = open_full_world(state, 100000);
	first = make(BIG, &fd);
	assert_int_equal(write(fd, "first", 5), 5);
	(void)close(fd);
	second = make(BIG, &fd);
	assert_int_equal(write(fd, "second", 6), 6);
	(void)close(fd);
	WAIT_UNTIL(spool_pipe_closed(first) && spool_pipe_closed(second));
	assert_int_equal(w->asked, 1);
	assert_int_equal(spool_size(first), 5);
	assert_int_equal(spool_size(second), 6);
	spool_unref(old);
	spool_unref(first);
	spool_unref(second);
}

static void who_takes_bytes_out_of_a_pipe_does_not_delay_its_end(void **state)
{
	char path[64], bytes[50000] = {0};
	struct spool *old, *new;
	int fd;

	old = open_full_world(state, 100000);
	new = make(BIG, &fd);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	w->thief = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(w->thief > 0);
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	spool_finish(new);
	WAIT_UNTIL(spool_finished(new));
	assert_int_equal(spool_end_size(new), 0);
	assert_false(spool_pipe_closed(new));
	(void)close(fd);
	(void)close(w->thief);
	spool_unref(old);
	spool_unref(new);
}

static void a_pipe_that_is_closed_after_the_end_is_read_first(void **state)
{
	enum { MUCH = 300000 };
	char *bytes = calloc(1, MUCH);
	struct spool *spool;
	int fd;

	spool = make(BIG, &fd);
	assert_true(fcntl(fd, F_SETPIPE_SZ, 512 * 1024) > 0);
	assert_int_equal(write(fd, bytes, MUCH), MUCH);
	spool_finish(spool);
	spool_close_pipe(spool);
	WAIT_UNTIL(spool_pipe_closed(spool));
	assert_true(spool_finished(spool));
	assert_int_equal(spool_size(spool), MUCH);
	assert_int_equal(spool_end_size(spool), MUCH);
	(void)close(fd);
	free(bytes);
	spool_unref(spool);
}

static void a_process_that_says_nothing_after_the_end_costs_no_file(void **state)
{
	struct spool *spool;
	int fd;

	spool = make(BIG, &fd);
	write_bytes(fd, 0, 100);
	spool_finish(spool);
	assert_true(spool_finished(spool));
	(void)close(fd);
	WAIT_UNTIL(spool_pipe_closed(spool));
	assert_holds(spool, 100);
	assert_true(spool_in_memory(spool));
	assert_int_equal(count_files(), 0);
	spool_unref(spool);
}

static void after_the_end_the_file_is_held_open_only_while_something_comes(void **state)
{
	unsigned before;
	struct spool *spool;
	int fd;

	spool = make(BIG, &fd);
	before = count_entries("/proc/self/fd");
	write_bytes(fd, 0, 100000);
	spool_finish(spool);
	WAIT_UNTIL(spool_finished(spool));
	assert_int_equal(count_entries("/proc/self/fd"), before);
	write_bytes(fd, 100000, 50000);
	WAIT_UNTIL(spool_size(spool) == 150000);
	WAIT_UNTIL(count_entries("/proc/self/fd") == before);
	assert_holds(spool, 150000);
	(void)close(fd);
	WAIT_UNTIL(spool_pipe_closed(spool));
	spool_unref(spool);
}

static void without_a_descriptor_to_spare_the_writer_waits_and_nothing_is_lost(void **state)
{
	char bytes[50000];
	struct rlimit before, small;
	struct spool *spool;
	int fd;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = byte_at(i);
	spool = make(BIG, &fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	small = before;
	small.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	spool_finish(spool);
	for (unsigned i = 0; i < 20; i++) { /* time enough to fail */
		(void)uv_run(loop_uv(w->loop), UV_RUN_NOWAIT);
		(void)poll(NULL, 0, 1);
	}
	assert_false(spool_finished(spool));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	WAIT_UNTIL(spool_finished(spool));
	assert_holds(spool, sizeof(bytes));
	assert_int_equal(spool_counts(spool).error, 0);
	(void)close(fd);
	spool_unref(spool);
}

static void what_comes_after_the_end_is_appended_and_counted_apart(void **state)
{
	struct spool *spool;
	int fd;

	spool = make(BIG, &fd);
	write_bytes(fd, 0, 10);
	WAIT_UNTIL(spool_size(spool) == 10);
	spool_finish(spool);
	assert_true(spool_finished(spool));
	assert_int_equal(spool_end_size(spool), 10);
	assert_false(spool_pipe_closed(spool));
	write_bytes(fd, 10, 200000);
	WAIT_UNTIL(spool_size(spool) == 200010);
	assert_int_equal(spool_counts(spool).late, 200000);
	assert_int_equal(spool_end_size(spool), 10);
	assert_holds(spool, 200010);
	(void)close(fd);
	WAIT_UNTIL(spool_pipe_closed(spool));
	spool_unref(spool);
}

static void the_end_has_what_was_in_the_pipe_before_it(void **state)
{
	struct spool *spool;
	int fd;

	spool = make(BIG, &fd);
	write_bytes(fd, 0, 100000);
	write_bytes(fd, 100000, 60000); /* nobody need have read it */
	assert_int_equal(spool_end_size(spool), 0);
	spool_finish(spool);
	WAIT_UNTIL(spool_finished(spool));
	assert_int_equal(spool_size(spool), 160000);
	assert_int_equal(spool_end_size(spool), 160000);
	assert_int_equal(spool_counts(spool).late, 0);
	spool_close_pipe(spool);
	WAIT_UNTIL(spool_pipe_closed(spool));
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(errno, EPIPE);
	(void)close(fd);
	spool_unref(spool);
}

static void a_disk_that_refuses_costs_bytes_and_not_the_command(void **state)
{
	struct rlimit before, small;
	struct spool *spool;
	int fd;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = before;
	small.rlim_cur = 300000;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	spool = make(BIG, &fd);
	write_bytes(fd, 0, BIG);
	(void)close(fd);
	WAIT_UNTIL(spool_pipe_closed(spool));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(spool_counts(spool).error, EFBIG);
	assert_holds(spool, 300000);
	assert_int_equal(spool_counts(spool).dropped, BIG - 300000);
	spool_unref(spool);
}

static void count_change(void *data)
{
	++*(unsigned *)data;
}

static void listeners_hear_of_bytes_and_of_the_end_and_not_within_a_call(void **state)
{
	unsigned changes = 0;
	struct spool_listener listener = {.changed = count_change, .data = &changes};
	struct spool *spool;
	int fd;

	spool = make(BIG, &fd);
	spool_listen(spool, &listener);
	assert_int_equal(write(fd, "x", 1), 1);
	WAIT_UNTIL(changes > 0);
	changes = 0;
	(void)close(fd);
	WAIT_UNTIL(changes > 0);
	changes = 0;
	spool_put(spool, "y", 1);
	spool_finish(spool);
	assert_int_equal(changes, 0);
	WAIT_UNTIL(changes > 0);
	spool_ignore(&listener);
	spool_ignore(&listener);
	spool_unref(spool);
}

static void what_is_put_stands_behind_what_was_read(void **state)
{
	char *bytes = malloc(100000);
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	struct spool *spool;
	int fd;

	memset(bytes, 'z', 100000);
	spool = make(100010, &fd);
	write_bytes(fd, 0, 5);
	(void)close(fd);
	WAIT_UNTIL(spool_pipe_closed(spool));
	spool_put(spool, "abc", 3);
	spool_put(spool, bytes, 100000);
	spool_put(spool, "tail", 4);
	spool_finish(spool);
	WAIT_UNTIL(spool_finished(spool));
	assert_int_equal(spool_size(spool), 100010);
	assert_int_equal(spool_counts(spool).dropped, 2);
	assert_int_equal(spool_read_head(spool, 9, &text), 0);
	assert_memory_equal(text.data + 5, "abcz", 4);
	free(bytes);
	spool_unref(spool);
}

static void what_an_earlier_daemon_left_is_gone(void **state)
{
	char path[256];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/17", w->spools);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_int_equal(count_files(), 1);
	{
		struct spooler *second;

		assert_int_equal(spooler_create(w->loop, w->spools, &second, NULL), 0);
		assert_int_equal(count_files(), 0);
		spooler_destroy(second);
	}
}

static void a_spooler_may_go_before_its_spools(void **state)
{
	struct spool *spool, *idle;
	int fd, idle_fd;

	spool = make(BIG, &fd);
	idle = make(BIG, &idle_fd);
	write_bytes(fd, 0, 500000);
	spool_finish(idle);
	spooler_destroy(take_ptr(&w->spooler));
	assert_int_equal(write(fd, "x", 1), -1);
	(void)close(fd);
	(void)close(idle_fd);
	spool_unref(spool);
	spool_unref(idle);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(what_is_little_makes_no_file),
		CASE(what_is_much_is_in_a_file_byte_for_byte_and_is_read_while_it_comes),
		CASE(many_at_once_leave_no_file_behind),
		CASE(beyond_the_cap_bytes_are_counted_and_the_writer_goes_on),
		CASE(who_needs_room_gets_that_of_an_older_one_or_is_cut),
		CASE(room_that_one_stream_got_is_room_for_another_that_waits_too),
		CASE(who_takes_bytes_out_of_a_pipe_does_not_delay_its_end),
		CASE(a_pipe_that_is_closed_after_the_end_is_read_first),
		CASE(a_process_that_says_nothing_after_the_end_costs_no_file),
		CASE(after_the_end_the_file_is_held_open_only_while_something_comes),
		CASE(without_a_descriptor_to_spare_the_writer_waits_and_nothing_is_lost),
		CASE(what_comes_after_the_end_is_appended_and_counted_apart),
		CASE(the_end_has_what_was_in_the_pipe_before_it),
		CASE(a_disk_that_refuses_costs_bytes_and_not_the_command),
		CASE(listeners_hear_of_bytes_and_of_the_end_and_not_within_a_call),
		CASE(what_is_put_stands_behind_what_was_read),
		CASE(what_an_earlier_daemon_left_is_gone),
		CASE(a_spooler_may_go_before_its_spools),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
