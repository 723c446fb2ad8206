/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * settings-print.c: the table as `config show`, sample file, help and manual page.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "config/setting.h"

enum { WIDTH = 96 };

static bool takes_any_key(const struct setting *row)
{
	return row->key && strcmp(row->key, "*") == 0;
}

/* ---- config show ---- */

static void end_shown(const struct config *config, const struct setting *row, bool with_origin,
	struct strbuf *out)
{
	if (with_origin) {
		strbuf_adds(out, "  ; ");
		setting_describe_origin(config, row, out);
	}
	strbuf_addc(out, '\n');
}

static void show_images(const struct config *config, const struct setting *row, bool with_origin,
	struct strbuf *out)
{
	size_t i;

	for (i = 0; i < config->images.count; i++) {
		const char *word = config->images.words[i], *equals = strchr(word, '=');

		strbuf_addf(
			out, "%s.%.*s = %s", row->section, (int)(equals - word), word, equals + 1);
		end_shown(config, row, with_origin, out);
	}
}

static void show_row(const struct config *config, const struct setting *row, bool with_origin,
	struct strbuf *out)
{
	bool unset = !row->initial[0] && setting_origin(config, row)->kind == ORIGIN_DEFAULT;

	strbuf_addf(out, "%s.%s = ", row->section, row->key);
	if (!unset)
		row->type->print(row, setting_field_of(config, row), out);
	end_shown(config, row, with_origin, out);
}

void config_show(const struct config *config, bool with_origin, struct strbuf *out)
{
	const struct setting *row;

	for (row = settings; row < settings + settings_count; row++) {
		if (takes_any_key(row))
			show_images(config, row, with_origin, out);
		else if (row->key)
			show_row(config, row, with_origin, out);
	}
}

/* ---- text ---- */

/* Adds the words of a text in lines of at most WIDTH bytes, each behind the prefix. */
static void add_wrapped(const char *prefix, const char *text, struct strbuf *out)
{
	size_t column = 0, len;

	for (text += strspn(text, " "); *text; text += len + strspn(text + len, " ")) {
		len = strcspn(text, " ");
		if (column && column + 1 + len > WIDTH) {
			strbuf_addc(out, '\n');
			column = 0;
		}
		strbuf_adds(out, column ? " " : prefix);
		column += column ? 1 : strlen(prefix);
		strbuf_add(out, text, len);
		column += len;
	}
	strbuf_addc(out, '\n');
}

static void add_variables(const struct setting *row, struct strbuf *out)
{
	const char *const *variable;

	for (variable = row->env; variable && *variable; variable++)
		strbuf_addf(out, "%s%s", variable == row->env ? "" : ", ", *variable);
}

static const char *default_text(const struct setting *row)
{
	if (row->initial_help)
		return row->initial_help;
	return row->initial && row->initial[0] ? row->initial : "none";
}

/* "number, 1 to 9999; DRESSAGE_X" */
static void add_kind(const struct setting *row, struct strbuf *out)
{
	strbuf_adds(out, row->type->name);
	if (row->type->range) {
		size_t before;

		strbuf_adds(out, ": ");
		before = out->size;
		row->type->range(row, out);
		if (out->size == before)
			strbuf_adds(out, "any");
	}
	if (row->env) {
		strbuf_adds(out, "; ");
		add_variables(row, out);
	}
	if (row->live)
		strbuf_adds(out, "; SIGHUP changes it");
}

static bool is_not_there(const struct setting *row)
{
	return row->later != LATER_NOT;
}

static void add_not_there(const struct setting *row, struct strbuf *out)
{
	const char *const *value;

	strbuf_adds(out, " Not there yet");
	for (value = row->later_values; value && *value; value++)
		strbuf_addf(out, "%s %s", value == row->later_values ? ":" : ",", *value);
	strbuf_addc(out, '.');
}

static void add_help(const struct setting *row, const char *prefix, struct strbuf *out)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	strbuf_adds(&text, row->help);
	if (is_not_there(row))
		add_not_there(row, &text);
	add_wrapped(prefix, text.data, out);
}

/* ---- the sample ---- */

static void add_sample_row(const struct setting *row, struct strbuf *out)
{
	CLEANUP(strbuf_fini) struct strbuf kind = STRBUF_INIT;

	add_help(row, "# ", out);
	add_kind(row, &kind);
	strbuf_addf(&kind, "; default: %s", default_text(row));
	add_wrapped("# ", kind.data, out);
	if (takes_any_key(row))
		strbuf_adds(out, ";python = /srv/rootfs/python\n");
	else
		strbuf_addf(out, ";%s =%s%s\n", row->key, row->initial[0] ? " " : "", row->initial);
}

void config_sample(struct strbuf *out)
{
	const struct setting_section *section;
	const struct setting *row;

	strbuf_adds(out,
		"# dressage.ini: the settings of dressagefs, each with its default behind a ';'.\n"
		"# An option (-o section.key=value) and the named variables go before what stands here.\n"
		"# A line has up to 190 bytes; a long value goes on in indented lines. ' ;' begins a comment.\n");
	for (section = setting_sections; section->name; section++) {
		strbuf_addf(out, "\n# %s\n[%s]\n", section->help, section->name);
		for (row = settings; row < settings + settings_count; row++) {
			if (row->key && strcmp(row->section, section->name) == 0)
				add_sample_row(row, out);
		}
	}
}

/* ---- help ---- */

static void add_key_help(const struct setting *row, struct strbuf *out)
{
	CLEANUP(strbuf_fini) struct strbuf kind = STRBUF_INIT;

	strbuf_addf(out, "  %s.%s = %s\n", row->section, takes_any_key(row) ? "NAME" : row->key,
		default_text(row));
	add_help(row, "      ", out);
	add_kind(row, &kind);
	add_wrapped("      ", kind.data, out);
}

static void add_variable_help(const struct setting *row, struct strbuf *out)
{
	strbuf_adds(out, "  ");
	add_variables(row, out);
	strbuf_addc(out, '\n');
	add_wrapped("      ", row->help, out);
	if (row->no_effect) {
		CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

		strbuf_addf(&text, "No effect: %s.", row->no_effect);
		add_wrapped("      ", text.data, out);
	}
}

static void add_variables_help(bool with_effect, struct strbuf *out)
{
	const struct setting *row;

	for (row = settings; row < settings + settings_count; row++) {
		if (!row->key && !row->no_effect == with_effect)
			add_variable_help(row, out);
	}
}

void config_help(struct strbuf *out)
{
	const struct setting *row;

	strbuf_adds(out,
		"Settings (-o section.key=value, a variable, or key = value in dressage.ini) and their defaults:\n");
	for (row = settings; row < settings + settings_count; row++) {
		if (row->key)
			add_key_help(row, out);
	}
	strbuf_adds(out, "\nVariables without a key:\n");
	add_variables_help(true, out);
	strbuf_adds(out, "\nVariables that are accepted without effect:\n");
	add_variables_help(false, out);
}

/* ---- dressage.ini(5) ---- */

/* Text as troff takes it: no line begins a request, and a hyphen can be searched for and copied. */
static void add_troff(const char *text, struct strbuf *out)
{
	if (*text == '.' || *text == '\'')
		strbuf_adds(out, "\\&");
	for (; *text; text++) {
		if (*text == '\\')
			strbuf_adds(out, "\\e");
		else if (*text == '-')
			strbuf_adds(out, "\\-");
		else
			strbuf_addc(out, *text);
	}
}

static void add_manual_row(const struct setting *row, struct strbuf *out)
{
	CLEANUP(strbuf_fini) struct strbuf kind = STRBUF_INIT, help = STRBUF_INIT;

	add_kind(row, &kind);
	strbuf_addf(&kind, "; default: %s", default_text(row));
	strbuf_adds(&help, row->help);
	if (is_not_there(row))
		add_not_there(row, &help);
	strbuf_addf(out, ".TP\n.B %s\n", takes_any_key(row) ? "NAME" : row->key);
	add_troff(help.data, out);
	strbuf_adds(out, "\n.br\n");
	add_troff(kind.data, out);
	strbuf_addc(out, '\n');
}

static void add_manual_variable(const struct setting *row, struct strbuf *out)
{
	CLEANUP(strbuf_fini) struct strbuf names = STRBUF_INIT;

	add_variables(row, &names);
	strbuf_addf(out, ".TP\n.B %s\n", names.data);
	add_troff(row->help, out);
	strbuf_addc(out, '\n');
	if (!row->no_effect)
		return;
	strbuf_adds(out, "No effect: ");
	add_troff(row->no_effect, out);
	strbuf_adds(out, ".\n");
}

static void add_manual_sections(struct strbuf *out)
{
	const struct setting_section *section;
	const struct setting *row;

	for (section = setting_sections; section->name; section++) {
		strbuf_addf(out, ".SS [%s]\n", section->name);
		add_troff(section->help, out);
		strbuf_addc(out, '\n');
		for (row = settings; row < settings + settings_count; row++) {
			if (row->key && strcmp(row->section, section->name) == 0)
				add_manual_row(row, out);
		}
	}
}

void config_manual(struct strbuf *out)
{
	const struct setting *row;

	strbuf_adds(out,
		".TH DRESSAGE.INI 5 \"\" \"dressagefs " DRESSAGE_VERSION "\"\n"
		".SH NAME\ndressage.ini \\- settings of dressagefs\n"
		".SH DESCRIPTION\n"
		"The first of the file given with\n.BR \\-\\-config ,\n"
		"$DRESSAGE_CONFIG, $XDG_CONFIG_HOME/dressage/dressage.ini (else\n"
		"~/.config/dressage/dressage.ini) and /etc/dressage/dressage.ini is read; without any the\n"
		"defaults serve.\n"
		"An option (\\-o section.key=value) goes before a variable, a variable before the file.\n"
		".PP\n"
		"A line has up to 190 bytes; a value goes on in indented lines, joined by one blank.\n"
		"Lines that begin with # or ; are comments, and so is what stands behind a blank and\n"
		"a ; in a line, which is refused in command lines.\n"
		"Sizes take K, M and G, times ms, s, m and h; a bare number is bytes or seconds.\n"
		".SH SETTINGS\n");
	add_manual_sections(out);
	strbuf_adds(out, ".SH ENVIRONMENT\nVariables without a key, beside those named above:\n");
	for (row = settings; row < settings + settings_count; row++) {
		if (!row->key)
			add_manual_variable(row, out);
	}
	strbuf_adds(out, ".SH SEE ALSO\n.BR dressagefs (1),\n.BR dressage (1)\n");
}
