/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test-derive.c: defaults that follow from other settings or the machine, and what does not fit
 * together.
 */
#include <errno.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "loading.h"

/* ---- modes ---- */

static void without_any_mode_the_daemon_is_whitebox_and_command_only(void **state)
{
	assert_shows(&(struct given){0}, "dressage.paddock_mode = whitebox  ; default");
	assert_shows(&(struct given){0}, "pool.mode = command_only  ; default");
}

static void a_pool_mode_alone_sets_the_paddock_mode(void **state)
{
	assert_shows(
		&(struct given){.variables = NAMES("DRESSAGE_LOCAL_BWRAP_POOL_MODE=command_only")},
		"dressage.paddock_mode = whitebox  ; from pool.mode (DRESSAGE_LOCAL_BWRAP_POOL_MODE)");
}

static void a_paddock_mode_alone_sets_the_pool_mode(void **state)
{
	assert_shows(&(struct given){.options = NAMES("dressage.paddock_mode=whitebox")},
		"pool.mode = command_only  ; from dressage.paddock_mode (-o)");
	assert_refused(&(struct given){.variables = NAMES("DRESSAGE_PADDOCK_MODE=blackbox")},
		EOPNOTSUPP,
		"[pool] mode = blackbox (from dressage.paddock_mode (DRESSAGE_PADDOCK_MODE)) is not there yet: use command_only");
}

static void modes_that_do_not_fit_are_refused_with_both_and_the_way_out(void **state)
{
	struct given given = {.ini = "[pool]\nmode = command_only\n",
		.variables = NAMES("DRESSAGE_PADDOCK_MODE=blackbox")};
	struct loaded loaded = load(&given);

	assert_int_equal(loaded.r, -EPROTOTYPE);
	assert_int_equal(loaded.err.reason, REASON_MODE_MISMATCH);
	assert_non_null(strstr(
		loaded.err.text, "[dressage] paddock_mode = blackbox (DRESSAGE_PADDOCK_MODE)"));
	assert_non_null(strstr(loaded.err.text, "[pool] mode = command_only (/proc/self/fd/"));
	assert_non_null(strstr(loaded.err.text, "set one of them and leave the other out"));
	unload(&loaded);
	assert_refused(&(struct given){.options = NAMES("dressage.paddock_mode=whitebox",
					       "pool.mode=blackbox")},
		EPROTOTYPE, "does not fit");
}

/* ---- directories ---- */

static void a_root_daemon_lives_in_the_systems_directories(void **state)
{
	struct given given = {
		.variables = NAMES("XDG_STATE_HOME=/s", "XDG_RUNTIME_DIR=/r", "HOME=/root")};

	assert_shows(&given, "dressage.state_dir = /var/lib/dressage ");
	assert_shows(&given, "mount.mountpoint = /mnt/dressage ");
	assert_shows(&given, "pool.slot_dir = /var/lib/dressage  ; from dressage.state_dir");
}

static void a_users_daemon_lives_in_his_own_directories(void **state)
{
	struct given given = {.facts = &user_facts,
		.variables = NAMES("XDG_STATE_HOME=/s", "XDG_RUNTIME_DIR=/r", "HOME=/h")};

	assert_shows(&given, "dressage.state_dir = /s/dressage  ; from XDG_STATE_HOME");
	assert_shows(&given, "mount.mountpoint = /r/dressage  ; from XDG_RUNTIME_DIR");
	given.variables = NAMES("HOME=/h");
	assert_shows(
		&given, "dressage.state_dir = /h/.local/state/dressage  ; from the home directory");
	assert_shows(&given,
		"mount.mountpoint = /h/.local/state/dressage/mnt  ; from dressage.state_dir, as XDG");
}

static void a_user_without_any_home_must_name_the_state_directory(void **state)
{
	struct given given = {.facts = &user_facts};

	assert_refused(&given, EINVAL, "set [dressage] state_dir, XDG_STATE_HOME or HOME");
	given.options = NAMES("dressage.state_dir=/s");
	assert_shows(&given, "mount.mountpoint = /s/mnt ");
}

static void state_log_and_slots_may_not_lie_under_the_mountpoint(void **state)
{
	assert_refused(&(struct given){.options = NAMES("dressage.state_dir=/mnt/dressage/state")},
		EINVAL,
		"[dressage] state_dir = /mnt/dressage/state (-o) lies under the mountpoint '/mnt/dressage'");
	assert_refused(&(struct given){.options = NAMES("pool.slot_dir=/mnt/dressage")}, EINVAL,
		"[pool] slot_dir = /mnt/dressage (-o) lies under");
	assert_refused(
		&(struct given){.options = NAMES("dressage.log_file=/mnt/x/../dressage/log")},
		EINVAL, "[dressage] log_file");
	assert_refused(&(struct given){.mountpoint = "/var/lib"}, EINVAL,
		"[dressage] state_dir = /var/lib/dressage (from the user, root) lies under the mountpoint '/var/lib'");
	assert_shows(&(struct given){.mountpoint = "/var/lib/dressage/mnt"},
		"mount.mountpoint = /var/lib/dressage/mnt ");
}

static void the_root_directory_is_no_mountpoint(void **state)
{
	assert_refused(&(struct given){.mountpoint = "/"}, EINVAL,
		"the mountpoint '/' is the root directory");
	assert_refused(&(struct given){.mountpoint = "/tmp/.."}, EINVAL, "is the root directory");
}

/* ---- numbers ---- */

static void there_are_two_slots_for_each_processor(void **state)
{
	static const struct config_facts many = {.cpus = 60000, .nofile_hard = 1024};

	assert_shows(&(struct given){0}, "pool.slots = 8  ; from 2 x CPUs");
	assert_shows(&(struct given){.facts = &many}, "pool.slots = 9999  ; from 2 x CPUs");
}

static void of_slots_and_their_cap_the_smaller_counts_and_one_alone_stands(void **state)
{
	static const char total[] = "DRESSAGE_LOCAL_BWRAP_TOTAL_SERVERS=16";
	static const char large[] = "DRESSAGE_BLACKBOX_SLOTS_PER_NODE=600";

	assert_shows(&(struct given){.variables = NAMES(total)},
		"pool.slots = 16  ; from DRESSAGE_LOCAL_BWRAP_TOTAL_SERVERS");
	assert_shows(&(struct given){.variables = NAMES(large)},
		"pool.slots = 600  ; DRESSAGE_BLACKBOX_SLOTS_PER_NODE");
	assert_shows(&(struct given){.variables = NAMES(total, large)},
		"pool.slots = 16  ; from DRESSAGE_LOCAL_BWRAP_TOTAL_SERVERS");
	assert_remarks(&(struct given){.variables = NAMES(total, large)},
		"pool.slots = 600 (DRESSAGE_BLACKBOX_SLOTS_PER_NODE) is cut to 16 by DRESSAGE_LOCAL_BWRAP_TOTAL_SERVERS");
	assert_shows(&(struct given){.variables = NAMES(total), .ini = "[pool]\nslots = 8\n"},
		"pool.slots = 8  ; /proc");
	assert_refused(
		&(struct given){.variables = NAMES("DRESSAGE_LOCAL_BWRAP_TOTAL_SERVERS=20000")},
		EINVAL, "alone, would be the slots of this machine: set [pool] slots, 1 to 9999");
}

static void open_files_are_cut_to_the_hard_limit(void **state)
{
	static const struct config_facts poor = {.cpus = 1, .nofile_hard = 20000};
	struct given user = {.facts = &user_facts, .variables = NAMES("HOME=/h")};

	assert_shows(
		&(struct given){0}, "slot.nofile = 65536  ; from the hard limit, at most 65536");
	assert_shows(&(struct given){.facts = &poor}, "slot.nofile = 20000  ; from the hard limit");
	assert_shows(&(struct given){.facts = &poor, .options = NAMES("slot.nofile=30000")},
		"slot.nofile = 20000  ; from the hard limit");
	assert_remarks(&(struct given){.facts = &poor, .options = NAMES("slot.nofile=30000")},
		"slot.nofile = 30000 is cut to the daemon's own hard limit, 20000");
	assert_shows(&(struct given){.facts = &poor, .options = NAMES("slot.nofile=300")},
		"slot.nofile = 300  ; -o");
	assert_shows(&user, "slot.nofile = 512  ; from the user, not root");
	user.options = NAMES("slot.nofile=4096");
	assert_shows(&user, "slot.nofile = 4096  ; -o");
}

static void ports_of_all_slots_exist(void **state)
{
	assert_shows(&(struct given){.options = NAMES("pool.base_port=65526", "pool.slots=10")},
		"pool.slots = 10 ");
	assert_refused(&(struct given){.options = NAMES("pool.base_port=65527", "pool.slots=10")},
		EINVAL, "[pool] base_port = 65527 leaves no port for 10 slots: 65526 at most");
}

static void user_ids_of_all_slots_exist(void **state)
{
	struct given given = {.options = NAMES("slot.uid_base=4294000000", "pool.slots=16")};

	assert_refused(&given, EINVAL,
		"leaves no user ids for 16 slots of 65536 each: 4293918719 at most");
	given.facts = &user_facts;
	given.variables = NAMES("HOME=/h");
	assert_shows(&given, "pool.slots = 16 ");
}

static void a_limit_of_processes_leaves_room_for_a_command(void **state)
{
	assert_option_refused("slot.pids_max=2",
		"[slot] pids_max = 2 (-o) leaves no room for a command beside what keeps a slot up: 3 at least, or 0 for no limit");
	assert_option_shows("slot.pids_max=3", "slot.pids_max = 3");
	assert_option_shows("slot.pids_max=0", "slot.pids_max = 0");
}

static void a_default_timeout_above_the_longest_is_refused(void **state)
{
	assert_refused(&(struct given){.options = NAMES("exec.timeout=10m", "exec.timeout_max=5m")},
		EINVAL,
		"[exec] timeout = 10m (-o) is above [exec] timeout_max = 5m (-o): lower the one or raise the other");
	assert_shows(&(struct given){.options = NAMES("exec.timeout=10m")}, "exec.timeout = 10m ");
}

/* ---- owner ---- */

static void the_mount_is_its_starters_unless_root_names_another(void **state)
{
	struct loaded loaded = load(&(struct given){0});
	const struct passwd *someone = getpwuid(getuid());
	char option[300];

	assert_non_null(someone);
	assert_int_equal(loaded.config->mount.owner_uid, 0);
	assert_int_equal(loaded.config->mount.owner_gid, 0);
	unload(&loaded);
	(void)snprintf(option, sizeof(option), "mount.owner=%s", someone->pw_name);
	loaded = load(&(struct given){.options = NAMES(option)});
	assert_int_equal(loaded.r, 0);
	assert_int_equal(loaded.config->mount.owner_uid, someone->pw_uid);
	assert_int_equal(loaded.config->mount.owner_gid, someone->pw_gid);
	assert_string_equal(loaded.config->mount.owner, someone->pw_name);
	unload(&loaded);
	loaded = load(&(struct given){.facts = &user_facts, .variables = NAMES("HOME=/h")});
	assert_int_equal(loaded.config->mount.owner_uid, 4321);
	assert_int_equal(loaded.config->mount.owner_gid, 4321);
	unload(&loaded);
}

static void an_owner_may_be_a_number(void **state)
{
	struct loaded loaded =
		load(&(struct given){.options = NAMES("mount.owner=54321", "mount.group=54322")});

	assert_int_equal(loaded.r, 0);
	assert_int_equal(loaded.config->mount.owner_uid, 54321);
	assert_int_equal(loaded.config->mount.owner_gid, 54322);
	unload(&loaded);
	assert_option_refused(
		"mount.owner=54321", "is no user of this machine: set [mount] group too");
}

static void an_owner_or_group_that_does_not_exist_is_refused(void **state)
{
	assert_option_refused("mount.owner=no-such-user",
		"[mount] owner = 'no-such-user': there is no such user");
	assert_option_refused("mount.group=no-such-group",
		"[mount] group = 'no-such-group': there is no such group");
	assert_option_refused("mount.owner=-1", "there is no such user");
	assert_option_refused("mount.owner=4294967295", "there is no such user");
}

static void only_root_may_name_another_owner(void **state)
{
	struct given given = {.facts = &user_facts,
		.variables = NAMES("HOME=/h"),
		.options = NAMES("mount.owner=54321", "mount.group=4321")};

	assert_refused(&given, EPERM,
		"[mount] owner = '54321': only root may make a mount for another user");
	given.options = NAMES("mount.group=54322");
	assert_refused(
		&given, EPERM, "[mount] group = '54322': you are not a member of that group");
	given.options = NAMES("mount.owner=4321", "mount.group=4321");
	assert_shows(&given, "mount.owner = 4321 ");
}

static void no_slot_runs_as_the_mounts_owner(void **state)
{
	struct given given = {
		.options = NAMES("mount.owner=2100000", "mount.group=0", "pool.slots=4")};

	assert_refused(&given, EINVAL,
		"the mount's owner, user 2100000, is one of the users that slots run as (2000000 to 2262143): set another [slot] uid_base");
}

static void root_lets_others_in_by_default(void **state)
{
	struct given user = {.facts = &user_facts, .variables = NAMES("HOME=/h")};

	assert_shows(&(struct given){0}, "mount.allow_other = on ");
	assert_shows(&(struct given){.options = NAMES("mount.allow_other=off")},
		"mount.allow_other = off  ; -o");
	assert_shows(&user, "mount.allow_other = off ");
}

/* ---- the rest ---- */

static void endpoints_name_the_address_that_slots_listen_on(void **state)
{
	struct loaded loaded;

	assert_shows(&(struct given){0}, "pool.advertise_ip = 127.0.0.1  ; from pool.bind_host");
	assert_shows(&(struct given){.options = NAMES("pool.bind_host=10.9.9.9")},
		"pool.advertise_ip = 10.9.9.9 ");
	loaded = load(&(struct given){.options = NAMES("pool.bind_host=0.0.0.0")});
	assert_int_equal(loaded.r, 0);
	assert_string_not_equal(loaded.config->pool.advertise_ip, "0.0.0.0");
	assert_string_not_equal(loaded.config->pool.advertise_ip, "");
	unload(&loaded);
}

static void the_server_command_is_made_of_python_and_module(void **state)
{
	assert_shows(&(struct given){0},
		"blackbox.server_command = python3 -m blackbox_server.main  ; from blackbox.python");
	assert_shows(
		&(struct given){.options = NAMES("blackbox.python=py", "blackbox.server_module=m")},
		"blackbox.server_command = py -m m ");
}

static void the_api_of_a_domain_has_its_url(void **state)
{
	assert_shows(&(struct given){.options = NAMES("e2b.domain=x.org")},
		"e2b.api_url = https://api.x.org  ; from e2b.domain");
}

static void what_must_not_be_ignored_and_is_not_there_yet_is_refused(void **state)
{
	static const char *const options[] = {"dressage.provider=e2b", "pool.mode=blackbox",
		"slot.runner=direct", "archive.enabled=on"};
	size_t i;

	for (i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		assert_refused(&(struct given){.options = NAMES(options[i])}, EOPNOTSUPP,
			"is not there yet: ");
}

static void the_scripted_provider_of_tests_can_be_chosen(void **state)
{
	assert_option_shows("dressage.provider=fake", "dressage.provider = fake  ; -o");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_any_mode_the_daemon_is_whitebox_and_command_only),
		cmocka_unit_test(a_pool_mode_alone_sets_the_paddock_mode),
		cmocka_unit_test(a_paddock_mode_alone_sets_the_pool_mode),
		cmocka_unit_test(modes_that_do_not_fit_are_refused_with_both_and_the_way_out),
		cmocka_unit_test(a_root_daemon_lives_in_the_systems_directories),
		cmocka_unit_test(a_users_daemon_lives_in_his_own_directories),
		cmocka_unit_test(a_user_without_any_home_must_name_the_state_directory),
		cmocka_unit_test(state_log_and_slots_may_not_lie_under_the_mountpoint),
		cmocka_unit_test(the_root_directory_is_no_mountpoint),
		cmocka_unit_test(there_are_two_slots_for_each_processor),
		cmocka_unit_test(of_slots_and_their_cap_the_smaller_counts_and_one_alone_stands),
		cmocka_unit_test(open_files_are_cut_to_the_hard_limit),
		cmocka_unit_test(ports_of_all_slots_exist),
		cmocka_unit_test(user_ids_of_all_slots_exist),
		cmocka_unit_test(a_limit_of_processes_leaves_room_for_a_command),
		cmocka_unit_test(a_default_timeout_above_the_longest_is_refused),
		cmocka_unit_test(the_mount_is_its_starters_unless_root_names_another),
		cmocka_unit_test(an_owner_may_be_a_number),
		cmocka_unit_test(an_owner_or_group_that_does_not_exist_is_refused),
		cmocka_unit_test(only_root_may_name_another_owner),
		cmocka_unit_test(no_slot_runs_as_the_mounts_owner),
		cmocka_unit_test(root_lets_others_in_by_default),
		cmocka_unit_test(endpoints_name_the_address_that_slots_listen_on),
		cmocka_unit_test(the_server_command_is_made_of_python_and_module),
		cmocka_unit_test(the_api_of_a_domain_has_its_url),
		cmocka_unit_test(what_must_not_be_ignored_and_is_not_there_yet_is_refused),
		cmocka_unit_test(the_scripted_provider_of_tests_can_be_chosen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
