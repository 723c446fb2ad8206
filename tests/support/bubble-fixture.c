/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/support/bubble-fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#include "base/loop.h"

enum { DEADLINE_MS = 60000, ROOT_DAEMON_BASE = 2000000, PLAIN_DAEMON_UID = 1999001 };

static const char *const environment[] = {
	"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/blackbox", NULL};

static const char *find_obstacle(void)
{
	if (system("bwrap --version >/dev/null 2>&1") != 0)
		return "bwrap is not installed";
	if (system("bwrap --unshare-user --unshare-pid --ro-bind / / --proc /proc true >/dev/null 2>&1") !=
		0)
		return "bwrap cannot make a user namespace with a /proc here";
	return NULL;
}

/* A user in the host's groups 0 (of root) and 42 (of shadow) is what an unprivileged daemon cannot
 * help being. */
static void drop_root(bool keep_groups)
{
	const gid_t groups[] = {0, 42};
	gid_t gid = keep_groups ? 0 : PLAIN_DAEMON_UID;

	if (setgroups(keep_groups ? 2 : 0, groups) < 0 || setresgid(gid, gid, gid) < 0 ||
		setresuid(PLAIN_DAEMON_UID, PLAIN_DAEMON_UID, PLAIN_DAEMON_UID) < 0) {
		perror("dropping root");
		exit(1);
	}
}

bool fixture_begin_tests(int argc, char **argv)
{
	bool in_groups = argc > 1 && strcmp(argv[1], "--user-in-groups") == 0;
	bool as_user = in_groups || (argc > 1 && strcmp(argv[1], "--user") == 0);
	const char *obstacle;

	if (as_user && geteuid() != 0) {
		printf("1..0 # SKIP already an ordinary user: the other run is this one\n");
		return false;
	}
	if (as_user)
		drop_root(in_groups);
	obstacle = find_obstacle();
	if (obstacle)
		printf("1..0 # SKIP %s\n", obstacle);
	return !obstacle;
}

int fixture_set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	fixture_init(fixture);
	fixture_open(fixture);
	*state = fixture;
	return 0;
}

int fixture_tear_down(void **state)
{
	fixture_fini(*state);
	free(*state);
	return 0;
}

unsigned fixture_open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	(void)closedir(dir);
	return count;
}

void fixture_init(struct fixture *fixture)
{
	*fixture = (struct fixture){.uid_base = ROOT_DAEMON_BASE};
	(void)snprintf(fixture->dir, sizeof(fixture->dir), "/tmp/dressage-bubble-XXXXXX");
	assert_non_null(mkdtemp(fixture->dir));
	assert_int_equal(chmod(fixture->dir, 0711), 0);
	fixture->config.slot.network = NETWORK_NONE;
	fixture->config.slot.uid = 1000;
	fixture->config.slot.gid = 1000;
	fixture->config.slot.pids_max = 256;
	fixture->config.slot.nofile = 512;
	fixture->config.slot.bwrap = (char *)"bwrap";
}

void fixture_open(struct fixture *fixture)
{
	struct error err = ERROR_NONE;
	char etc[PATH_MAX];

	(void)snprintf(etc, sizeof(etc), "%s/etc", fixture->dir);
	assert_int_equal(loop_create(&fixture->loop, &err), 0);
	if (bubble_kit_create(&fixture->config, etc, &fixture->kit, &err) < 0)
		fail_msg("%s", err.text);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

void fixture_fini(struct fixture *fixture)
{
	for (unsigned n = 0; n < FIXTURE_SLOTS; n++) {
		struct fixture_slot *slot = &fixture->slots[n];

		if (!slot->bubble)
			continue;
		if (!slot->died) {
			bubble_kill(slot->bubble);
			fixture_wait(fixture, &slot->died);
		}
		bubble_destroy(slot->bubble);
	}
	bubble_kit_destroy(fixture->kit);
	loop_destroy(fixture->loop);
	(void)nftw(fixture->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void handle_deadline(void *data)
{
	*(bool *)data = true;
}

void fixture_turn(struct fixture *fixture)
{
	(void)uv_run(loop_uv(fixture->loop), UV_RUN_ONCE);
}

void fixture_wait(struct fixture *fixture, const bool *flag)
{
	struct loop_timer *deadline;
	bool late = false;

	assert_int_equal(loop_timer_start(fixture->loop, DEADLINE_MS, handle_deadline, &late,
				 &deadline, NULL),
		0);
	while (!*flag && !late)
		fixture_turn(fixture);
	loop_timer_stop(deadline);
	assert_true(*flag);
}

static uid_t host_uid(const struct fixture *fixture, unsigned n)
{
	return geteuid() == 0 ? fixture->uid_base + n * 65536 : geteuid();
}

struct bubble_options fixture_options(struct fixture *fixture, unsigned n)
{
	static const char *const names[] = {"", "/work", "/home", "/tmp", "/runtime"};
	static char dirs[FIXTURE_SLOTS][PATH_MAX];
	struct bubble_options options = {
		.slot = n, .generation = 1, .dir = dirs[n], .cgroup_fd = -1};
	char path[PATH_MAX + 16];

	options.host_uid = options.host_gid = host_uid(fixture, n);
	if (geteuid() != 0)
		options.host_gid = getegid();
	options.start_timeout_ms = DEADLINE_MS;
	(void)snprintf(dirs[n], sizeof(dirs[n]), "%s/%u", fixture->dir, n);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", dirs[n], names[i]);
		if (mkdir(path, i == 0 ? 0711 : 0755) < 0 && errno != EEXIST)
			fail_msg("mkdir %s", path);
		if (i > 0 && geteuid() == 0)
			assert_int_equal(chown(path, options.host_uid, options.host_gid), 0);
	}
	return options;
}

static void handle_ready(void *data)
{
	struct fixture_slot *slot = data;

	slot->ready = true;
}

static void handle_died(void *data, const struct error *why)
{
	struct fixture_slot *slot = data;

	assert_false(slot->died);
	slot->died = true;
	slot->why = *why;
}

void fixture_spawn(struct fixture *fixture, unsigned n, const struct bubble_options *options)
{
	struct fixture_slot *slot = &fixture->slots[n];
	struct bubble_hooks hooks = {.ready = handle_ready, .died = handle_died, .data = slot};
	struct error err = ERROR_NONE;

	bubble_destroy(slot->bubble);
	*slot = (struct fixture_slot){0};
	if (bubble_spawn(fixture->loop, fixture->kit, options, &hooks, &slot->bubble, &err) < 0)
		fail_msg("%s", err.text);
}

struct bubble *fixture_start(struct fixture *fixture, unsigned n)
{
	struct bubble_options options = fixture_options(fixture, n);
	struct fixture_slot *slot = &fixture->slots[n];
	bool late = false;
	struct loop_timer *deadline;

	fixture_spawn(fixture, n, &options);
	assert_int_equal(loop_timer_start(fixture->loop, DEADLINE_MS, handle_deadline, &late,
				 &deadline, NULL),
		0);
	while (!slot->ready && !slot->died && !late)
		fixture_turn(fixture);
	loop_timer_stop(deadline);
	if (!slot->ready)
		fail_msg("%s", slot->why.text);
	return slot->bubble;
}

static void open_fake(struct fixture *fixture, char *act)
{
	char *words[] = {(char *)"--fake", act, NULL};
	const char *fake_bwrap = getenv("FAKE_BWRAP");
	char path[96], command[512];

	assert_non_null(fake_bwrap);
	fixture_init(fixture);
	(void)snprintf(path, sizeof(path), "%s/bwrap", fixture->dir);
	(void)snprintf(command, sizeof(command), "install -m 0755 '%s' '%s'", fake_bwrap, path);
	assert_int_equal(system(command), 0);
	fixture->config.slot.bwrap = path;
	fixture_open(fixture); /* keeps the path, not our copy of it */
	fixture->config.slot.bwrap = NULL;
	fixture->config.slot.bwrap_args.words = calloc(3, sizeof(char *));
	memcpy(fixture->config.slot.bwrap_args.words, words, sizeof(words));
	fixture->config.slot.bwrap_args.count = 2;
}

void fixture_start_fake(struct fixture *fixture, const char *act, uint64_t start_timeout_ms)
{
	struct bubble_options options;

	open_fake(fixture, (char *)act);
	options = fixture_options(fixture, 0);
	options.start_timeout_ms = start_timeout_ms;
	fixture_spawn(fixture, 0, &options);
}

void fixture_fini_fake(struct fixture *fixture)
{
	fixture_fini(fixture);
	free(fixture->config.slot.bwrap_args.words);
}

static void handle_started(void *data, pid_t inside_pid)
{
	struct fixture_result *result = data;

	assert_false(result->started);
	result->started = true;
	result->inside_pid = inside_pid;
}

static void handle_ended(void *data, const struct bubble_exec_end *end)
{
	struct fixture_result *result = data;

	assert_false(result->ended);
	result->ended = true;
	result->end = *end;
	if (end->failed_step)
		(void)snprintf(
			result->failed_step, sizeof(result->failed_step), "%s", end->failed_step);
}

void fixture_begin_with(struct fixture *fixture, unsigned n, struct bubble_exec_options *options,
	struct fixture_result *result)
{
	struct bubble_exec_hooks hooks = {
		.started = handle_started, .ended = handle_ended, .data = result};
	struct error err = ERROR_NONE;
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int ends[2];

	*result = (struct fixture_result){.out = STRBUF_INIT};
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	if (options->stdin_fd < 0)
		options->stdin_fd = null;
	options->stdout_fd = options->stderr_fd = ends[1];
	result->out_fd = ends[0];
	if (bubble_exec_start(fixture->slots[n].bubble, options, &hooks, &result->exec, &err) < 0)
		fail_msg("%s", err.text);
	(void)close(ends[1]);
	(void)close(null);
}

void fixture_begin(
	struct fixture *fixture, unsigned n, const char *const *argv, struct fixture_result *result)
{
	struct bubble_exec_options options = {.argv = argv,
		.env = environment,
		.cwd = "/workspace",
		.stdin_fd = -1,
		.extra_fd = -1,
		.cgroup_fd = -1};

	fixture_begin_with(fixture, n, &options, result);
}

/* A pipe's worth at most: the commands of tests write little. */
void fixture_finish(struct fixture *fixture, struct fixture_result *result)
{
	ssize_t n;

	fixture_wait(fixture, &result->ended);
	assert_int_equal(fcntl(result->out_fd, F_SETFL, O_NONBLOCK), 0);
	do {
		n = read(result->out_fd, strbuf_room(&result->out, 65536), 65536);
		if (n > 0)
			strbuf_grown(&result->out, (size_t)n);
	} while (n > 0);
}

void fixture_run(
	struct fixture *fixture, unsigned n, const char *const *argv, struct fixture_result *result)
{
	fixture_begin(fixture, n, argv, result);
	fixture_finish(fixture, result);
}

void fixture_shell(
	struct fixture *fixture, unsigned n, const char *script, struct fixture_result *result)
{
	fixture_run(fixture, n, (const char *const[]){"/bin/sh", "-c", script, NULL}, result);
}

void fixture_result_fini(struct fixture_result *result)
{
	(void)close(result->out_fd);
	strbuf_fini(&result->out);
}
