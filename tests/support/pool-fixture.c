/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/support/pool-fixture.h"

#include <dirent.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "base/operation.h"
#include "pool/events.h"
#include "pool/journal.h"

enum { DEADLINE_MS = 60000, OVERRIDES_MAX = 16, FIXTURES_MAX = 8 };

static struct pool_fixture *fixtures[FIXTURES_MAX]; /* that are open */

static void load_config(struct pool_fixture *f, unsigned slots, const char *const *more)
{
	char state_dir[96], count[32];
	const char *overrides[OVERRIDES_MAX] = {state_dir, count, "pool.wait_ready_timeout=30s"};
	const char *const environment[] = {"PATH=/usr/bin:/bin", "HOME=/nonexistent", NULL};
	const struct config_sources sources = {
		.file = "", .overrides = overrides, .environ = environment};
	struct error err = ERROR_NONE;
	unsigned at = 3;

	(void)snprintf(state_dir, sizeof(state_dir), "dressage.state_dir=%s", f->dir);
	(void)snprintf(count, sizeof(count), "pool.slots=%u", slots);
	for (; more && *more; more++)
		overrides[at++] = *more;
	if (config_load(&sources, &f->config, &err) < 0)
		fail_msg("%s", err.text);
}

void pool_fixture_init(struct pool_fixture *f, unsigned slots, const char *const *overrides)
{
	char dir[] = "/tmp/dressage-pool-XXXXXX";

	assert_non_null(mkdtemp(dir));
	pool_fixture_init_in(f, dir, slots, overrides);
}

static void open_spooler(struct pool_fixture *f)
{
	char path[96];

	(void)snprintf(path, sizeof(path), "%s/spools", f->dir);
	assert_int_equal(spooler_create(f->loop, path, &f->spooler, NULL), 0);
	assert_int_equal(
		spool_account_create(f->config->exec.spool_budget, NULL, NULL, &f->account, NULL),
		0);
}

void pool_fixture_init_in(
	struct pool_fixture *f, const char *dir, unsigned slots, const char *const *overrides)
{
	*f = (struct pool_fixture){0};
	(void)snprintf(f->dir, sizeof(f->dir), "%s", dir);
	load_config(f, slots, overrides);
	assert_int_equal(loop_create(&f->loop, NULL), 0);
	assert_int_equal(events_create(1000, &f->events, NULL), 0);
	open_spooler(f);
	for (unsigned i = 0; i < FIXTURES_MAX; i++) {
		if (fixtures[i])
			continue;
		fixtures[i] = f;
		return;
	}
	fail();
}

static void note_lost(void *data, struct slot *slot, const struct error *why)
{
	struct pool_fixture *f = data;

	f->lost_count++;
	f->lost_why = *why;
}

void pool_outcome_note(void *data, int r, const struct error *err)
{
	struct pool_outcome *outcome = data;

	*outcome = (struct pool_outcome){.told = true, .r = r, .err = err ? *err : ERROR_NONE};
}

int pool_fixture_create(struct pool_fixture *f, struct error *err)
{
	const struct pool_hooks hooks = {.slot_lost = note_lost, .data = f};

	if (journal_open(f->loop, f->dir, &f->journal, err) < 0 ||
		pool_create(f->loop, f->config, f->journal, f->events, &hooks, &f->pool, err) < 0)
		return -err->code;
	return 0;
}

int pool_fixture_try(struct pool_fixture *f, struct error *err)
{
	struct pool_outcome started = {0};
	int r = pool_fixture_create(f, err);

	if (r < 0)
		return r;
	pool_start(f->pool, pool_outcome_note, &started);
	pool_fixture_wait(f, &started.told);
	*err = started.err;
	return started.r;
}

void pool_fixture_open(struct pool_fixture *f)
{
	struct error err = ERROR_NONE;

	if (pool_fixture_try(f, &err) < 0)
		fail_msg("%s", err.text);
}

void pool_fixture_close(struct pool_fixture *f)
{
	struct pool_outcome stopped = {0};

	if (f->pool) {
		pool_stop(f->pool, pool_outcome_note, &stopped);
		pool_fixture_wait(f, &stopped.told);
		if (stopped.r < 0)
			fail_msg("%s", stopped.err.text);
	}
	pool_destroy(take_ptr(&f->pool));
	journal_close(take_ptr(&f->journal));
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

void pool_fixture_fini(struct pool_fixture *f)
{
	pool_fixture_close(f);
	events_destroy(f->events);
	spool_account_close(f->account);
	spooler_destroy(f->spooler);
	for (unsigned i = 0; i < FIXTURES_MAX; i++)
		if (fixtures[i] == f)
			fixtures[i] = NULL;
	while (loop_uv(f->loop)->active_reqs.count > 0) /* a worker still empties the trash */
		(void)uv_run(loop_uv(f->loop), UV_RUN_ONCE);
	loop_destroy(f->loop);
	config_free(f->config);
	(void)nftw(f->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void handle_deadline(void *data)
{
	*(bool *)data = true;
}

static void turn_until(struct pool_fixture *f, bool (*over)(const void *data), const void *data)
{
	struct loop_timer *deadline;
	bool late = false;

	assert_int_equal(
		loop_timer_start(f->loop, DEADLINE_MS, handle_deadline, &late, &deadline, NULL), 0);
	while (!over(data) && !late)
		(void)uv_run(loop_uv(f->loop), UV_RUN_ONCE);
	loop_timer_stop(deadline);
	assert_true(over(data));
}

void pool_fixture_turn(struct pool_fixture *f)
{
	(void)uv_run(loop_uv(f->loop), UV_RUN_ONCE);
}

static bool is_set(const void *data)
{
	return *(const bool *)data;
}

void pool_fixture_wait(struct pool_fixture *f, const bool *flag)
{
	turn_until(f, is_set, flag);
}

struct wanted_state {
	const struct slot *slot;
	enum slot_state state;
};

static bool has_state(const void *data)
{
	const struct wanted_state *wanted = data;

	return slot_view(wanted->slot).state == wanted->state;
}

void pool_fixture_wait_state(struct pool_fixture *f, struct slot *slot, enum slot_state state)
{
	turn_until(f, has_state, &(struct wanted_state){slot, state});
}

static void note_lent(void *data, int r, struct slot *slot, const struct error *err)
{
	static unsigned order;
	struct loan *loan = data;

	loan->told = true;
	loan->r = r;
	loan->slot = slot;
	loan->err = err ? *err : ERROR_NONE;
	loan->order = ++order;
}

void loan_ask(struct pool_fixture *f, struct loan *loan, const char *holder, uint64_t wait_ms)
{
	*loan = (struct loan){0};
	loan->op = pool_lend(f->pool, holder, NULL, wait_ms, note_lent, loan);
	assert_non_null(loan->op);
	assert_false(loan->told);
}

struct slot *loan_take(struct pool_fixture *f, const char *holder)
{
	struct loan loan;

	loan_ask(f, &loan, holder, DEADLINE_MS);
	pool_fixture_wait(f, &loan.told);
	if (loan.r < 0)
		fail_msg("%s", loan.err.text);
	return loan.slot;
}

static uint64_t read_back(
	struct spool *spool, struct spool_listener *listener, size_t max, struct strbuf *ret_text)
{
	struct spool_counts counts = spool_counts(spool);

	spool_ignore(listener);
	assert_int_equal(spool_read_head(spool, max, ret_text), 0);
	return counts.kept + counts.dropped - counts.late;
}

static void forget_spools(struct run_outcome *run)
{
	spool_ignore(&run->out_listener);
	spool_ignore(&run->err_listener);
	if (run->out) {
		spool_drop(run->out);
		spool_drop(run->err_spool);
	}
	spool_unref(take_ptr(&run->out));
	spool_unref(take_ptr(&run->err_spool));
}

static void note_output(void *data)
{
	struct run_outcome *run = data;

	if (!run->result_is_there || run->ended || !spool_finished(run->out) ||
		!spool_finished(run->err_spool))
		return;
	run->result.out_bytes =
		read_back(run->out, &run->out_listener, run->max_output, &run->result.out);
	run->result.err_bytes =
		read_back(run->err_spool, &run->err_listener, run->max_output, &run->result.err);
	run->ended = true;
	forget_spools(run);
}

static void note_ended(void *data, int r, struct command_result *result, const struct error *err)
{
	struct run_outcome *run = data;

	assert_int_equal(r, 0);
	assert_false(run->result_is_there);
	run->result_is_there = true;
	run->result = *result;
	command_result_init(result);
	note_output(run);
}

static struct pool_fixture *fixture_of(const struct slot *slot)
{
	for (unsigned i = 0; i < FIXTURES_MAX; i++)
		if (fixtures[i] && fixtures[i]->pool &&
			pool_slot(fixtures[i]->pool, slot_view(slot).number) == slot)
			return fixtures[i];
	fail();
	return NULL;
}

static struct spool *make_spool(
	struct pool_fixture *f, struct spool_listener *listener, struct run_outcome *run)
{
	struct spool *spool;

	assert_int_equal(
		spool_create(f->spooler, f->account, f->config->exec.max_spool, &spool, NULL), 0);
	*listener = (struct spool_listener){.changed = note_output, .data = run};
	spool_listen(spool, listener);
	return spool;
}

/* As a lease counts: from 1. */
static uint32_t next_number(struct pool_fixture *f, const struct slot *slot)
{
	struct slot_view view = slot_view(slot);
	unsigned n = view.number % 64;

	if (f->numbers[n].generation != view.generation)
		f->numbers[n].last = 0;
	f->numbers[n].generation = view.generation;
	return ++f->numbers[n].last;
}

void run_begin(struct slot *slot, struct run_outcome *run, const struct command *command)
{
	struct pool_fixture *f = fixture_of(slot);
	struct command_run what = {.command = command,
		.number = next_number(f, slot),
		.ended = note_ended,
		.data = run};

	*run = (struct run_outcome){.max_output = (size_t)command->max_output};
	command_result_init(&run->result);
	what.out = run->out = make_spool(f, &run->out_listener, run);
	what.err = run->err_spool = make_spool(f, &run->err_listener, run);
	run->r = slot_run(slot, &what, &run->op, &run->err);
	run->ended = run->r < 0;
	if (run->ended)
		forget_spools(run);
}

void run_begin_script(struct slot *slot, struct run_outcome *run, const char *script)
{
	const struct command command = {.script = (char *)script, .max_output = 1 << 20};

	run_begin(slot, run, &command);
}

void run_command(struct slot *slot, struct run_outcome *run, const struct command *command)
{
	run_begin(slot, run, command);
	pool_fixture_wait(fixture_of(slot), &run->ended);
	if (run->r < 0)
		fail_msg("%s", run->err.text);
}

void run_script(struct slot *slot, struct run_outcome *run, const char *script)
{
	const struct command command = {.script = (char *)script, .max_output = 1 << 20};

	run_command(slot, run, &command);
}

bool pool_fixture_has_cgroups(const struct pool_fixture *f)
{
	return pool_cgroups(f->pool)[0] != '\0';
}

void run_fini(struct run_outcome *run)
{
	forget_spools(run);
	command_result_fini(&run->result);
}

static unsigned count_entries(const char *path, bool directories)
{
	CLEANUP(closedirp) DIR *dir = opendir(path);
	struct dirent *entry;
	unsigned count = 0;

	while (dir && (entry = readdir(dir)))
		count += entry->d_name[0] != '.' && (!directories || entry->d_type == DT_DIR);
	return count;
}

static unsigned count_children(void)
{
	CLEANUP(fclosep) FILE *file = fopen("/proc/thread-self/children", "r");
	unsigned count = 0;
	int pid;

	while (file && fscanf(file, "%d", &pid) == 1)
		count++;
	return count;
}

struct holdings holdings_now(const struct pool_fixture *f)
{
	const char *cgroups = f->pool ? pool_cgroups(f->pool) : "";

	return (struct holdings){
		.fds = count_entries("/proc/self/fd", false),
		.children = count_children(),
		.cgroups = *cgroups ? count_entries(cgroups, true) : 0,
	};
}
