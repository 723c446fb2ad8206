/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "loading.h"

static void an_option_wins_over_a_variable_over_a_file_over_the_default(void **state)
{
	struct given given = {0};

	assert_shows(&given, "pool.base_port = 31000  ; default");
	given.ini = "[pool]\nbase_port = 1001\n";
	assert_shows(&given, "pool.base_port = 1001  ; /proc/self/fd/");
	given.variables = NAMES("DRESSAGE_LOCAL_BWRAP_BASE_PORT=1002");
	assert_shows(&given, "pool.base_port = 1002  ; DRESSAGE_LOCAL_BWRAP_BASE_PORT");
	given.options = NAMES("pool.base_port=1003");
	assert_shows(&given, "pool.base_port = 1003  ; -o");
}

static void the_last_of_several_options_stands(void **state)
{
	assert_shows(&(struct given){.options = NAMES("pool.slots=3", "pool.slots=5")},
		"pool.slots = 5  ; -o");
}

static void the_mountpoint_of_the_command_line_wins_over_everything(void **state)
{
	assert_shows(&(struct given){.ini = "[mount]\nmountpoint = /a\n",
			     .options = NAMES("mount.mountpoint=/b"),
			     .mountpoint = "/c"},
		"mount.mountpoint = /c  ; command line");
}

static void an_older_variable_counts_where_the_new_one_is_not_set(void **state)
{
	assert_shows(&(struct given){.variables = NAMES("DRESSAGE_BLACKBOX_SLOT_BASE_DIR=/old")},
		"pool.slot_dir = /old  ; DRESSAGE_BLACKBOX_SLOT_BASE_DIR");
	assert_shows(&(struct given){.variables = NAMES("DRESSAGE_BLACKBOX_SLOT_BASE_DIR=/old",
					     "DRESSAGE_LOCAL_BWRAP_SLOT_BASE_DIR=/new")},
		"pool.slot_dir = /new  ; DRESSAGE_LOCAL_BWRAP_SLOT_BASE_DIR");
	assert_remarks(&(struct given){.variables = NAMES("DRESSAGE_BLACKBOX_SLOT_BASE_DIR=/old",
					       "DRESSAGE_LOCAL_BWRAP_SLOT_BASE_DIR=/new")},
		"DRESSAGE_BLACKBOX_SLOT_BASE_DIR is not looked at, since DRESSAGE_LOCAL_BWRAP_SLOT_BASE_DIR is set too");
}

static void a_blank_variable_is_not_set(void **state)
{
	assert_shows(&(struct given){.variables = NAMES("DRESSAGE_LOCAL_BWRAP_BASE_PORT=",
					     "DRESSAGE_SANDBOX_PROVIDER=  ")},
		"pool.base_port = 31000  ; default");
}

static void case_and_blanks_around_a_variable_count_for_nothing(void **state)
{
	assert_shows(
		&(struct given){.variables = NAMES("DRESSAGE_SANDBOX_PROVIDER= Local_BWRAP \n")},
		"dressage.provider = local_bwrap  ; DRESSAGE_SANDBOX_PROVIDER");
}

static void a_bad_variable_is_refused_by_name_with_the_range(void **state)
{
	assert_refused(&(struct given){.variables = NAMES("DRESSAGE_BLACKBOX_SLOTS_PER_NODE=lots")},
		EINVAL,
		"DRESSAGE_BLACKBOX_SLOTS_PER_NODE = 'lots' is not a number; allowed: 1 to 9999");
}

static void a_bad_value_in_a_file_is_refused_with_file_line_key_and_range(void **state)
{
	assert_refused(&(struct given){.ini = "[dressage]\n\n[pool]\nslots = lots\n"}, EINVAL,
		":4: [pool] slots = 'lots' is not a number; allowed: 1 to 9999");
}

static void an_unknown_key_is_refused_with_a_suggestion(void **state)
{
	assert_refused(&(struct given){.ini = "[pool]\nslot = 1\n"}, EINVAL,
		":2: [pool] has no key 'slot'; did you mean 'slots'?");
	assert_refused(&(struct given){.ini = "[slot]\nmemroy_max = 1G\n"}, EINVAL,
		"did you mean 'memory_max'?");
	assert_refused(&(struct given){.ini = "[pool]\nmemory_max = 1G\n"}, EINVAL,
		"; [slot] has that key");
	assert_option_refused("pool.memory_max=1G",
		"-o pool.memory_max: [pool] has no key 'memory_max'; [slot] has that key");
	assert_option_refused("pool.slto=1", "did you mean 'slots'?");
}

static void an_unknown_key_that_resembles_nothing_gets_no_suggestion(void **state)
{
	struct loaded loaded = load(&(struct given){.ini = "[pool]\nzzzzzz = 1\n"});

	assert_int_equal(loaded.r, -EINVAL);
	assert_non_null(strstr(loaded.err.text, "[pool] has no key 'zzzzzz'"));
	assert_null(strstr(loaded.err.text, "mean"));
	unload(&loaded);
}

static void an_unknown_section_is_refused_with_a_suggestion(void **state)
{
	assert_refused(&(struct given){.ini = "[poll]\nslots = 1\n"}, EINVAL,
		":2: unknown section [poll]; did you mean [pool]?");
	assert_refused(&(struct given){.ini = "[database]\nslots = 1\n"}, EINVAL,
		":2: unknown section [database]");
	assert_refused(&(struct given){.ini = "slots = 1\n"}, EINVAL,
		":1: 'slots' stands before the first [section]");
	assert_option_refused(
		"poll.slots=1", "-o poll.slots: unknown section 'poll'; did you mean 'pool'?");
}

static void a_key_set_twice_is_refused_with_both_lines(void **state)
{
	assert_refused(&(struct given){.ini = "[pool]\nslots = 1\n[mount]\n[pool]\nslots = 1\n"},
		EINVAL, ":5: [pool] slots was set in line 2 already");
	assert_refused(&(struct given){.ini = "[images]\na = /x\nb = /x\na = /y\n"}, EINVAL,
		":4: [images] a was set already");
}

static void an_option_without_section_key_and_value_is_refused(void **state)
{
	assert_option_refused("slots", "-o slots: not of the form section.key=value");
	assert_option_refused("slots=4", "not of the form section.key=value");
	assert_option_refused("slots=4.5", "not of the form section.key=value");
	assert_option_refused("pool.slots", "not of the form section.key=value");
	assert_option_refused("", "not of the form section.key=value");
}

static void a_comment_mark_inside_a_command_is_refused(void **state)
{
	assert_refused(&(struct given){.ini = "[exec]\nshell = /bin/sh -c ; x\n"}, EINVAL,
		":2: [exec] shell has ' ;' in it, where a comment would begin");
	assert_refused(&(struct given){.ini = "[blackbox]\nserver_command = a\n  b ; c\n"}, EINVAL,
		":2: [blackbox] server_command has ' ;' in it");
	assert_shows(
		&(struct given){.ini = "[exec]\nshell = sh -c;x\n"}, "exec.shell = sh '-c;x' ");
	assert_shows(&(struct given){.ini = "[pool]\nslots = 4 ; four\n"}, "pool.slots = 4 ");
}

static void a_line_of_300_bytes_is_refused(void **state)
{
	char ini[400] = "[blackbox]\nserver_command = ";

	memset(ini + strlen(ini), 'x', 300);
	assert_refused(
		&(struct given){.ini = ini}, EINVAL, ":2: the line is longer than 190 bytes");
}

static void a_long_command_goes_on_in_indented_lines(void **state)
{
	assert_shows(&(struct given){.ini = "[blackbox]\nserver_command = a --b\n  --c d\n"},
		"blackbox.server_command = a --b --c d  ; /proc/self/fd/");
}

/* ---- where the file is looked for ---- */

struct tree {
	char dir[64];
	char named[128], user[128], home[128];
};

static void write_ini(const char *path, unsigned port)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_true(fprintf(file, "[pool]\nbase_port = %u\n", port) > 0);
	assert_int_equal(fclose(file), 0);
}

static int tree_make(void **state)
{
	struct tree *tree = calloc(1, sizeof(*tree));
	char path[128];

	if (!tree)
		return -1;
	(void)snprintf(tree->dir, sizeof(tree->dir), "/tmp/dressage-config-XXXXXX");
	if (!mkdtemp(tree->dir))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/dressage", tree->dir);
	(void)mkdir(path, 0700);
	(void)snprintf(path, sizeof(path), "%s/.config", tree->dir);
	(void)mkdir(path, 0700);
	(void)snprintf(path, sizeof(path), "%s/.config/dressage", tree->dir);
	(void)mkdir(path, 0700);
	(void)snprintf(tree->named, sizeof(tree->named), "%s/named.ini", tree->dir);
	(void)snprintf(tree->user, sizeof(tree->user), "%s/dressage/dressage.ini", tree->dir);
	(void)snprintf(
		tree->home, sizeof(tree->home), "%s/.config/dressage/dressage.ini", tree->dir);
	write_ini(tree->named, 1);
	write_ini(tree->user, 2);
	write_ini(tree->home, 3);
	*state = tree;
	return 0;
}

static int tree_remove(void **state)
{
	struct tree *tree = *state;
	char path[128];

	(void)unlink(tree->named);
	(void)unlink(tree->user);
	(void)unlink(tree->home);
	(void)snprintf(path, sizeof(path), "%s/dressage", tree->dir);
	(void)rmdir(path);
	(void)snprintf(path, sizeof(path), "%s/.config/dressage", tree->dir);
	(void)rmdir(path);
	(void)snprintf(path, sizeof(path), "%s/.config", tree->dir);
	(void)rmdir(path);
	(void)rmdir(tree->dir);
	free(tree);
	return 0;
}

static uint32_t port_of(const char *file, const char *const *variables)
{
	struct config_sources sources = {.file = file, .environ = variables};
	struct error err = ERROR_NONE;
	struct config *config = NULL;
	uint32_t port;

	if (config_load_with(&sources, &root_facts, &config, &err) < 0)
		fail_with("the load failed", "", err.text);
	port = config->pool.base_port;
	config_free(config);
	return port;
}

static void the_file_is_the_named_one_then_the_users_then_the_systems(void **state)
{
	struct tree *tree = *state;
	char named[160], user[160], home[160];

	(void)snprintf(named, sizeof(named), "DRESSAGE_CONFIG=%s", tree->named);
	(void)snprintf(user, sizeof(user), "XDG_CONFIG_HOME=%s", tree->dir);
	(void)snprintf(home, sizeof(home), "HOME=%s", tree->dir);
	assert_int_equal(port_of(tree->user, NAMES(named, user, home)), 2);
	assert_int_equal(port_of(NULL, NAMES(named, user, home)), 1);
	assert_int_equal(port_of(NULL, NAMES(user, home)), 2);
	assert_int_equal(port_of(NULL, NAMES(home)), 3);
	assert_int_equal(port_of("", NAMES(named, user, home)), 31000);
}

static void a_named_file_that_is_not_there_is_an_error(void **state)
{
	struct config_sources sources = {.file = "/nonexistent/d.ini"};
	struct error err = ERROR_NONE;
	struct config *config = NULL;

	assert_int_equal(config_load(&sources, &config, &err), -ENOENT);
	assert_string_equal(err.text,
		"cannot open the configuration file '/nonexistent/d.ini': No such file or directory");
	sources.file = NULL;
	sources.environ = NAMES("DRESSAGE_CONFIG=/nonexistent/e.ini");
	assert_int_equal(config_load(&sources, &config, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent/e.ini"));
	sources.file = "/tmp";
	assert_int_equal(config_load(&sources, &config, &err), -EISDIR);
	assert_null(config);
}

static void a_key_that_others_may_read_is_remarked(void **state)
{
	struct tree *tree = *state;
	struct config_sources sources = {.file = tree->named};
	struct strbuf remarks = STRBUF_INIT;
	struct error err = ERROR_NONE;
	struct config *config = NULL;
	FILE *file = fopen(tree->named, "we");

	assert_non_null(file);
	assert_true(fputs("[e2b]\napi_key = k\n", file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(tree->named, 0644), 0);
	assert_int_equal(config_load_with(&sources, &root_facts, &config, &err), 0);
	config_each_remark(config, add_remark, &remarks);
	assert_non_null(strstr(remarks.data, "others may read it (mode 0644): chmod 600 it"));
	strbuf_fini(&remarks);
	config_free(config);
}

static void a_client_finds_the_mountpoint_of_a_daemon_that_it_could_not_start(void **state)
{
	struct config_sources sources = {.file = "",
		.environ = NAMES("HOME=/h"),
		.overrides = NAMES("mount.mountpoint=/srv/d", "slot.runner=direct",
			"mount.owner=54321", "mount.group=54321")};
	struct error err = ERROR_NONE;
	char *mountpoint = NULL;

	assert_int_equal(config_find_mountpoint(&sources, &mountpoint, &err), 0);
	assert_string_equal(mountpoint, "/srv/d");
	free(mountpoint);
	mountpoint = NULL;
	sources.overrides = NAMES("pool.slots=0");
	assert_int_equal(config_find_mountpoint(&sources, &mountpoint, &err), -EINVAL);
	assert_null(mountpoint);
}

/* ---- remarks ---- */

static void the_defaults_say_nothing(void **state)
{
	assert_no_remarks(&(struct given){0});
	assert_no_remarks(
		&(struct given){.facts = &user_facts, .variables = NAMES("HOME=/home/u")});
}

static void a_setting_for_another_choice_is_remarked(void **state)
{
	assert_remarks(&(struct given){.variables = NAMES("E2B_API_KEY=k")},
		"2 E2B_API_KEY has no effect: the provider is not e2b\n");
	assert_remarks(&(struct given){.options = NAMES("blackbox.server_command=x")},
		"1 blackbox.server_command (-o) has no effect: there is no server in a command_only pool\n");
	assert_remarks(&(struct given){.options = NAMES("archive.ttl=1h")},
		"archive.ttl (-o) has no effect: archive.enabled is off");
	assert_remarks(&(struct given){.options = NAMES("slot.inodes=5000")},
		"slot.inodes (-o) has no effect: slot.storage is not tmpfs");
}

static void a_setting_whose_feature_comes_later_is_remarked(void **state)
{
	assert_remarks(&(struct given){.options = NAMES("mount.xattr=on")},
		"1 mount.xattr (-o) has no effect yet\n");
	assert_remarks(&(struct given){.options = NAMES("pool.reset=soft")},
		"pool.reset (-o) has no effect yet: slots are reset the hard way");
	assert_remarks(&(struct given){.options = NAMES("mount.coherence=jiffy")},
		"mount.coherence (-o) has no effect yet: nothing is remembered, as strict says");
	assert_remarks(&(struct given){.options = NAMES("mount.passthrough=on")},
		"mount.passthrough (-o) has no effect yet");
	assert_remarks(&(struct given){.options = NAMES(
					       "mount.coherence=strict", "mount.passthrough=auto")},
		"");
	assert_no_remarks(&(struct given){.options = NAMES("pool.reset=hard")});
}

static void a_variable_without_effect_is_remarked_once_with_the_reason(void **state)
{
	struct loaded loaded =
		load(&(struct given){.variables = NAMES("DRESSAGE_BLACKBOX_DISABLE_PROC=1",
					     "DRESSAGE_BLACKBOX_PORT=31000")});

	assert_int_equal(loaded.r, 0);
	assert_string_equal(loaded.remarks.data,
		"2 DRESSAGE_BLACKBOX_PORT has no effect: the provider is not e2b\n"
		"2 DRESSAGE_BLACKBOX_DISABLE_PROC has no effect: slots always have a /proc of their own\n");
	unload(&loaded);
}

static void a_mistyped_variable_is_remarked_with_a_suggestion(void **state)
{
	assert_remarks(&(struct given){.variables = NAMES("DRESSAGE_BLACKBOX_SLOT_PER_NODE=3")},
		"DRESSAGE_BLACKBOX_SLOT_PER_NODE is not known; did you mean DRESSAGE_BLACKBOX_SLOTS_PER_NODE?");
	assert_no_remarks(
		&(struct given){.variables = NAMES("DRESSAGE_BLACKBOX_SOMETHING_ELSE=3",
					"DRESSAGE_BLACKBOX_SLOT_TOKEN=x", "SLOTS=2", "noequals")});
}

static void the_hosts_network_is_remarked(void **state)
{
	assert_remarks(&(struct given){.variables = NAMES("DRESSAGE_BLACKBOX_BWRAP_UNSHARE_NET=0")},
		"slot.network = host: slots can reach whatever this machine can");
}

static void reach_without_a_network_to_forward_is_remarked(void **state)
{
	assert_remarks(&(struct given){.options = NAMES("slot.reach=proxy:80")},
		"slot.reach has no effect: slot.network is none");
	assert_remarks(
		&(struct given){.options = NAMES("slot.reach=proxy:80", "slot.network=host")},
		"slot.reach has no effect: slot.network is host");
}

static void assert_no_remark(const struct given *given, const char *text)
{
	struct loaded loaded = load(given);

	assert_int_equal(loaded.r, 0);
	assert_null(strstr(loaded.remarks.data, text));
	unload(&loaded);
}

static void a_memory_mark_above_the_limit_is_remarked(void **state)
{
	static const char sentence[] =
		"slot.memory_high has no effect: it is above slot.memory_max";
	struct given given = {.options = NAMES("slot.memory_high=3G")};

	assert_remarks(&given, sentence);
	given.options = NAMES("slot.memory_high=3G", "slot.memory_max=0");
	assert_no_remark(&given, sentence);
}

static void a_memory_limit_that_is_too_small_is_remarked(void **state)
{
	assert_remarks(&(struct given){.options = NAMES("slot.memory_max=512")},
		"slot.memory_max is less than a shell needs; a number without K, M or G is bytes");
	assert_remarks(&(struct given){.options = NAMES("slot.storage=tmpfs", "slot.size=2G")},
		"slot.size is not below slot.memory_max, and files on a tmpfs are memory");
	assert_no_remark(&(struct given){.options = NAMES("slot.storage=tmpfs", "slot.size=2G",
						 "slot.memory_max=0")},
		"slot.size");
	assert_no_remark(&(struct given){.options = NAMES("slot.storage=tmpfs", "slot.size=1G")},
		"slot.size");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_option_wins_over_a_variable_over_a_file_over_the_default),
		cmocka_unit_test(the_last_of_several_options_stands),
		cmocka_unit_test(the_mountpoint_of_the_command_line_wins_over_everything),
		cmocka_unit_test(an_older_variable_counts_where_the_new_one_is_not_set),
		cmocka_unit_test(a_blank_variable_is_not_set),
		cmocka_unit_test(case_and_blanks_around_a_variable_count_for_nothing),
		cmocka_unit_test(a_bad_variable_is_refused_by_name_with_the_range),
		cmocka_unit_test(a_bad_value_in_a_file_is_refused_with_file_line_key_and_range),
		cmocka_unit_test(an_unknown_key_is_refused_with_a_suggestion),
		cmocka_unit_test(an_unknown_key_that_resembles_nothing_gets_no_suggestion),
		cmocka_unit_test(an_unknown_section_is_refused_with_a_suggestion),
		cmocka_unit_test(a_key_set_twice_is_refused_with_both_lines),
		cmocka_unit_test(an_option_without_section_key_and_value_is_refused),
		cmocka_unit_test(a_comment_mark_inside_a_command_is_refused),
		cmocka_unit_test(a_line_of_300_bytes_is_refused),
		cmocka_unit_test(a_long_command_goes_on_in_indented_lines),
		cmocka_unit_test_setup_teardown(
			the_file_is_the_named_one_then_the_users_then_the_systems, tree_make,
			tree_remove),
		cmocka_unit_test(a_named_file_that_is_not_there_is_an_error),
		cmocka_unit_test_setup_teardown(
			a_key_that_others_may_read_is_remarked, tree_make, tree_remove),
		cmocka_unit_test(a_client_finds_the_mountpoint_of_a_daemon_that_it_could_not_start),
		cmocka_unit_test(the_defaults_say_nothing),
		cmocka_unit_test(a_setting_for_another_choice_is_remarked),
		cmocka_unit_test(a_setting_whose_feature_comes_later_is_remarked),
		cmocka_unit_test(a_variable_without_effect_is_remarked_once_with_the_reason),
		cmocka_unit_test(a_mistyped_variable_is_remarked_with_a_suggestion),
		cmocka_unit_test(the_hosts_network_is_remarked),
		cmocka_unit_test(reach_without_a_network_to_forward_is_remarked),
		cmocka_unit_test(a_memory_mark_above_the_limit_is_remarked),
		cmocka_unit_test(a_memory_limit_that_is_too_small_is_remarked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
