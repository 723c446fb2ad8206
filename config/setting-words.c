/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * setting-words.c: the types of settings that hold a list of words, by what parts the words.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "config/setting.h"

static const char blanks[] = " \t\n\r\v\f";

static void words_clear(void *field)
{
	struct word_list *list = field;
	size_t i;

	for (i = 0; i < list->count; i++)
		free(list->words[i]);
	free(list->words);
	*list = (struct word_list){0};
}

static int words_add(struct word_list *list, const char *word, size_t len, struct error *err)
{
	char **words = reallocarray(list->words, list->count + 2, sizeof(*words));
	char *copy;

	if (!words)
		return error_set(err, ENOMEM, "out of memory");
	list->words = words;
	words[list->count] = NULL;
	copy = strndup(word, len);
	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	words[list->count++] = copy;
	words[list->count] = NULL;
	return 0;
}

static void print_joined(const void *field, const char *between, struct strbuf *out)
{
	const struct word_list *list = field;
	size_t i;

	for (i = 0; i < list->count; i++)
		strbuf_addf(out, "%s%s", i ? between : "", list->words[i]);
}

/* Says whether one word is good; half a sentence in err when it is not. */
typedef int check_word_fn(const struct setting *row, const char *word, struct error *err);

static int add_trimmed(struct word_list *list, const char *word, size_t len, struct error *err)
{
	while (len && isspace((unsigned char)*word)) {
		word++;
		len--;
	}
	while (len && isspace((unsigned char)word[len - 1]))
		len--;
	return len ? words_add(list, word, len, err) : 0;
}

static int check_all(const struct setting *row, const struct word_list *list, check_word_fn *check,
	struct error *err)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < list->count; i++)
		r = check(row, list->words[i], err);
	return r;
}

/* Parts at any of the separators; empty words are left out. */
static int parse_parted(const struct setting *row, const char *text, const char *separators,
	check_word_fn *check, void *field, struct error *err)
{
	CLEANUP(words_clear) struct word_list list = {0};
	size_t len;
	int r = 0;

	for (; r == 0 && *text; text += len + (text[len] != '\0')) {
		len = strcspn(text, separators);
		r = add_trimmed(&list, text, len, err);
	}
	if (r == 0)
		r = check_all(row, &list, check, err);
	if (r < 0)
		return r;
	*(struct word_list *)field = list;
	list = (struct word_list){0};
	return 0;
}

/* ---- patterns of variable names, parted by blanks ---- */

static int check_pattern(const struct setting *row, const char *word, struct error *err)
{
	const char *at;

	for (at = word; *at; at++) {
		if (!isalnum((unsigned char)*at) && *at != '_' && *at != '*')
			return error_set(err, EINVAL,
				"has '%.40s', which is no name or pattern of a variable", word);
	}
	return 0;
}

static int patterns_parse(
	const struct setting *row, const struct setting_input *in, void *field, struct error *err)
{
	return parse_parted(row, in->value, blanks, check_pattern, field, err);
}

static void blanks_print(const struct setting *row, const void *field, struct strbuf *out)
{
	print_joined(field, " ", out);
}

static void patterns_range(const struct setting *row, struct strbuf *out)
{
	strbuf_adds(out, "names of letters, digits, _ and *, parted by blanks");
}

const struct setting_type setting_words = {
	.name = "list",
	.size = sizeof(struct word_list),
	.takes_empty = true,
	.parse = patterns_parse,
	.print = blanks_print,
	.range = patterns_range,
	.clear = words_clear,
};

/* ---- host:port, parted by blanks ---- */

static int check_host_port(const struct setting *row, const char *word, struct error *err)
{
	const char *colon = strrchr(word, ':'), *digit;
	bool bracketed = word[0] == '[' && colon && colon > word && colon[-1] == ']';
	bool good = colon && colon != word && (bracketed || strchr(word, ':') == colon) &&
		    !strchr(word, '/');
	unsigned port = 0;

	for (digit = good ? colon + 1 : ""; isdigit((unsigned char)*digit) && port <= 65535;
		digit++)
		port = port * 10 + (unsigned)(*digit - '0');
	if (!good || *digit || port < 1 || port > 65535)
		return error_set(err, EINVAL, "has '%.60s', which is not host:port", word);
	return 0;
}

static int reach_parse(
	const struct setting *row, const struct setting_input *in, void *field, struct error *err)
{
	return parse_parted(row, in->value, blanks, check_host_port, field, err);
}

static void reach_range(const struct setting *row, struct strbuf *out)
{
	strbuf_adds(out, "host:port or [v6 address]:port, parted by blanks, ports 1 to 65535");
}

const struct setting_type setting_reach = {
	.name = "host:port list",
	.size = sizeof(struct word_list),
	.takes_empty = true,
	.parse = reach_parse,
	.print = blanks_print,
	.range = reach_range,
	.clear = words_clear,
};

/* ---- known words, parted by commas ---- */

static int check_known(const struct setting *row, const char *word, struct error *err)
{
	const struct setting_choice_word *known;

	for (known = row->words; known->word; known++) {
		if (strcmp(known->word, word) == 0)
			return 0;
	}
	return error_set(err, EINVAL, "has '%.60s' in it, which is not known here", word);
}

static int commas_parse(
	const struct setting *row, const struct setting_input *in, void *field, struct error *err)
{
	return parse_parted(row, in->value, ",", check_known, field, err);
}

static void commas_print(const struct setting *row, const void *field, struct strbuf *out)
{
	print_joined(field, ",", out);
}

static void commas_range(const struct setting *row, struct strbuf *out)
{
	const struct setting_choice_word *known;

	strbuf_adds(out, "any of");
	for (known = row->words; known->word; known++)
		strbuf_addf(out, "%s %s", known == row->words ? "" : ",", known->word);
}

const struct setting_type setting_commas = {
	.name = "list",
	.size = sizeof(struct word_list),
	.takes_empty = true,
	.parse = commas_parse,
	.print = commas_print,
	.range = commas_range,
	.clear = words_clear,
};

/* ---- absolute paths, parted by colons ---- */

static int check_absolute(const struct setting *row, const char *word, struct error *err)
{
	if (word[0] != '/')
		return error_set(err, EINVAL, "has '%.60s', which is not an absolute path", word);
	return 0;
}

static int paths_parse(
	const struct setting *row, const struct setting_input *in, void *field, struct error *err)
{
	return parse_parted(row, in->value, ":", check_absolute, field, err);
}

static void paths_print(const struct setting *row, const void *field, struct strbuf *out)
{
	print_joined(field, ":", out);
}

static void paths_range(const struct setting *row, struct strbuf *out)
{
	strbuf_adds(out, "absolute paths, parted by colons");
}

const struct setting_type setting_paths = {
	.name = "path list",
	.size = sizeof(struct word_list),
	.takes_empty = true,
	.parse = paths_parse,
	.print = paths_print,
	.range = paths_range,
	.clear = words_clear,
};

/* ---- words quoted as for a shell ---- */

/*
 * What stands between quotes, and behind backslashes; *at is moved behind the word. Nothing is
 * expanded.
 */
static int take_shell_word(const char **at, struct strbuf *word, struct error *err)
{
	const char *p = *at;
	char quote = '\0';

	for (; *p && (quote || !isspace((unsigned char)*p)); p++) {
		if (quote && *p == quote) {
			quote = '\0';
		} else if (!quote && (*p == '\'' || *p == '"')) {
			quote = *p;
		} else if (*p == '\\' && quote != '\'') {
			/* Between double quotes a backslash is itself but before these. */
			if (!p[1])
				return error_set(err, EINVAL, "ends in a backslash");
			if (quote && !strchr("\"\\$`", p[1]))
				strbuf_addc(word, *p);
			strbuf_addc(word, *++p);
		} else {
			strbuf_addc(word, *p);
		}
	}
	if (quote)
		return error_set(err, EINVAL, "has a quote without its end");
	*at = p;
	return strbuf_failed(word) ? error_set(err, ENOMEM, "out of memory") : 0;
}

static int shell_split(const char *text, struct word_list *list, struct error *err)
{
	int r = 0;

	for (text += strspn(text, blanks); r == 0 && *text; text += strspn(text, blanks)) {
		CLEANUP(strbuf_fini) struct strbuf word = STRBUF_INIT;

		r = take_shell_word(&text, &word, err);
		if (r == 0)
			r = words_add(list, word.data, word.size, err);
	}
	return r;
}

static int shell_parse(
	const struct setting *row, const struct setting_input *in, void *field, struct error *err)
{
	CLEANUP(words_clear) struct word_list list = {0};
	int r = shell_split(in->value, &list, err);

	if (r < 0)
		return r;
	if (list.count < row->min)
		return error_set(err, EINVAL, "is empty");
	*(struct word_list *)field = list;
	list = (struct word_list){0};
	return 0;
}

static void add_shell_word(const char *word, struct strbuf *out)
{
	const char *at;

	if (*word &&
		!word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				   "_-+./:=,@%^{}")]) {
		strbuf_adds(out, word);
		return;
	}
	strbuf_addc(out, '\'');
	for (at = word; *at; at++)
		strbuf_addf(out, *at == '\'' ? "'\\''" : "%c", *at);
	strbuf_addc(out, '\'');
}

static void shell_print(const struct setting *row, const void *field, struct strbuf *out)
{
	const struct word_list *list = field;
	size_t i;

	for (i = 0; i < list->count; i++) {
		if (i)
			strbuf_addc(out, ' ');
		add_shell_word(list->words[i], out);
	}
}

static void shell_range(const struct setting *row, struct strbuf *out)
{
	strbuf_adds(out, row->min ? "at least one word, quoted as for a shell"
				  : "words quoted as for a shell");
}

const struct setting_type setting_shell = {
	.name = "words",
	.size = sizeof(struct word_list),
	.command = true,
	.takes_empty = true,
	.parse = shell_parse,
	.print = shell_print,
	.range = shell_range,
	.clear = words_clear,
};

/* ---- [images] ---- */

/* inih keeps 49 bytes of a key in mind, and says nothing when there are more. */
enum { IMAGE_NAME_MAX = 48 };

static bool image_name_is_good(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len <= IMAGE_NAME_MAX &&
	       strspn(name,
		       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./@+") ==
		       len;
}

/* "name=" of this image in the list, SIZE_MAX when it is not there. */
static size_t image_find(const struct word_list *list, const char *name)
{
	size_t i, len = strlen(name);

	for (i = 0; i < list->count; i++) {
		if (strncmp(list->words[i], name, len) == 0 && list->words[i][len] == '=')
			return i;
	}
	return SIZE_MAX;
}

static int image_parse(
	const struct setting *row, const struct setting_input *in, void *field, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf word = STRBUF_INIT;
	struct word_list *list = field;
	size_t at;
	int r;

	if (!image_name_is_good(in->key))
		return error_set(err, EINVAL,
			"has a bad image name (up to %d letters, digits and _-./@+)",
			IMAGE_NAME_MAX);
	if (in->value[0] != '/')
		return error_set(err, EINVAL, "is not an absolute path");
	strbuf_addf(&word, "%s=%s", in->key, in->value);
	if (strbuf_failed(&word))
		return error_set(err, ENOMEM, "out of memory");
	at = image_find(list, in->key);
	r = words_add(list, word.data, word.size, err);
	if (r < 0 || at == SIZE_MAX)
		return r;
	free(list->words[at]);
	list->words[at] = list->words[--list->count];
	list->words[list->count] = NULL;
	return 0;
}

const struct setting_type setting_image = {
	.name = "path",
	.size = sizeof(struct word_list),
	.adds = true,
	.parse = image_parse,
	.print = blanks_print,
	.range = paths_range,
	.clear = words_clear,
};
