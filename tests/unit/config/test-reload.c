/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* test-reload.c: what becomes of a configuration in use when its sources say something else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "loading.h"

static void add_change(void *data, const char *key, const char *from, const char *to, bool live)
{
	strbuf_addf(data, "%s: %s -> %s%s\n", key, from, to, live ? "" : " (restart)");
}

static void say_remark(void *data, int log_level, const char *sentence)
{
	strbuf_addf(data, "remark: %s\n", sentence);
}

/* Adopts what was given, appends what is told of it. */
static void adopt(struct loaded *ours, const struct given *given, struct strbuf *told)
{
	struct loaded fresh = load(given);

	assert_int_equal(fresh.r, 0);
	config_adopt(ours->config, fresh.config, add_change, say_remark, told);
	unload(&fresh);
	strbuf_clear(&ours->shown);
	config_show(ours->config, true, &ours->shown);
}

static void assert_adopts(const char *before, const char *after, const char *told)
{
	struct loaded ours = load(&(struct given){.ini = before});
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	assert_int_equal(ours.r, 0);
	adopt(&ours, &(struct given){.ini = after}, &text);
	assert_string_equal(text.data, told);
	unload(&ours);
}

static void what_is_live_changes_and_what_is_not_needs_a_restart(void **state)
{
	assert_adopts("[pool]\nlease_ttl = 10m\nslots = 3\n",
		"[pool]\nlease_ttl = 20m\nslots = 4\n",
		"pool.slots: 3 -> 4 (restart)\npool.lease_ttl: 10m -> 20m\n");
}

static void what_says_the_same_is_not_told(void **state)
{
	assert_adopts("[pool]\nlease_ttl = 10m\n", "# moved\n[pool]\nlease_ttl = 600s\n", "");
}

static void a_line_that_has_gone_brings_the_default_back(void **state)
{
	assert_adopts("[exec]\nmax_output = 1M\nshell = /bin/bash -c\n", "",
		"exec.max_output: 1M -> 16M\nexec.shell: /bin/bash -c -> /bin/sh -lc\n");
}

static void a_secret_is_compared_and_not_shown(void **state)
{
	assert_adopts("[e2b]\napi_key = one\n", "[e2b]\napi_key = one\n", "");
	assert_adopts("[e2b]\napi_key = one\n", "[e2b]\napi_key = two\n",
		"e2b.api_key: *** -> *** (restart)\n");
}

static void images_are_told_as_a_whole(void **state)
{
	struct loaded ours = load(&(struct given){.ini = "[images]\na = /srv/a\n"});
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	adopt(&ours, &(struct given){.ini = "[images]\na = /srv/b\n"}, &text);
	assert_non_null(strstr(text.data, "images: "));
	assert_non_null(strstr(text.data, "(restart)"));
	assert_string_equal(ours.config->images.words[0], "a=/srv/a");
	unload(&ours);
}

static void a_remark_is_made_once(void **state)
{
	const struct given odd = {.ini = "[mount]\nxattr = on\n"};
	struct loaded ours = load(&(struct given){0});
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	adopt(&ours, &odd, &text);
	assert_non_null(strstr(text.data, "remark: "));
	strbuf_clear(&text);
	adopt(&ours, &odd, &text);
	assert_null(strstr(text.data, "remark: "));
	unload(&ours);
}

static void assert_shown(const struct loaded *ours, const char *part)
{
	if (!strstr(ours->shown.data, part))
		fail_with("no such line", part, ours->shown.data);
}

static void what_is_in_force_is_shown_with_where_it_comes_from(void **state)
{
	struct loaded ours = load(&(struct given){.ini = "[pool]\nslots = 3\n"});
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	adopt(&ours, &(struct given){.ini = "[pool]\n\nlease_ttl = 9m\nslots = 4\n"}, &text);
	assert_shown(&ours, "pool.slots = 3  ; /proc/self/fd/");
	assert_shown(&ours, ":2, before SIGHUP: needs a restart\n");
	assert_shown(&ours, "pool.lease_ttl = 9m  ; /proc/self/fd/");
	assert_int_equal(ours.config->pool.slots, 3);
	assert_int_equal(ours.config->pool.lease_ttl_ms, 9 * 60 * 1000);
	adopt(&ours, &(struct given){.ini = "[pool]\n\nlease_ttl = 9m\nslots = 3\n"}, &text);
	assert_null(strstr(ours.shown.data, "before SIGHUP"));
	unload(&ours);
}

static void a_relative_path_begins_where_the_daemon_was_started(void **state)
{
	struct config_sources sources = {.file = "",
		.overrides = NAMES("dressage.state_dir=here"),
		.mountpoint = "there",
		.directory = "/started"};
	struct error err = ERROR_NONE;
	struct config *config;

	assert_int_equal(config_load_with(&sources, &user_facts, &config, &err), 0);
	assert_string_equal(config->dressage.state_dir, "/started/here");
	assert_string_equal(config->mount.mountpoint, "/started/there");
	config_free(config);
	sources.file = "my.ini";
	assert_int_equal(config_load_with(&sources, &user_facts, &config, &err), -ENOENT);
	assert_non_null(strstr(err.text, "'/started/my.ini'"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_live_changes_and_what_is_not_needs_a_restart),
		cmocka_unit_test(what_says_the_same_is_not_told),
		cmocka_unit_test(a_line_that_has_gone_brings_the_default_back),
		cmocka_unit_test(a_secret_is_compared_and_not_shown),
		cmocka_unit_test(images_are_told_as_a_whole),
		cmocka_unit_test(a_remark_is_made_once),
		cmocka_unit_test(what_is_in_force_is_shown_with_where_it_comes_from),
		cmocka_unit_test(a_relative_path_begins_where_the_daemon_was_started),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
