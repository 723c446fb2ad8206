/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * json-fields.h: the keys of an object: read as a table says, or written one by one.
 *
 *	struct { const char *command; double timeout; } values = {.timeout = -1};
 *	static const struct json_field fields[] = {
 *		{"command", JSON_STRING, offsetof(..., command), .required = true},
 *		{"timeout", JSON_POSITIVE, offsetof(..., timeout), .max = 1e9},
 *	};
 *	r = json_fields_read(object, fields, 2, &values, err);
 *
 * A key that is not in the table is an error which lists those that are; null counts as absent.
 * Threads: any.
 */
#ifndef BASE_JSON_FIELDS_H
#define BASE_JSON_FIELDS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct strbuf;

/* With the type of the field that is written; pointers are borrowed from the object. */
enum json_kind {
	JSON_STRING,     /* const char * */
	JSON_NUMBER,     /* double, min to max inclusive */
	JSON_POSITIVE,   /* double, above 0 and at most max */
	JSON_INTEGER,    /* double without a fraction, min to max inclusive */
	JSON_BOOL,       /* bool */
	JSON_OBJECT,     /* const cJSON *, any values */
	JSON_STRING_MAP, /* const cJSON *, an object whose values are all strings */
	JSON_ARRAY,      /* const cJSON * */
	JSON_ANY,        /* const cJSON * */
};

struct json_field {
	const char *key;
	enum json_kind kind;
	size_t offset; /* of the field in the struct of values */
	bool required;
	double min, max; /* numbers only */
};

/*
 * Reads every key of the object. Fields that are absent keep what the caller put there. -EINVAL
 * names the key and what it must be; the values may be partly written then.
 */
int json_fields_read(const cJSON *object, const struct json_field *fields, size_t count,
	void *values, struct error *err);

/* "a string", "an object", ...: what the value is, for error texts. */
const char *json_type_name(const cJSON *value);

/* Appends `"key":`, with a comma before it unless the object has just been opened. */
void json_add_key(struct strbuf *out, const char *key);
/* The same with its value. NULL text is null; an amount that is not finite is null. */
void json_add_text_key(struct strbuf *out, const char *key, const char *text);
void json_add_bool_key(struct strbuf *out, const char *key, bool value);
void json_add_count_key(struct strbuf *out, const char *key, uint64_t count);
/* Seconds, to the microsecond. */
void json_add_seconds_key(struct strbuf *out, const char *key, double seconds);

#endif
