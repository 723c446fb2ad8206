/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * setting.h: what a row of the settings table is, for the files of this folder (everybody else
 * reads settings.h).
 *
 * The way of a value:
 *
 *	setting_input (a line, a variable, an option) -> setting_apply() -> type->parse() -> field
 *	field in struct config -> type->print() -> `config show`, the sample, the help
 *
 * Order: every row's initial value, the file, the environment, the options, then derive.c for what
 * nobody set. Threads: any; the table is constant.
 */
#ifndef CONFIG_SETTING_H
#define CONFIG_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/settings.h"

struct error;
struct setting;
struct setting_numbers;
struct strbuf;

/* Where a value stands. The order is the precedence. */
enum origin_kind {
	ORIGIN_DEFAULT,
	ORIGIN_DERIVED, /* from other settings or from the machine */
	ORIGIN_FILE,
	ORIGIN_VARIABLE,
	ORIGIN_OPTION,   /* -o section.key=value */
	ORIGIN_ARGUMENT, /* MOUNTPOINT */
};

struct setting_input {
	enum origin_kind kind;
	const char *file; /* ORIGIN_FILE */
	unsigned line;
	const char *variable;  /* ORIGIN_VARIABLE */
	const char *key;       /* as written; tells rows of free keys what is set */
	const char *value;     /* without blanks at either end */
	const char *directory; /* where a relative path begins; NULL: the current one */
};

struct setting_type {
	const char *name; /* one or two words for the help: "size", "host:port list" */
	size_t size;      /* of the field */
	bool secret;      /* never printed */
	bool command;     /* " ;" belongs to it: refused in a file, where inih would cut it there */
	bool takes_empty; /* an empty value is a value, not "back to the default" */
	bool adds;        /* each input adds to the field instead of replacing it */
	const struct setting_numbers *numbers; /* of numbers (setting-numbers.c) */

	/*
	 * Reads in->value into *field, which is zeroed (or, when the type adds, holds what was read
	 * so far). On failure -EINVAL with half a sentence ("is not a number") and an unchanged
	 * *field.
	 */
	int (*parse)(const struct setting *row, const struct setting_input *in, void *field,
		struct error *err);
	/* Appends the value as parse() reads it. */
	void (*print)(const struct setting *row, const void *field, struct strbuf *out);
	/* Appends what is allowed: "1 to 65535". NULL: nothing to say. */
	void (*range)(const struct setting *row, struct strbuf *out);
	/* Frees what the field holds and zeroes it. NULL: it holds nothing. */
	void (*clear)(void *field);
};

/* uint32_t; uint64_t; milliseconds and bytes in uint64_t. */
extern const struct setting_type setting_count, setting_number, setting_duration, setting_size;
/* uint32_t, octal; row->max is the mask of allowed bits, row->min that of required ones. */
extern const struct setting_type setting_mode;
/* bool; an enum of row->words; a char * that is one of row->words. */
extern const struct setting_type setting_flag, setting_choice, setting_word;
/* char *: min and max bound its length; the same, never printed; a command line kept as text. */
extern const struct setting_type setting_text, setting_secret, setting_command;
/* char *: absolute, or made so outside files; one that begins with / and means nothing here. */
extern const struct setting_type setting_path, setting_inner_path;
/* struct word_list: patterns parted by blanks; row->words by commas; absolute paths by colons. */
extern const struct setting_type setting_words, setting_commas, setting_paths;
/* struct word_list: quoted as a shell does; host:port; name=rootfs. */
extern const struct setting_type setting_shell, setting_reach, setting_image;

/* A word that a choice takes. The first of a value is its name; aliases are only read. */
struct setting_choice_word {
	const char *word; /* NULL ends the list */
	unsigned value;
	bool alias;
};

/* What else must be chosen for a setting to matter; setting it otherwise is said. */
enum setting_need {
	NEEDS_NOTHING,
	NEEDS_LOCAL,
	NEEDS_E2B,
	NEEDS_BLACKBOX, /* a pool of servers */
	NEEDS_ARCHIVE,
	NEEDS_TMPFS,
};

/* For a setting whose feature comes later. */
enum setting_later {
	LATER_NOT,     /* it is there */
	LATER_SAID,    /* ignoring it harms nobody: a remark */
	LATER_REFUSED, /* ignoring it would be dangerous: the load fails */
};

#define NO_FIELD SIZE_MAX

struct setting {
	/* [section] key = ...; key NULL: a variable only, "*": any key of the section */
	const char *section, *key;
	/* Variables that override the file, the new name first, then older ones. NULL: none. */
	const char *const *env;
	const struct setting_type *type;
	/* Of the field in struct config. NO_FIELD: the value is checked and goes nowhere. */
	size_t offset;
	/* Parsed like user input. "": unset, or derived. NULL: another row of the field has it. */
	const char *initial;
	const char *initial_help; /* the default for people, where `initial` does not say it */
	uint64_t min, max;        /* inclusive; max 0: as much as the type holds */
	const struct setting_choice_word *words;
	const char *help;      /* one sentence with its full stop */
	const char *hint;      /* stands behind the error text of a bad value */
	const char *no_effect; /* why setting it changes nothing */
	bool negative_is_zero;
	bool live; /* read whenever it is needed, on the loop: SIGHUP changes it (reload.c) */
	enum setting_need needs;
	enum setting_later later;
	const char *const *later_values; /* those that are not there yet; NULL: any that was set */
	const char *instead;             /* the way out of a refusal */
};

extern const struct setting settings[];
extern const size_t settings_count;

struct setting_section {
	const char *name, *help;
	enum setting_need needs;
};

/* In the order of the sample; name NULL ends it. */
extern const struct setting_section setting_sections[];

/* The row of [section] key, NULL when there is none. */
const struct setting *setting_find(const char *section, const char *key);
const struct setting_section *setting_section_find(const char *section);
/* The row whose variable this is, NULL when there is none. */
const struct setting *setting_find_variable(const char *name);
/* The row that owns the field of this one: itself, or the keyed row it shares the field with. */
const struct setting *setting_home(const struct setting *row);

static inline void *setting_field(struct config *config, const struct setting *row)
{
	return row->offset == NO_FIELD ? NULL : (char *)config + row->offset;
}

static inline const void *setting_field_of(const struct config *config, const struct setting *row)
{
	return row->offset == NO_FIELD ? NULL : (const char *)config + row->offset;
}

struct origin {
	enum origin_kind kind;
	unsigned line;
	const char *variable;
	char from[120]; /* ORIGIN_DERIVED: from what; earlier: the origin, as it was called then */
	bool earlier;   /* the sources say something else by now, which only a restart brings */
};

struct remark {
	int log_level;
	char *sentence;
};

struct config_origins {
	char *file; /* the one that was read; NULL: none */
	struct remark *remarks;
	size_t remark_count;
	struct origin rows[]; /* settings_count of them */
};

static inline struct origin *setting_origin(const struct config *config, const struct setting *row)
{
	return &config->origins->rows[row - settings];
}

/* Whether a user set the field of this row. */
bool setting_is_set(const struct config *config, const struct setting *row);
/* Appends "dressage.ini:12", "DRESSAGE_X", "default" ... */
void setting_describe_origin(
	const struct config *config, const struct setting *row, struct strbuf *out);

/* Parses an input into its row's field. -EINVAL: place, value, what is wrong, range; -ENOMEM. */
int setting_apply(struct config *config, const struct setting *row, const struct setting_input *in,
	struct error *err);
/* Replaces the field's value with text that is known to be good, as derived from `from`. */
int setting_derive(struct config *config, const char *section, const char *key, const char *value,
	const char *from, struct error *err);

/* The facts of this machine and process that defaults depend on. */
struct config_facts {
	uid_t uid;
	gid_t gid;
	unsigned cpus;
	uint64_t nofile_hard;
};

void config_facts_read(struct config_facts *ret_facts);
/* config_load() with other facts, so that tests see every kind of machine. */
int config_load_with(const struct config_sources *sources, const struct config_facts *facts,
	struct config **ret_config, struct error *err);

/* Appends a remark for config_each_remark(). */
int config_remark(struct config *config, int log_level, struct error *err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* The steps of a load behind the sources: fill in what nobody set; */
int config_derive(struct config *config, const struct config_sources *sources,
	const struct config_facts *facts, struct error *err);
/* refuse what does not fit together, or is not there yet; */
int config_check(const struct config *config, const struct config_facts *facts, struct error *err);
/* note what is harmless. */
int config_collect_remarks(
	struct config *config, const struct config_sources *sources, struct error *err);

/* The value in a NULL-terminated list of "NAME=value"; NULL when it is not there or blank. */
const char *environ_get(const char *const *variables, const char *name);

#endif
