/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * setting.h: what a row of the settings table is, for the files of this folder (everybody else
 *reads settings.h).
 *
 * The way of a value:
 *
 *	setting_input (a line, a variable, an option) -> setting_apply() -> type->parse() -> the
 *field in struct config the field -> type->print() -> `config show`, the sample, the help
 *
 * Order: every row's initial value, the file, the environment, the options, then derive() for what
 *nobody set. Threads: any; the table is constant.
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
struct strbuf;

/* Where a value stands. The order is the precedence. */
enum origin_kind {
	ORIGIN_DEFAULT,
	ORIGIN_DERIVED, /* from other settings or from the machine */
	ORIGIN_FILE,
	ORIGIN_VARIABLE,
	ORIGIN_OPTION,	 /* -o section.key=value */
	ORIGIN_ARGUMENT, /* MOUNTPOINT */
};

struct setting_input {
	enum origin_kind kind;
	const char *file; /* ORIGIN_FILE */
	unsigned line;
	const char *variable; /* ORIGIN_VARIABLE */
	const char *key;      /* as written; tells rows of free keys what is set */
	const char *value;    /* without blanks at either end */
};

struct setting_type {
	const char *name; /* one or two words for the help: "size", "host:port list" */
	size_t size;	  /* of the field */
	bool secret;	  /* never printed */
	bool command;	  /* " ;" belongs to it: refused in a file, where inih would cut it there */
	bool takes_empty; /* an empty value is a value, not "back to the default" */
	bool adds;	  /* each input adds to the field instead of replacing it */

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

extern const struct setting_type setting_count;	   /* uint32_t */
extern const struct setting_type setting_number;   /* uint64_t */
extern const struct setting_type setting_duration; /* uint64_t, milliseconds */
extern const struct setting_type setting_size;	   /* uint64_t, bytes */
extern const struct setting_type
	setting_mode; /* uint32_t, octal; max is the mask of allowed bits */
extern const struct setting_type setting_flag;	  /* bool */
extern const struct setting_type setting_choice;  /* an enum; row->words */
extern const struct setting_type setting_word;	  /* char *, one of row->words */
extern const struct setting_type setting_text;	  /* char *; min and max bound its length */
extern const struct setting_type setting_secret;  /* char * */
extern const struct setting_type setting_command; /* char *, a command line kept as text */
extern const struct setting_type setting_path;	  /* char *, absolute (made so, outside files) */
extern const struct setting_type
	setting_inner_path; /* char *, begins with /, means nothing on this machine */
extern const struct setting_type setting_words; /* struct word_list, parted by blanks */
extern const struct setting_type
	setting_commas;				/* struct word_list, parted by commas; row->words */
extern const struct setting_type setting_paths; /* struct word_list, parted by colons */
extern const struct setting_type
	setting_shell; /* struct word_list, parted and quoted as a shell does */
extern const struct setting_type setting_reach; /* struct word_list of host:port */
extern const struct setting_type setting_image; /* struct word_list of name=rootfs */

/* A word that a choice takes. The first of a value is its name; the others (alias) are read, never
 * shown. */
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
	const char *section, *key; /* [section] key = ...; key NULL: a variable only, "*": any key
				      of the section */
	const char *const
		*env; /* override the file; the new name first, then older ones; NULL: none */
	const struct setting_type *type;
	size_t offset; /* of the field in struct config; NO_FIELD: it is checked and goes nowhere */
	const char *initial; /* parsed like user input; "": unset, or derived; NULL: another row of
				this field has it */
	const char *
		initial_help; /* what the default is, for people, where `initial` does not say it */
	uint64_t min, max;    /* inclusive; max 0: as much as the type holds */
	bool negative_is_zero;
	const struct setting_choice_word *words;
	const char *help; /* one sentence with its full stop */
	const char *hint; /* stands behind the error text of a bad value */
	enum setting_need needs;
	const char *no_effect; /* why setting it changes nothing */
	enum setting_later later;
	const char *const *later_values; /* those that are not there yet; NULL: any that was set */
	const char *instead;		 /* the way out of a refusal */
};

extern const struct setting settings[];
extern const size_t settings_count;

struct setting_section {
	const char *name, *help;
	enum setting_need needs;
};

extern const struct setting_section
	setting_sections[]; /* in the order of the sample; name NULL ends it */

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
	char from[120]; /* ORIGIN_DERIVED: from what */
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

/* Parses one input into its row's field. -EINVAL with place, value, what is wrong with it and the
 * allowed range; -ENOMEM. */
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

/* The steps of a load behind the sources. derive: what nobody set; check: what does not fit
 * together or is not there yet; remark: what is harmless. */
int config_derive(struct config *config, const struct config_sources *sources,
	const struct config_facts *facts, struct error *err);
int config_check(const struct config *config, const struct config_facts *facts, struct error *err);
int config_collect_remarks(
	struct config *config, const struct config_sources *sources, struct error *err);

/* The value of a variable in a NULL-terminated "NAME=value" list; NULL when it is not there or
 * blank. */
const char *environ_get(const char *const *environ, const char *name);

#endif
