/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "loading.h"

static void a_bare_time_means_seconds(void **state)
{
	assert_option_shows("pool.lease_ttl=90", "pool.lease_ttl = 90s ");
	assert_option_shows("pool.lease_ttl=1.5", "pool.lease_ttl = 1500ms ");
}

static void a_time_takes_ms_s_m_and_h(void **state)
{
	assert_option_shows("pool.lease_ttl=250ms", "pool.lease_ttl = 250ms ");
	assert_option_shows("pool.lease_ttl=90s", "pool.lease_ttl = 90s ");
	assert_option_shows("pool.lease_ttl=90m", "pool.lease_ttl = 90m ");
	assert_option_shows("pool.lease_ttl=2 H", "pool.lease_ttl = 2h ");
	assert_option_shows("pool.lease_ttl=0.5h", "pool.lease_ttl = 30m ");
}

static void a_time_that_is_not_nothing_never_becomes_nothing(void **state)
{
	assert_option_shows("exec.timeout=0.0001", "exec.timeout = 1ms ");
	assert_option_shows("exec.timeout=0.0000000001ms", "exec.timeout = 1ms ");
	assert_option_shows("exec.timeout=0", "exec.timeout = 0 ");
}

static void a_bad_time_is_refused_with_the_range(void **state)
{
	assert_option_refused("pool.hold_grace=soon",
		"-o pool.hold_grace = 'soon' is not a time (30, 1.5s, 200ms, 10m, 2h); allowed: 0 to 1h");
	assert_option_refused("pool.hold_grace=5d", "unknown unit");
	assert_option_refused("pool.hold_grace=2h", "is out of range; allowed: 0 to 1h");
	assert_option_refused("pool.hold_grace=-1", "is negative");
	assert_option_refused("pool.hold_grace=99999999999999999999", "is not a time");
	assert_option_refused("pool.hold_grace=99999999999999999h", "is too large");
	assert_option_refused(
		"blackbox.health_interval=0.05", "is out of range; allowed: 100ms to 24h");
}

static void a_lease_ttl_of_nothing_or_less_is_unlimited(void **state)
{
	assert_option_shows("pool.lease_ttl=0", "pool.lease_ttl = 0 ");
	assert_shows(&(struct given){.variables = NAMES("DRESSAGE_BLACKBOX_LEASE_TTL_SEC=-1")},
		"pool.lease_ttl = 0 ");
}

static void a_size_takes_k_m_and_g(void **state)
{
	assert_option_shows("slot.memory_max=4194304", "slot.memory_max = 4M ");
	assert_option_shows("slot.memory_max=64k", "slot.memory_max = 64K ");
	assert_option_shows("slot.memory_max=3000M", "slot.memory_max = 3000M ");
	assert_option_shows("slot.memory_max=1.5G", "slot.memory_max = 1536M ");
	assert_option_shows("slot.memory_max=1000001", "slot.memory_max = 1000001 ");
}

static void a_bad_size_is_refused_with_the_range(void **state)
{
	assert_option_refused(
		"exec.max_output=big", "is not a size (1048576, 512K, 1.5G); allowed: 1K to 64M");
	assert_option_refused("exec.max_output=1T", "unknown unit (known: K, M, G");
	assert_option_refused("exec.max_output=1", "is out of range; allowed: 1K to 64M");
	assert_option_refused("exec.max_output=2G", "is out of range");
	assert_option_refused("exec.max_output=99999999999G", "is too large");
	assert_option_refused("exec.max_output=", "is empty");
}

static void a_count_is_a_whole_number_within_its_bounds(void **state)
{
	assert_option_shows("pool.slots=9999", "pool.slots = 9999 ");
	assert_option_refused(
		"pool.slots=0", "-o pool.slots = '0' is out of range; allowed: 1 to 9999");
	assert_option_refused("pool.slots=10000", "is out of range");
	assert_option_refused("pool.slots=4294967297", "is out of range");
	assert_option_refused("pool.slots=-4", "is negative");
	assert_option_refused("pool.slots=4.5", "is not a whole number");
	assert_option_refused("pool.slots=4 # four", "is not a whole number");
	assert_option_refused("pool.slots=0x10", "is not a whole number");
	assert_option_refused("pool.slots=many", "is not a number");
	assert_option_refused("pool.slots=99999999999999999999", "is too large");
}

static void a_flag_takes_the_words_of_ini_files_shells_and_python(void **state)
{
	static const char *const on[] = {"on", "1", "true", "True", "yes", "YES", "y"};
	static const char *const off[] = {"off", "0", "false", "False", "no", "NO", "n"};
	char option[64];
	size_t i;

	for (i = 0; i < sizeof(on) / sizeof(on[0]); i++) {
		(void)snprintf(option, sizeof(option), "blackbox.skip_healthcheck=%s", on[i]);
		assert_option_shows(option, "blackbox.skip_healthcheck = on ");
	}
	for (i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
		(void)snprintf(option, sizeof(option), "blackbox.skip_healthcheck=%s", off[i]);
		assert_option_shows(option, "blackbox.skip_healthcheck = off ");
	}
	assert_option_refused(
		"blackbox.skip_healthcheck=maybe", "is neither on nor off; allowed: on | off");
	assert_option_refused("blackbox.skip_healthcheck=2", "is neither on nor off");
}

static void a_tristate_takes_auto_too(void **state)
{
	assert_option_shows("mount.passthrough=auto", "mount.passthrough = auto ");
	assert_option_shows("mount.passthrough=True", "mount.passthrough = on ");
	assert_option_shows("mount.passthrough=0", "mount.passthrough = off ");
	assert_option_refused("mount.passthrough=perhaps", "allowed: off | on | auto");
}

static void a_choice_takes_its_words_in_any_case_and_names_them_in_errors(void **state)
{
	assert_option_shows("mount.symlinks=RAW", "mount.symlinks = raw ");
	assert_option_refused("mount.symlinks=follow",
		"'follow' is not one of the words known here; allowed: contain | raw");
	assert_option_refused("dressage.provider=docker", "allowed: local_bwrap | e2b");
}

static void other_spellings_of_a_choice_print_as_its_name(void **state)
{
	static const char *const spellings[] = {"command_only", "command-only", "commandonly",
		"command", "commands", "Command_Only"};
	char option[64];
	size_t i;

	for (i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
		(void)snprintf(option, sizeof(option), "pool.mode=%s", spellings[i]);
		assert_option_shows(option, "pool.mode = command_only ");
	}
	assert_option_shows("slot.runner=bubblewrap", "slot.runner = bwrap ");
	assert_option_shows("dressage.log_level=warning", "dressage.log_level = warn ");
}

static void a_mode_is_octal_and_lets_nobody_else_write(void **state)
{
	assert_option_shows("mount.mode=700", "mount.mode = 0700 ");
	assert_option_shows("mount.mode=0755", "mount.mode = 0755 ");
	assert_option_refused(
		"mount.mode=0770", "is out of range; allowed: 0700 and any bits of 0055");
	assert_option_refused("mount.mode=0050", "is out of range");
	assert_option_refused("mount.mode=rwx", "is not an octal number");
	assert_option_refused("mount.mode=0799", "is not an octal number");
	assert_option_refused("mount.mode=-700", "is not an octal number");
}

static void text_has_no_control_bytes_and_a_length(void **state)
{
	assert_option_refused("pool.bind_host=a\tb", "'a?b' has control bytes in it");
	assert_option_refused("pool.bind_host=", "is empty; allowed: 1 to 255 bytes");
	assert_option_refused(
		"mount.owner=0123456789012345678901234567890123456789012345678901234567890123456789",
		"is too long; allowed: 0 to 64 bytes");
}

static void a_long_bad_value_is_cut_in_the_error_text(void **state)
{
	char option[400] = "pool.slots=";

	memset(option + 11, 'x', 300);
	assert_option_refused(option, "xxx...' is not a number; allowed: 1 to 9999");
}

static void a_path_in_a_file_is_absolute(void **state)
{
	assert_refused(&(struct given){.ini = "[dressage]\nstate_dir = state\n"}, EINVAL,
		":2: [dressage] state_dir = 'state' is not an absolute path; allowed: an absolute path");
	assert_shows(&(struct given){.ini = "[dressage]\nstate_dir = /tmp/state//\n"},
		"dressage.state_dir = /tmp/state ");
}

static void a_relative_path_of_an_option_means_the_current_directory(void **state)
{
	char cwd[2048], line[2200];

	assert_non_null(getcwd(cwd, sizeof(cwd)));
	(void)snprintf(line, sizeof(line), "dressage.log_file = %s/my.log ", cwd);
	assert_option_shows("dressage.log_file=my.log", line);
	(void)snprintf(line, sizeof(line), "mount.mountpoint = %s/mnt  ; command line", cwd);
	assert_shows(&(struct given){.mountpoint = "mnt"}, line);
}

static void a_path_inside_a_sandbox_begins_with_a_slash(void **state)
{
	assert_option_shows("e2b.workdir=/code", "e2b.workdir = /code ");
	assert_option_refused("e2b.workdir=code", "does not begin with /");
	assert_option_refused("blackbox.health_path=health", "does not begin with /");
}

static void patterns_are_parted_by_blanks(void **state)
{
	assert_option_shows("slot.env_pass= PATH   LC_*\tTZ ", "slot.env_pass = PATH LC_* TZ ");
	assert_option_shows("slot.env_pass=", "slot.env_pass =   ; -o");
	assert_option_refused(
		"slot.env_pass=PATH A=B", "has 'A=B', which is no name or pattern of a variable");
}

static void what_a_slot_may_reach_is_host_and_port(void **state)
{
	assert_option_shows("slot.reach=proxy.local:4000 10.0.0.1:80 [::1]:8080",
		"slot.reach = proxy.local:4000 10.0.0.1:80 [::1]:8080 ");
	assert_option_refused("slot.reach=proxy", "has 'proxy', which is not host:port");
	assert_option_refused("slot.reach=:80", "which is not host:port");
	assert_option_refused("slot.reach=proxy:0", "which is not host:port");
	assert_option_refused("slot.reach=proxy:65536", "which is not host:port");
	assert_option_refused("slot.reach=proxy:99999999999", "which is not host:port");
	assert_option_refused("slot.reach=proxy:http", "which is not host:port");
	assert_option_refused("slot.reach=proxy:", "which is not host:port");
	assert_option_refused("slot.reach=::1:80", "which is not host:port");
	assert_option_refused("slot.reach=http://proxy:80", "which is not host:port");
}

static void directories_to_archive_are_parted_by_commas(void **state)
{
	assert_option_shows("archive.dirs=home, work", "archive.dirs = home,work ");
	assert_option_refused("archive.dirs=home,logs",
		"has 'logs' in it, which is not known here; allowed: any of home, work, runtime, tmp");
}

static void read_only_mounts_are_absolute_paths_parted_by_colons(void **state)
{
	assert_option_shows("slot.readonly_mounts=/usr:/opt/py thon::/lib",
		"slot.readonly_mounts = /usr:/opt/py thon:/lib ");
	assert_option_refused(
		"slot.readonly_mounts=/usr:lib", "has 'lib', which is not an absolute path");
}

static void words_for_bubblewrap_are_quoted_as_for_a_shell(void **state)
{
	struct loaded loaded = load(&(struct given){
		.variables = NAMES(
			"DRESSAGE_BLACKBOX_BWRAP_EXTRA_ARGS=--setenv A 'b c' \"d \\\"e\\\" \\f\" g\\ h ''\n--x")});
	static const char *const words[] = {
		"--setenv", "A", "b c", "d \"e\" \\f", "g h", "", "--x"};
	size_t i;

	assert_int_equal(loaded.r, 0);
	assert_int_equal(loaded.config->slot.bwrap_args.count, 7);
	for (i = 0; i < 7; i++)
		assert_string_equal(loaded.config->slot.bwrap_args.words[i], words[i]);
	assert_null(loaded.config->slot.bwrap_args.words[7]);
	unload(&loaded);
}

static void quoted_words_print_as_they_are_read(void **state)
{
	assert_option_shows("slot.bwrap_args=--setenv A 'b c' \"it's\" ''",
		"slot.bwrap_args = --setenv A 'b c' 'it'\\''s' ''  ; -o");
}

static void a_quote_without_its_end_is_refused(void **state)
{
	assert_option_refused("slot.bwrap_args=--setenv 'A", "has a quote without its end");
	assert_option_refused("slot.bwrap_args=--setenv \\", "ends in a backslash");
}

static void the_shell_has_at_least_one_word(void **state)
{
	assert_option_shows("exec.shell=/bin/bash -c", "exec.shell = /bin/bash -c ");
	assert_option_refused(
		"exec.shell=", "is empty; allowed: at least one word, quoted as for a shell");
}

static void a_server_command_stays_text(void **state)
{
	assert_option_shows("blackbox.server_command=sh -c 'x  y' {port}",
		"blackbox.server_command = sh -c 'x  y' {port}  ; -o");
}

static void an_image_is_a_name_and_a_directory(void **state)
{
	assert_option_refused("images.bad name=/srv", "has a bad image name");
	assert_option_refused("images.=/srv", "has a bad image name");
	assert_option_refused("images.python=srv", "is not an absolute path");
	assert_option_refused("images.python=", "is empty");
}

static void an_empty_value_brings_a_derived_default_back(void **state)
{
	assert_shows(&(struct given){.ini = "[pool]\nslots = 7\n", .options = NAMES("pool.slots=")},
		"pool.slots = 8  ; from 2 x CPUs");
	assert_shows(
		&(struct given){.ini = "[slot]\ncpu_weight =\n"}, "slot.cpu_weight =   ; default");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bare_time_means_seconds),
		cmocka_unit_test(a_time_takes_ms_s_m_and_h),
		cmocka_unit_test(a_time_that_is_not_nothing_never_becomes_nothing),
		cmocka_unit_test(a_bad_time_is_refused_with_the_range),
		cmocka_unit_test(a_lease_ttl_of_nothing_or_less_is_unlimited),
		cmocka_unit_test(a_size_takes_k_m_and_g),
		cmocka_unit_test(a_bad_size_is_refused_with_the_range),
		cmocka_unit_test(a_count_is_a_whole_number_within_its_bounds),
		cmocka_unit_test(a_flag_takes_the_words_of_ini_files_shells_and_python),
		cmocka_unit_test(a_tristate_takes_auto_too),
		cmocka_unit_test(a_choice_takes_its_words_in_any_case_and_names_them_in_errors),
		cmocka_unit_test(other_spellings_of_a_choice_print_as_its_name),
		cmocka_unit_test(a_mode_is_octal_and_lets_nobody_else_write),
		cmocka_unit_test(text_has_no_control_bytes_and_a_length),
		cmocka_unit_test(a_long_bad_value_is_cut_in_the_error_text),
		cmocka_unit_test(a_path_in_a_file_is_absolute),
		cmocka_unit_test(a_relative_path_of_an_option_means_the_current_directory),
		cmocka_unit_test(a_path_inside_a_sandbox_begins_with_a_slash),
		cmocka_unit_test(patterns_are_parted_by_blanks),
		cmocka_unit_test(what_a_slot_may_reach_is_host_and_port),
		cmocka_unit_test(directories_to_archive_are_parted_by_commas),
		cmocka_unit_test(read_only_mounts_are_absolute_paths_parted_by_colons),
		cmocka_unit_test(words_for_bubblewrap_are_quoted_as_for_a_shell),
		cmocka_unit_test(quoted_words_print_as_they_are_read),
		cmocka_unit_test(a_quote_without_its_end_is_refused),
		cmocka_unit_test(the_shell_has_at_least_one_word),
		cmocka_unit_test(a_server_command_stays_text),
		cmocka_unit_test(an_image_is_a_name_and_a_directory),
		cmocka_unit_test(an_empty_value_brings_a_derived_default_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
