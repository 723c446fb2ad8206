/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Trees that do not want to die, in real slots, beside a command that must not notice. `--user`
 * runs everything as an ordinary user's daemon, which has no cgroups. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/operation.h"
#include "base/strbuf.h"
#include "pool/cgroup.h"
#include "tests/support/bubble-fixture.h"
#include "tests/support/pool-fixture.h"

static struct pool_fixture fixture;

static struct pool_fixture *f = &fixture;
static struct slot *slot;
static struct run_outcome bystander;

static void assert_prints(const char *script, const char *output)
{
	struct run_outcome run;

	run_script(slot, &run, script);
	assert_string_equal(run.result.out.data, output);
	assert_string_equal(run.result.err.data, "");
	run_fini(&run);
}

/* The program goes in as anything does. */
static void install_wild_tree(void)
{
	CLEANUP(strbuf_fini) struct strbuf image = STRBUF_INIT;
	struct command command = {
		.script = (char *)"cat >wild-tree && chmod +x wild-tree && mkfifo up bystander"};
	struct run_outcome run;

	assert_int_equal(read_text(getenv("WILD_TREE"), &image), 0);
	command.stdin_data = image.data;
	command.stdin_size = image.size;
	run_command(slot, &run, &command);
	assert_int_equal(run.result.returncode, 0);
	run_fini(&run);
}

static int open_pool(void **state)
{
	pool_fixture_init(f, 1, NULL);
	pool_fixture_open(f);
	return 0;
}

static int close_pool(void **state)
{
	pool_fixture_fini(f);
	return 0;
}

static int set_up(void **state)
{
	slot = loan_take(f, "t");
	install_wild_tree();
	run_begin_script(slot, &bystander, "read -r line <bystander; echo $line");
	return 0;
}

static int tear_down(void **state)
{
	pool_return(f->pool, slot, REASON_TERMINATED);
	run_fini(&bystander);
	return 0;
}

static void assert_bystander_lives(void)
{
	assert_false(bystander.ended);
	assert_prints("echo alive >bystander", "");
	pool_fixture_wait(f, &bystander.ended);
	assert_string_equal(bystander.result.out.data, "alive\n");
}

static bool is_zombie(pid_t pid)
{
	CLEANUP(strbuf_fini) struct strbuf stat = STRBUF_INIT;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	return read_text(path, &stat) < 0 || strstr(stat.data, ") Z ");
}

/* Living processes below this one, as the host sees them: nobody can hide from that. */
static unsigned count_below(pid_t parent)
{
	CLEANUP(fclosep) FILE *file = NULL;
	unsigned count = 0;
	char path[64];
	int pid;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
	file = fopen(path, "re");
	while (file && fscanf(file, "%d", &pid) == 1)
		count += count_below(pid) + !is_zombie(pid);
	return count;
}

/* Nothing lives in the slot but the bystander and its runner. A list of children that are reaped
 * meanwhile may lack one, and a cgroup is empty when the last one in it begins its last steps in
 * the kernel: asked until the answer stays. */
static bool only_bystander_lives(void)
{
	unsigned others = pool_cgroups(f->pool)[0] != '\0' ? 1 : 2, times = 0;

	for (unsigned i = 0; times < 3 && i < 5000; i++) {
		times = count_below(slot_view(slot).pid) == others ? times + 1 : 0;
		(void)usleep(1000);
	}
	return times == 3;
}

static void begin_tree(struct run_outcome *tree, const char *kind, const char *count)
{
	char *argv[] = {(char *)"./wild-tree", (char *)"up", (char *)kind, (char *)count, NULL};
	const struct command command = {.argv = argv, .max_output = 4096};
	struct run_outcome herald; /* is there before the tree: that may leave no room */

	run_begin_script(slot, &herald, "read -r line <up; echo $line");
	run_begin(slot, tree, &command);
	pool_fixture_wait(f, &herald.ended);
	assert_string_equal(herald.result.out.data, "up\n");
	run_fini(&herald);
	assert_false(tree->ended);
}

/* Without cgroups a tree may outrun its kill on a busy machine: then the slot goes with it. */
static bool slot_went_with_it(const struct command_result *result)
{
	if (result->reason != REASON_KILL_INCOMPLETE || pool_cgroups(f->pool)[0] != '\0')
		return false;
	assert_non_null(strstr(result->detail, "slot 0000 was killed"));
	pool_fixture_wait_state(f, slot, SLOT_LOST);
	pool_fixture_wait(f, &bystander.ended);
	(void)tear_down(NULL);
	(void)set_up(NULL);
	return true;
}

/* True: the tree is dead and the slot goes on. False: it is another generation. */
static bool grow_and_kill(const char *kind, const char *count)
{
	struct run_outcome tree;
	bool reset;

	begin_tree(&tree, kind, count);
	operation_cancel(tree.op);
	pool_fixture_wait(f, &tree.ended);
	assert_int_equal(tree.r, 0);
	assert_int_equal(tree.result.returncode, -SIGKILL);
	reset = slot_went_with_it(&tree.result);
	if (!reset && tree.result.reason != REASON_CANCELLED)
		fail_msg("%s: %s", reason_word(tree.result.reason), tree.result.detail);
	assert_true(only_bystander_lives());
	run_fini(&tree);
	assert_false(bystander.ended);
	return !reset;
}

/* $KILL_ROUNDS: how often instead. Only what forks without end may outrun init now and then, on a
 * machine that is busy with other things. */
static void grow_and_kill_often(
	const char *kind, const char *count, unsigned rounds, unsigned resets_max)
{
	const char *wish = getenv("KILL_ROUNDS");
	unsigned resets = 0;

	if (wish)
		rounds = (unsigned)strtoul(wish, NULL, 10);
	for (unsigned i = 0; i < rounds; i++)
		resets += !grow_and_kill(kind, count);
	assert_bystander_lives();
	if (resets > 0)
		print_message("# %s: %u of %u took the slot with them\n", kind, resets, rounds);
	assert_in_range(resets, 0, resets_max);
}

static void daemons_that_ignore_every_signal_are_dead_each_time(void **state)
{
	grow_and_kill_often("daemons", "50", 200, 0);
}

static void processes_that_fork_again_for_ever_are_dead_each_time(void **state)
{
	grow_and_kill_often("churn", "64", 40, 5);
}

static void the_same_in_sessions_of_their_own_are_dead(void **state)
{
	grow_and_kill_often("churn-in-sessions", "16", 20, 5);
}

static void a_long_chain_is_dead_to_its_end(void **state)
{
	grow_and_kill_often("chain", "100", 5, 0);
}

static void what_hides_from_proc_is_dead(void **state)
{
	grow_and_kill_often("hidden", "20", 5, 0);
}

static void a_command_that_kills_its_parent_is_dead_with_its_tree(void **state)
{
	grow_and_kill_often("parricide", "10", 5, 0);
}

static void a_command_that_stops_its_parent_is_dead_with_its_tree(void **state)
{
	grow_and_kill_often("stopped-parent", "10", 5, 0);
}

/* A pool whose slots are the fake's. */
static void open_fake_pool(struct pool_fixture *fake, const char *act)
{
	char dir[] = "/tmp/dressage-pool-XXXXXX", command[512], path[64], args[64];
	const char *const overrides[] = {path, args, NULL};

	assert_non_null(mkdtemp(dir));
	(void)snprintf(command, sizeof(command), "install -m 0755 '%s' %s/bwrap",
		getenv("FAKE_BWRAP"), dir);
	assert_int_equal(system(command), 0);
	(void)snprintf(path, sizeof(path), "slot.bwrap=%s/bwrap", dir);
	(void)snprintf(args, sizeof(args), "slot.bwrap_args=--fake %s", act);
	pool_fixture_init_in(fake, dir, 1, overrides);
	pool_fixture_open(fake);
}

static void assert_slot_goes_with_its_command(const char *act)
{
	static struct pool_fixture fake;
	struct slot *lent;
	struct run_outcome run;

	open_fake_pool(&fake, act);
	lent = loan_take(&fake, "t");
	run_begin_script(lent, &run, "sleep 1000");
	operation_cancel(run.op);
	pool_fixture_wait(&fake, &run.ended);
	assert_int_equal(run.result.reason, REASON_KILL_INCOMPLETE);
	assert_non_null(strstr(run.result.detail, "slot 0000 was killed"));
	run_fini(&run);
	pool_fixture_wait_state(&fake, lent, SLOT_LOST);
	assert_int_equal(fake.lost_why.reason, REASON_KILL_INCOMPLETE);
	pool_return(fake.pool, lent, REASON_TERMINATED);
	pool_fixture_wait_state(&fake, lent, SLOT_READY);
	pool_fixture_fini(&fake);
}

static void a_slot_whose_init_cannot_kill_a_tree_is_killed_itself(void **state)
{
	assert_slot_goes_with_its_command("outrun");
}

static void a_slot_whose_init_does_not_answer_a_kill_is_killed_itself(void **state)
{
	assert_slot_goes_with_its_command("silent");
}

/* Where there are cgroups init has no part in a kill. */
static bool init_kills(void)
{
	struct cgroups *cgroups = NULL;
	struct error why = ERROR_NONE;

	if (cgroups_open(NULL, "/tmp", &cgroups, &why) < 0)
		return true;
	cgroups_close(cgroups);
	return false;
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(daemons_that_ignore_every_signal_are_dead_each_time),
		CASE(processes_that_fork_again_for_ever_are_dead_each_time),
		CASE(the_same_in_sessions_of_their_own_are_dead),
		CASE(a_long_chain_is_dead_to_its_end),
		CASE(what_hides_from_proc_is_dead),
		CASE(a_command_that_kills_its_parent_is_dead_with_its_tree),
		CASE(a_command_that_stops_its_parent_is_dead_with_its_tree),
		cmocka_unit_test(a_slot_whose_init_cannot_kill_a_tree_is_killed_itself),
		cmocka_unit_test(a_slot_whose_init_does_not_answer_a_kill_is_killed_itself),
	};
	enum { COUNT = sizeof(tests) / sizeof(tests[0]), OF_INIT = 2 };

	if (!fixture_begin_tests(argc, argv))
		return 0;
	log_set_level(LOG_LEVEL_ERROR);
	return _cmocka_run_group_tests(
		"tests", tests, init_kills() ? COUNT : COUNT - OF_INIT, open_pool, close_pool);
}
