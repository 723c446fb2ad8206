/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The isolation's own test: a slot is started without one step, and the attempt that the step is
 * there against must get through. What is belt and braces is left out together with its partners.
 * The steps that need no attempt, since no slot starts without them, are here too.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/loop.h"
#include "pool/slot-dirs.h"
#include "tests/security/leak.h"
#include "tests/security/world.h"

enum { ATTEMPTS_OF_ONE = 5 };

enum who { EVERYBODY, ROOT_ONLY, USER_ONLY };

/* Of the slot. RANGED: root of a range of ids inside, with an overlay. */
enum kind { USUAL, HOST_NETWORK, RANGED };

struct without {
	const char *what;
	struct leak leak;
	enum who who;
	enum kind kind;
	const char *never_ready; /* no slot starts, and the reason has this in it; or NULL */
	const char *attempts[ATTEMPTS_OF_ONE];
	const char *says; /* what the attempts' answers must have in them; or NULL */
};

#define NAMESPACE          "every_namespace_is_the_slots_own"
#define ROOT               "there_is_no_way_to_root_or_capabilities"
#define SECOND_NAMESPACE   "user namespace,setgroups,gid map,uid map"
#define EMPTY_CAPABILITIES "securebits,bounding set,capabilities"

static const struct without cases[] = {
	/* ---- the exec helper ---- */
	{"the helper's setgroups", {.init = "setgroups of the helper"}, ROOT_ONLY,
		.attempts = {"no_file_is_opened_by_a_group_of_the_daemons"}},
	{"a host uid of its own", {.init = "setresuid of the helper"}, ROOT_ONLY,
		.attempts = {"a_fork_bomb_ends_at_the_slots_own_limit"}},
	{"a host uid of its own and a read-only /proc/sys",
		{.init = "setresuid of the helper,read-only /proc/sys"}, ROOT_ONLY,
		.attempts = {"no_sysctl_can_be_written"}, .says = "vm/swappiness"},
	{"a host uid of its own and an /etc of its own",
		{.init = "setresuid of the helper",
			.words = {{{"--ro-bind", "*", "/etc"}, {"--ro-bind", "/etc", "/etc"}}}},
		ROOT_ONLY, .attempts = {"the_hosts_secrets_cannot_be_read"}, .says = "/etc/shadow"},

	/* ---- bwrap ---- */
	/* not --unshare-user: bwrap of an ordinary user, whom the helper makes, does it unasked */
	{"--unshare-pid", {.words = {{{"--unshare-pid"}}}}, .never_ready = "--unshare-pid"},
	{"--as-pid-1", {.words = {{{"--as-pid-1"}}}}, .never_ready = "pid 1"},
	{"--unshare-ipc", {.words = {{{"--unshare-ipc"}}}},
		.attempts = {"the_hosts_shared_memory_is_not_there", NAMESPACE}},
	{"--unshare-uts and --hostname", {.words = {{{"--unshare-uts"}}, {{"--hostname", "slot"}}}},
		.attempts = {"the_hosts_name_is_not_told", NAMESPACE}},
	{"--hostname", {.words = {{{"--hostname", "slot"}}}},
		.attempts = {"the_hosts_name_is_not_told"}},
	{"--unshare-cgroup", {.words = {{{"--unshare-cgroup"}}}}, .attempts = {NAMESPACE}},
	{"--unshare-net", {.words = {{{0}}}}, .kind = HOST_NETWORK,
		.attempts = {"the_hosts_loopback_cannot_be_reached",
			"the_hosts_abstract_names_are_not_listed", NAMESPACE}},
	{"--unshare-net and landlock", {.init = "landlock"}, .kind = HOST_NETWORK,
		.attempts = {"the_hosts_abstract_sockets_are_not_there"}, .says = "connected"},
	{"a /proc of its own",
		{.init = "hidepid", .words = {{{"--proc", "/proc"}, {"--bind", "/proc", "/proc"}}}},
		.attempts = {"no_process_of_the_host_is_seen"}},
	{"a /dev of its own",
		{.init = "limit of /dev/pts",
			.words = {{{"--dev", "/dev"}, {"--dev-bind", "/dev", "/dev"}}}},
		.attempts = {"the_hosts_devices_are_not_there"}},
	{"an /etc of its own",
		{.words = {{{"--ro-bind", "*", "/etc"}, {"--ro-bind", "/etc", "/etc"}}}},
		.attempts = {"the_hosts_secrets_cannot_be_read"}},
	{"a read-only /etc", {.words = {{{"--ro-bind", "*", "/etc"}, {"--bind", "$1", "/etc"}}}},
		USER_ONLY, .attempts = {"the_system_cannot_be_written"}, .says = "/etc/new"},
	{"a read-only /etc and a host uid of its own",
		{.init = "setresuid of the helper",
			.words = {{{"--ro-bind", "*", "/etc"}, {"--bind", "$1", "/etc"}}}},
		ROOT_ONLY, .attempts = {"the_system_cannot_be_written"}, .says = "/etc/new"},
	{"a read-only bind of what is the user's own",
		{.words = {{{"--ro-bind", "*", "/shared"}, {"--bind", "$1", "/shared"}}}},
		USER_ONLY, .attempts = {"the_system_cannot_be_written"}, .says = "/shared/new"},
	{"a read-only bind of what is root's, and a host uid of its own",
		{.init = "setresuid of the helper",
			.words = {{{"--ro-bind", "*", "/shared"}, {"--bind", "$1", "/shared"}}}},
		ROOT_ONLY, .attempts = {"the_system_cannot_be_written"}, .says = "/shared/new"},
	{"a size of /dev/shm",
		{.words = {{{"--size", "*", "--tmpfs", "/dev/shm"}, {"--tmpfs", "/dev/shm"}}}},
		.attempts = {"memory_cannot_be_filled_through_root_dev_or_shm",
			"every_writable_tmpfs_has_a_size"}},
	{"a read-only /", {.words = {{{"--remount-ro", "/"}}}},
		.attempts = {"memory_cannot_be_filled_through_root_dev_or_shm",
			"the_system_cannot_be_written", "every_writable_tmpfs_has_a_size"}},
	{"a read-only /dev", {.words = {{{"--remount-ro", "/dev"}}}},
		.attempts = {"memory_cannot_be_filled_through_root_dev_or_shm",
			"every_writable_tmpfs_has_a_size"}},
	{"the slots' parent kept out",
		{.words = {{{"--remount-ro", "/"}, {"--ro-bind", "$D", "$D", "$0", "$1"}}}},
		.attempts = {"another_slots_files_are_not_there",
			"another_slots_sockets_are_not_there", "links_lead_nowhere_else"}},

	/* ---- the daemon's spawn ---- */
	{"an empty environment, three times, and dumpable",
		{.init = "environment,dumpable",
			.words = {{{"--clearenv"}}},
			.spawn_keeps_environment = true},
		.attempts = {"the_daemons_environment_is_nowhere_to_be_read"}},
	{"the spawn's closing of descriptors, and init's",
		{.init = "descriptors", .spawn_keeps_fds = true},
		.attempts = {"no_descriptor_is_inherited"}, .says = "secret"},
	{"all three sessions", {.init = "session,session of a command", .spawn_no_session = true},
		.attempts = {"there_is_no_terminal_of_the_daemons"}},

	/* ---- init ---- */
	{"descriptors", {.init = "descriptors"}, .attempts = {"no_descriptor_is_inherited"},
		.says = "socket:"},
	{"no other signal blocked", {.init = "no other signal blocked"},
		.attempts = {"init_takes_no_signal_from_inside"}},
	{"hidepid", {.init = "hidepid"}, .attempts = {"nothing_of_init_can_be_written"}},
	{"limit of /dev/shm", {.init = "limit of /dev/shm"},
		.attempts = {"memory_cannot_be_filled_with_inodes"}},
	{"limit of /dev/pts", {.init = "limit of /dev/pts"},
		.attempts = {"the_hosts_pseudo_terminals_cannot_be_used_up"}},
	{"max_user_namespaces", {.init = "max_user_namespaces"},
		.attempts = {"no_namespace_can_be_cloned"}},
	{"read-only /proc/sys", {.init = "read-only /proc/sys"},
		.attempts = {"no_sysctl_can_be_written"}},
	{"the second user namespace", {.init = SECOND_NAMESPACE}, .attempts = {ROOT}},
	{"the second user namespace and empty capabilities",
		{.init = SECOND_NAMESPACE "," EMPTY_CAPABILITIES},
		.attempts = {"init_cannot_be_read", "init_cannot_be_traced",
			"no_descriptor_can_be_taken_from_init"}},
	{"limits", {.init = "limits"},
		.attempts = {"a_fork_bomb_ends_at_the_slots_own_limit", "no_limit_can_be_raised"}},
	{"securebits", {.init = "securebits"}, .attempts = {ROOT}, .says = "securebits"},
	{"bounding set", {.init = "bounding set"}, .attempts = {ROOT}, .says = "capabilities"},
	{"capabilities, and hidepid", {.init = "capabilities,hidepid"}, .attempts = {ROOT},
		.says = "init keeps capabilities"},
	{"no_new_privs, and what needs it", {.init = "no_new_privs,landlock,seccomp"},
		.attempts = {ROOT}, .says = "no_new_privs"},
	{"seccomp", {.init = "seccomp"},
		.attempts = {"keyrings_cannot_be_used",
			"bpf_perf_io_uring_and_their_like_are_refused",
			"init_cannot_be_slowed_down", "init_cannot_be_given_limits"}},
	{"dumpable", {.init = "dumpable"},
		.attempts = {"init_cannot_be_read", "init_cannot_be_traced",
			"no_descriptor_can_be_taken_from_init", "no_other_call_reaches_init",
			"no_other_process_can_be_reached"}},

	/* ---- a range of ids ---- */
	{"a smaller set of capabilities for root of a range", {.init = "bounding set,capabilities"},
		ROOT_ONLY, RANGED, .attempts = {"root_of_a_slot_has_only_what_packages_need"}},
	{"the second user namespace, and a smaller set, for root of a range",
		{.init = "user namespace,bounding set,capabilities"}, ROOT_ONLY, RANGED,
		.attempts = {"init_cannot_be_read", "init_cannot_be_traced"}},
	{"a cgroup, whose limit is not a user's, for root of a range", {.init = NULL}, ROOT_ONLY,
		RANGED, .attempts = {"a_fork_bomb_of_many_users_ends_too"}},
};

static struct world world;

/* Of the session that this process leads: what a daemon that was started by hand has. */
static void take_terminal(void)
{
	int master, terminal;

	master = open("/dev/tty", O_RDWR | O_CLOEXEC);
	(void)close(master);
	if (master >= 0)
		return;
	(void)setsid();
	master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(master >= 0);
	assert_int_equal(unlockpt(master), 0);
	terminal = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_int_equal(ioctl(terminal, TIOCSCTTY, 0), 0);
}

/* A descriptor that is not close-on-exec, as a daemon may itself have inherited it. */
static int inherit_something(void)
{
	int fd = open(world.other_file, O_RDONLY);

	assert_true(fd >= 0);
	return fd;
}

static void use_overlay(struct fixture *fixture)
{
	struct bubble_options options = fixture_options(fixture, 0);
	static char root[96];
	char layers[96], command[512];

	(void)snprintf(root, sizeof(root), "%s/root", fixture->dir);
	assert_int_equal(mkdir(root, 0755), 0);
	/* every root file system must have one; the attempts are in /workspace */
	(void)snprintf(command, sizeof(command), "install -D -m 0755 '%s' '%s/bin/sh'",
		getenv("HOSTILE"), root);
	assert_int_equal(system(command), 0);
	(void)snprintf(layers, sizeof(layers), "%s/" SLOT_DIRS_OVERLAY, options.dir);
	assert_int_equal(mkdir(layers, 0700), 0);
	assert_int_equal(chown(layers, options.host_uid, options.host_gid), 0);
	fixture->config.slot.overlay = true;
	fixture->config.slot.rootfs = root;
	fixture->config.slot.uid = fixture->config.slot.gid = 0;
}

static void open_world(const struct leak *leak, enum kind kind)
{
	leak_set(leak);
	world_init(&world);
	if (kind == HOST_NETWORK)
		world.fixture.config.slot.network = NETWORK_HOST;
	if (kind == RANGED)
		use_overlay(&world.fixture);
	fixture_open(&world.fixture);
}

static void try_attempts(const struct without *without)
{
	for (size_t i = 0; i < ATTEMPTS_OF_ONE && without->attempts[i]; i++) {
		struct fixture_result result;

		if (world_attempt(&world, without->attempts[i], &result) != 1)
			fail_msg("without %s, %s still holds: %s", without->what,
				without->attempts[i], result.out.data);
		if (without->says && !strstr(result.out.data, without->says))
			fail_msg("without %s, %s: %s", without->what, without->attempts[i],
				result.out.data);
		fixture_result_fini(&result);
	}
}

static void expect_no_start(const struct without *without)
{
	struct bubble_options options = fixture_options(&world.fixture, 0);
	const struct fixture_slot *slot = &world.fixture.slots[0];

	fixture_spawn(&world.fixture, 0, &options);
	fixture_wait(&world.fixture, &slot->died);
	assert_false(slot->ready);
	if (!strstr(slot->why.text, without->never_ready))
		fail_msg("without %s: %s", without->what, slot->why.text);
}

static bool is_for_us(const struct without *without)
{
	return without->who == EVERYBODY || (without->who == ROOT_ONLY) == (geteuid() == 0);
}

static void gets_through(void **state)
{
	const struct without *without = *state;
	int inherited;

	open_world(&without->leak, without->kind);
	inherited = inherit_something();
	if (without->never_ready) {
		expect_no_start(without);
	} else {
		(void)fixture_start(&world.fixture, 0);
		try_attempts(without);
	}
	assert_true(leak_done());
	(void)close(inherited);
}

static int end_world(void **state)
{
	world_fini(&world);
	return 0;
}

/* The suite's init is the same as the daemon's: with nothing left out it holds against all that
 * gets through above. */
static void with_all_steps_everything_holds(void **state)
{
	open_world(NULL, USUAL);
	(void)fixture_start(&world.fixture, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		for (size_t j = 0; j < ATTEMPTS_OF_ONE && cases[i].attempts[j]; j++) {
			struct fixture_result result;

			if (cases[i].kind == RANGED)
				continue;
			if (world_attempt(&world, cases[i].attempts[j], &result) != 0)
				fail_msg("%s: %s", cases[i].attempts[j], result.out.data);
			fixture_result_fini(&result);
		}
	}
}

static void on_the_hosts_network_landlock_keeps_abstract_sockets_apart(void **state)
{
	const struct bubble *bubble;
	struct fixture_result result;

	open_world(NULL, HOST_NETWORK);
	bubble = fixture_start(&world.fixture, 0);
	assert_int_equal(world_attempt(&world, "control_of_landlock", &result), 1);
	fixture_result_fini(&result);
	if (bubble_landlock_abi(bubble) == 0) {
		print_message("# no Landlock that scopes: nothing keeps them apart\n");
		skip();
	}
	assert_true(bubble_landlock_abi(bubble) >= 6);
	assert_int_equal(
		world_attempt(&world, "the_hosts_abstract_sockets_are_not_there", &result), 0);
	fixture_result_fini(&result);
}

/* ---- One call of the filter's list at a time ---- */

#define CALL(name)                                                                                 \
	{                                                                                          \
#name, SYS_##name                                                                  \
	}

static const struct filtered {
	const char *name;
	long number;
} filtered[] = {CALL(acct), CALL(add_key), CALL(bpf), CALL(chroot), CALL(clock_adjtime),
	CALL(clock_settime), CALL(delete_module), CALL(fanotify_init), CALL(finit_module),
	CALL(fsconfig), CALL(fsmount), CALL(fsopen), CALL(fspick), CALL(init_module),
	CALL(io_uring_enter), CALL(io_uring_register), CALL(io_uring_setup), CALL(kcmp),
	CALL(kexec_load), CALL(keyctl), CALL(lookup_dcookie), CALL(memfd_secret),
	CALL(migrate_pages), CALL(mount), CALL(mount_setattr), CALL(move_mount), CALL(move_pages),
	CALL(name_to_handle_at), CALL(nfsservctl), CALL(open_by_handle_at), CALL(open_tree),
	{"open_tree_attr", 467}, CALL(perf_event_open), CALL(pivot_root), CALL(quotactl),
	CALL(quotactl_fd), CALL(reboot), CALL(request_key), CALL(setdomainname), CALL(sethostname),
	CALL(setns), CALL(settimeofday), CALL(swapoff), CALL(swapon), CALL(syslog), CALL(umount2),
	CALL(userfaultfd), CALL(vhangup),
#if defined(__x86_64__)
	CALL(create_module), CALL(get_kernel_syms), CALL(ioperm), CALL(iopl), CALL(kexec_file_load),
	CALL(query_module), CALL(sysfs), CALL(uselib), CALL(ustat),
#endif
	/* refused with some arguments only */
	CALL(ioctl), CALL(prlimit64), CALL(sched_setaffinity), CALL(sched_setscheduler),
	CALL(sched_setparam), CALL(sched_setattr), CALL(setpriority), CALL(ioprio_set),
	CALL(unshare), CALL(clone), CALL(socket)};

/* What got through is the call, with whichever arguments, and nothing else. */
static void assert_all_of(const char *answer, const char *name)
{
	size_t length = strlen(name);

	assert_non_null(strchr(answer, ';'));
	for (const char *end; (end = strchr(answer, ';')); answer = end + 1) {
		if (strncmp(answer, name, length) != 0 || !strchr(";(", answer[length]))
			fail_msg("without %s: %s", name, answer);
	}
}

static void the_filter_without(const struct filtered *call)
{
	const struct leak leak = {.filter = FILTER_ALLOWS_CALL, .call = call->number};
	struct fixture_slot *slot = &world.fixture.slots[0];
	struct fixture_result result;
	int status;

	leak_set(&leak);
	leak_refilter(world.fixture.kit);
	(void)fixture_start(&world.fixture, 0);
	status = world_attempt(&world, "every_call_of_the_list_is_refused_by_the_filter", &result);
	assert_int_equal(status, 1);
	assert_all_of(result.out.data, call->name);
	fixture_result_fini(&result);
	bubble_kill(slot->bubble);
	fixture_wait(&world.fixture, &slot->died);
}

static void each_call_that_the_filter_leaves_out_gets_through_and_no_other(void **state)
{
	open_world(NULL, USUAL);
	for (size_t i = 0; i < sizeof(filtered) / sizeof(*filtered); i++)
		the_filter_without(&filtered[i]);
}

#if defined(__x86_64__)
static bool has_i386(void)
{
	pid_t pid = fork();
	int status = 0;
	long result;

	if (pid == 0) {
		__asm__ volatile("int $0x80"
				 : "=a"(result)
				 : "0"(20L)
				 : "memory", "r8", "r9", "r10", "r11");
		_exit(result > 0 ? 1 : 0);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 1;
}
#else
static bool has_i386(void)
{
	return false;
}
#endif

static void a_filter_that_allows_other_ABIs_is_no_filter_for_them(void **state)
{
	const struct leak leak = {.filter = FILTER_ALLOWS_OTHER_ABIS};
	struct fixture_result result;

	if (!has_i386()) {
		print_message("# the kernel has no 32-bit calls\n");
		skip();
	}
	open_world(&leak, USUAL);
	(void)fixture_start(&world.fixture, 0);
	assert_int_equal(world_attempt(&world,
				 "other_system_call_tables_are_no_way_around_the_filter", &result),
		1);
	fixture_result_fini(&result);
}

/* ---- A child that can be stopped before it executes ---- */

/* Ours is tried so often; the leaking one until the stopper has caught one. */
enum { TRIES = 50, LEAK_TRIES = 1000, PATIENCE_MS = 10000, HUNG_MS = 1000 };

struct pong {
	bool told;
	int r;
};

static void note_pong(void *data, int r)
{
	*(struct pong *)data = (struct pong){.told = true, .r = r};
}

static int ping(uint64_t timeout_ms)
{
	struct pong pong = {0};

	bubble_ping(world.fixture.slots[0].bubble, timeout_ms, note_pong, &pong);
	fixture_wait(&world.fixture, &pong.told);
	return pong.r;
}

/* A command that is looked for in four thousand places before it is found is a newborn for
 * milliseconds. */
static void begin_slow_birth(struct fixture_result *result)
{
	static char path[16384] = "PATH=";
	struct bubble_exec_options options = {
		.argv = (const char *const[]){"true", NULL},
		.env = (const char *const[]){path, NULL},
		.cwd = "/",
		.stdin_fd = -1,
		.extra_fd = -1,
		.cgroup_fd = -1,
	};
	size_t at = strlen("PATH=");

	for (unsigned i = 0; i < 4000; i++, at += strlen("/x:"))
		memcpy(path + at, "/x:", strlen("/x:"));
	(void)strcpy(path + at, "/bin");
	fixture_begin_with(&world.fixture, 0, &options, result);
}

/* The first answer that is not 0, of pings behind requests that are stopped as they are born. */
static int ping_while_the_newborn_are_stopped(const struct leak *leak, uint64_t timeout_ms)
{
	static struct fixture_result stopper, results[LEAK_TRIES];
	int r = 0, made = 0, tries = leak ? LEAK_TRIES : TRIES;

	open_world(leak, USUAL);
	(void)fixture_start(&world.fixture, 0);
	fixture_begin(&world.fixture, 0,
		(const char *const[]){"/workspace/hostile", "stop_the_newborn", "port=1", NULL},
		&stopper);
	fixture_wait(&world.fixture, &stopper.started);
	for (; made < tries && r == 0; made++) {
		begin_slow_birth(&results[made]);
		r = ping(timeout_ms);
	}
	world_fini(&world);
	for (int i = 0; i < made; i++)
		fixture_result_fini(&results[i]);
	fixture_result_fini(&stopper);
	return r;
}

static void a_newborn_that_is_stopped_does_not_stop_init(void **state)
{
	assert_int_equal(ping_while_the_newborn_are_stopped(NULL, PATIENCE_MS), 0);
}

static void with_vfork_it_does(void **state)
{
	const struct leak leak = {.init = "clone without vfork"};

	assert_int_equal(ping_while_the_newborn_are_stopped(&leak, HUNG_MS), -ETIMEDOUT);
}

enum { CASES = sizeof(cases) / sizeof(*cases), OTHERS = 6 };

static size_t list_cases(struct CMUnitTest *tests)
{
	size_t count = 0;

	for (size_t i = 0; i < CASES; i++) {
		char *name;

		if (!is_for_us(&cases[i]))
			continue;
		if (asprintf(&name, "without %s", cases[i].what) < 0)
			exit(1);
		tests[count++] = (struct CMUnitTest){.name = name,
			.test_func = gets_through,
			.teardown_func = end_world,
			.initial_state = (void *)&cases[i]};
	}
	return count;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest others[OTHERS] = {
		cmocka_unit_test_teardown(with_all_steps_everything_holds, end_world),
		cmocka_unit_test_teardown(
			on_the_hosts_network_landlock_keeps_abstract_sockets_apart, end_world),
		cmocka_unit_test_teardown(
			each_call_that_the_filter_leaves_out_gets_through_and_no_other, end_world),
		cmocka_unit_test_teardown(
			a_filter_that_allows_other_ABIs_is_no_filter_for_them, end_world),
		cmocka_unit_test_teardown(a_newborn_that_is_stopped_does_not_stop_init, end_world),
		cmocka_unit_test_teardown(with_vfork_it_does, end_world),
	};
	static struct CMUnitTest tests[CASES + OTHERS];
	size_t count;
	int r;

	if (!getenv("HOSTILE")) {
		printf("Bail out! HOSTILE does not name the hostile program\n");
		return 1;
	}
	if (!fixture_begin_tests(argc, argv))
		return 0;
	take_terminal();
	count = list_cases(tests);
	memcpy(tests + count, others, sizeof(others));
	r = _cmocka_run_group_tests("leave-out", tests, count + OTHERS, NULL, NULL);
	for (size_t i = 0; i < count; i++)
		free((void *)tests[i].name);
	return r;
}
