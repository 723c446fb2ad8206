/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/json-fields.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/utf8.h"

enum { SHOWN_KEY_MAX = 40 };

static const struct {
	int type;
	const char *what;
} kinds[] = {
	[JSON_STRING] = {cJSON_String, "a string"},
	[JSON_NUMBER] = {cJSON_Number, "a number"},
	[JSON_POSITIVE] = {cJSON_Number, "a number above 0"},
	[JSON_INTEGER] = {cJSON_Number, "a whole number"},
	[JSON_BOOL] = {cJSON_True | cJSON_False, "true or false"},
	[JSON_OBJECT] = {cJSON_Object, "an object"},
	[JSON_STRING_MAP] = {cJSON_Object, "an object of strings"},
	[JSON_ARRAY] = {cJSON_Array, "a list"},
	[JSON_ANY] = {~0, "a value"},
};

const char *json_type_name(const cJSON *value)
{
	if (cJSON_IsString(value))
		return "a string";
	if (cJSON_IsNumber(value))
		return "a number";
	if (cJSON_IsBool(value))
		return cJSON_IsTrue(value) ? "true" : "false";
	if (cJSON_IsObject(value))
		return "an object";
	if (cJSON_IsArray(value))
		return "a list";
	return "null";
}

/* The length of what an error text shows of a key, which may be long and is never cut inside a
 * character. */
static int shown(const char *key)
{
	size_t len = strlen(key);

	return (int)utf8_valid_prefix(key, len > SHOWN_KEY_MAX ? SHOWN_KEY_MAX : len);
}

static int unknown_key(
	const char *key, const struct json_field *fields, size_t count, struct error *err)
{
	char known[300] = "";
	size_t len = 0;

	for (size_t i = 0; i < count && len < sizeof(known); i++)
		len += (size_t)snprintf(
			known + len, sizeof(known) - len, "%s%s", i ? ", " : "", fields[i].key);
	return error_set(
		err, EINVAL, "unknown key '%.*s'; the keys are: %s", shown(key), key, known);
}

static int check_range(const struct json_field *field, double number, struct error *err)
{
	if (field->kind == JSON_POSITIVE) {
		if (!(number > 0))
			return error_set(err, EINVAL, "'%s' must be a number above 0, not %g",
				field->key, number);
		if (!(number <= field->max))
			return error_set(err, EINVAL, "'%s' must be at most %.17g, not %g",
				field->key, field->max, number);
		return 0;
	}
	if (field->kind == JSON_INTEGER && number != floor(number))
		return error_set(
			err, EINVAL, "'%s' must be a whole number, not %g", field->key, number);
	if (!(number >= field->min && number <= field->max))
		return error_set(err, EINVAL, "'%s' must be between %.17g and %.17g, not %g",
			field->key, field->min, field->max, number);
	return 0;
}

static int check_strings(const struct json_field *field, const cJSON *map, struct error *err)
{
	const cJSON *item;

	cJSON_ArrayForEach (item, map) {
		if (!cJSON_IsString(item))
			return error_set(err, EINVAL,
				"'%s': the value of '%.*s' must be a string, not %s", field->key,
				shown(item->string), item->string, json_type_name(item));
	}
	return 0;
}

static void store(const struct json_field *field, const cJSON *item, void *values)
{
	char *at = (char *)values + field->offset;

	switch (field->kind) {
	case JSON_STRING:
		*(const char **)(void *)at = item->valuestring;
		break;
	case JSON_NUMBER:
	case JSON_POSITIVE:
	case JSON_INTEGER:
		*(double *)(void *)at = item->valuedouble;
		break;
	case JSON_BOOL:
		*(bool *)(void *)at = cJSON_IsTrue(item);
		break;
	case JSON_OBJECT:
	case JSON_STRING_MAP:
	case JSON_ARRAY:
	case JSON_ANY:
		*(const cJSON **)(void *)at = item;
		break;
	}
}

static int read_field(
	const struct json_field *field, const cJSON *item, void *values, struct error *err)
{
	int r = 0;

	if (!(item->type & kinds[field->kind].type & 0xff))
		return error_set(err, EINVAL, "'%s' must be %s, not %s", field->key,
			kinds[field->kind].what, json_type_name(item));
	if (cJSON_IsNumber(item) && field->kind != JSON_ANY)
		r = check_range(field, item->valuedouble, err);
	else if (field->kind == JSON_STRING_MAP)
		r = check_strings(field, item, err);
	if (r < 0)
		return r;
	store(field, item, values);
	return 0;
}

static int check_required(
	const cJSON *object, const struct json_field *fields, size_t count, struct error *err)
{
	for (size_t i = 0; i < count; i++) {
		const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, fields[i].key);

		if (fields[i].required && (!item || cJSON_IsNull(item)))
			return error_set(err, EINVAL, "'%s' (%s) is missing", fields[i].key,
				kinds[fields[i].kind].what);
	}
	return 0;
}

int json_fields_read(const cJSON *object, const struct json_field *fields, size_t count,
	void *values, struct error *err)
{
	const cJSON *item;

	cJSON_ArrayForEach (item, object) {
		size_t i = 0;
		int r;

		while (i < count && strcmp(fields[i].key, item->string) != 0)
			i++;
		if (i == count)
			return unknown_key(item->string, fields, count, err);
		if (cJSON_IsNull(item))
			continue;
		r = read_field(&fields[i], item, values, err);
		if (r < 0)
			return r;
	}
	return check_required(object, fields, count, err);
}

void json_add_key(struct strbuf *out, const char *key)
{
	if (out->size && out->data[out->size - 1] != '{')
		strbuf_addc(out, ',');
	json_add_cstring(out, key);
	strbuf_addc(out, ':');
}

void json_add_text_key(struct strbuf *out, const char *key, const char *text)
{
	json_add_key(out, key);
	if (text)
		json_add_cstring(out, text);
	else
		strbuf_adds(out, "null");
}

void json_add_bool_key(struct strbuf *out, const char *key, bool value)
{
	json_add_key(out, key);
	strbuf_adds(out, value ? "true" : "false");
}

void json_add_count_key(struct strbuf *out, const char *key, uint64_t count)
{
	json_add_key(out, key);
	strbuf_addf(out, "%" PRIu64, count);
}

void json_add_seconds_key(struct strbuf *out, const char *key, double seconds)
{
	json_add_key(out, key);
	if (isfinite(seconds))
		strbuf_addf(out, "%.6f", seconds);
	else
		strbuf_adds(out, "null");
}
