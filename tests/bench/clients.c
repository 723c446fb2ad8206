/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Many clients at once: each makes a lease, runs `true` in it, ends it, and again. Beside it the
 * same number of clients that spawn `sh -c true`, for comparison.
 *
 *	clients MOUNT CLIENTS ROUNDS
 *
 * prints "create P50 P99", "run_command P50 P99", "terminate P50 P99", "spawn P50 P99", in
 * microseconds. A create may wait in line for a slot; that is part of it.
 */
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/times.h"

enum { CREATE, RUN, TERMINATE, SPAWN, KINDS, PATH_SIZE = 512, REPLY_SIZE = 8192 };

static const char *const kinds[KINDS] = {"create", "run_command", "terminate", "spawn"};

struct client {
	pthread_t thread;
	const char *mount;
	unsigned number;
	size_t rounds;
	double *times[KINDS]; /* rounds of each */
};

/* One conversation; the reply must have this in it. */
static void ask(const char *path, const char *request, const char *wanted)
{
	char reply[REPLY_SIZE];
	size_t size = 0;
	ssize_t n = -1;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 || write(fd, request, strlen(request)) != (ssize_t)strlen(request))
		err(1, "%s", path);
	while (size < sizeof(reply) - 1 &&
		(n = read(fd, reply + size, sizeof(reply) - 1 - size)) > 0)
		size += (size_t)n;
	if (n < 0 || close(fd) < 0)
		err(1, "%s", path);
	reply[size] = '\0';
	if (!strstr(reply, wanted))
		errx(1, "%s: %s", path, reply);
}

static void spawn_true(void)
{
	static char sh[] = "sh", dash_c[] = "-c", true_[] = "true";
	char *const words[] = {sh, dash_c, true_, NULL};
	pid_t pid;
	int status;

	if (posix_spawnp(&pid, "sh", NULL, NULL, words, environ) != 0 ||
		waitpid(pid, &status, 0) < 0 || status != 0)
		errx(1, "sh -c true failed");
}

static void *drive(void *data)
{
	struct client *client = data;
	char create[PATH_SIZE], run[PATH_SIZE], terminate[PATH_SIZE], name[64];

	(void)snprintf(create, sizeof(create), "%s/create", client->mount);
	(void)snprintf(terminate, sizeof(terminate), "%s/terminate", client->mount);
	for (size_t i = 0; i < client->rounds; i++) {
		double at[4];

		(void)snprintf(name, sizeof(name), "bench-%u-%zu", client->number, i);
		(void)snprintf(run, sizeof(run), "%s/leases/%s/run_command", client->mount, name);
		at[0] = now_us();
		ask(create, name, "\"ACTIVE\"");
		at[1] = now_us();
		ask(run, "true\n", "\"returncode\":0");
		at[2] = now_us();
		(void)snprintf(name, sizeof(name), "bench-%u-%zu\n", client->number, i);
		ask(terminate, name, "\"released\":true");
		at[3] = now_us();
		for (int kind = CREATE; kind < SPAWN; kind++)
			client->times[kind][i] = at[kind + 1] - at[kind];
	}
	return NULL;
}

static void *drive_spawns(void *data)
{
	struct client *client = data;

	for (size_t i = 0; i < client->rounds; i++) {
		double start = now_us();

		spawn_true();
		client->times[SPAWN][i] = now_us() - start;
	}
	return NULL;
}

static void run_all(struct client *clients, size_t count, void *(*fn)(void *))
{
	for (size_t i = 0; i < count; i++)
		if (pthread_create(&clients[i].thread, NULL, fn, &clients[i]) != 0)
			errx(1, "cannot start a thread");
	for (size_t i = 0; i < count; i++)
		(void)pthread_join(clients[i].thread, NULL);
}

int main(int argc, char **argv)
{
	size_t count = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
	size_t rounds = argc == 4 ? strtoul(argv[3], NULL, 10) : 0, total = count * rounds;
	struct client *clients = calloc(count + 1, sizeof(*clients));
	double *times = calloc(total + 1, KINDS * sizeof(*times));

	if (total == 0 || !clients || !times)
		errx(2, "usage: clients MOUNT CLIENTS ROUNDS");
	for (size_t i = 0; i < count; i++) {
		clients[i] =
			(struct client){.mount = argv[1], .number = (unsigned)i, .rounds = rounds};
		for (size_t kind = 0; kind < KINDS; kind++)
			clients[i].times[kind] = times + kind * total + i * rounds;
	}
	run_all(clients, count, drive);
	run_all(clients, count, drive_spawns);
	for (size_t kind = 0; kind < KINDS; kind++) {
		print_times(kinds[kind], times + kind * total, total);
		printf("\n");
	}
	free(times);
	free(clients);
	return 0;
}
