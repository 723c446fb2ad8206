/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"

static char path[] = "/tmp/dressage-test-log-XXXXXX";
static char text[8192];

static int make_file(void **state)
{
	int fd = mkstemp(path);

	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
	struct error err;

	(void)log_open(LOG_LEVEL_INFO, NULL, &err);
	return unlink(path);
}

static int open_log(void **state)
{
	struct error err;

	return truncate(path, 0) < 0 || log_open(LOG_LEVEL_INFO, path, &err) < 0;
}

static const char *logged(void)
{
	FILE *file = fopen(path, "r");
	size_t size;

	assert_non_null(file);
	size = fread(text, 1, sizeof(text) - 1, file);
	(void)fclose(file);
	text[size] = '\0';
	return text;
}

/* The message behind "2024-01-01T00:00:00.000Z level ". */
static const char *message(void)
{
	const char *line = logged();

	assert_true(strlen(line) > 31);
	assert_int_equal(line[10], 'T');
	assert_int_equal(line[23], 'Z');
	return line + 31;
}

static void a_line_has_time_level_and_message(void **state)
{
	log_warn("slot %d is slow", 3);
	assert_string_equal(message(), "slot 3 is slow\n");
	assert_memory_equal(text + 24, " warn  ", 7);
}

static void lines_below_the_level_are_not_written(void **state)
{
	log_debug("a");
	assert_string_equal(logged(), "");
	log_set_level(LOG_LEVEL_ERROR);
	log_info("b");
	log_warn("c");
	assert_string_equal(logged(), "");
	log_error("d");
	assert_string_equal(message(), "d\n");
	log_set_level(LOG_LEVEL_DEBUG);
	log_debug("e");
	assert_non_null(strstr(logged(), " debug e\n"));
}

static void control_bytes_cannot_forge_a_line(void **state)
{
	log_info("a\nb\x1b[31m\x7f\tc");
	assert_string_equal(message(), "a\\x0ab\\x1b[31m\\x7f\\x09c\n");
}

static void a_long_line_is_cut_and_stays_one_line(void **state)
{
	char longest[5000];

	memset(longest, '\n', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	log_info("%s", longest);
	(void)logged();
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void a_file_that_cannot_be_opened_is_said_with_its_name(void **state)
{
	struct error err = ERROR_NONE;

	assert_int_equal(log_open(LOG_LEVEL_INFO, "/nonexistent/log", &err), -ENOENT);
	assert_non_null(strstr(err.text, "'/nonexistent/log'"));
	log_info("still here");
	assert_string_equal(message(), "still here\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_line_has_time_level_and_message, open_log),
		cmocka_unit_test_setup(lines_below_the_level_are_not_written, open_log),
		cmocka_unit_test_setup(control_bytes_cannot_forge_a_line, open_log),
		cmocka_unit_test_setup(a_long_line_is_cut_and_stays_one_line, open_log),
		cmocka_unit_test_setup(
			a_file_that_cannot_be_opened_is_said_with_its_name, open_log),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
