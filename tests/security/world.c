/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/security/world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Nobody's file system has much for this group; the daemon of root is in it here. */
enum { DAEMONS_GROUP = 1999042 };

/* Uids that no daemon's slots have: should an attempt get out, it meets nobody of its own. */
enum { UID_BASE = 1800000000 };

static void plant_file(const char *path, mode_t mode, uid_t uid, gid_t gid)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, MARKER, strlen(MARKER)), strlen(MARKER));
	if (geteuid() == 0)
		assert_int_equal(fchown(fd, uid, gid), 0);
	assert_int_equal(fchmod(fd, mode), 0);
	(void)close(fd);
}

static int listen_at(const struct sockaddr_un *name, size_t length)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);

	assert_int_equal(bind(fd, (const struct sockaddr *)name, size), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

static void plant_listeners(struct world *world, const char *other_dir)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	socklen_t size = sizeof(address);

	world->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(world->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(world->listener, 8), 0);
	assert_int_equal(getsockname(world->listener, (struct sockaddr *)&address, &size), 0);
	(void)snprintf(world->port, sizeof(world->port), "%d", ntohs(address.sin_port));

	(void)snprintf(world->abstract_name, sizeof(world->abstract_name), "dressage-test-%d",
		(int)getpid());
	memcpy(name.sun_path + 1, world->abstract_name, strlen(world->abstract_name));
	world->abstract = listen_at(&name, 1 + strlen(world->abstract_name));

	(void)snprintf(name.sun_path, sizeof(name.sun_path), "%s/work/socket", other_dir);
	world->other_socket = listen_at(&name, strlen(name.sun_path) + 1);
	assert_int_equal(chmod(name.sun_path, 0777), 0);
}

static void plant_shared_memory(struct world *world)
{
	key_t key = 0x0d1e55 + (getpid() & 0xffff);

	world->shm_id = shmget(key, 4096, IPC_CREAT | 0666);
	assert_true(world->shm_id >= 0);
	(void)snprintf(world->shm_key, sizeof(world->shm_key), "%d", (int)key);
}

static void copy_program(const char *from, const char *to_dir)
{
	char command[512];

	(void)snprintf(
		command, sizeof(command), "install -m 0755 '%s' '%s/work/hostile'", from, to_dir);
	assert_int_equal(system(command), 0);
}

/* Bound into the slots by the administrator's own words. Only root can leave its groups. */
static void share_a_group_file(struct world *world)
{
	const gid_t group = DAEMONS_GROUP;
	struct fixture *fixture = &world->fixture;
	char **words = calloc(4, sizeof(*words));
	char path[96];

	(void)snprintf(path, sizeof(path), "%s/shared", fixture->dir);
	assert_int_equal(mkdir(path, 0755), 0);
	words[0] = strdup("--ro-bind");
	words[1] = strdup(path);
	words[2] = strdup("/shared");
	fixture->config.slot.bwrap_args.words = words;
	fixture->config.slot.bwrap_args.count = 3;
	(void)snprintf(path, sizeof(path), "%s/shared/secret", fixture->dir);
	plant_file(path, geteuid() == 0 ? 0640 : 0600, 0, group);
	(void)snprintf(path, sizeof(path), "%s/shared/roots", fixture->dir);
	plant_file(path, 0600, 0, 0);
	if (geteuid() == 0)
		assert_int_equal(setgroups(1, &group), 0);
}

static char *list_namespaces(void)
{
	static const char *const names[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
	char *text = calloc(1, 512), path[64], link[64];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		ssize_t n;

		(void)snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
		n = readlink(path, link, sizeof(link) - 1);
		assert_true(n > 0);
		(void)strncat(text, link, (size_t)n);
		(void)strcat(text, ",");
	}
	return text;
}

static void add_word(struct world *world, const char *key, const char *value)
{
	char **word = world->words;

	while (*word)
		word++;
	assert_true(asprintf(word, "%s=%s", key, value) > 0);
}

static void name_decoys(struct world *world, const char *other_dir)
{
	char text[160];
	char *namespaces = list_namespaces();
	struct utsname host;

	assert_int_equal(uname(&host), 0);
	(void)snprintf(text, sizeof(text), "%d", (int)getpid());
	add_word(world, "pid", text);
	(void)snprintf(text, sizeof(text), "%s/work/socket", other_dir);
	add_word(world, "other_socket", text);
	add_word(world, "marker", MARKER);
	add_word(world, "comm", "decoydaemon");
	add_word(world, "other_file", world->other_file);
	add_word(world, "port", world->port);
	add_word(world, "abstract", world->abstract_name);
	add_word(world, "shm_key", world->shm_key);
	add_word(world, "host_name", host.nodename);
	add_word(world, "namespaces", namespaces);
	/* a plain user's file is for the plain user's slots; it has been told not to bind it */
	add_word(world, "group_file", geteuid() == 0 ? "/shared/secret" : "");
	add_word(world, "root_file", geteuid() == 0 ? "/shared/roots" : "");
	free(namespaces);
}

void world_init(struct world *world)
{
	struct fixture *fixture = &world->fixture;
	struct bubble_options other;

	*world = (struct world){
		.made = true, .listener = -1, .abstract = -1, .other_socket = -1, .shm_id = -1};
	(void)setenv("DECOY_OF_THE_DAEMON", MARKER, 1);
	(void)prctl(PR_SET_NAME, "decoydaemon");
	fixture_init(fixture);
	fixture->uid_base = UID_BASE;
	share_a_group_file(world);
	other = fixture_options(fixture, 1);
	(void)snprintf(world->other_file, sizeof(world->other_file), "%s/work/secret", other.dir);
	plant_file(world->other_file, 0644, other.host_uid, other.host_gid);
	plant_listeners(world, other.dir);
	plant_shared_memory(world);
	name_decoys(world, other.dir);
	copy_program(getenv("HOSTILE"), fixture_options(fixture, 0).dir);
}

void world_fini(struct world *world)
{
	struct word_list *added = &world->fixture.config.slot.bwrap_args;

	if (!world->made)
		return;
	world->made = false;
	fixture_fini(&world->fixture);
	for (size_t i = 0; i < added->count; i++)
		free(added->words[i]);
	free(added->words);
	for (char **word = world->words; *word; word++)
		free(*word);
	(void)shmctl(world->shm_id, IPC_RMID, NULL);
	(void)close(world->listener);
	(void)close(world->abstract);
	(void)close(world->other_socket);
}

int world_attempt(struct world *world, const char *name, struct fixture_result *result)
{
	const char *argv[DECOY_WORDS + 3] = {"/workspace/hostile", name};

	for (size_t i = 0; i < DECOY_WORDS; i++)
		argv[i + 2] = world->words[i];
	fixture_run(&world->fixture, 0, argv, result);
	assert_int_equal(result->end.start_errno, 0);
	if (!WIFEXITED(result->end.wait_status))
		fail_msg("%s died of signal %d", name, WTERMSIG(result->end.wait_status));
	return WEXITSTATUS(result->end.wait_status);
}

size_t world_list(const char *program, void (*run)(void **state), struct CMUnitTest *tests)
{
	char command[512];
	char *line = NULL;
	size_t room = 0, count = 0;
	FILE *names;

	(void)snprintf(command, sizeof(command), "'%s' --list", program);
	names = popen(command, "re");
	if (!names)
		return 0;
	while (count < ATTEMPTS_MAX && getline(&line, &room, names) > 0) {
		char *name = strndup(line, strcspn(line, "\n"));

		tests[count++] =
			(struct CMUnitTest){.name = name, .test_func = run, .initial_state = name};
	}
	free(line);
	(void)pclose(names);
	return count;
}
