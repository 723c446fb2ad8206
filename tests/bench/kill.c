/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Times the kill of a command's tree, from the asking until nothing of it lives, in turns with
 * SIGKILL and wait of one `sleep`.
 *
 *	kill ROUNDS WILD_TREE [--user]
 *
 * Prints "KIND P50 P99" for each kind of tree and for the rival "sleep", in microseconds. With
 * --user as an ordinary user's daemon, which has no cgroups.
 */
#include <err.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "base/operation.h"
#include "base/strbuf.h"
#include "tests/support/bubble-fixture.h"
#include "tests/support/pool-fixture.h"

static const struct kind {
	const char *name, *count;
} kinds[] = {{"daemons", "1"}, {"daemons", "50"}, {"churn", "64"}};

enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

static struct pool_fixture f;

static double now_us(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void run(struct slot *slot, const struct command *command)
{
	struct run_outcome outcome;

	run_begin(slot, &outcome, command);
	pool_fixture_wait(&f, &outcome.ended);
	if (outcome.r < 0 || outcome.result.returncode != 0)
		errx(1, "%s%s", outcome.err.text, outcome.result.err.data);
	run_fini(&outcome);
}

static void install(struct slot *slot, const char *program)
{
	CLEANUP(strbuf_fini) struct strbuf image = STRBUF_INIT;
	struct command command = {
		.script = (char *)"cat >wild-tree && chmod +x wild-tree && mkfifo up"};

	if (read_text(program, &image) < 0)
		err(1, "%s", program);
	command.stdin_data = image.data;
	command.stdin_size = image.size;
	run(slot, &command);
}

static double time_kill(struct slot *slot, const struct kind *kind)
{
	char *argv[] = {
		(char *)"./wild-tree", (char *)"up", (char *)kind->name, (char *)kind->count, NULL};
	const struct command command = {.argv = argv};
	const struct command wait = {.script = (char *)"read -r line <up"};
	struct run_outcome herald, tree;
	double start;

	run_begin(slot, &herald, &wait); /* first: the tree may leave no room */
	run_begin(slot, &tree, &command);
	pool_fixture_wait(&f, &herald.ended);
	run_fini(&herald);
	start = now_us();
	operation_cancel(tree.op);
	pool_fixture_wait(&f, &tree.ended);
	start = now_us() - start;
	if (tree.result.reason != REASON_CANCELLED)
		errx(1, "%s %s: %s", kind->name, kind->count, tree.result.detail);
	run_fini(&tree);
	return start;
}

static double time_sleep(void)
{
	static char sleep_[] = "sleep", seconds[] = "1000";
	char *const words[] = {sleep_, seconds, NULL};
	double start;
	pid_t pid;
	int status;

	if (posix_spawnp(&pid, words[0], NULL, NULL, words, environ) != 0)
		errx(1, "sleep cannot be started");
	(void)usleep(5000); /* it sleeps by then */
	start = now_us();
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, &status, 0);
	return now_us() - start;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print(const char *name, const char *count, double *times, size_t rounds)
{
	qsort(times, rounds, sizeof(*times), compare);
	printf("%s%s %.0f %.0f\n", name, count, times[rounds / 2], times[rounds * 99 / 100]);
}

int main(int argc, char **argv)
{
	size_t rounds = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	double *times = calloc(rounds + 1, (KINDS + 1) * sizeof(*times));
	struct slot *slot;

	if (rounds == 0 || !times)
		errx(2, "usage: kill ROUNDS WILD_TREE [--user]");
	if (!fixture_begin_tests(argc - 2, argv + 2))
		return 77;
	log_set_level(LOG_LEVEL_ERROR);
	pool_fixture_init(&f, 1, NULL);
	pool_fixture_open(&f);
	slot = loan_take(&f, "bench");
	install(slot, argv[2]);
	for (size_t i = 0; i < rounds; i++) {
		for (size_t kind = 0; kind < KINDS; kind++)
			times[kind * rounds + i] = time_kill(slot, &kinds[kind]);
		times[KINDS * rounds + i] = time_sleep();
	}
	for (size_t kind = 0; kind < KINDS; kind++)
		print(kinds[kind].name, kinds[kind].count, times + kind * rounds, rounds);
	print("sleep", "", times + KINDS * rounds, rounds);
	pool_return(f.pool, slot, REASON_TERMINATED);
	pool_fixture_fini(&f);
	free(times);
	return 0;
}
