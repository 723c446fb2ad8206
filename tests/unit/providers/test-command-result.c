/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "providers/sandbox.h"

static const struct sandbox_place place = {
	.lease_id = "lease-1",
	.trajectory_id = "t",
	.node_id = "n",
	.node_ip = "127.0.0.1",
	.slot = 3,
	.generation = 7,
};

static char script[] = "echo \"hi\"\n";
static const struct command scripted = {.script = script};

struct fixture {
	struct command_result result;
	cJSON *json, *metadata;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	command_result_init(&f->result);
	f->result.started = f->result.has_returncode = true;
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	command_result_fini(&f->result);
	cJSON_Delete(f->json);
	free(f);
	return 0;
}

static void add_out(struct fixture *f, const void *bytes, size_t size, uint64_t written)
{
	strbuf_add(&f->result.out, bytes, size);
	f->result.out_bytes = written;
}

static void render(struct fixture *f, const struct command *command)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	struct error err = ERROR_NONE;

	command_result_render(&place, command, &f->result, &text);
	assert_int_equal(text.data[text.size - 1], '\n');
	if (json_parse_object(text.data, text.size, &f->json, &err) < 0)
		fail_msg("%s: %s", text.data, err.text);
	f->metadata = cJSON_GetObjectItem(f->json, "metadata");
}

static const char *text(const cJSON *object, const char *key)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

static void a_result_has_the_fields_of_the_contract(void **state)
{
	struct fixture *f = *state;
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;

	add_out(f, "hi\n", 3, 3);
	f->result.exec_id = 2;
	f->result.started_at = 1700000000.25;
	f->result.duration_sec = 0.5;
	command_result_render(&place, &scripted, &f->result, &out);
	assert_string_equal(out.data,
		"{\"cmd\":\"echo \\\"hi\\\"\\n\",\"stdout\":\"hi\\n\",\"stderr\":\"\",\"returncode\":0,"
		"\"timed_out\":false,\"metadata\":{\"exec_id\":2,\"lease_id\":\"lease-1\","
		"\"trajectory_id\":\"t\",\"slot_id\":3,\"generation\":7,\"node_id\":\"n\","
		"\"node_ip\":\"127.0.0.1\",\"started_at\":1700000000.250000,\"duration_sec\":0.500000,"
		"\"stdout_bytes\":3,\"stderr_bytes\":0,\"stdout_truncated\":false,"
		"\"stderr_truncated\":false,\"infra_failure\":false,\"reason\":null,"
		"\"detail\":null,\"signal\":null,"
		"\"start_error\":null}}\n");
}

static void a_list_is_shown_as_it_was_given(void **state)
{
	struct fixture *f = *state;
	char *argv[] = {(char[]){"a"}, (char[]){""}, (char[]){"b c"}, NULL};
	struct command command = {.argv = argv};
	const cJSON *cmd;

	render(f, &command);
	cmd = cJSON_GetObjectItem(f->json, "cmd");
	assert_int_equal(cJSON_GetArraySize(cmd), 3);
	assert_string_equal(cJSON_GetArrayItem(cmd, 2)->valuestring, "b c");
}

static void bytes_that_are_not_utf8_are_there_twice(void **state)
{
	struct fixture *f = *state;

	add_out(f,
		"a\xff"
		"b",
		3, 3);
	render(f, &scripted);
	assert_string_equal(text(f->json, "stdout"), "a\xef\xbf\xbd"
						     "b");
	assert_string_equal(text(f->metadata, "stdout_base64"), "Yf9i");
	assert_null(cJSON_GetObjectItem(f->metadata, "stderr_base64"));
}

static void output_with_nul_bytes_is_written_by_length(void **state)
{
	struct fixture *f = *state;
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;

	add_out(f, "a\0b", 3, 3);
	command_result_render(&place, &scripted, &f->result, &out);
	assert_non_null(strstr(out.data, "\"stdout\":\"a\\u0000b\""));
}

static void cut_output_says_so(void **state)
{
	struct fixture *f = *state;

	add_out(f, "abc", 3, 1000);
	render(f, &scripted);
	assert_true(cJSON_IsTrue(cJSON_GetObjectItem(f->metadata, "stdout_truncated")));
	assert_true(cJSON_IsFalse(cJSON_GetObjectItem(f->metadata, "stderr_truncated")));
	assert_int_equal(cJSON_GetObjectItem(f->metadata, "stdout_bytes")->valueint, 1000);
}

static void a_cut_within_a_character_does_not_make_it_binary(void **state)
{
	struct fixture *f = *state;

	add_out(f, "ab\xc3", 3, 1000);
	render(f, &scripted);
	assert_string_equal(text(f->json, "stdout"), "ab");
	assert_null(cJSON_GetObjectItem(f->metadata, "stdout_base64"));
}

static void the_end_of_whole_output_within_a_character_is_binary(void **state)
{
	struct fixture *f = *state;

	add_out(f, "ab\xc3", 3, 3);
	render(f, &scripted);
	assert_string_equal(text(f->metadata, "stdout_base64"), "YWLD");
}

static void fill(struct strbuf *stream, const char *pattern, size_t times)
{
	for (size_t i = 0; i < times; i++)
		strbuf_adds(stream, pattern);
}

static void much_that_is_no_text_comes_as_base64_only(void **state)
{
	struct fixture *f = *state;

	fill(&f->result.out, "\x01", 100 * 1024);
	fill(&f->result.err, "\xff", 100 * 1024);
	f->result.out_bytes = f->result.err_bytes = 100 * 1024;
	render(f, &scripted);
	assert_string_equal(text(f->json, "stdout"), "");
	assert_string_equal(text(f->json, "stderr"), "");
	assert_memory_equal(text(f->metadata, "stdout_base64"), "AQEB", 4);
	assert_memory_equal(text(f->metadata, "stderr_base64"), "////", 4);
	assert_int_equal(strlen(text(f->metadata, "stdout_base64")), (100 * 1024 + 2) / 3 * 4);
}

static void much_text_with_colours_and_quotes_is_text(void **state)
{
	struct fixture *f = *state;

	fill(&f->result.out, "\x1b[31mred\x1b[0m \"quoted\"\n\n\t", 8 * 1024);
	fill(&f->result.err, "\n", 100 * 1024);
	f->result.out_bytes = f->result.out.size;
	f->result.err_bytes = f->result.err.size;
	render(f, &scripted);
	assert_string_equal(text(f->json, "stdout"), f->result.out.data);
	assert_string_equal(text(f->json, "stderr"), f->result.err.data);
	assert_null(cJSON_GetObjectItem(f->metadata, "stdout_base64"));
	assert_null(cJSON_GetObjectItem(f->metadata, "stderr_base64"));
}

static void a_signal_is_named(void **state)
{
	struct fixture *f = *state;

	f->result.signal = SIGSEGV;
	f->result.returncode = -SIGSEGV;
	render(f, &scripted);
	assert_string_equal(text(f->metadata, "signal"), "SIGSEGV");
	assert_int_equal(cJSON_GetObjectItem(f->json, "returncode")->valueint, -11);
}

static void a_program_that_did_not_start_says_why(void **state)
{
	struct fixture *f = *state;

	f->result.started = false;
	f->result.returncode = 127;
	(void)snprintf(f->result.start_error, sizeof(f->result.start_error), "nonsense: not found");
	render(f, &scripted);
	assert_string_equal(text(f->json, "stderr"), "nonsense: not found");
	assert_string_equal(text(f->metadata, "start_error"), "nonsense: not found");
}

static void a_lost_sandbox_gives_no_returncode(void **state)
{
	struct fixture *f = *state;

	f->result.has_returncode = false;
	f->result.infra_failure = true;
	f->result.reason = REASON_SLOT_LOST;
	render(f, &scripted);
	assert_true(cJSON_IsNull(cJSON_GetObjectItem(f->json, "returncode")));
	assert_true(cJSON_IsTrue(cJSON_GetObjectItem(f->metadata, "infra_failure")));
	assert_string_equal(text(f->metadata, "reason"), "slot_lost");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		CASE(a_result_has_the_fields_of_the_contract),
		CASE(a_list_is_shown_as_it_was_given),
		CASE(bytes_that_are_not_utf8_are_there_twice),
		CASE(output_with_nul_bytes_is_written_by_length),
		CASE(cut_output_says_so),
		CASE(a_cut_within_a_character_does_not_make_it_binary),
		CASE(the_end_of_whole_output_within_a_character_is_binary),
		CASE(much_that_is_no_text_comes_as_base64_only),
		CASE(much_text_with_colours_and_quotes_is_text),
		CASE(a_signal_is_named),
		CASE(a_program_that_did_not_start_says_why),
		CASE(a_lost_sandbox_gives_no_returncode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
