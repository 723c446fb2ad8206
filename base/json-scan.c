/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The scanner of json.h: a pushdown automaton that is given one byte at a time and keeps nothing of
 * what it saw. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

enum state {
	BEFORE,     /* nothing but blanks so far */
	KEY_OR_END, /* behind '{' */
	KEY,        /* behind ',' in an object */
	COLON,
	VALUE,
	VALUE_OR_END, /* behind '[' */
	COMMA_OR_END, /* behind a value */
	COMPLETE,
	STRING,
	ESCAPE,        /* behind '\' */
	HEX,           /* behind "\u" */
	LOW_BACKSLASH, /* behind a high surrogate: another escape must come */
	LOW_U,
	LITERAL,
	MINUS, /* these and the following are within a number */
	ZERO,
	DIGITS,
	POINT,
	FRACTION,
	EXPONENT,
	EXPONENT_SIGN,
	EXPONENT_DIGITS,
};

enum { NUMBER_MAX = 60 }; /* cJSON reads no more than 63 bytes of one */

/* Each step returns what is wrong, NULL when nothing is. */
typedef const char *step_fn(struct json_scanner *scanner, unsigned char c);

static bool is_blank(unsigned char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

static const char *open_level(struct json_scanner *scanner, unsigned char closing, enum state state)
{
	if (scanner->depth == JSON_MAX_DEPTH)
		return "nested too deep";
	scanner->nesting[scanner->depth++] = closing;
	scanner->state = state;
	return NULL;
}

static const char *close_level(struct json_scanner *scanner)
{
	scanner->depth--;
	scanner->state = scanner->depth ? COMMA_OR_END : COMPLETE;
	return NULL;
}

static const char *open_string(struct json_scanner *scanner, bool in_key)
{
	scanner->in_key = in_key;
	scanner->state = STRING;
	return NULL;
}

static const char *open_literal(struct json_scanner *scanner, const char *rest)
{
	scanner->literal = rest;
	scanner->state = LITERAL;
	return NULL;
}

static const char *open_number(struct json_scanner *scanner, enum state state)
{
	scanner->number_size = 1;
	scanner->state = state;
	return NULL;
}

static const char *step_before(struct json_scanner *scanner, unsigned char c)
{
	return c == '{' ? open_level(scanner, '}', KEY_OR_END) : "a JSON object begins with '{'";
}

static const char *step_key(struct json_scanner *scanner, unsigned char c)
{
	if (c == '"')
		return open_string(scanner, true);
	if (c == '}' && scanner->state == KEY_OR_END)
		return close_level(scanner);
	return "a key in double quotes is expected here";
}

static const char *step_colon(struct json_scanner *scanner, unsigned char c)
{
	if (c != ':')
		return "':' is expected here";
	scanner->state = VALUE;
	return NULL;
}

static const char *step_value(struct json_scanner *scanner, unsigned char c)
{
	switch (c) {
	case '{':
		return open_level(scanner, '}', KEY_OR_END);
	case '[':
		return open_level(scanner, ']', VALUE_OR_END);
	case '"':
		return open_string(scanner, false);
	case 't':
		return open_literal(scanner, "rue");
	case 'f':
		return open_literal(scanner, "alse");
	case 'n':
		return open_literal(scanner, "ull");
	case '-':
		return open_number(scanner, MINUS);
	case '0':
		return open_number(scanner, ZERO);
	default:
		break;
	}
	if (is_digit(c))
		return open_number(scanner, DIGITS);
	if (c == ']' && scanner->state == VALUE_OR_END)
		return close_level(scanner);
	return "a value is expected here";
}

static const char *step_comma(struct json_scanner *scanner, unsigned char c)
{
	unsigned char closing = scanner->nesting[scanner->depth - 1];

	if (c == closing)
		return close_level(scanner);
	if (c != ',')
		return closing == '}' ? "',' or '}' is expected here"
				      : "',' or ']' is expected here";
	scanner->state = closing == '}' ? KEY : VALUE;
	return NULL;
}

static const char *step_complete(struct json_scanner *scanner, unsigned char c)
{
	return "text behind the JSON object";
}

/* A character of more than one byte, which may be split over two pieces. */
static const char *step_sequence(struct json_scanner *scanner, unsigned char c)
{
	const char *bytes = (const char *)scanner->sequence;

	scanner->sequence[scanner->sequence_size++] = c;
	if (!utf8_valid_so_far(bytes, scanner->sequence_size))
		return "not UTF-8";
	if (utf8_valid(bytes, scanner->sequence_size))
		scanner->sequence_size = 0;
	return NULL;
}

static const char *step_string(struct json_scanner *scanner, unsigned char c)
{
	if (scanner->sequence_size || c >= 0x80)
		return step_sequence(scanner, c);
	if (c < 0x20)
		return "a control character in a string must be escaped";
	if (c == '\\')
		scanner->state = ESCAPE;
	else if (c == '"')
		scanner->state = scanner->in_key ? COLON : COMMA_OR_END;
	return NULL;
}

static const char *step_escape(struct json_scanner *scanner, unsigned char c)
{
	if (!strchr("\"\\/bfnrtu", c))
		return "no such escape";
	scanner->state = c == 'u' ? HEX : STRING;
	scanner->escape = scanner->escape_digits = 0;
	return NULL;
}

static const char *step_low(struct json_scanner *scanner, unsigned char c)
{
	if (c != (scanner->state == LOW_BACKSLASH ? '\\' : 'u'))
		return "half of a surrogate pair";
	scanner->state = scanner->state == LOW_BACKSLASH ? LOW_U : HEX;
	return NULL;
}

/* The fourth digit of an escape is there; behind a high surrogate, the eighth. */
static const char *close_escape(struct json_scanner *scanner)
{
	unsigned unit = scanner->escape & 0xffff;
	bool high = unit >= 0xd800 && unit <= 0xdbff, low = unit >= 0xdc00 && unit <= 0xdfff;

	if (low != (scanner->escape_digits == 8))
		return "half of a surrogate pair";
	if (unit == 0)
		return "\\u0000 is not allowed";
	scanner->state = high ? LOW_BACKSLASH : STRING;
	return NULL;
}

static const char *step_hex(struct json_scanner *scanner, unsigned char c)
{
	unsigned digit;

	if (is_digit(c))
		digit = c - '0';
	else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
		digit = (c | 0x20) - 'a' + 10u;
	else
		return "four hexadecimal digits are expected behind \\u";
	scanner->escape = scanner->escape << 4 | digit;
	return ++scanner->escape_digits % 4 ? NULL : close_escape(scanner);
}

static const char *step_literal(struct json_scanner *scanner, unsigned char c)
{
	if (c != (unsigned char)*scanner->literal)
		return "a value is expected here (true, false and null are the only words)";
	if (!*++scanner->literal)
		scanner->state = COMMA_OR_END;
	return NULL;
}

/* The number has ended, if it may end here; c is what follows it. */
static const char *close_number(struct json_scanner *scanner, unsigned char c)
{
	enum state state = scanner->state;

	if (state != ZERO && state != DIGITS && state != FRACTION && state != EXPONENT_DIGITS)
		return "a digit is expected here";
	if (is_digit(c))
		return "a number has no leading zeros";
	scanner->state = COMMA_OR_END;
	return is_blank(c) ? NULL : step_comma(scanner, c);
}

/* Where a byte leads within a number; c stands for '1' where it is any digit. BEFORE: nowhere, the
 * number ends. */
static enum state number_next(enum state state, unsigned char c)
{
	static const struct {
		enum state from;
		unsigned char on;
		enum state to;
	} edges[] = {
		{MINUS, '0', ZERO},
		{MINUS, '1', DIGITS},
		{ZERO, '.', POINT},
		{ZERO, 'e', EXPONENT},
		{DIGITS, '0', DIGITS},
		{DIGITS, '1', DIGITS},
		{DIGITS, '.', POINT},
		{DIGITS, 'e', EXPONENT},
		{POINT, '0', FRACTION},
		{POINT, '1', FRACTION},
		{FRACTION, '0', FRACTION},
		{FRACTION, '1', FRACTION},
		{FRACTION, 'e', EXPONENT},
		{EXPONENT, '+', EXPONENT_SIGN},
		{EXPONENT, '-', EXPONENT_SIGN},
		{EXPONENT, '0', EXPONENT_DIGITS},
		{EXPONENT, '1', EXPONENT_DIGITS},
		{EXPONENT_SIGN, '0', EXPONENT_DIGITS},
		{EXPONENT_SIGN, '1', EXPONENT_DIGITS},
		{EXPONENT_DIGITS, '0', EXPONENT_DIGITS},
		{EXPONENT_DIGITS, '1', EXPONENT_DIGITS},
	};

	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
		if (edges[i].from == state && edges[i].on == c)
			return edges[i].to;
	return BEFORE;
}

static const char *step_number(struct json_scanner *scanner, unsigned char c)
{
	unsigned char class = c >= '1' && c <= '9' ? '1' : c == 'E' ? 'e' : c;
	enum state next = number_next(scanner->state, class);

	if (next == BEFORE)
		return close_number(scanner, c);
	if (++scanner->number_size > NUMBER_MAX)
		return "a number of more than 60 characters";
	scanner->state = next;
	return NULL;
}

/* blanks: white space means nothing in this state. */
static const struct {
	step_fn *step;
	bool blanks;
} steps[] = {
	[BEFORE] = {step_before, true},
	[KEY_OR_END] = {step_key, true},
	[KEY] = {step_key, true},
	[COLON] = {step_colon, true},
	[VALUE] = {step_value, true},
	[VALUE_OR_END] = {step_value, true},
	[COMMA_OR_END] = {step_comma, true},
	[COMPLETE] = {step_complete, true},
	[STRING] = {step_string, false},
	[ESCAPE] = {step_escape, false},
	[HEX] = {step_hex, false},
	[LOW_BACKSLASH] = {step_low, false},
	[LOW_U] = {step_low, false},
	[LITERAL] = {step_literal, false},
	[MINUS] = {step_number, false},
	[ZERO] = {step_number, false},
	[DIGITS] = {step_number, false},
	[POINT] = {step_number, false},
	[FRACTION] = {step_number, false},
	[EXPONENT] = {step_number, false},
	[EXPONENT_SIGN] = {step_number, false},
	[EXPONENT_DIGITS] = {step_number, false},
};

void json_scanner_init(struct json_scanner *scanner)
{
	*scanner = (struct json_scanner){.line = 1, .column = 1, .state = BEFORE};
}

static const char *step(struct json_scanner *scanner, unsigned char c)
{
	if (!c)
		return "a NUL byte";
	if (steps[scanner->state].blanks && is_blank(c))
		return NULL;
	return steps[scanner->state].step(scanner, c);
}

static void advance(struct json_scanner *scanner, unsigned char c)
{
	scanner->offset++;
	scanner->column++;
	if (c == '\n') {
		scanner->line++;
		scanner->column = 1;
	}
}

int json_scanner_feed(
	struct json_scanner *scanner, const char *bytes, size_t size, struct error *err)
{
	for (size_t i = 0; i < size; i++) {
		const char *why = step(scanner, (unsigned char)bytes[i]);

		if (why)
			return error_set(err, EINVAL, "line %llu column %llu: %s",
				(unsigned long long)scanner->line,
				(unsigned long long)scanner->column, why);
		advance(scanner, (unsigned char)bytes[i]);
	}
	return 0;
}

bool json_scanner_complete(const struct json_scanner *scanner)
{
	return scanner->state == COMPLETE;
}
