/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * setting-texts.c: the types of settings that hold one word, flag, text or path; lists are in
 * setting-words.c.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "config/setting.h"

/* ---- words ---- */

static const struct setting_choice_word flag_words[] = {
	{"off", false, false},
	{"on", true, false},
	{"0", false, true},
	{"1", true, true},
	{"false", false, true},
	{"true", true, true},
	{"no", false, true},
	{"yes", true, true},
	{"n", false, true},
	{"y", true, true},
	{0},
};

static const struct setting_choice_word *find_word(
	const struct setting_choice_word *words, const char *text)
{
	for (; words->word; words++) {
		if (strcasecmp(words->word, text) == 0)
			return words;
	}
	return NULL;
}

static const char *word_of(const struct setting_choice_word *words, unsigned value)
{
	for (; words->word; words++) {
		if (words->value == value)
			return words->word;
	}
	return "?";
}

static void add_words(const struct setting_choice_word *words, struct strbuf *out)
{
	const struct setting_choice_word *at;

	for (at = words; at->word; at++) {
		if (!at->alias)
			strbuf_addf(out, "%s%s", at == words ? "" : " | ", at->word);
	}
}

static int unknown_word(struct error *err)
{
	return error_set(err, EINVAL, "is not one of the words known here");
}

static int flag_parse(
	const struct setting *row, const struct setting_input *in, void *field, struct error *err)
{
	const struct setting_choice_word *word = find_word(flag_words, in->value);

	if (!word)
		return error_set(err, EINVAL, "is neither on nor off");
	*(bool *)field = word->value;
	return 0;
}

static void flag_print(const struct setting *row, const void *field, struct strbuf *out)
{
	strbuf_adds(out, *(const bool *)field ? "on" : "off");
}

static void flag_range(const struct setting *row, struct strbuf *out)
{
	strbuf_adds(out, "on | off");
}

const struct setting_type setting_flag = {
	.name = "flag",
	.size = sizeof(bool),
	.parse = flag_parse,
	.print = flag_print,
	.range = flag_range,
};

static int choice_parse(
	const struct setting *row, const struct setting_input *in, void *field, struct error *err)
{
	const struct setting_choice_word *word = find_word(row->words, in->value);

	if (!word)
		return unknown_word(err);
	memcpy(field, &word->value, sizeof(word->value));
	return 0;
}

static void choice_print(const struct setting *row, const void *field, struct strbuf *out)
{
	unsigned value;

	memcpy(&value, field, sizeof(value));
	strbuf_adds(out, word_of(row->words, value));
}

static void choice_range(const struct setting *row, struct strbuf *out)
{
	add_words(row->words, out);
}

const struct setting_type setting_choice = {
	.name = "word",
	.size = sizeof(unsigned),
	.parse = choice_parse,
	.print = choice_print,
	.range = choice_range,
};

/* ---- text ---- */

static int store_text(const char *text, void *field, struct error *err)
{
	char *copy = strdup(text);

	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	*(char **)field = copy;
	return 0;
}

static void text_clear(void *field)
{
	free(*(char **)field);
	*(char **)field = NULL;
}

static void text_print(const struct setting *row, const void *field, struct strbuf *out)
{
	const char *text = *(char *const *)field;

	strbuf_adds(out, text ? text : "");
}

static int word_parse(
	const struct setting *row, const struct setting_input *in, void *field, struct error *err)
{
	const struct setting_choice_word *word = find_word(row->words, in->value);

	if (!word)
		return unknown_word(err);
	return store_text(word->word, field, err);
}

const struct setting_type setting_word = {
	.name = "word",
	.size = sizeof(char *),
	.parse = word_parse,
	.print = text_print,
	.range = choice_range,
	.clear = text_clear,
};

static bool has_control_bytes(const char *text)
{
	for (; *text; text++) {
		if (iscntrl((unsigned char)*text))
			return true;
	}
	return false;
}

static int check_text(const struct setting *row, const char *text, struct error *err)
{
	size_t len = strlen(text);

	if (has_control_bytes(text))
		return error_set(err, EINVAL, "has control bytes in it");
	if (len < row->min)
		return error_set(err, EINVAL, "is empty");
	if (row->max && len > row->max)
		return error_set(err, EINVAL, "is too long");
	return 0;
}

static int text_parse(
	const struct setting *row, const struct setting_input *in, void *field, struct error *err)
{
	int r = check_text(row, in->value, err);

	if (r < 0)
		return r;
	return store_text(in->value, field, err);
}

static void text_range(const struct setting *row, struct strbuf *out)
{
	if (row->max)
		strbuf_addf(out, "%llu to %llu bytes", (unsigned long long)row->min,
			(unsigned long long)row->max);
}

const struct setting_type setting_text = {
	.name = "text",
	.size = sizeof(char *),
	.takes_empty = true,
	.parse = text_parse,
	.print = text_print,
	.range = text_range,
	.clear = text_clear,
};

static void secret_print(const struct setting *row, const void *field, struct strbuf *out)
{
	const char *text = *(char *const *)field;

	strbuf_adds(out, text && *text ? "***" : "");
}

const struct setting_type setting_secret = {
	.name = "secret",
	.size = sizeof(char *),
	.secret = true,
	.takes_empty = true,
	.parse = text_parse,
	.print = secret_print,
	.clear = text_clear,
};

const struct setting_type setting_command = {
	.name = "command line",
	.size = sizeof(char *),
	.command = true,
	.takes_empty = true,
	.parse = text_parse,
	.print = text_print,
	.clear = text_clear,
};

/* ---- paths ---- */

/*
 * A file says the same wherever it is read from; who types a relative path means his own
 * directory.
 */
static int absolute_path(const struct setting_input *in, void *field, struct error *err)
{
	CLEANUP(freep) char *cwd = NULL;
	char *path;
	int size;

	if (in->value[0] == '/')
		return store_text(in->value, field, err);
	if (in->kind == ORIGIN_FILE || in->kind == ORIGIN_DEFAULT)
		return error_set(err, EINVAL, "is not an absolute path");
	cwd = in->directory ? strdup(in->directory) : getcwd(NULL, 0);
	if (!cwd)
		return error_errno(
			err, errno, "is a relative path and the current directory is unknown");
	size = asprintf(&path, "%s/%s", strcmp(cwd, "/") == 0 ? "" : cwd, in->value);
	if (size < 0)
		return error_set(err, ENOMEM, "out of memory");
	*(char **)field = path;
	return 0;
}

static void drop_trailing_slashes(char *path)
{
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		path[--len] = '\0';
}

static int path_parse(
	const struct setting *row, const struct setting_input *in, void *field, struct error *err)
{
	int r = check_text(row, in->value, err);

	if (r < 0)
		return r;
	if (!in->value[0])
		return store_text("", field, err);
	r = absolute_path(in, field, err);
	if (r == 0)
		drop_trailing_slashes(*(char **)field);
	return r;
}

static void path_range(const struct setting *row, struct strbuf *out)
{
	strbuf_adds(out, "an absolute path");
}

const struct setting_type setting_path = {
	.name = "path",
	.size = sizeof(char *),
	.takes_empty = true,
	.parse = path_parse,
	.print = text_print,
	.range = path_range,
	.clear = text_clear,
};

static int inner_path_parse(
	const struct setting *row, const struct setting_input *in, void *field, struct error *err)
{
	int r = check_text(row, in->value, err);

	if (r < 0)
		return r;
	if (in->value[0] && in->value[0] != '/')
		return error_set(err, EINVAL, "does not begin with /");
	return store_text(in->value, field, err);
}

const struct setting_type setting_inner_path = {
	.name = "path",
	.size = sizeof(char *),
	.takes_empty = true,
	.parse = inner_path_parse,
	.print = text_print,
	.range = path_range,
	.clear = text_clear,
};
