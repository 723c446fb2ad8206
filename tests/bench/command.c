/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Times one command three ways, in turns: through the mount, by a bare posix_spawn, by a bubblewrap
 * of its own.
 *
 *	command RUN_COMMAND ROUNDS IDLE_MS bwrap WORDS ... sh -c true
 *
 * IDLE_MS of sleep stand before each. Prints "mount P50 P99", "spawn P50 P99", "bwrap P50 P99", in
 * microseconds.
 */
#include <err.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/times.h"

static void run_through_mount(const char *path)
{
	char reply[4096];
	size_t size = 0;
	ssize_t n;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 || write(fd, "true\n", 5) != 5)
		err(1, "%s", path);
	while ((n = read(fd, reply + size, sizeof(reply) - 1 - size)) > 0)
		size += (size_t)n;
	if (n < 0 || close(fd) < 0)
		err(1, "%s", path);
	reply[size] = '\0';
	if (!strstr(reply, "\"returncode\":0"))
		errx(1, "the command failed: %s", reply);
}

static void run_spawned(char *const *words)
{
	pid_t pid;
	int status, r = posix_spawnp(&pid, words[0], NULL, NULL, words, environ);

	if (r != 0)
		errx(1, "%s: %s", words[0], strerror(r));
	if (waitpid(pid, &status, 0) < 0 || status != 0)
		errx(1, "%s: wait status %#x", words[0], (unsigned)status);
}

int main(int argc, char **argv)
{
	static char sh[] = "sh", dash_c[] = "-c", true_[] = "true";
	static const char *const ways[] = {"mount", "spawn", "bwrap"};
	char *const bare[] = {sh, dash_c, true_, NULL};
	size_t rounds = argc > 4 ? strtoul(argv[2], NULL, 10) : 0;
	double *times = calloc(rounds + 1, 3 * sizeof(*times)), start;

	if (rounds == 0 || !times)
		errx(2, "usage: command RUN_COMMAND ROUNDS IDLE_MS bwrap WORDS ...");
	for (size_t i = 0; i < 3 * rounds; i++) {
		(void)usleep((useconds_t)strtoul(argv[3], NULL, 10) * 1000);
		start = now_us();
		if (i % 3 == 0)
			run_through_mount(argv[1]);
		else
			run_spawned(i % 3 == 1 ? bare : argv + 4);
		times[i % 3 * rounds + i / 3] = now_us() - start;
	}
	for (size_t way = 0; way < 3; way++) {
		print_times(ways[way], times + way * rounds, rounds);
		printf("\n");
	}
	free(times);
	return 0;
}
