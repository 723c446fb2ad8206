/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config/ini.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"

static int add_entry(void *data, const struct ini_entry *entry, struct error *err)
{
	strbuf_addf(data, "%u %s.%s=%s%s\n", entry->line, entry->section, entry->key, entry->value,
		entry->comment_cut ? " (cut)" : "");
	if (strcmp(entry->key, "stop") == 0)
		return error_set(err, ERANGE, "stopped");
	return 0;
}

static bool is_known(void *data, const char *section, const char *key)
{
	return strcmp(key, "known") == 0;
}

static int read_bytes(const char *text, size_t size, struct strbuf *out, struct error *err)
{
	CLEANUP(fclosep) FILE *stream = fmemopen((void *)(uintptr_t)text, size, "r");
	struct ini_visitor visitor = {.entry = add_entry, .known = is_known, .data = out};

	assert_non_null(stream);
	return ini_read(stream, "f.ini", &visitor, err);
}

static void assert_reads(const char *text, const char *wanted)
{
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;
	struct error err = ERROR_NONE;

	if (read_bytes(text, strlen(text), &out, &err) < 0)
		print_error("%s\n", err.text);
	assert_int_equal(err.code, 0);
	assert_string_equal(out.data, wanted);
}

static void assert_refuses(const char *text, const char *sentence)
{
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;
	struct error err = ERROR_NONE;

	assert_int_equal(read_bytes(text, strlen(text), &out, &err), -EINVAL);
	assert_int_equal(err.code, EINVAL);
	assert_string_equal(err.text, sentence);
}

/* "[s]\nk = vvv" with a second line of this many bytes, and what stands behind it. */
static const char *long_line(size_t size, const char *behind)
{
	static char text[600];
	size_t head = (size_t)snprintf(text, sizeof(text), "[s]\nk = ");

	memset(text + head, 'v', size - 4);
	(void)snprintf(text + head + size - 4, sizeof(text) - head - size, "%s", behind);
	return text;
}

static void keys_come_with_section_value_and_line(void **state)
{
	assert_reads("# c\n[a]\nx = 1\n\n; c\n  # c\ny=2 3\n[b]\nx : 4\nz =\n",
		"3 a.x=1\n7 a.y=2 3\n9 b.x=4\n10 b.z=\n");
}

static void an_empty_file_is_fine(void **state)
{
	assert_reads("\n", "");
	assert_reads("; only this", "");
}

static void a_last_line_needs_no_newline(void **state)
{
	assert_reads("[a]\nx = 1", "2 a.x=1\n");
}

static void windows_line_ends_and_a_byte_order_mark_are_read(void **state)
{
	assert_reads("\xef\xbb\xbf[a]\r\nx = 1\r\n  2\r\n", "2 a.x=1 2\n");
}

static void a_value_goes_on_in_indented_lines_joined_by_one_blank(void **state)
{
	assert_reads(
		"[a]\nx = 1\n  2\n\t 3 4  \n\n# c\n  5\ny = 6\n", "2 a.x=1 2 3 4 5\n8 a.y=6\n");
	assert_reads("[a]\nx =\n  2\n  3\n", "2 a.x=2 3\n");
}

static void a_comment_may_stand_behind_a_value(void **state)
{
	assert_reads(
		"[a] ; c\nx = 1 ; c\n  2\t; c\ny = a;b # c\n", "2 a.x=1 2 (cut)\n4 a.y=a;b # c\n");
}

static void a_section_may_be_opened_twice(void **state)
{
	assert_reads("[a]\nx = 1\n[a]\n  y = 2\n", "2 a.x=1\n4 a.y=2\n");
}

static void the_first_key_of_a_section_may_be_indented(void **state)
{
	assert_reads("[a]\n  x = 1\n[b]\n  x = 1\n", "2 a.x=1\n4 b.x=1\n");
}

static void an_indented_line_that_looks_like_a_setting_is_refused(void **state)
{
	assert_refuses("[a]\nx = 1\n  known = 2\n",
		"f.ini:3: an indented line goes on with the value before it, but this one looks like a setting: take the blanks before it away");
	assert_refuses("[a]\nx = 1\n\tknown: 2\n",
		"f.ini:3: an indented line goes on with the value before it, but this one looks like a setting: take the blanks before it away");
	assert_refuses("[a]\nx = 1\n [b]\n",
		"f.ini:3: an indented line goes on with the value before it, but this one looks like a setting: take the blanks before it away");
	assert_reads("[a]\nx = 1\n  other=2\n", "2 a.x=1 other=2\n");
}

static void a_line_of_190_bytes_is_read_whole(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;
	const char *text = long_line(190, "\r\n");
	struct error err = ERROR_NONE;

	assert_int_equal(read_bytes(text, strlen(text), &out, &err), 0);
	assert_int_equal(out.size, strlen("2 s.k=") + 186 + 1);
}

static void a_longer_line_is_refused_wherever_it_stands(void **state)
{
	static const char sentence[] =
		"f.ini:2: the line is longer than 190 bytes; go on in indented lines";
	char comment[400] = "[s]\n#";

	assert_refuses(long_line(191, ""), sentence);
	assert_refuses(long_line(191, "\n"), sentence);
	assert_refuses(long_line(192, "\n"), sentence);
	assert_refuses(long_line(199, "\n"), sentence);
	assert_refuses(long_line(200, "\n"), sentence);
	assert_refuses(long_line(300, "\nx = 1\n"), sentence);
	memset(comment + 5, 'c', 300);
	assert_refuses(comment, sentence);
}

static void a_nul_byte_is_refused(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;
	static const char text[] = "[a]\nx = 1\0 2\n";
	struct error err = ERROR_NONE;

	assert_int_equal(read_bytes(text, sizeof(text) - 1, &out, &err), -EINVAL);
	assert_string_equal(err.text, "f.ini:2: there is a NUL byte in the line");
}

static void a_line_that_is_nothing_is_refused(void **state)
{
	assert_refuses("[a]\nx\n", "f.ini:2: neither a comment, a [section] nor key = value");
	assert_refuses("[a]\nx = 1\nslots\ny = 2\n",
		"f.ini:3: neither a comment, a [section] nor key = value");
}

static void a_section_line_holds_nothing_else(void **state)
{
	assert_refuses("[a\nx = 1\n", "f.ini:1: a section's name has no ] behind it");
	assert_refuses("[a] x = 1\n", "f.ini:1: something stands behind the section's ]");
	assert_refuses("[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]\n",
		"f.ini:1: this section's name is too long for any that is known");
}

static void reading_ends_with_the_first_failure_of_the_visitor(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;
	static const char text[] = "[a]\nx = 1\nstop = 2\ny = 3\nz = 4\n";
	struct error err = ERROR_NONE;

	assert_int_equal(read_bytes(text, strlen(text), &out, &err), -ERANGE);
	assert_string_equal(err.text, "stopped");
	assert_string_equal(out.data, "2 a.x=1\n3 a.stop=2\n");
}

static void a_file_that_cannot_be_read_is_an_error(void **state)
{
	CLEANUP(fclosep) FILE *stream = fopen("/", "re");
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;
	struct ini_visitor visitor = {.entry = add_entry, .known = is_known, .data = &out};
	struct error err = ERROR_NONE;

	assert_non_null(stream);
	assert_int_equal(ini_read(stream, "dir", &visitor, &err), -EIO);
	assert_string_equal(err.text, "cannot read 'dir'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_come_with_section_value_and_line),
		cmocka_unit_test(an_empty_file_is_fine),
		cmocka_unit_test(a_last_line_needs_no_newline),
		cmocka_unit_test(windows_line_ends_and_a_byte_order_mark_are_read),
		cmocka_unit_test(a_value_goes_on_in_indented_lines_joined_by_one_blank),
		cmocka_unit_test(a_comment_may_stand_behind_a_value),
		cmocka_unit_test(a_section_may_be_opened_twice),
		cmocka_unit_test(the_first_key_of_a_section_may_be_indented),
		cmocka_unit_test(an_indented_line_that_looks_like_a_setting_is_refused),
		cmocka_unit_test(a_line_of_190_bytes_is_read_whole),
		cmocka_unit_test(a_longer_line_is_refused_wherever_it_stands),
		cmocka_unit_test(a_nul_byte_is_refused),
		cmocka_unit_test(a_line_that_is_nothing_is_refused),
		cmocka_unit_test(a_section_line_holds_nothing_else),
		cmocka_unit_test(reading_ends_with_the_first_failure_of_the_visitor),
		cmocka_unit_test(a_file_that_cannot_be_read_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
