/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * setting-numbers.c: the types of settings that hold a number.
 */
#include "config/setting.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/strbuf.h"

/* A decimal number as written: whole + fraction / scale. */
struct decimal {
	bool negative;
	uint64_t whole, fraction, scale;
};

struct unit {
	const char *suffix;
	uint64_t factor;
};

/* How the numbers of a type are written. */
struct setting_numbers {
	const struct unit *units; /* the largest first; NULL: whole numbers without one */
	const char *unit;         /* of a number that names none */
	uint64_t most;
	const char *examples, *known; /* for the texts of errors */
};

static const struct unit time_units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}, {0}};
static const struct unit size_units[] = {
	{"G", 1ULL << 30}, {"M", 1ULL << 20}, {"K", 1ULL << 10}, {"", 1}, {0}};

static int not_a_number(struct error *err)
{
	return error_set(err, EINVAL, "is not a number");
}

static int too_large(struct error *err)
{
	return error_set(err, EINVAL, "is too large");
}

/* Digits beyond the ninth decimal count for nothing, but keep the number from being 0. */
static const char *parse_fraction(const char *at, struct decimal *number)
{
	for (; isdigit((unsigned char)*at); at++) {
		if (number->scale == 1000000000) {
			number->fraction += !number->fraction && *at != '0';
			continue;
		}
		number->fraction = number->fraction * 10 + (uint64_t)(*at - '0');
		number->scale *= 10;
	}
	return at;
}

/* Returns 0 and what stands behind the number. */
static int parse_decimal(
	const char *text, struct decimal *ret_number, const char **ret_rest, struct error *err)
{
	struct decimal number = {.scale = 1};
	const char *at = text, *digits;

	if (*at == '-' || *at == '+')
		number.negative = *at++ == '-';
	for (digits = at; isdigit((unsigned char)*at); at++) {
		if (__builtin_mul_overflow(number.whole, 10, &number.whole) ||
			__builtin_add_overflow(number.whole, (uint64_t)(*at - '0'), &number.whole))
			return too_large(err);
	}
	if (at == digits)
		return not_a_number(err);
	if (*at == '.' && isdigit((unsigned char)at[1]))
		at = parse_fraction(at + 1, &number);
	*ret_number = number;
	*ret_rest = at;
	return 0;
}

static bool in_range(const struct setting *row, uint64_t value, uint64_t most)
{
	return value >= row->min && value <= (row->max ? row->max : most);
}

/* Scales, rounding up so that what is not nothing never becomes 0, which often means "no limit". */
static int scale(const struct setting *row, const struct decimal *number, uint64_t factor,
	uint64_t *ret_value, struct error *err)
{
	uint64_t value, part = (number->fraction * factor + number->scale - 1) / number->scale;

	if (number->negative && (number->whole || number->fraction) && !row->negative_is_zero)
		return error_set(err, EINVAL, "is negative");
	if (__builtin_mul_overflow(number->whole, factor, &value) ||
		__builtin_add_overflow(value, part, &value))
		return too_large(err);
	if (number->negative)
		value = 0;
	if (!in_range(row, value, UINT64_MAX))
		return error_set(err, EINVAL, "is out of range");
	*ret_value = value;
	return 0;
}

static int parse_integer(const struct setting *row, const char *text, uint64_t most,
	uint64_t *ret_value, struct error *err)
{
	struct decimal number = {.scale = 1};
	const char *rest = "";
	uint64_t value = 0;
	int r = parse_decimal(text, &number, &rest, err);

	if (r < 0)
		return r;
	if (*rest || number.scale != 1)
		return error_set(err, EINVAL, "is not a whole number");
	r = scale(row, &number, 1, &value, err);
	if (r < 0)
		return r;
	if (!in_range(row, value, most))
		return error_set(err, EINVAL, "is out of range");
	*ret_value = value;
	return 0;
}

static const struct unit *find_unit(const struct unit *units, const char *suffix)
{
	while (isspace((unsigned char)*suffix))
		suffix++;
	for (; units->suffix; units++) {
		if (strcasecmp(units->suffix, suffix) == 0)
			return units;
	}
	return NULL;
}

static void add_scaled(const struct unit *units, uint64_t value, struct strbuf *out)
{
	if (!value) {
		strbuf_addc(out, '0');
		return;
	}
	while (value % units->factor)
		units++;
	strbuf_addf(out, "%llu%s", (unsigned long long)(value / units->factor), units->suffix);
}

static void add_number(const struct unit *units, uint64_t value, struct strbuf *out)
{
	if (units)
		add_scaled(units, value, out);
	else
		strbuf_addf(out, "%llu", (unsigned long long)value);
}

static void add_range(
	const struct setting *row, const struct unit *units, uint64_t most, struct strbuf *out)
{
	add_number(units, row->min, out);
	if (!row->max && most == UINT64_MAX) {
		strbuf_adds(out, " or more");
		return;
	}
	strbuf_adds(out, " to ");
	add_number(units, row->max ? row->max : most, out);
}

static int parse_scaled(
	const struct setting *row, const char *text, uint64_t *ret_value, struct error *err)
{
	const struct setting_numbers *numbers = row->type->numbers;
	struct decimal number = {.scale = 1};
	const struct unit *unit;
	const char *rest = "";
	int r = parse_decimal(text, &number, &rest, err);

	if (r < 0)
		return error_set(err, EINVAL, "is not a %s", numbers->examples);
	unit = find_unit(numbers->units, *rest ? rest : numbers->unit);
	if (!unit)
		return error_set(err, EINVAL, "has an unknown unit (known: %s)", numbers->known);
	return scale(row, &number, unit->factor, ret_value, err);
}

static int number_parse(
	const struct setting *row, const struct setting_input *in, void *field, struct error *err)
{
	const struct setting_numbers *numbers = row->type->numbers;
	uint64_t value = 0;
	int r = numbers->units ? parse_scaled(row, in->value, &value, err)
			       : parse_integer(row, in->value, numbers->most, &value, err);

	if (r < 0)
		return r;
	if (row->type->size == sizeof(uint32_t))
		*(uint32_t *)field = (uint32_t)value;
	else
		*(uint64_t *)field = value;
	return 0;
}

static void number_print(const struct setting *row, const void *field, struct strbuf *out)
{
	add_number(row->type->numbers->units,
		row->type->size == sizeof(uint32_t) ? *(const uint32_t *)field
						    : *(const uint64_t *)field,
		out);
}

static void number_range(const struct setting *row, struct strbuf *out)
{
	add_range(row, row->type->numbers->units, row->type->numbers->most, out);
}

static const struct setting_numbers counts = {.most = UINT32_MAX};
static const struct setting_numbers wholes = {.most = UINT64_MAX};
static const struct setting_numbers durations = {
	.units = time_units,
	.unit = "s",
	.most = UINT64_MAX,
	.examples = "time (30, 1.5s, 200ms, 10m, 2h)",
	.known = "ms, s, m, h; without one: seconds",
};
static const struct setting_numbers sizes = {
	.units = size_units,
	.unit = "",
	.most = UINT64_MAX,
	.examples = "size (1048576, 512K, 1.5G)",
	.known = "K, M, G; without one: bytes",
};

#define NUMBER_TYPE(label, type, how)                                                              \
	{                                                                                          \
		.name = (label), .size = sizeof(type), .numbers = &(how), .parse = number_parse,   \
		.print = number_print, .range = number_range,                                      \
	}

const struct setting_type setting_count = NUMBER_TYPE("number", uint32_t, counts);
const struct setting_type setting_number = NUMBER_TYPE("number", uint64_t, wholes);
const struct setting_type setting_duration = NUMBER_TYPE("time", uint64_t, durations);
const struct setting_type setting_size = NUMBER_TYPE("size", uint64_t, sizes);

static int mode_parse(
	const struct setting *row, const struct setting_input *in, void *field, struct error *err)
{
	unsigned long value;
	char *end;

	value = strtoul(in->value, &end, 8);
	if (!isdigit((unsigned char)in->value[0]) || *end)
		return error_set(err, EINVAL, "is not an octal number");
	if (value & ~row->max || (value & row->min) != row->min)
		return error_set(err, EINVAL, "is out of range");
	*(uint32_t *)field = (uint32_t)value;
	return 0;
}

static void mode_print(const struct setting *row, const void *field, struct strbuf *out)
{
	strbuf_addf(out, "%04o", *(const uint32_t *)field);
}

static void mode_range(const struct setting *row, struct strbuf *out)
{
	strbuf_addf(out, "%04o and any bits of %04o", (unsigned)row->min,
		(unsigned)(row->max & ~row->min));
}

const struct setting_type setting_mode = {
	.name = "mode",
	.size = sizeof(uint32_t),
	.parse = mode_parse,
	.print = mode_print,
	.range = mode_range,
};
