/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config/ini.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"

struct reading {
	FILE *stream;
	const char *name;
	const struct ini_visitor *visitor;
	struct error *err;
	int failed; /* what entry() or a check gave; nothing is read any more */

	unsigned line;               /* the one inih has now */
	char text[INI_LINE_MAX + 2]; /* it, without its newline; room to see that it is too long */

	bool pending; /* an entry whose value may go on in the next line */
	bool comment_cut;
	unsigned pending_line;
	struct strbuf section, key, value;
};

static void reading_fini(struct reading *reading)
{
	strbuf_fini(&reading->section);
	strbuf_fini(&reading->key);
	strbuf_fini(&reading->value);
}

static bool is_blank(char c)
{
	return isspace((unsigned char)c);
}

static const char *skip_blanks(const char *text)
{
	while (is_blank(*text))
		text++;
	return text;
}

static int refuse_line(struct reading *reading, const char *what)
{
	reading->failed =
		error_set(reading->err, EINVAL, "%s:%u: %s", reading->name, reading->line, what);
	return reading->failed;
}

/*
 * A line without its newline; *ret_size beyond INI_LINE_MAX means that it is too long. False at
 * the end.
 */
static bool get_line(struct reading *reading, size_t *ret_size)
{
	size_t size = 0;
	int c;

	while ((c = getc(reading->stream)) != EOF && c != '\n') {
		if (size > INI_LINE_MAX)
			break;
		reading->text[size++] = (char)c;
	}
	if (size && reading->text[size - 1] == '\r' && (c == '\n' || c == EOF))
		size--;
	reading->text[size <= INI_LINE_MAX ? size : INI_LINE_MAX] = '\0';
	*ret_size = size;
	return size || c != EOF;
}

/* inih ends a section's name at the first ] and forgets the rest of the line. */
static int check_section(struct reading *reading)
{
	const char *at = skip_blanks(reading->text), *end;

	if (*at != '[')
		return 0;
	end = strchr(at, ']');
	if (!end)
		return refuse_line(reading, "a section's name has no ] behind it");
	if (end - at > 40)
		return refuse_line(
			reading, "this section's name is too long for any that is known");
	end = skip_blanks(end + 1);
	if (*end && *end != ';' && *end != '#')
		return refuse_line(reading, "something stands behind the section's ]");
	return 0;
}

static int check_line(struct reading *reading, size_t size)
{
	if (size > INI_LINE_MAX)
		return refuse_line(
			reading, "the line is longer than 190 bytes; go on in indented lines");
	if (memchr(reading->text, '\0', size))
		return refuse_line(reading, "there is a NUL byte in the line");
	return check_section(reading);
}

/* Hands over the entry whose last line has been read. */
static void flush(struct reading *reading)
{
	struct ini_entry entry = {
		.section = reading->section.data,
		.key = reading->key.data,
		.value = reading->value.data,
		.line = reading->pending_line,
		.comment_cut = reading->comment_cut,
	};

	if (!reading->pending || reading->failed)
		return;
	reading->pending = false;
	if (strbuf_failed(&reading->section) || strbuf_failed(&reading->key) ||
		strbuf_failed(&reading->value))
		reading->failed = error_set(reading->err, ENOMEM, "out of memory");
	else
		reading->failed =
			reading->visitor->entry(reading->visitor->data, &entry, reading->err);
}

/* Reader for inih: as fgets(), which may not give more than num - 1 bytes. */
static char *next_line(char *str, int num, void *stream)
{
	struct reading *reading = stream;
	size_t size;

	if (reading->failed || !get_line(reading, &size))
		return NULL;
	reading->line++;
	if (num < INI_LINE_MAX + 2)
		(void)refuse_line(reading, "this inih has no room for a line");
	if (reading->failed || check_line(reading, size) < 0)
		return NULL;
	if (reading->text[0] == '[')
		flush(reading); /* or an indented first key of the section would be taken for more
				   of the value */
	memcpy(str, reading->text, size);
	memcpy(str + size, "\n", 2);
	return str;
}

static bool has_comment_mark(const char *text)
{
	for (; *text; text++) {
		if (is_blank(text[0]) && text[1] == ';')
			return true;
	}
	return false;
}

static void begin(struct reading *reading, const char *section, const char *key, const char *value)
{
	strbuf_clear(&reading->section);
	strbuf_adds(&reading->section, section);
	strbuf_clear(&reading->key);
	strbuf_adds(&reading->key, key);
	strbuf_clear(&reading->value);
	strbuf_adds(&reading->value, value);
	reading->pending_line = reading->line;
	reading->comment_cut = has_comment_mark(reading->text);
	reading->pending = true;
}

/* Whether the line would be a setting or a section if it were not indented. */
static bool looks_like_setting(const struct reading *reading)
{
	const char *at = skip_blanks(reading->text);
	size_t len = strcspn(at, "=:");
	char key[64];

	if (*at == '[')
		return true;
	if (!at[len] || len >= sizeof(key))
		return false;
	while (len && is_blank(at[len - 1]))
		len--;
	memcpy(key, at, len);
	key[len] = '\0';
	return reading->visitor->known(reading->visitor->data, reading->section.data, key);
}

static void go_on(struct reading *reading, const char *value)
{
	size_t len = strlen(value);
	const char *at;

	if (looks_like_setting(reading)) {
		(void)refuse_line(reading,
			"an indented line goes on with the value before it, "
			"but this one looks like a setting: take the blanks before it away");
		return;
	}
	for (at = value; *at && !(is_blank(at[0]) && at[1] == ';'); at++)
		;
	if (*at)
		len = (size_t)(at - value);
	if (len && reading->value.size)
		strbuf_addc(&reading->value, ' ');
	strbuf_add(&reading->value, value, len);
	reading->comment_cut |= has_comment_mark(reading->text);
}

/*
 * Handler for inih: called for each "key = value", and again with the same key for each indented
 * line behind.
 */
static int handle_value(void *user, const char *section, const char *name, const char *value)
{
	struct reading *reading = user;

	if (reading->failed)
		return 0;
	if (reading->pending && is_blank(reading->text[0]) &&
		strcmp(section, reading->section.data) == 0) {
		go_on(reading, value);
	} else {
		flush(reading);
		begin(reading, section, name, value ? value : "");
	}
	return !reading->failed;
}

int ini_read(FILE *stream, const char *name, const struct ini_visitor *visitor, struct error *err)
{
	CLEANUP(reading_fini)
	struct reading reading = {
		.stream = stream,
		.name = name,
		.visitor = visitor,
		.err = err,
		.section = STRBUF_INIT,
		.key = STRBUF_INIT,
		.value = STRBUF_INIT,
	};
	int r = ini_parse_stream(next_line, &reading, handle_value, &reading);

	flush(&reading);
	if (reading.failed)
		return reading.failed;
	if (ferror(stream))
		return error_set(err, EIO, "cannot read '%s'", name);
	if (r > 0)
		return error_set(err, EINVAL,
			"%s:%d: neither a comment, a [section] nor key = value", name, r);
	if (r < 0)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}
