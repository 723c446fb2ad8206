/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sources.c: config_load(), and the places that settings come from: file, environment, options.
 */
#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "config/ini.h"
#include "config/setting.h"
#include "config/suggest.h"

static int out_of_memory(struct error *err)
{
	return error_set(err, ENOMEM, "out of memory");
}

/* ---- making and freeing ---- */

void config_free(struct config *config)
{
	size_t i;

	if (!config)
		return;
	for (i = 0; i < settings_count; i++) {
		if (settings[i].type->clear && settings[i].offset != NO_FIELD)
			settings[i].type->clear(setting_field(config, &settings[i]));
	}
	for (i = 0; config->origins && i < config->origins->remark_count; i++)
		free(config->origins->remarks[i].sentence);
	if (config->origins) {
		free(config->origins->remarks);
		free(config->origins->file);
	}
	free(config->origins);
	free(config);
}

static void config_freep(struct config **config)
{
	config_free(*config);
}

static int apply_defaults(struct config *config, struct error *err)
{
	struct setting_input in = {.kind = ORIGIN_DEFAULT};
	const struct setting *row;
	int r = 0;

	for (row = settings; r == 0 && row < settings + settings_count; row++) {
		if (!row->initial || row->type->adds)
			continue;
		in.key = row->key ? row->key : "";
		in.value = row->initial;
		r = setting_apply(config, row, &in, err);
	}
	return r;
}

/* ---- the file ---- */

struct file_reading {
	struct config *config;
	const char *name;
	unsigned lines[]; /* of each row, 0: not seen yet */
};

static int unknown_section(const struct ini_entry *entry, const char *name, struct error *err)
{
	struct suggestion suggestion = {.typed = entry->section};
	const struct setting_section *at;

	if (!entry->section[0])
		return error_set(err, EINVAL, "%s:%u: '%.60s' stands before the first [section]",
			name, entry->line, entry->key);
	for (at = setting_sections; at->name; at++)
		suggest_consider(&suggestion, at->name);
	if (suggestion.best)
		return error_set(err, EINVAL, "%s:%u: unknown section [%.60s]; did you mean [%s]?",
			name, entry->line, entry->section, suggestion.best);
	return error_set(
		err, EINVAL, "%s:%u: unknown section [%.60s]", name, entry->line, entry->section);
}

/*
 * Where a key that this section does not have would be right: a near one here, else the same one
 * elsewhere.
 */
static void add_key_suggestion(const char *section, const char *key, struct strbuf *out)
{
	struct suggestion suggestion = {.typed = key};
	const struct setting *row, *elsewhere = NULL;

	for (row = settings; row < settings + settings_count; row++) {
		if (!row->key)
			continue;
		if (strcmp(row->section, section) == 0)
			suggest_consider(&suggestion, row->key);
		else if (strcasecmp(row->key, key) == 0)
			elsewhere = row;
	}
	if (elsewhere && suggestion.distance)
		suggestion.best = NULL;
	if (suggestion.best)
		strbuf_addf(out, "; did you mean '%s'?", suggestion.best);
	else if (elsewhere)
		strbuf_addf(out, "; [%s] has that key", elsewhere->section);
}

static bool key_is_known(void *data, const char *section, const char *key)
{
	const struct setting *row = setting_find(section, key);

	return row && strcmp(row->key, "*") != 0;
}

static bool image_was_set(const struct config *config, const char *name)
{
	size_t i, len = strlen(name);

	for (i = 0; i < config->images.count; i++) {
		if (strncmp(config->images.words[i], name, len) == 0 &&
			config->images.words[i][len] == '=')
			return true;
	}
	return false;
}

static int note_line(struct file_reading *reading, const struct setting *row,
	const struct ini_entry *entry, struct error *err)
{
	unsigned *line = &reading->lines[row - settings];

	if (strcmp(row->key, "*") != 0 && *line)
		return error_set(err, EINVAL, "%s:%u: [%s] %s was set in line %u already",
			reading->name, entry->line, entry->section, entry->key, *line);
	/* The file is the first source: what is there came from it. */
	if (strcmp(row->key, "*") == 0 && image_was_set(reading->config, entry->key))
		return error_set(err, EINVAL, "%s:%u: [%s] %.60s was set already", reading->name,
			entry->line, entry->section, entry->key);
	*line = entry->line;
	return 0;
}

static int unknown_key(
	const struct file_reading *reading, const struct ini_entry *entry, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	strbuf_addf(&text, "%s:%u: [%s] has no key '%.60s'", reading->name, entry->line,
		entry->section, entry->key);
	add_key_suggestion(entry->section, entry->key, &text);
	return error_set(err, EINVAL, "%s", text.data);
}

static int apply_entry(void *data, const struct ini_entry *entry, struct error *err)
{
	struct file_reading *reading = data;
	const struct setting *row = setting_find(entry->section, entry->key);
	struct setting_input in = {.kind = ORIGIN_FILE,
		.file = reading->name,
		.line = entry->line,
		.key = entry->key,
		.value = entry->value};
	int r;

	if (!setting_section_find(entry->section))
		return unknown_section(entry, reading->name, err);
	if (!row)
		return unknown_key(reading, entry, err);
	if (row->type->command && entry->comment_cut)
		return error_set(err, EINVAL,
			"%s:%u: [%s] %s has ' ;' in it, where a comment would begin: write it without the blank, or put the command into a script",
			reading->name, entry->line, entry->section, entry->key);
	r = note_line(reading, row, entry, err);
	if (r < 0)
		return r;
	return setting_apply(reading->config, row, &in, err);
}

static int read_stream(struct config *config, FILE *stream, const char *name, struct error *err)
{
	struct file_reading *reading =
		calloc(1, sizeof(*reading) + settings_count * sizeof(reading->lines[0]));
	struct ini_visitor visitor = {.entry = apply_entry, .known = key_is_known, .data = reading};
	int r;

	if (!reading)
		return out_of_memory(err);
	reading->config = config;
	reading->name = name;
	r = ini_read(stream, name, &visitor, err);
	free(reading);
	return r;
}

/* A key in a file that others can read is no secret any more. */
static int remark_open_secret(struct config *config, FILE *stream, struct error *err)
{
	const struct setting *row = setting_find("e2b", "api_key");
	struct stat st;

	if (setting_origin(config, row)->kind != ORIGIN_FILE || fstat(fileno(stream), &st) < 0 ||
		!(st.st_mode & 077))
		return 0;
	return config_remark(config, LOG_LEVEL_WARN, err,
		"%s holds [e2b] api_key and others may read it (mode %04o): chmod 600 it",
		config->origins->file, (unsigned)st.st_mode & 07777);
}

/* 0: read. -ENOENT, with a sentence: not there. */
static int read_file(struct config *config, const char *path, struct error *err)
{
	CLEANUP(fclosep) FILE *stream = fopen(path, "re");
	struct stat st;
	int r;

	if (!stream)
		return error_errno(err, errno, "cannot open the configuration file '%s'", path);
	if (fstat(fileno(stream), &st) == 0 && S_ISDIR(st.st_mode))
		return error_set(err, EISDIR, "the configuration file '%s' is a directory", path);
	free(config->origins->file);
	config->origins->file = strdup(path);
	if (!config->origins->file)
		return out_of_memory(err);
	r = read_stream(config, stream, path, err);
	if (r < 0)
		return r;
	return remark_open_secret(config, stream, err);
}

/* A name from the command line or the environment may be relative. */
static int read_named(
	struct config *config, const char *name, const char *directory, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;

	if (name[0] == '/' || !directory)
		return read_file(config, name, err);
	strbuf_addf(&path, "%s/%s", directory, name);
	return strbuf_failed(&path) ? out_of_memory(err) : read_file(config, path.data, err);
}

static int read_file_if_there(struct config *config, const char *path, struct error *err)
{
	int r = read_file(config, path, err);

	return r == -ENOENT || r == -ENOTDIR ? 0 : r;
}

static int read_user_file(struct config *config, const char *const *variables, struct error *err)
{
	const char *base = environ_get(variables, "XDG_CONFIG_HOME"),
		   *home = environ_get(variables, "HOME");
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;

	if (!base && !home)
		return 0;
	strbuf_addf(
		&path, "%s%s/dressage/dressage.ini", base ? base : home, base ? "" : "/.config");
	return strbuf_failed(&path) ? out_of_memory(err)
				    : read_file_if_there(config, path.data, err);
}

static int apply_file(
	struct config *config, const struct config_sources *sources, struct error *err)
{
	const char *named =
		sources->file ? sources->file : environ_get(sources->environ, "DRESSAGE_CONFIG");
	int r;

	if (named)
		return named[0] ? read_named(config, named, sources->directory, err) : 0;
	r = read_user_file(config, sources->environ, err);
	if (r < 0 || config->origins->file)
		return r;
	return read_file_if_there(config, "/etc/dressage/dressage.ini", err);
}

/* ---- the environment ---- */

const char *environ_get(const char *const *variables, const char *name)
{
	size_t len = strlen(name);
	const char *value;

	for (; variables && *variables; variables++) {
		if (strncmp(*variables, name, len) != 0 || (*variables)[len] != '=')
			continue;
		value = *variables + len + 1;
		return value[strspn(value, " \t\r\n")] ? value : NULL;
	}
	return NULL;
}

/* Without the blanks at either end. */
static char *trimmed(const char *value)
{
	size_t len;

	value += strspn(value, " \t\r\n");
	len = strlen(value);
	while (len && isspace((unsigned char)value[len - 1]))
		len--;
	return strndup(value, len);
}

static int remark_older(struct config *config, const char *const *variables,
	const char *const *names, const char *winner, struct error *err)
{
	const char *value, *winning = environ_get(variables, winner);
	int r = 0;

	for (; r == 0 && *names; names++) {
		value = environ_get(variables, *names);
		if (strcmp(*names, winner) != 0 && value && strcmp(value, winning) != 0)
			r = config_remark(config, LOG_LEVEL_WARN, err,
				"%s is not looked at, since %s is set too", *names, winner);
	}
	return r;
}

static int apply_variable(struct config *config, const struct config_sources *sources,
	const struct setting *row, struct error *err)
{
	struct setting_input in = {.kind = ORIGIN_VARIABLE,
		.key = row->key ? row->key : "",
		.directory = sources->directory};
	const char *const *variables = sources->environ;
	CLEANUP(freep) char *value = NULL;
	const char *const *name;
	int r;

	for (name = row->env; name && *name && !environ_get(variables, *name); name++)
		;
	if (!name || !*name)
		return 0;
	value = trimmed(environ_get(variables, *name));
	if (!value)
		return out_of_memory(err);
	in.variable = *name;
	in.value = value;
	r = setting_apply(config, row, &in, err);
	if (r < 0)
		return r;
	return remark_older(config, variables, row->env, *name, err);
}

static int apply_environment(
	struct config *config, const struct config_sources *sources, struct error *err)
{
	const struct setting *row;
	int r = 0;

	for (row = settings; r == 0 && row < settings + settings_count; row++)
		r = apply_variable(config, sources, row, err);
	return r;
}

/* ---- options ---- */

/* The value is not repeated: it may be a secret for a mistyped key. */
static int unknown_option(const char *section, const char *key, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	struct suggestion suggestion = {.typed = section};
	const struct setting_section *at;

	strbuf_addf(&text, "-o %.60s.%.60s: ", section, key);
	if (setting_section_find(section)) {
		strbuf_addf(&text, "[%s] has no key '%.60s'", section, key);
		add_key_suggestion(section, key, &text);
		return error_set(err, EINVAL, "%s", text.data);
	}
	for (at = setting_sections; at->name; at++)
		suggest_consider(&suggestion, at->name);
	strbuf_addf(&text, "unknown section '%.60s'", section);
	if (suggestion.best)
		strbuf_addf(&text, "; did you mean '%s'?", suggestion.best);
	return error_set(err, EINVAL, "%s", text.data);
}

static int apply_option(
	struct config *config, const char *option, const char *directory, struct error *err)
{
	const char *dot = strchr(option, '.'), *equals = strchr(option, '=');
	CLEANUP(freep) char *section = NULL, *key = NULL, *value = NULL;
	struct setting_input in = {.kind = ORIGIN_OPTION, .directory = directory};
	const struct setting *row;

	if (!dot || !equals || dot > equals)
		return error_set(err, EINVAL, "-o %.*s: not of the form section.key=value",
			equals && equals - option < 100 ? (int)(equals - option) : 100, option);
	section = strndup(option, (size_t)(dot - option));
	key = strndup(dot + 1, (size_t)(equals - dot - 1));
	value = trimmed(equals + 1);
	if (!section || !key || !value)
		return out_of_memory(err);
	row = setting_find(section, key);
	if (!row)
		return unknown_option(section, key, err);
	in.key = key;
	in.value = value;
	return setting_apply(config, row, &in, err);
}

static int apply_options(
	struct config *config, const struct config_sources *sources, struct error *err)
{
	struct setting_input in = {.kind = ORIGIN_ARGUMENT,
		.key = "mountpoint",
		.value = sources->mountpoint,
		.directory = sources->directory};
	const char *const *option;
	int r = 0;

	for (option = sources->overrides; r == 0 && option && *option; option++)
		r = apply_option(config, *option, sources->directory, err);
	if (r == 0 && sources->mountpoint)
		r = setting_apply(config, setting_find("mount", "mountpoint"), &in, err);
	return r;
}

/* ---- all of it ---- */

void config_facts_read(struct config_facts *ret_facts)
{
	struct rlimit limit;
	cpu_set_t cpus;
	int count = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 0;

	if (count <= 0)
		count = (int)sysconf(_SC_NPROCESSORS_ONLN);
	ret_facts->uid = getuid();
	ret_facts->gid = getgid();
	ret_facts->cpus = count > 0 ? (unsigned)count : 1;
	ret_facts->nofile_hard = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : 1024;
}

static struct config *config_create(void)
{
	struct config *config = calloc(1, sizeof(*config));

	if (!config)
		return NULL;
	config->origins = calloc(
		1, sizeof(*config->origins) + settings_count * sizeof(config->origins->rows[0]));
	if (!config->origins) {
		free(config);
		return NULL;
	}
	return config;
}

/* Everything but the checks. */
static int gather(struct config *config, const struct config_sources *sources,
	const struct config_facts *facts, struct error *err)
{
	int r = apply_defaults(config, err);

	if (r == 0)
		r = apply_file(config, sources, err);
	if (r == 0)
		r = apply_environment(config, sources, err);
	if (r == 0)
		r = apply_options(config, sources, err);
	if (r == 0)
		r = config_derive(config, sources, facts, err);
	return r;
}

int config_load_with(const struct config_sources *sources, const struct config_facts *facts,
	struct config **ret_config, struct error *err)
{
	CLEANUP(config_freep) struct config *config = config_create();
	int r;

	if (!config)
		return out_of_memory(err);
	r = gather(config, sources, facts, err);
	if (r == 0)
		r = config_check(config, facts, err);
	if (r == 0)
		r = config_collect_remarks(config, sources, err);
	if (r < 0)
		return r;
	*ret_config = take_ptr(&config);
	return 0;
}

int config_find_mountpoint(
	const struct config_sources *sources, char **ret_mountpoint, struct error *err)
{
	CLEANUP(config_freep) struct config *config = config_create();
	struct config_facts facts;
	int r;

	if (!config)
		return out_of_memory(err);
	config_facts_read(&facts);
	r = gather(config, sources, &facts, err);
	if (r < 0)
		return r;
	*ret_mountpoint = take_ptr(&config->mount.mountpoint);
	return 0;
}

int config_load(const struct config_sources *sources, struct config **ret_config, struct error *err)
{
	struct config_facts facts;

	config_facts_read(&facts);
	return config_load_with(sources, &facts, ret_config, err);
}
