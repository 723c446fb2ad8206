/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config/setting.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"

/* Room for any field, so that a value is read whole before the old one goes. */
union setting_value {
	uint64_t number;
	char *text;
	struct word_list list;
};

/* ---- looking in the table ---- */

static bool key_matches(const struct setting *row, const char *key)
{
	return row->key && (strcmp(row->key, "*") == 0 || strcmp(row->key, key) == 0);
}

const struct setting *setting_find(const char *section, const char *key)
{
	size_t i;

	for (i = 0; i < settings_count; i++) {
		if (strcmp(settings[i].section, section) == 0 && key_matches(&settings[i], key))
			return &settings[i];
	}
	return NULL;
}

const struct setting_section *setting_section_find(const char *section)
{
	const struct setting_section *at;

	for (at = setting_sections; at->name; at++) {
		if (strcmp(at->name, section) == 0)
			return at;
	}
	return NULL;
}

static bool has_variable(const struct setting *row, const char *name)
{
	const char *const *variable;

	for (variable = row->env; variable && *variable; variable++) {
		if (strcmp(*variable, name) == 0)
			return true;
	}
	return false;
}

const struct setting *setting_find_variable(const char *name)
{
	size_t i;

	for (i = 0; i < settings_count; i++) {
		if (has_variable(&settings[i], name))
			return &settings[i];
	}
	return NULL;
}

const struct setting *setting_home(const struct setting *row)
{
	size_t i;

	for (i = 0; row->offset != NO_FIELD && i < settings_count; i++) {
		if (settings[i].offset == row->offset)
			return &settings[i];
	}
	return row;
}

/* ---- where a value stands ---- */

bool setting_is_set(const struct config *config, const struct setting *row)
{
	return setting_origin(config, row)->kind > ORIGIN_DERIVED;
}

void setting_describe_origin(
	const struct config *config, const struct setting *row, struct strbuf *out)
{
	const struct origin *origin = setting_origin(config, row);

	if (origin->earlier) {
		strbuf_addf(out, "%s, before SIGHUP: needs a restart", origin->from);
		return;
	}
	switch (origin->kind) {
	case ORIGIN_DEFAULT:
		strbuf_adds(out, "default");
		return;
	case ORIGIN_DERIVED:
		strbuf_addf(out, "from %s", origin->from);
		return;
	case ORIGIN_FILE:
		strbuf_addf(out, "%s:%u", config->origins->file, origin->line);
		return;
	case ORIGIN_VARIABLE:
		strbuf_adds(out, origin->variable);
		return;
	case ORIGIN_OPTION:
		strbuf_adds(out, "-o");
		return;
	case ORIGIN_ARGUMENT:
		strbuf_adds(out, "command line");
		return;
	}
}

static void add_quoted(const struct setting_type *type, const char *value, struct strbuf *out)
{
	size_t i;

	if (type->secret) {
		strbuf_adds(out, "***");
		return;
	}
	strbuf_addc(out, '\'');
	for (i = 0; value[i] && i < 80; i++)
		strbuf_addc(out, iscntrl((unsigned char)value[i]) ? '?' : value[i]);
	strbuf_adds(out, value[i] ? "...'" : "'");
}

/* "dressage.ini:12: [pool] slots = 'many'" */
static void add_place(const struct setting *row, const struct setting_input *in, struct strbuf *out)
{
	switch (in->kind) {
	case ORIGIN_FILE:
		strbuf_addf(out, "%s:%u: [%s] %s = ", in->file, in->line, row->section, in->key);
		break;
	case ORIGIN_VARIABLE:
		strbuf_addf(out, "%s = ", in->variable);
		break;
	case ORIGIN_ARGUMENT:
		strbuf_adds(out, "mountpoint ");
		break;
	case ORIGIN_DEFAULT:
	case ORIGIN_DERIVED:
	case ORIGIN_OPTION:
		strbuf_addf(out, "-o %s.%s = ", row->section, in->key);
		break;
	}
	add_quoted(row->type, in->value, out);
}

static int bad_value(const struct setting *row, const struct setting_input *in, const char *what,
	struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	add_place(row, in, &text);
	strbuf_addf(&text, " %s", what);
	if (row->type->range) {
		strbuf_adds(&text, "; allowed: ");
		row->type->range(row, &text);
	}
	if (row->hint)
		strbuf_addf(&text, "; %s", row->hint);
	return error_set(err, EINVAL, "%s", text.data);
}

/* ---- values ---- */

static void note_origin(
	struct config *config, const struct setting *row, const struct setting_input *in)
{
	struct origin origin = {.kind = in->kind, .line = in->line, .variable = in->variable};

	*setting_origin(config, row) = origin;
	*setting_origin(config, setting_home(row)) = origin;
}

static void replace(struct config *config, const struct setting *row, union setting_value *value)
{
	void *field = setting_field(config, row);

	if (row->type->clear && field && !row->type->adds)
		row->type->clear(field);
	if (field)
		memcpy(field, value, row->type->size);
	else if (row->type->clear)
		row->type->clear(value);
}

static int parse_into(struct config *config, const struct setting *row,
	const struct setting_input *in, struct error *err)
{
	union setting_value value;
	int r;

	memset(&value, 0, sizeof(value));
	if (row->type->adds)
		memcpy(&value, setting_field(config, row), row->type->size);
	r = row->type->parse(row, in, &value, err);
	/* An adding type owns what it was given, grown or not. */
	if (r == 0 || row->type->adds)
		replace(config, row, &value);
	return r;
}

/* An empty value brings back a default that is empty, or derived, itself. */
static int apply_empty(struct config *config, const struct setting *row,
	const struct setting_input *in, struct error *err)
{
	struct setting_input back = {.kind = ORIGIN_DEFAULT, .key = in->key, .value = ""};
	void *field = setting_field(config, row);

	if (row->offset != NO_FIELD && row->type->clear)
		row->type->clear(field);
	else if (row->offset != NO_FIELD)
		memset(field, 0, row->type->size);
	note_origin(config, row, &back);
	return row->type->takes_empty ? parse_into(config, row, &back, err) : 0;
}

int setting_apply(struct config *config, const struct setting *row, const struct setting_input *in,
	struct error *err)
{
	struct error what = ERROR_NONE;
	int r;

	if (!in->value[0] && row->initial && !row->initial[0] && !row->type->adds)
		return apply_empty(config, row, in, err);
	if (!in->value[0] && !row->type->takes_empty)
		return bad_value(row, in, "is empty", err);
	r = parse_into(config, row, in, &what);
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "%s", what.text);
	if (r < 0)
		return bad_value(row, in, what.text, err);
	note_origin(config, row, in);
	return 0;
}

int setting_derive(struct config *config, const char *section, const char *key, const char *value,
	const char *from, struct error *err)
{
	const struct setting *row = setting_find(section, key);
	struct setting_input in = {.kind = ORIGIN_DERIVED, .key = key, .value = value};
	struct error what = ERROR_NONE;
	int r = parse_into(config, row, &in, &what);

	if (r < 0)
		return error_set(err, -r, "[%s] %s, from %s: '%.80s' %s", section, key, from, value,
			what.text);
	note_origin(config, row, &in);
	(void)snprintf(setting_origin(config, row)->from, sizeof(setting_origin(config, row)->from),
		"%s", from);
	return 0;
}

/* ---- remarks ---- */

int config_remark(struct config *config, int log_level, struct error *err, const char *fmt, ...)
{
	struct config_origins *origins = config->origins;
	struct remark *remarks =
		reallocarray(origins->remarks, origins->remark_count + 1, sizeof(*remarks));
	va_list args;
	int size;

	if (!remarks)
		return error_set(err, ENOMEM, "out of memory");
	origins->remarks = remarks;
	va_start(args, fmt);
	size = vasprintf(&remarks[origins->remark_count].sentence, fmt, args);
	va_end(args);
	if (size < 0)
		return error_set(err, ENOMEM, "out of memory");
	remarks[origins->remark_count++].log_level = log_level;
	return 0;
}

void config_each_remark(const struct config *config, config_remark_fn *say, void *data)
{
	size_t i;

	for (i = 0; i < config->origins->remark_count; i++)
		say(data, config->origins->remarks[i].log_level,
			config->origins->remarks[i].sentence);
}
