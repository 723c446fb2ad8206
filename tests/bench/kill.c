/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Times the kill of a command's tree, from the asking until nothing of it lives, in turns with
 * SIGKILL and wait of one `sleep`.
 *
 *	kill ROUNDS WILD_TREE KIND [--user]
 *
 * Prints "KIND P50 P99 ROUNDS RESETS" and "sleep P50 P99", in microseconds. With --user as an
 * ordinary user's daemon, which has no cgroups: what forks faster than it is killed may cost the
 * slot there, and RESETS counts how often. A round ends when nothing of the tree lives.
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
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "base/operation.h"
#include "base/strbuf.h"
#include "tests/bench/times.h"
#include "tests/support/bubble-fixture.h"
#include "tests/support/pool-fixture.h"

static const struct kind {
	const char *name, *what, *count;
} kinds[] = {
	{"daemons1", "daemons", "1"},
	{"daemons50", "daemons", "50"},
	{"churn64", "churn", "64"},
};

static struct pool_fixture f;
static struct slot *slot;
static const char *wild_tree;
static size_t rounds, resets;
static volatile sig_atomic_t interrupted;

static void run(const struct command *command)
{
	struct run_outcome outcome;

	run_begin(slot, &outcome, command);
	pool_fixture_wait(&f, &outcome.ended);
	if (outcome.r < 0 || outcome.result.returncode != 0)
		errx(1, "%s%s", outcome.err.text, outcome.result.err.data);
	run_fini(&outcome);
}

static void install(void)
{
	CLEANUP(strbuf_fini) struct strbuf image = STRBUF_INIT;
	struct command command = {
		.script = (char *)"cat >wild-tree && chmod +x wild-tree && mkfifo up"};

	if (read_text(wild_tree, &image) < 0)
		err(1, "%s", wild_tree);
	command.stdin_data = image.data;
	command.stdin_size = image.size;
	run(&command);
}

static void take_slot(void)
{
	slot = loan_take(&f, "bench");
	install();
}

static double time_kill(const struct kind *kind)
{
	char *argv[] = {
		(char *)"./wild-tree", (char *)"up", (char *)kind->what, (char *)kind->count, NULL};
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
	if (tree.result.reason == REASON_KILL_INCOMPLETE) {
		pool_fixture_wait_state(&f, slot, SLOT_LOST);
		start = now_us() - start;
		pool_return(f.pool, slot, REASON_TERMINATED);
		take_slot();
		resets++;
	} else {
		start = now_us() - start;
		if (tree.result.reason != REASON_CANCELLED)
			errx(1, "%s: %s", kind->name, tree.result.detail);
	}
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

static void leave(void)
{
	pool_fixture_fini(&f);
}

static void note_signal(int number)
{
	interrupted = 1;
}

static const struct kind *find_kind(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	errx(2, "no kind %s", name);
}

int main(int argc, char **argv)
{
	const struct kind *kind;
	double *times;

	rounds = argc > 3 ? strtoul(argv[1], NULL, 10) : 0;
	times = calloc(rounds + 1, 2 * sizeof(*times));
	if (rounds == 0 || !times)
		errx(2, "usage: kill ROUNDS WILD_TREE KIND [--user]");
	wild_tree = argv[2];
	kind = find_kind(argv[3]);
	if (!fixture_begin_tests(argc - 3, argv + 3))
		return 77;
	(void)signal(SIGINT, note_signal);
	(void)signal(SIGTERM, note_signal);
	log_set_level(LOG_LEVEL_ERROR);
	pool_fixture_init(&f, 1, NULL);
	(void)atexit(leave);
	pool_fixture_open(&f);
	take_slot();
	for (size_t i = 0; i < rounds; i++) {
		if (interrupted)
			errx(1, "interrupted");
		times[i] = time_kill(kind);
		times[rounds + i] = time_sleep();
	}
	print_times(kind->name, times, rounds);
	printf(" %zu %zu\n", rounds, resets);
	print_times("sleep", times + rounds, rounds);
	printf("\n");
	pool_return(f.pool, slot, REASON_TERMINATED);
	free(times);
	return 0;
}
