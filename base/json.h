/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * json.h: JSON from people we do not trust, on top of cJSON.
 *
 * cJSON alone accepts bytes that are not UTF-8, NULs, duplicate keys, trailing text and infinite
 * numbers. Here a scanner looks at every byte first, as it arrives, and says with line and column
 * what is wrong; only what passed is given to cJSON, and what cJSON made of it is checked for
 * duplicate keys. Threads: any.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct strbuf;

enum { JSON_MAX_DEPTH = 64 };

/* Scans one JSON object as it arrives, in pieces of any size, each byte once. */
struct json_scanner {
	uint64_t offset, line,
		column; /* of the next byte; line and column (in bytes) count from 1 */
	unsigned state; /* private from here on */
	unsigned depth;
	unsigned char nesting[JSON_MAX_DEPTH]; /* the bracket that closes each level */
	bool in_key;                           /* the string being read is a key */
	unsigned char sequence[4];             /* of a character that is not whole yet */
	unsigned sequence_size;
	unsigned escape, escape_digits; /* of a \u escape */
	unsigned number_size;
	const char *literal; /* what is still to come of true, false or null */
};

void json_scanner_init(struct json_scanner *scanner);

/*
 * Looks at further bytes. 0: well-formed so far; -EINVAL: it can never become an object any more
 * (NUL, not UTF-8, \u0000, a lone surrogate, bad syntax, text behind the object, nested deeper than
 * JSON_MAX_DEPTH), with "line L column C: why".
 */
int json_scanner_feed(
	struct json_scanner *scanner, const char *bytes, size_t size, struct error *err);

/* True once the object is closed (white space may follow). */
bool json_scanner_complete(const struct json_scanner *scanner);

/* Parses a whole object. -EINVAL with the place (also: incomplete, duplicate key, number out of
 * range), -ENOMEM. cJSON_Delete() the result. */
int json_parse_object(const char *text, size_t size, cJSON **ret_object, struct error *err);
/* For CLEANUP(). */
static inline void cjson_deletep(cJSON **value)
{
	cJSON_Delete(*value);
}

/* True when the text's first non-blank byte is '{' and the next non-blank one '"' or '}': a JSON
 * request, else it is plain text. */
bool json_looks_like_object(const char *text, size_t size);
/* True while that cannot be told yet: only blanks, or '{' and blanks, so far. */
bool json_undecided(const char *text, size_t size);

/* Appends a JSON string literal, quotes included; bytes that are not UTF-8 become U+FFFD. */
void json_add_string(struct strbuf *out, const char *bytes, size_t size);
/* How many bytes json_add_string() appends. */
size_t json_string_size(const char *bytes, size_t size);
void json_add_cstring(struct strbuf *out, const char *text);
/* Appends the bytes as base64 in quotes. */
void json_add_base64(struct strbuf *out, const char *bytes, size_t size);
/* Decodes base64 (RFC 4648, padding required); -EINVAL when it is not. Appends to out. */
int base64_decode(const char *text, size_t size, struct strbuf *out, struct error *err);
/* Appends value as compact JSON. */
void json_add_value(struct strbuf *out, const cJSON *value);

#endif
