/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/io.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/strbuf.h"

enum { LARGE = 4 << 20, SIGNALS = 200 };

struct reader {
	pthread_t writer;
	int fd;
	struct strbuf got;
	int r;
};

static void handle_nothing(int number)
{
	(void)number;
}

/* Interrupts the one who writes into a pipe that is full, again and again. */
static void *read_it(void *data)
{
	struct reader *reader = data;

	for (int i = 0; i < SIGNALS; i++)
		(void)pthread_kill(reader->writer, SIGUSR1);
	reader->r = read_all(reader->fd, &reader->got);
	return NULL;
}

static void all_is_written_and_read_whatever_interrupts(void **state)
{
	const struct sigaction quiet = {.sa_handler = handle_nothing}; /* no SA_RESTART */
	struct reader reader = {.writer = pthread_self(), .got = STRBUF_INIT};
	char *bytes = malloc(LARGE);
	pthread_t thread;
	int ends[2], r;

	(void)state;
	assert_non_null(bytes);
	memset(bytes, 'x', LARGE);
	assert_int_equal(sigaction(SIGUSR1, &quiet, NULL), 0);
	assert_int_equal(pipe(ends), 0);
	reader.fd = ends[0];
	assert_int_equal(pthread_create(&thread, NULL, read_it, &reader), 0);
	r = write_all(ends[1], bytes, LARGE);
	(void)close(ends[1]);
	assert_int_equal(pthread_join(thread, NULL), 0);
	(void)close(ends[0]);
	assert_int_equal(r, 0);
	assert_int_equal(reader.r, 0);
	assert_int_equal(reader.got.size, LARGE);
	assert_memory_equal(reader.got.data, bytes, LARGE);
	strbuf_fini(&reader.got);
	free(bytes);
}

static void a_failure_is_told_as_errno(void **state)
{
	struct strbuf text = STRBUF_INIT;

	(void)state;
	assert_int_equal(write_all(-1, "x", 1), -EBADF);
	assert_int_equal(read_all(-1, &text), -EBADF);
	assert_int_equal(read_text("/no/such/file", &text), -ENOENT);
	assert_int_equal(read_text("/proc", &text), -EISDIR);
	assert_int_equal(text.size, 0);
	strbuf_fini(&text);
}

static void a_file_that_says_it_is_empty_is_read_all_the_same(void **state)
{
	struct strbuf text = STRBUF_INIT;

	(void)state;
	strbuf_adds(&text, "before ");
	assert_int_equal(read_text("/proc/self/status", &text), 0);
	assert_int_equal(strncmp(text.data, "before Name:", 12), 0);
	strbuf_fini(&text);
}

static void the_time_is_that_of_the_system(void **state)
{
	double before = (double)time(NULL), now = unix_now(), after = (double)time(NULL);

	(void)state;
	assert_true(now > before - 1 && now < after + 2);
}

static void assert_tail(const char *content, const char *tail)
{
	char text[8];
	int fd = memfd_create("text", MFD_CLOEXEC);

	assert_int_equal(write_all(fd, content, strlen(content)), 0);
	read_tail(fd, text, sizeof(text));
	assert_string_equal(text, tail);
	(void)close(fd);
}

static void a_tail_is_the_last_bytes_without_the_blanks_behind_them(void **state)
{
	char text[8] = "old";

	assert_tail("", "");
	assert_tail(" \n", "");
	assert_tail("a b \n\n", "a b");
	assert_tail("0123456789\n", "456789");
	read_tail(-1, text, sizeof(text));
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_written_and_read_whatever_interrupts),
		cmocka_unit_test(a_failure_is_told_as_errno),
		cmocka_unit_test(a_tail_is_the_last_bytes_without_the_blanks_behind_them),
		cmocka_unit_test(a_file_that_says_it_is_empty_is_read_all_the_same),
		cmocka_unit_test(the_time_is_that_of_the_system),
	};

	return cmocka_run_group_tests_name("base/io", tests, NULL, NULL);
}
