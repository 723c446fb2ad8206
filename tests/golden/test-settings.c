/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test-settings.c: the texts that are made from the settings table. tests/golden/rewrite rewrites
 * them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/config/loading.h"

static void rewrite(const char *path, const struct strbuf *text)
{
	CLEANUP(fclosep) FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_int_equal(fwrite(text->data, 1, text->size, file), text->size);
}

/* Compares with a file of this directory, or rewrites it where UPDATE_GOLDEN is set. */
static void assert_golden(const char *name, const struct strbuf *text)
{
	CLEANUP(strbuf_fini) struct strbuf golden = STRBUF_INIT;
	CLEANUP(fclosep) FILE *file = NULL;
	const char *dir = getenv("GOLDEN_DIR");
	char path[4096];

	assert_non_null(dir);
	assert_false(strbuf_failed(text));
	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (getenv("UPDATE_GOLDEN"))
		rewrite(path, text);
	file = fopen(path, "re");
	assert_non_null(file);
	strbuf_grown(&golden, fread(strbuf_room(&golden, 1 << 20), 1, 1 << 20, file));
	assert_string_equal(text->data, golden.data);
}

static void the_help_is_the_golden_one(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	config_help(&text);
	assert_golden("settings-help.txt", &text);
}

static void the_sample_file_is_the_golden_one(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	config_sample(&text);
	assert_golden("settings-sample.ini", &text);
}

static void the_manual_page_is_the_golden_one(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	config_manual(&text);
	assert_golden("dressage.ini.5", &text);
}

static void what_root_has_without_any_setting_is_the_golden_text(void **state)
{
	struct loaded loaded = load(&(struct given){0});

	assert_int_equal(loaded.r, 0);
	assert_golden("settings-root.txt", &loaded.shown);
	unload(&loaded);
}

static void what_a_user_has_with_some_variables_is_the_golden_text(void **state)
{
	struct loaded loaded = load(&(struct given){.facts = &user_facts,
		.variables = NAMES("HOME=/home/u", "XDG_RUNTIME_DIR=/run/user/4321",
			"DRESSAGE_LOCAL_BWRAP_TOTAL_SERVERS=512",
			"DRESSAGE_BLACKBOX_SLOTS_PER_NODE=8",
			"DRESSAGE_LOCAL_BWRAP_POOL_MODE=command_only", "E2B_API_KEY=e2b_secret"),
		.options = NAMES("exec.timeout=10m", "slot.reach=proxy:4000")});
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	assert_int_equal(loaded.r, 0);
	strbuf_addf(&text, "%s\nremarks, each behind its log level:\n%s", loaded.shown.data,
		loaded.remarks.data);
	assert_golden("settings-user.txt", &text);
	unload(&loaded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_help_is_the_golden_one),
		cmocka_unit_test(the_sample_file_is_the_golden_one),
		cmocka_unit_test(the_manual_page_is_the_golden_one),
		cmocka_unit_test(what_root_has_without_any_setting_is_the_golden_text),
		cmocka_unit_test(what_a_user_has_with_some_variables_is_the_golden_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
