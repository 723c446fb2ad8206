/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "config/settings.h"
#include "providers/sandbox.h"

static const struct config defaults = {.exec = {.max_output = 1000}};

static struct command decode_with(const char *text, const struct config *config)
{
	struct command command;
	struct error err = ERROR_NONE;

	if (command_decode(text, strlen(text), config, &command, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return command;
}

static struct command decode(const char *text)
{
	return decode_with(text, &defaults);
}

static void refuse_bytes(const char *text, size_t size, const char *why)
{
	struct command command = {.max_output = 77};
	struct error err = ERROR_NONE;

	assert_int_equal(command_decode(text, size, &defaults, &command, &err), -EINVAL);
	if (!strstr(err.text, why))
		fail_msg("%s: '%s' does not say '%s'", text, err.text, why);
	assert_int_equal(command.max_output, 77);
}

static void refuse(const char *text, const char *why)
{
	refuse_bytes(text, strlen(text), why);
}

static void text_is_a_script_as_it_is(void **state)
{
	static const char *const scripts[] = {"echo a\necho b\n", "{ echo a; }", "[ -f x ]", "true",
		"123", "{", "\"x\"", "  ls", "echo '\xc3\xa9'\\\n"};

	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		struct command command = decode(scripts[i]);

		assert_string_equal(command.script, scripts[i]);
		assert_null(command.argv);
		assert_null(command.cwd);
		assert_null(command.env);
		assert_int_equal(command.timeout_ms, 0);
		assert_int_equal(command.max_output, 1000);
		command_fini(&command);
	}
}

static void every_field_is_read(void **state)
{
	struct command command = decode(
		" {\"command\": \"make\\n\", \"cwd\": \"sub\", \"env\": {\"A\": \"1\", \"B\": \"x=y\"}, "
		"\"timeout\": 0.0001, \"stdin\": \"in\", \"max_output_bytes\": 5, \"idle_timeout\": 2}\n");

	assert_string_equal(command.script, "make\n");
	assert_string_equal(command.cwd, "sub");
	assert_string_equal(command.env[0], "A=1");
	assert_string_equal(command.env[1], "B=x=y");
	assert_null(command.env[2]);
	assert_int_equal(command.timeout_ms, 1); /* never rounded to none */
	assert_int_equal(command.idle_timeout_ms, 2000);
	assert_int_equal(command.max_output, 5);
	assert_int_equal(command.stdin_size, 2);
	assert_memory_equal(command.stdin_data, "in", 2);
	command_fini(&command);
}

static void a_list_is_an_argv(void **state)
{
	struct command command = decode("{\"command\": [\"printf\", \"\", \"a b\"]}");

	assert_null(command.script);
	assert_string_equal(command.argv[0], "printf");
	assert_string_equal(command.argv[1], "");
	assert_string_equal(command.argv[2], "a b");
	assert_null(command.argv[3]);
	command_fini(&command);
}

static void stdin_may_be_any_bytes(void **state)
{
	struct command command = decode("{\"command\": \"cat\", \"stdin_base64\": \"AP8K\"}");

	assert_int_equal(command.stdin_size, 3);
	assert_memory_equal(command.stdin_data, "\0\xff\n", 3);
	command_fini(&command);
	command = decode("{\"command\": \"cat\", \"stdin\": \"\"}");
	assert_int_equal(command.stdin_size, 0);
	command_fini(&command);
	refuse("{\"command\": \"cat\", \"stdin_base64\": \"?\"}", "stdin_base64");
	refuse("{\"command\": \"cat\", \"stdin_base64\": \"QQ\"}", "stdin_base64");
	refuse("{\"command\": \"cat\", \"stdin\": \"a\", \"stdin_base64\": \"QQ==\"}", "not both");
}

static void null_counts_as_absent(void **state)
{
	struct command command =
		decode("{\"command\": \"x\", \"cwd\": null, \"env\": null, \"timeout\": null, "
		       "\"stdin\": null, \"stdin_base64\": null, \"max_output_bytes\": null, "
		       "\"idle_timeout\": null}");

	assert_null(command.cwd);
	assert_null(command.env);
	assert_null(command.stdin_data);
	assert_int_equal(command.timeout_ms, 0);
	assert_int_equal(command.max_output, 1000);
	command_fini(&command);
}

static void the_configuration_gives_the_defaults_and_the_bound(void **state)
{
	struct config config = {
		.exec = {.timeout_ms = 3000, .idle_timeout_ms = 50, .max_output = 9}};
	struct command command = decode_with("x", &config);
	struct error err = ERROR_NONE;
	const char *long_one = "{\"command\": \"x\", \"timeout\": 11}";

	assert_int_equal(command.timeout_ms, 3000);
	assert_int_equal(command.idle_timeout_ms, 50);
	assert_int_equal(command.max_output, 9);
	command_fini(&command);
	config.exec.timeout_ms = 0;
	config.exec.timeout_max_ms = 10000;
	command = decode_with("x", &config);
	assert_int_equal(command.timeout_ms, 10000);
	command_fini(&command);
	assert_int_equal(
		command_decode(long_one, strlen(long_one), &config, &command, &err), -EINVAL);
	assert_non_null(strstr(err.text, "at most 10 s"));
}

static void a_timeout_must_be_above_zero(void **state)
{
	refuse("{\"command\": \"x\", \"timeout\": 0}", "'timeout' must be a number above 0, not 0");
	refuse("{\"command\": \"x\", \"timeout\": -1}", "'timeout'");
	refuse("{\"command\": \"x\", \"timeout\": 1e99}", "'timeout' must be at most");
	refuse("{\"command\": \"x\", \"timeout\": \"1\"}", "not a string");
	refuse("{\"command\": \"x\", \"idle_timeout\": 0}", "'idle_timeout'");
}

static void empty_requests_are_refused(void **state)
{
	refuse("", "empty");
	refuse("\n \n", "empty");
	refuse("{}", "'command' (a value) is missing");
	refuse("{\"command\": null}", "'command' (a value) is missing");
	refuse("{\"command\": \" \\n\"}", "'command' is empty");
	refuse("{\"command\": []}", "empty list");
	refuse("{\"command\": [\"\"]}", "program's name is empty");
	refuse("{\"command\": \"x\", \"cwd\": \"\"}", "'cwd' is empty");
}

static void malformed_requests_are_refused_with_the_place(void **state)
{
	refuse_bytes("echo\n a\0b", 9, "line 2 column 3: a NUL byte");
	refuse_bytes("a\0b\xff", 4, "line 1 column 2: a NUL byte");
	refuse("echo\n\n\xc3(", "line 3 column 1: bytes that are not UTF-8");
	refuse("{\"command\": \"a\\u0000\"}", "line 1");
	refuse("{\"command\": \"a\xff\"}", "line 1");
	refuse("{\"command\": \"x\"", "line 1");
	refuse("{\"command\": \"x\"}\necho", "line 2 column 1");
	refuse("{\"command\": \"x\", \"command\": \"y\"}", "command");
}

static void wrong_types_and_unknown_keys_are_named(void **state)
{
	refuse("{\"command\": 1}", "'command' must be a string or a list of strings, not a number");
	refuse("{\"command\": {}}", "not an object");
	refuse("{\"command\": [\"a\", 2]}", "word 2 must be a string, not a number");
	refuse("{\"command\": \"x\", \"cwd\": []}", "'cwd' must be a string, not a list");
	refuse("{\"command\": \"x\", \"env\": [\"A=1\"]}", "'env' must be an object of strings");
	refuse("{\"command\": \"x\", \"env\": {\"A\": 1}}", "the value of 'A' must be a string");
	refuse("{\"command\": \"x\", \"env\": {\"\": \"1\"}}", "name of a variable is empty");
	refuse("{\"command\": \"x\", \"env\": {\"A=B\": \"1\"}}", "'='");
	refuse("{\"command\": \"x\", \"max_output_bytes\": -1}",
		"'max_output_bytes' must be between");
	refuse("{\"command\": \"x\", \"max_output_bytes\": 1.5}", "whole number");
	refuse("{\"command\": \"x\", \"max_output_bytes\": 1e12}",
		"'max_output_bytes' must be between");
	refuse("{\"command\": \"x\", \"max_output_bytes\": 67108865}",
		"'max_output_bytes' must be between 0 and 67108864");
	refuse("{\"command\": \"x\", \"cmd\": \"y\"}",
		"unknown key 'cmd'; the keys are: command, cwd");
	refuse("{\"command\": \"x\", \"stdin_pipe\": 1}", "'stdin_pipe' must be");
}

static void input_may_follow_and_a_terminal_is_one_that_does(void **state)
{
	struct command command = decode("{\"command\": \"x\", \"stdin_pipe\": true}");

	assert_true(command.stdin_pipe);
	assert_int_equal(command.tty_rows, 0);
	command_fini(&command);
	command = decode("{\"command\": \"x\", \"tty\": {\"rows\": 24, \"cols\": 80}}");
	assert_true(command.stdin_pipe);
	assert_int_equal(command.tty_rows, 24);
	assert_int_equal(command.tty_cols, 80);
	command_fini(&command);
	refuse("{\"command\": \"x\", \"tty\": {\"rows\": 24}}", "cols");
	refuse("{\"command\": \"x\", \"tty\": {\"rows\": 0, \"cols\": 80}}", "rows");
	refuse("{\"command\": \"x\", \"stdin\": \"y\", \"tty\": {\"rows\": 1, \"cols\": 1}}",
		"not both");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_a_script_as_it_is),
		cmocka_unit_test(every_field_is_read),
		cmocka_unit_test(a_list_is_an_argv),
		cmocka_unit_test(stdin_may_be_any_bytes),
		cmocka_unit_test(null_counts_as_absent),
		cmocka_unit_test(the_configuration_gives_the_defaults_and_the_bound),
		cmocka_unit_test(a_timeout_must_be_above_zero),
		cmocka_unit_test(empty_requests_are_refused),
		cmocka_unit_test(malformed_requests_are_refused_with_the_place),
		cmocka_unit_test(wrong_types_and_unknown_keys_are_named),
		cmocka_unit_test(input_may_follow_and_a_terminal_is_one_that_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
