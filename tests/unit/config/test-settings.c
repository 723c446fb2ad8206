/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config/settings.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "loading.h"

size_t packed_config_size(void); /* packed-config.c */

#define FOR_EACH_ROW(row) for (row = settings; row < settings + settings_count; row++)

static void every_field_of_the_configuration_has_a_row(void **state)
{
	/* Those that derive.c and the load itself fill. */
	size_t size = sizeof(((struct config *)0)->mount.owner_uid) +
		      sizeof(((struct config *)0)->mount.owner_gid) +
		      sizeof(((struct config *)0)->origins);
	const struct setting *row;

	FOR_EACH_ROW(row)
	{
		if (row->offset != NO_FIELD && setting_home(row) == row)
			size += row->type->size;
	}
	assert_int_equal(size, packed_config_size());
}

static void no_two_rows_share_a_key_and_no_field_overlaps_another(void **state)
{
	const struct setting *row, *other;

	FOR_EACH_ROW(row)
	{
		FOR_EACH_ROW(other)
		{
			if (row == other)
				continue;
			if (row->key && other->key && strcmp(row->section, other->section) == 0)
				assert_string_not_equal(row->key, other->key);
			if (row->offset == NO_FIELD || other->offset == NO_FIELD ||
				row->offset == other->offset)
				continue;
			assert_true(row->offset + row->type->size <= other->offset ||
				    other->offset + other->type->size <= row->offset);
		}
	}
}

static void every_row_stands_in_a_known_section_and_explains_itself(void **state)
{
	const struct setting *row;

	FOR_EACH_ROW(row)
	{
		assert_non_null(setting_section_find(row->section));
		assert_non_null(row->type);
		assert_non_null(row->help);
		assert_int_equal(row->help[strlen(row->help) - 1], '.');
		assert_true(row->key || row->env);
		if (row->key) {
			assert_non_null(row->initial);
			assert_true(strlen(row->key) < 40);
		}
		if (row->later == LATER_REFUSED)
			assert_non_null(row->instead);
		if (row->type == &setting_choice || row->type == &setting_word ||
			row->type == &setting_commas)
			assert_non_null(row->words);
	}
}

static void every_default_is_within_its_own_bounds_and_prints_as_what_it_is(void **state)
{
	struct loaded loaded = load(&(struct given){0}), again;
	const struct setting *row;

	assert_int_equal(loaded.r, 0);
	FOR_EACH_ROW(row)
	{
		CLEANUP(strbuf_fini)
		struct strbuf first = STRBUF_INIT, second = STRBUF_INIT, option = STRBUF_INIT;

		if (!row->key || row->type->adds || !row->initial[0])
			continue;
		row->type->print(row, setting_field_of(loaded.config, row), &first);
		strbuf_addf(&option, "%s.%s=%s", row->section, row->key, first.data);
		again = load(&(struct given){.options = NAMES(option.data)});
		if (again.r < 0)
			fail_with("a default cannot be read back", option.data, again.err.text);
		row->type->print(row, setting_field_of(again.config, row), &second);
		assert_string_equal(first.data, second.data);
		unload(&again);
	}
	unload(&loaded);
}

static void the_sample_with_its_keys_uncommented_loads_as_the_defaults(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf sample = STRBUF_INIT, shown = STRBUF_INIT;
	struct loaded defaults = load(&(struct given){0}), loaded;
	char *at;

	config_sample(&sample);
	for (at = strstr(sample.data, "\n;"); at; at = strstr(at, "\n;"))
		memmove(at + 1, at + 2, strlen(at + 2) + 1);
	/* An image has no default, what stands there is an example. */
	at = strstr(sample.data, "\npython = /srv");
	assert_non_null(at);
	at[1] = '#';
	loaded = load(&(struct given){.ini = sample.data});
	if (loaded.r < 0)
		fail_with("the sample does not load", "", loaded.err.text);
	config_show(loaded.config, false, &shown);
	strbuf_clear(&loaded.shown);
	config_show(defaults.config, false, &loaded.shown);
	assert_string_equal(shown.data, loaded.shown.data);
	unload(&loaded);
	unload(&defaults);
}

static void the_sample_names_every_key_in_lines_that_can_be_read(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf sample = STRBUF_INIT;
	const struct setting *row;
	char line[128];
	const char *at;

	config_sample(&sample);
	FOR_EACH_ROW(row)
	{
		if (!row->key || row->type->adds)
			continue;
		(void)snprintf(line, sizeof(line), "\n;%s =", row->key);
		assert_non_null(strstr(sample.data, line));
	}
	for (at = sample.data; *at; at += strcspn(at, "\n") + 1)
		assert_true(strcspn(at, "\n") <= 190);
}

static void the_help_names_every_key_and_every_variable(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf help = STRBUF_INIT;
	const char *const *variable;
	const struct setting *row;
	char line[128];

	config_help(&help);
	FOR_EACH_ROW(row)
	{
		(void)snprintf(line, sizeof(line), "\n  %s.%s = ", row->section,
			row->type->adds ? "NAME"
			: row->key      ? row->key
					: "");
		if (row->key)
			assert_non_null(strstr(help.data, line));
		for (variable = row->env; variable && *variable; variable++)
			assert_non_null(strstr(help.data, *variable));
	}
}

static void show_gives_each_key_once_and_hides_secrets(void **state)
{
	struct loaded loaded =
		load(&(struct given){.options = NAMES("e2b.api_key=e2b_0123456789abcdef")});
	const struct setting *row;
	char line[128];
	const char *at;

	assert_int_equal(loaded.r, 0);
	assert_null(strstr(loaded.shown.data, "0123456789abcdef"));
	assert_non_null(strstr(loaded.shown.data, "\ne2b.api_key = ***  ; -o\n"));
	assert_null(strstr(loaded.remarks.data, "0123456789abcdef"));
	strbuf_clear(&loaded.remarks);
	strbuf_addf(&loaded.remarks, "\n%s", loaded.shown.data);
	FOR_EACH_ROW(row)
	{
		if (!row->key || row->type->adds)
			continue;
		(void)snprintf(line, sizeof(line), "\n%s.%s = ", row->section, row->key);
		at = strstr(loaded.remarks.data, line);
		assert_non_null(at);
		assert_null(strstr(at + 1, line));
	}
	unload(&loaded);
}

static void a_bad_secret_is_not_printed_in_the_error_text(void **state)
{
	struct loaded loaded =
		load(&(struct given){.variables = NAMES("E2B_API_KEY=secret\tword")});

	assert_int_equal(loaded.r, -EINVAL);
	assert_null(strstr(loaded.err.text, "secret"));
	assert_non_null(strstr(loaded.err.text, "E2B_API_KEY = ***"));
	unload(&loaded);
}

static void a_secret_for_a_mistyped_key_is_not_printed_either(void **state)
{
	static const char *const options[] = {
		"e2b.api_kye=secret", "e3b.api_key=secret", "api_key=secret"};
	struct loaded loaded;
	size_t i;

	for (i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		loaded = load(&(struct given){.options = NAMES(options[i])});
		assert_int_equal(loaded.r, -EINVAL);
		assert_null(strstr(loaded.err.text, "secret"));
		unload(&loaded);
	}
	loaded = load(&(struct given){.ini = "[e2b]\napi_kye = secret\n"});
	assert_int_equal(loaded.r, -EINVAL);
	assert_null(strstr(loaded.err.text, "secret"));
	unload(&loaded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_of_the_configuration_has_a_row),
		cmocka_unit_test(no_two_rows_share_a_key_and_no_field_overlaps_another),
		cmocka_unit_test(every_row_stands_in_a_known_section_and_explains_itself),
		cmocka_unit_test(every_default_is_within_its_own_bounds_and_prints_as_what_it_is),
		cmocka_unit_test(the_sample_with_its_keys_uncommented_loads_as_the_defaults),
		cmocka_unit_test(the_sample_names_every_key_in_lines_that_can_be_read),
		cmocka_unit_test(the_help_names_every_key_and_every_variable),
		cmocka_unit_test(show_gives_each_key_once_and_hides_secrets),
		cmocka_unit_test(a_bad_secret_is_not_printed_in_the_error_text),
		cmocka_unit_test(a_secret_for_a_mistyped_key_is_not_printed_either),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
