/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/json.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"

#define BYTES(literal) (literal), sizeof(literal) - 1

/* Feeds the text in pieces of `piece` bytes; the result of the first feed that fails, else 0. */
static int scan(const char *text, size_t size, size_t piece, bool *ret_complete, struct error *err)
{
	struct json_scanner scanner;

	json_scanner_init(&scanner);
	for (size_t at = 0; at < size; at += piece) {
		int r = json_scanner_feed(
			&scanner, text + at, size - at < piece ? size - at : piece, err);

		if (r < 0)
			return r;
	}
	*ret_complete = json_scanner_complete(&scanner);
	return 0;
}

static const struct {
	const char *text;
	size_t size;
} good[] = {
	{BYTES("{}")},
	{BYTES(" \t\r\n{ } \n")},
	{BYTES("{\"a\":1}")},
	{BYTES("{\"a\" : [1, -0, 0.5, 1e9, 1E+2, 1.25e-3, true, false, null, \"\", {}, []]}")},
	{BYTES("{\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0001\\u00e9\\uD83D\\ude00\":\"\xc3\xa9\xf0\x9f\x98\x80\x7f\"}")},
	{BYTES("{\"a\":[[[[[[[[1]]]]]]]],\"b\":{\"a\":{\"a\":{}}}}")},
};

static const struct {
	const char *text;
	size_t size;
	const char *why;
} bad[] = {
	{BYTES("[]"), "line 1 column 1: a JSON object begins with '{'"},
	{BYTES("{\"a\":1}x"), "line 1 column 8: text behind the JSON object"},
	{BYTES("{}{}"), "line 1 column 3: text behind the JSON object"},
	{BYTES("{\n\"a\"\n1"), "line 3 column 1: ':' is expected here"},
	{BYTES("{\"a\":1,}"), "line 1 column 8: a key in double quotes is expected here"},
	{BYTES("{,"), "line 1 column 2: a key in double quotes is expected here"},
	{BYTES("{a:1}"), "line 1 column 2: a key in double quotes is expected here"},
	{BYTES("{\"a\":[1,]}"), "line 1 column 9: a value is expected here"},
	{BYTES("{\"a\":[1}"), "line 1 column 8: ',' or ']' is expected here"},
	{BYTES("{\"a\":1 2"), "line 1 column 8: ',' or '}' is expected here"},
	{BYTES("{\"a\":}"), "line 1 column 6: a value is expected here"},
	{BYTES("{\"a\":'x'"), "line 1 column 6: a value is expected here"},
	{BYTES("{\"a\":NaN"), "line 1 column 6: a value is expected here"},
	{BYTES("{\"a\":Infinity"), "line 1 column 6: a value is expected here"},
	{BYTES("{\"a\":trux"),
		"line 1 column 9: a value is expected here (true, false and null are the only words)"},
	{BYTES("{\"a\":01"), "line 1 column 7: a number has no leading zeros"},
	{BYTES("{\"a\":-}"), "line 1 column 7: a digit is expected here"},
	{BYTES("{\"a\":1.}"), "line 1 column 8: a digit is expected here"},
	{BYTES("{\"a\":1e}"), "line 1 column 8: a digit is expected here"},
	{BYTES("{\"a\":1e+}"), "line 1 column 9: a digit is expected here"},
	{BYTES("{\"a\":.5"), "line 1 column 6: a value is expected here"},
	{BYTES("{\"a\":+1"), "line 1 column 6: a value is expected here"},
	{BYTES("{\"a\":0x1"), "line 1 column 7: ',' or '}' is expected here"},
	{BYTES("{\"a\":\"\n"), "line 1 column 7: a control character in a string must be escaped"},
	{BYTES("{\"a\":\"\\x"), "line 1 column 8: no such escape"},
	{BYTES("{\"a\":\"\\u12g"),
		"line 1 column 11: four hexadecimal digits are expected behind \\u"},
	{BYTES("{\"a\":\"\\u0000"), "line 1 column 12: \\u0000 is not allowed"},
	{BYTES("{\"a\":\"\\ud800\""), "line 1 column 13: half of a surrogate pair"},
	{BYTES("{\"a\":\"\\ud800\\n"), "line 1 column 14: half of a surrogate pair"},
	{BYTES("{\"a\":\"\\ud800\\u0041"), "line 1 column 18: half of a surrogate pair"},
	{BYTES("{\"a\":\"\\ud800\\ud800"), "line 1 column 18: half of a surrogate pair"},
	{BYTES("{\"a\":\"\\udc00"), "line 1 column 12: half of a surrogate pair"},
	{BYTES("{\"a\":\"\xff"), "line 1 column 7: not UTF-8"},
	{BYTES("{\"a\":\"\xc3\""), "line 1 column 8: not UTF-8"},
	{BYTES("{\"a\":\"\xed\xa0\x80"), "line 1 column 8: not UTF-8"},
	{BYTES("{\"a\":\"\xc0\x80"), "line 1 column 7: not UTF-8"},
	{BYTES("\xef\xbb\xbf{}"), "line 1 column 1: a JSON object begins with '{'"},
	{BYTES("{\0}"), "line 1 column 2: a NUL byte"},
	{BYTES("{\"a\0\":1}"), "line 1 column 4: a NUL byte"},
	{BYTES("{}\0"), "line 1 column 3: a NUL byte"},
};

static void a_well_formed_object_is_complete_however_it_is_cut(void **state)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		for (size_t piece = 1; piece <= good[i].size; piece++) {
			struct error err = ERROR_NONE;
			bool complete = false;

			assert_int_equal(
				scan(good[i].text, good[i].size, piece, &complete, &err), 0);
			assert_true(complete);
		}
}

static void what_is_malformed_is_refused_with_its_place_however_it_is_cut(void **state)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		for (size_t piece = 1; piece <= bad[i].size; piece++) {
			struct error err = ERROR_NONE;
			bool complete = false;

			assert_int_equal(
				scan(bad[i].text, bad[i].size, piece, &complete, &err), -EINVAL);
			assert_string_equal(err.text, bad[i].why);
			assert_int_equal(err.code, EINVAL);
		}
}

static void no_proper_prefix_of_an_object_is_refused_or_complete(void **state)
{
	static const char text[] =
		"{\"k\\u00e9\": [1.5e3, \"\xf0\x9f\x98\x80\\ud83d\\ude00\", {\"b\": null}, true]}";

	for (size_t size = 0; size < sizeof(text) - 2; size++) {
		struct error err = ERROR_NONE;
		bool complete = true;

		assert_int_equal(scan(text, size, 1 + size, &complete, &err), 0);
		assert_false(complete && size);
	}
}

static void nesting_ends_at_its_limit(void **state)
{
	char text[2 * JSON_MAX_DEPTH + 16];
	struct error err = ERROR_NONE;
	bool complete = false;
	int size = snprintf(text, sizeof(text), "{\"a\":");

	memset(text + size, '[', JSON_MAX_DEPTH - 1);
	assert_int_equal(scan(text, (size_t)size + JSON_MAX_DEPTH - 1, 7, &complete, &err), 0);
	memset(text + size, '[', JSON_MAX_DEPTH);
	assert_int_equal(scan(text, (size_t)size + JSON_MAX_DEPTH, 7, &complete, &err), -EINVAL);
	assert_non_null(strstr(err.text, "nested too deep"));
}

static int parse(const char *text, cJSON **ret, struct error *err)
{
	return json_parse_object(text, strlen(text), ret, err);
}

static void an_object_is_parsed_with_its_values(void **state)
{
	struct error err = ERROR_NONE;
	cJSON *object = NULL;

	assert_int_equal(parse("{\"s\":\"a\\u00e9\\ud83d\\ude00\",\"n\":-1.5e2,\"b\":true}\n",
				 &object, &err),
		0);
	assert_string_equal(cJSON_GetObjectItemCaseSensitive(object, "s")->valuestring,
		"a\xc3\xa9\xf0\x9f\x98\x80");
	assert_true(cJSON_GetObjectItemCaseSensitive(object, "n")->valuedouble == -150);
	assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "b")));
	cJSON_Delete(object);
}

static void what_only_the_tree_shows_is_refused_too(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"{\"a\":1,\"b\":2,\"a\":3}", "duplicate key 'a'"},
		{"{\"a\":1,\"\\u0061\":3}", "duplicate key 'a'"},
		{"{\"env\":{\"X\":\"1\",\"X\":\"2\"}}", "in 'env': duplicate key 'X'"},
		{"{\"a\":[{\"b\":{\"c\":1,\"c\":1}}]}", "in 'a': in 'b': duplicate key 'c'"},
		{"{\"timeout\":1e999}", "in 'timeout': number out of range"},
		{"{\"a\":[-1e999]}", "in 'a': number out of range"},
		{"{\"a\":1", "line 1 column 7: the JSON object ends too early"},
		{"", "line 1 column 1: the JSON object ends too early"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error err = ERROR_NONE;
		cJSON *object = NULL;

		assert_int_equal(parse(cases[i].text, &object, &err), -EINVAL);
		assert_string_equal(err.text, cases[i].why);
		assert_null(object);
	}
}

static void keys_that_differ_in_case_are_not_duplicates(void **state)
{
	struct error err = ERROR_NONE;
	cJSON *object = NULL;

	assert_int_equal(parse("{\"path\":1,\"PATH\":2}", &object, &err), 0);
	cJSON_Delete(object);
}

static void a_number_longer_than_the_parser_reads_is_refused(void **state)
{
	char text[128];
	struct error err = ERROR_NONE;
	cJSON *object = NULL;

	(void)snprintf(text, sizeof(text), "{\"a\":%060d}", 0);
	text[5] = '1';
	assert_int_equal(parse(text, &object, &err), 0);
	cJSON_Delete(object);
	(void)snprintf(text, sizeof(text), "{\"a\":%061d}", 0);
	text[5] = '1';
	assert_int_equal(parse(text, &object, &err), -EINVAL);
	assert_non_null(strstr(err.text, "more than 60 characters"));
}

static void a_hundred_thousand_keys_are_checked_in_no_time(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	struct error err = ERROR_NONE;
	cJSON *object = NULL;
	clock_t begin = clock();

	strbuf_addc(&text, '{');
	for (unsigned i = 0; i < 100000; i++)
		strbuf_addf(&text, "\"k%u\":%u,", i, i);
	strbuf_adds(&text, "\"k0\":0}");
	assert_int_equal(json_parse_object(text.data, text.size, &object, &err), -EINVAL);
	assert_string_equal(err.text, "duplicate key 'k0'");
	assert_true((clock() - begin) / CLOCKS_PER_SEC < 5);
}

static void a_request_is_json_only_when_it_begins_like_an_object(void **state)
{
	static const struct {
		const char *text;
		bool json, undecided;
	} cases[] = {
		{"", false, true},
		{" \n", false, true},
		{"{", false, true},
		{" {\n\t", false, true},
		{"{}", true, false},
		{"\n{ \"a\"", true, false},
		{"{ echo a; }", false, false},
		{"[ -f x ]", false, false},
		{"true", false, false},
		{"123", false, false},
		{"\"x\"", false, false},
		{"\v{}", false, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t size = strlen(cases[i].text);

		assert_int_equal(json_looks_like_object(cases[i].text, size), cases[i].json);
		assert_int_equal(json_undecided(cases[i].text, size), cases[i].undecided);
	}
}

static void strings_are_written_by_length_and_repaired(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;

	json_add_string(&out, BYTES("a\"\\\b\f\n\r\t\0\x1f\x7f/\xc3\xa9\xff\xf0\x9f!"));
	assert_string_equal(out.data,
		"\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f\x7f/\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd!\"");
	strbuf_clear(&out);
	json_add_cstring(&out, "");
	assert_string_equal(out.data, "\"\"");
}

static void the_size_of_a_string_is_known_before(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;
	const char bytes[] = "a\"\n\0\x1f\x7f\xc3\xa9\xff\xf0\x9f!";

	for (size_t size = 0; size < sizeof(bytes); size++) {
		strbuf_clear(&out);
		json_add_string(&out, bytes, size);
		assert_int_equal(json_string_size(bytes, size), out.size);
	}
}

static void every_written_string_is_read_back(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;
	char all[0x7f];
	struct error err = ERROR_NONE;
	cJSON *object = NULL;

	for (unsigned i = 0; i < sizeof(all); i++)
		all[i] = (char)(i + 1);
	strbuf_adds(&out, "{\"s\":");
	json_add_string(&out, all, sizeof(all));
	strbuf_addc(&out, '}');
	assert_int_equal(json_parse_object(out.data, out.size, &object, &err), 0);
	assert_int_equal(strlen(object->child->valuestring), sizeof(all));
	assert_memory_equal(object->child->valuestring, all, sizeof(all));
	cJSON_Delete(object);
}

static const struct {
	const char *bytes;
	size_t size;
	const char *base64;
} vectors[] = {
	{BYTES(""), ""},
	{BYTES("f"), "Zg=="},
	{BYTES("fo"), "Zm8="},
	{BYTES("foo"), "Zm9v"},
	{BYTES("foob"), "Zm9vYg=="},
	{BYTES("fooba"), "Zm9vYmE="},
	{BYTES("foobar"), "Zm9vYmFy"},
	{BYTES("\0\xff\xfe"), "AP/+"},
};

static void base64_goes_both_ways(void **state)
{
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT, bytes = STRBUF_INIT;
		struct error err = ERROR_NONE;

		json_add_base64(&text, vectors[i].bytes, vectors[i].size);
		assert_int_equal(text.size, strlen(vectors[i].base64) + 2);
		assert_memory_equal(text.data + 1, vectors[i].base64, text.size - 2);
		assert_int_equal(base64_decode(text.data + 1, text.size - 2, &bytes, &err), 0);
		assert_int_equal(bytes.size, vectors[i].size);
		assert_memory_equal(bytes.data, vectors[i].bytes, bytes.size);
	}
}

static void what_is_not_base64_is_refused_and_adds_nothing(void **state)
{
	static const char *const cases[] = {"A", "AA", "AAA", "A===", "====", "AA=A",
		"Zg==Zg==", "Zh==", "Zm9=", "Zm9v\n", "Zm 9", "Zm-_", "=AAA", "AAAAA==="};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CLEANUP(strbuf_fini) struct strbuf bytes = STRBUF_INIT;
		struct error err = ERROR_NONE;

		strbuf_adds(&bytes, "x");
		assert_int_equal(base64_decode(cases[i], strlen(cases[i]), &bytes, &err), -EINVAL);
		assert_string_equal(bytes.data, "x");
	}
}

static void a_value_is_written_compactly(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;
	struct error err = ERROR_NONE;
	cJSON *object = NULL;

	assert_int_equal(parse("{ \"a\" : [ 1 , \"x\" ] }", &object, &err), 0);
	json_add_value(&out, object);
	assert_string_equal(out.data, "{\"a\":[1,\"x\"]}");
	cJSON_Delete(object);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_well_formed_object_is_complete_however_it_is_cut),
		cmocka_unit_test(what_is_malformed_is_refused_with_its_place_however_it_is_cut),
		cmocka_unit_test(no_proper_prefix_of_an_object_is_refused_or_complete),
		cmocka_unit_test(nesting_ends_at_its_limit),
		cmocka_unit_test(an_object_is_parsed_with_its_values),
		cmocka_unit_test(what_only_the_tree_shows_is_refused_too),
		cmocka_unit_test(keys_that_differ_in_case_are_not_duplicates),
		cmocka_unit_test(a_number_longer_than_the_parser_reads_is_refused),
		cmocka_unit_test(a_hundred_thousand_keys_are_checked_in_no_time),
		cmocka_unit_test(a_request_is_json_only_when_it_begins_like_an_object),
		cmocka_unit_test(strings_are_written_by_length_and_repaired),
		cmocka_unit_test(the_size_of_a_string_is_known_before),
		cmocka_unit_test(every_written_string_is_read_back),
		cmocka_unit_test(base64_goes_both_ways),
		cmocka_unit_test(what_is_not_base64_is_refused_and_adds_nothing),
		cmocka_unit_test(a_value_is_written_compactly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
