/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/utf8.h"

static const char not_utf8[] = "\xef\xbf\xbd"; /* U+FFFD */

static bool is_blank(unsigned char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Sorts the names of one object's members, so that equal ones stand side by side however many there
 * are. */
static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(const cJSON *object, struct error *err)
{
	size_t count = 0, i = 0;
	CLEANUP(freep) const char **names = NULL;

	for (const cJSON *item = object->child; item; item = item->next)
		count++;
	if (count < 2)
		return 0;
	names = calloc(count, sizeof(*names));
	if (!names)
		return error_set(err, ENOMEM, "no memory for %zu JSON keys", count);
	for (const cJSON *item = object->child; item; item = item->next)
		names[i++] = item->string;
	qsort(names, count, sizeof(*names), compare_names);
	for (i = 1; i < count; i++)
		if (!strcmp(names[i - 1], names[i]))
			return error_set(err, EINVAL, "duplicate key '%.200s'", names[i]);
	return 0;
}

/* What the scanner cannot see: the names after decoding, and what a number is worth. */
static int check_tree(const cJSON *value, struct error *err)
{
	int r = 0;

	if (cJSON_IsNumber(value) && !isfinite(value->valuedouble))
		return error_set(err, EINVAL, "number out of range");
	if (cJSON_IsObject(value))
		r = check_names(value, err);
	for (const cJSON *item = value->child; item && r == 0; item = item->next) {
		r = check_tree(item, err); /* no deeper than JSON_MAX_DEPTH */
		if (r < 0 && r != -ENOMEM && item->string)
			(void)error_wrap(err, "in '%.100s'", item->string);
	}
	return r;
}

int json_parse_object(const char *text, size_t size, cJSON **ret_object, struct error *err)
{
	struct json_scanner scanner;
	cJSON *object;
	int r;

	json_scanner_init(&scanner);
	r = json_scanner_feed(&scanner, text, size, err);
	if (r < 0)
		return r;
	if (!json_scanner_complete(&scanner))
		return error_set(err, EINVAL,
			"line %llu column %llu: the JSON object ends too early",
			(unsigned long long)scanner.line, (unsigned long long)scanner.column);
	/* the scanner has seen every rule of the grammar, so nothing but memory can fail here */
	object = cJSON_ParseWithLength(text, size);
	if (!object)
		return error_set(err, ENOMEM, "no memory for a JSON object of %zu bytes", size);
	r = check_tree(object, err);
	if (r < 0) {
		cJSON_Delete(object);
		return r;
	}
	*ret_object = object;
	return 0;
}

/* Where the first byte that is not blank stands; size when there is none. */
static size_t skip_blanks(const char *text, size_t size, size_t at)
{
	while (at < size && is_blank((unsigned char)text[at]))
		at++;
	return at;
}

bool json_looks_like_object(const char *text, size_t size)
{
	size_t at = skip_blanks(text, size, 0);

	if (at == size || text[at] != '{')
		return false;
	at = skip_blanks(text, size, at + 1);
	return at < size && (text[at] == '"' || text[at] == '}');
}

bool json_undecided(const char *text, size_t size)
{
	size_t at = skip_blanks(text, size, 0);

	if (at == size)
		return true;
	return text[at] == '{' && skip_blanks(text, size, at + 1) == size;
}

/* The letter behind the backslash of a byte's escape; 0: it has none of its own. */
static char short_escape(unsigned char c)
{
	switch (c) {
	case '"':
	case '\\':
		return (char)c;
	case '\b':
		return 'b';
	case '\f':
		return 'f';
	case '\n':
		return 'n';
	case '\r':
		return 'r';
	case '\t':
		return 't';
	default:
		return 0;
	}
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

static size_t escaped_size(unsigned char c)
{
	return short_escape(c) ? 2 : 6;
}

static char *put_escaped(char *to, unsigned char c)
{
	static const char digits[] = "0123456789abcdef";
	char letter = short_escape(c);

	*to++ = '\\';
	if (letter) {
		*to++ = letter;
		return to;
	}
	memcpy(to, "u00", 3);
	to[3] = digits[c >> 4];
	to[4] = digits[c & 15];
	return to + 5;
}

size_t json_string_size(const char *bytes, size_t size)
{
	size_t at = 0, needed = 2, run;

	while (at < size) {
		unsigned char c = (unsigned char)bytes[at];

		if (c < 0x80) {
			needed += is_plain(c) ? 1 : escaped_size(c);
			at++;
			continue;
		}
		run = utf8_sequence(bytes + at, size - at);
		needed += run ? run : sizeof(not_utf8) - 1;
		at += run ? run : 1;
	}
	return needed;
}

static char *put_string(char *to, const char *bytes, size_t size)
{
	size_t at = 0, run;

	*to++ = '"';
	while (at < size) {
		unsigned char c = (unsigned char)bytes[at];

		if (c < 0x80) {
			if (is_plain(c))
				*to++ = (char)c;
			else
				to = put_escaped(to, c);
			at++;
			continue;
		}
		run = utf8_sequence(bytes + at, size - at);
		to = run ? mempcpy(to, bytes + at, run)
			 : mempcpy(to, not_utf8, sizeof(not_utf8) - 1);
		at += run ? run : 1;
	}
	*to++ = '"';
	return to;
}

/* Two passes: a stream of many megabytes gets its room once. */
void json_add_string(struct strbuf *out, const char *bytes, size_t size)
{
	size_t needed = json_string_size(bytes, size);
	char *room = strbuf_room(out, needed);

	if (!room)
		return;
	(void)put_string(room, bytes, size);
	strbuf_grown(out, needed);
}

void json_add_cstring(struct strbuf *out, const char *text)
{
	json_add_string(out, text, strlen(text));
}

void json_add_value(struct strbuf *out, const cJSON *value)
{
	char *text = cJSON_PrintUnformatted(value);

	if (text)
		strbuf_adds(out, text);
	else
		out->failed = true;
	cJSON_free(text);
}
