/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "config/settings.h"
#include "pool/command.h"
#include "pool/environment.h"
#include "pool/script.h"

static char *pass_words[] = {(char *)"PATH", (char *)"LC_*", (char *)"BBS_*", NULL};
static const struct word_list pass = {.words = pass_words, .count = 3};

static char **build(const char *const *inherited, const char *const *extra)
{
	const struct environment_options options = {
		.inherited = inherited,
		.pass = &pass,
		.extra = extra,
		.slot = 3,
		.generation = 7,
		.port = 31003,
		.slot_dir = "/s/0003",
		.bind_host = "127.0.0.1",
		.slot_token = "token",
		.run_id = "run",
	};
	struct error err = ERROR_NONE;
	char **env = NULL;

	if (environment_build(&options, &env, &err) < 0)
		fail_msg("%s", err.text);
	return env;
}

static void assert_value(char *const *env, const char *name, const char *value)
{
	assert_non_null(environment_get(env, name));
	assert_string_equal(environment_get(env, name), value);
}

static void only_names_that_a_pattern_lets_through_are_inherited(void **state)
{
	const char *const inherited[] = {"PATH=/x", "LC_ALL=C", "LCX=1", "E2B_API_KEY=secret",
		"PATHS=2", "BBS_=3", "=4", "LC_NOVALUE", NULL};
	char **env = build(inherited, NULL);

	assert_value(env, "PATH", "/x");
	assert_value(env, "LC_ALL", "C");
	assert_value(env, "BBS_", "3");
	assert_null(environment_get(env, "LCX"));
	assert_null(environment_get(env, "E2B_API_KEY"));
	assert_null(environment_get(env, "PATHS"));
	assert_null(environment_get(env, "LC_NOVALUE"));
	environment_free(env);
}

static void a_path_is_there_even_when_the_daemon_has_none(void **state)
{
	char **env = build(NULL, NULL);

	assert_non_null(strstr(environment_get(env, "PATH"), "/usr/bin"));
	environment_free(env);
}

static void the_places_are_those_inside(void **state)
{
	const char *const inherited[] = {"BBS_PORT=1", "BBS_HOST=other", NULL};
	char **env = build(inherited, NULL);

	assert_value(env, "HOME", "/home/blackbox");
	assert_value(env, "XDG_CONFIG_HOME", "/home/blackbox/.config");
	assert_value(env, "XDG_CACHE_HOME", "/home/blackbox/.cache");
	assert_value(env, "TMPDIR", "/tmp");
	assert_value(env, "CUDA_VISIBLE_DEVICES", "");
	assert_value(env, "NVIDIA_VISIBLE_DEVICES", "void");
	assert_value(env, "BBS_HOST", "127.0.0.1");
	assert_value(env, "BBS_PORT", "31003");
	assert_value(env, "BBS_RUNTIME_ROOT", "/workspace_sandbox/blackbox_server_runtime");
	environment_free(env);
}

static void a_command_overrides_all_but_the_markers(void **state)
{
	const char *const extra[] = {"HOME=/h", "PATH=/p", "A=", "A=2",
		"DRESSAGE_BLACKBOX_SLOT_ID=0", "DRESSAGE_BLACKBOX_SLOT_TOKEN=forged", NULL};
	char **env = build(NULL, extra);

	assert_value(env, "HOME", "/h");
	assert_value(env, "PATH", "/p");
	assert_value(env, "A", "2");
	assert_value(env, "DRESSAGE_BLACKBOX_SLOT_ID", "3");
	assert_value(env, "DRESSAGE_BLACKBOX_SLOT_DIR", "/s/0003");
	assert_value(env, "DRESSAGE_BLACKBOX_SLOT_GENERATION", "7");
	assert_value(env, "DRESSAGE_BLACKBOX_SLOT_PORT", "31003");
	assert_value(env, "DRESSAGE_BLACKBOX_SLOT_TOKEN", "token");
	assert_value(env, "DRESSAGE_BLACKBOX_SUPERVISOR_RUN_ID", "run");
	assert_value(env, "DRESSAGE_BLACKBOX_RUNTIME_ROOT",
		"/workspace_sandbox/blackbox_server_runtime");
	environment_free(env);
}

static void no_name_stands_twice(void **state)
{
	const char *const inherited[] = {"PATH=/1", "PATH=/2", "LC_A=1", NULL};
	const char *const extra[] = {"LC_A=2", "TMPDIR=/x", NULL};
	char **env = build(inherited, extra);

	for (char **a = env; *a; a++)
		for (char **b = a + 1; *b; b++)
			assert_false(strcspn(*a, "=") == strcspn(*b, "=") &&
				     !strncmp(*a, *b, strcspn(*a, "=") + 1));
	environment_free(env);
}

static void a_word_without_a_name_is_refused(void **state)
{
	static const char *const bad[][2] = {{"=x", NULL}, {"", NULL}, {"NAME", NULL}};

	for (size_t i = 0; i < 3; i++) {
		const struct environment_options options = {.pass = &pass,
			.extra = bad[i],
			.slot_dir = "",
			.bind_host = "",
			.slot_token = "",
			.run_id = ""};
		char **env = NULL;

		assert_int_equal(environment_build(&options, &env, NULL), -EINVAL);
		assert_null(env);
	}
}

static char *shell_words[] = {(char *)"/bin/sh", (char *)"-lc", NULL};
static const struct word_list shell = {.words = shell_words, .count = 2};

static void a_script_is_the_last_word_of_the_shell(void **state)
{
	const struct command command = {.script = (char *)"echo 'a b'\n"};
	struct launch_words words;

	assert_int_equal(launch_words_init(&words, &command, &shell, NULL), 0);
	assert_string_equal(words.argv[0], "/bin/sh");
	assert_string_equal(words.argv[1], "-lc");
	assert_string_equal(words.argv[2], "echo 'a b'\n");
	assert_null(words.argv[3]);
	assert_string_equal(words.cwd, "/workspace");
	assert_int_equal(words.script_fd, -1);
	launch_words_fini(&words);
}

static void a_long_script_stands_in_a_file_that_nobody_can_change(void **state)
{
	static char text[SCRIPT_INLINE_MAX + 2];
	const struct command command = {.script = text, .cwd = (char *)"a/b"};
	struct launch_words words;
	char head[32] = "";

	memset(text, '#', sizeof(text) - 1);
	assert_int_equal(launch_words_init(&words, &command, &shell, NULL), 0);
	assert_string_equal(words.argv[2], ". /proc/self/fd/3");
	assert_string_equal(words.cwd, "/workspace/a/b");
	assert_true(words.script_fd >= 0);
	assert_int_equal(pread(words.script_fd, head, 11, 0), 11);
	assert_string_equal(head, "exec 3<&-;#");
	assert_int_equal(pwrite(words.script_fd, "x", 1, 0), -1);
	launch_words_fini(&words);
}

static void words_without_a_shell_are_passed_on_in_order(void **state)
{
	char *argv[] = {(char *)"printf", (char *)"%s", (char *)"", NULL};
	const struct command command = {.argv = argv, .cwd = (char *)"/tmp"};
	struct launch_words words;

	assert_int_equal(launch_words_init(&words, &command, &shell, NULL), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_ptr_equal(words.argv[i], argv[i]);
	assert_null(words.argv[3]);
	assert_string_equal(words.cwd, "/tmp");
	launch_words_fini(&words);
}

static void a_copied_command_owns_everything(void **state)
{
	char *argv[] = {(char *)"a", (char *)"b", NULL}, *env[] = {(char *)"X=1", NULL};
	const struct command command = {.argv = argv,
		.env = env,
		.cwd = (char *)"c",
		.stdin_data = (char *)"a\0b",
		.stdin_size = 3,
		.timeout_ms = 5};
	struct command copy;

	assert_int_equal(command_copy(&copy, &command, NULL), 0);
	assert_ptr_not_equal(copy.argv[1], argv[1]);
	assert_string_equal(copy.argv[1], "b");
	assert_null(copy.argv[2]);
	assert_string_equal(copy.env[0], "X=1");
	assert_string_equal(copy.cwd, "c");
	assert_null(copy.script);
	assert_memory_equal(copy.stdin_data, "a\0b", 3);
	assert_int_equal(copy.timeout_ms, 5);
	command_fini(&copy);
	command_fini(&copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_names_that_a_pattern_lets_through_are_inherited),
		cmocka_unit_test(a_path_is_there_even_when_the_daemon_has_none),
		cmocka_unit_test(the_places_are_those_inside),
		cmocka_unit_test(a_command_overrides_all_but_the_markers),
		cmocka_unit_test(no_name_stands_twice),
		cmocka_unit_test(a_word_without_a_name_is_refused),
		cmocka_unit_test(a_script_is_the_last_word_of_the_shell),
		cmocka_unit_test(a_long_script_stands_in_a_file_that_nobody_can_change),
		cmocka_unit_test(words_without_a_shell_are_passed_on_in_order),
		cmocka_unit_test(a_copied_command_owns_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
