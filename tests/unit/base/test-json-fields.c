/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/json-fields.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"

struct values {
	const char *text;
	double number, positive, whole;
	bool flag;
	const cJSON *object, *strings, *list, *any;
};

#define AT(member) offsetof(struct values, member)
static const struct json_field fields[] = {
	{"text", JSON_STRING, AT(text), .required = true},
	{"number", JSON_NUMBER, AT(number), .min = -1, .max = 1},
	{"positive", JSON_POSITIVE, AT(positive), .max = 10},
	{"whole", JSON_INTEGER, AT(whole), .min = 0, .max = 100},
	{"flag", JSON_BOOL, AT(flag)},
	{"object", JSON_OBJECT, AT(object)},
	{"strings", JSON_STRING_MAP, AT(strings)},
	{"list", JSON_ARRAY, AT(list)},
	{"any", JSON_ANY, AT(any)},
};
#undef AT

static cJSON *read_fields(const char *text, struct values *values, int *ret_r, struct error *err)
{
	cJSON *object;

	assert_int_equal(json_parse_object(text, strlen(text), &object, NULL), 0);
	*ret_r = json_fields_read(object, fields, sizeof(fields) / sizeof(fields[0]), values, err);
	return object;
}

static void refuse(const char *text, const char *why)
{
	struct values values = {0};
	struct error err = ERROR_NONE;
	int r;

	cJSON_Delete(read_fields(text, &values, &r, &err));
	assert_int_equal(r, -EINVAL);
	if (!strstr(err.text, why))
		fail_msg("'%s' does not say '%s'", err.text, why);
}

static void every_kind_is_read(void **state)
{
	struct values values = {0};
	int r;
	cJSON *object = read_fields(
		"{\"text\": \"a\", \"number\": -1, \"positive\": 0.5, \"whole\": 100, \"flag\": true, "
		"\"object\": {\"a\": 1}, \"strings\": {\"b\": \"c\"}, \"list\": [1], \"any\": 7}",
		&values, &r, NULL);

	assert_int_equal(r, 0);
	assert_string_equal(values.text, "a");
	assert_true(values.number == -1 && values.positive == 0.5 && values.whole == 100);
	assert_true(values.flag);
	assert_int_equal(cJSON_GetArraySize(values.object), 1);
	assert_int_equal(cJSON_GetArraySize(values.strings), 1);
	assert_int_equal(cJSON_GetArraySize(values.list), 1);
	assert_int_equal(values.any->valueint, 7);
	cJSON_Delete(object);
}

static void what_is_absent_or_null_keeps_its_value(void **state)
{
	struct values values = {.number = 0.25, .flag = true};
	int r;
	cJSON *object = read_fields(
		"{\"text\": \"a\", \"number\": null, \"any\": null}", &values, &r, NULL);

	assert_int_equal(r, 0);
	assert_true(values.number == 0.25);
	assert_true(values.flag);
	assert_null(values.any);
	cJSON_Delete(object);
}

static void a_refusal_names_the_key_and_what_it_must_be(void **state)
{
	refuse("{}", "'text' (a string) is missing");
	refuse("{\"text\": null}", "'text' (a string) is missing");
	refuse("{\"text\": 1}", "'text' must be a string, not a number");
	refuse("{\"text\": \"a\", \"number\": \"1\"}", "'number' must be a number, not a string");
	refuse("{\"text\": \"a\", \"number\": 1.5}", "'number' must be between -1 and 1, not 1.5");
	refuse("{\"text\": \"a\", \"positive\": 0}", "'positive' must be a number above 0, not 0");
	refuse("{\"text\": \"a\", \"positive\": 11}", "'positive' must be at most 10, not 11");
	refuse("{\"text\": \"a\", \"whole\": 0.5}", "'whole' must be a whole number, not 0.5");
	refuse("{\"text\": \"a\", \"whole\": 101}", "'whole' must be between 0 and 100, not 101");
	refuse("{\"text\": \"a\", \"flag\": 1}", "'flag' must be true or false, not a number");
	refuse("{\"text\": \"a\", \"object\": []}", "'object' must be an object, not a list");
	refuse("{\"text\": \"a\", \"strings\": {\"k\": null}}",
		"the value of 'k' must be a string, not null");
	refuse("{\"text\": \"a\", \"list\": false}", "'list' must be a list, not false");
}

static void an_unknown_key_is_shown_cut_between_characters(void **state)
{
	refuse("{\"text\": \"a\", \"Text\": 1}",
		"unknown key 'Text'; the keys are: text, number, positive");
	refuse("{\"text\": \"a\", \"123456789012345678901234567890123456789\xc3\xa9z\": 1}",
		"unknown key '123456789012345678901234567890123456789';");
}

static void keys_are_written_with_commas_between_them(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;

	strbuf_addc(&out, '{');
	json_add_text_key(&out, "a{", "{");
	json_add_text_key(&out, "n", NULL);
	json_add_bool_key(&out, "b", true);
	json_add_count_key(&out, "c", UINT64_MAX);
	json_add_seconds_key(&out, "s", 0.25);
	json_add_seconds_key(&out, "i", (double)INFINITY);
	json_add_key(&out, "o");
	strbuf_addc(&out, '{');
	json_add_count_key(&out, "x", 0);
	strbuf_adds(&out, "}}");
	assert_string_equal(out.data,
		"{\"a{\":\"{\",\"n\":null,\"b\":true,\"c\":18446744073709551615,\"s\":0.250000,\"i\":null,"
		"\"o\":{\"x\":0}}");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_is_read),
		cmocka_unit_test(what_is_absent_or_null_keeps_its_value),
		cmocka_unit_test(a_refusal_names_the_key_and_what_it_must_be),
		cmocka_unit_test(an_unknown_key_is_shown_cut_between_characters),
		cmocka_unit_test(keys_are_written_with_commas_between_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
