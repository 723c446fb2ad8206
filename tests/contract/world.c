/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/contract/world.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>

#include "base/json.h"
#include "base/log.h"
#include "config/settings.h"
#include "pool/events.h"
#include "pool/journal.h"
#include "pool/pool.h"
#include "tests/support/bubble-fixture.h"

enum { PATIENCE_MS = 60 * 1000 };

static const char *provider = "fake";
static unsigned done_count;

bool world_is_fake(void)
{
	return !strcmp(provider, "fake");
}

int world_main(
	int argc, char **argv, const char *suite, const struct CMUnitTest *cases, size_t count)
{
	if (argc > 1)
		provider = argv[1];
	if (!world_is_fake() && !fixture_begin_tests(argc - 1, argv + 1))
		return 0;
	log_set_level(LOG_LEVEL_ERROR);
	return _cmocka_run_group_tests(suite, cases, count, NULL, NULL);
}

/* waiting */

static void handle_patience(void *data)
{
	struct world *world = data;

	world->impatient = true;
	loop_stop(world->loop);
}

/* The timer is the world's: an assertion that fails in a callback leaves loop_run() by a long jump.
 */
static void patience_start(struct world *world)
{
	world->impatient = false;
	if (world->patience)
		loop_timer_restart(world->patience, PATIENCE_MS);
	else
		assert_int_equal(loop_timer_start(world->loop, PATIENCE_MS, handle_patience, world,
					 &world->patience, NULL),
			0);
}

/* loop_stop() is what ends loop_run(): every callback of this file calls it. */
void await(struct world *world, const bool *flag)
{
	patience_start(world);
	while (!*flag && !world->impatient)
		loop_run(world->loop);
	assert_true(*flag);
}

void await_state(struct world *world, struct lease *lease, enum lease_state state)
{
	patience_start(world);
	while (lease_state(lease) != state && !world->impatient)
		loop_run(world->loop);
	assert_string_equal(lease_state_name(lease_state(lease)), lease_state_name(state));
}

static void handle_changed(void *data, struct lease *lease)
{
	struct world *world = data;

	(void)lease;
	world->changes++;
	loop_stop(world->loop);
}

void await_exec(struct world *world, struct lease_exec *exec, enum lease_exec_state state)
{
	patience_start(world);
	while (lease_exec_state(exec) != state && !world->impatient)
		loop_run(world->loop);
	assert_string_equal(
		lease_exec_state_name(lease_exec_state(exec)), lease_exec_state_name(state));
}

static void handle_exec_changed(void *data, struct lease_exec *exec, unsigned changes)
{
	struct world *world = data;

	(void)exec;
	(void)changes;
	loop_stop(world->loop);
}

/* set-up */

struct begun {
	struct world *world;
	bool done;
	int r;
	struct error err;
};

static void handle_begun(void *data, int r, const struct error *err)
{
	struct begun *begun = data;

	begun->done = true;
	begun->r = r;
	if (err)
		begun->err = *err;
	loop_stop(begun->world->loop);
}

static void load_config(struct world *world)
{
	char state_dir[128], chosen[64];
	const char *overrides[] = {state_dir, chosen, "pool.slots=2", "slot.memory_max=256M",
		"slot.memory_high=200M", NULL};
	struct config_sources sources = {.overrides = overrides};
	struct error err = ERROR_NONE;

	(void)snprintf(state_dir, sizeof(state_dir), "dressage.state_dir=%s", world->dir);
	(void)snprintf(chosen, sizeof(chosen), "dressage.provider=%s", provider);
	if (config_load(&sources, &world->config, &err) < 0)
		fail_msg("config: %s", err.text);
}

int world_setup_idle(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	struct lease_hooks hooks = {
		.changed = handle_changed, .exec_changed = handle_exec_changed, .data = world};
	struct error err = ERROR_NONE;

	*state = world;
	done_count = 0;
	(void)snprintf(world->dir, sizeof(world->dir), "/tmp/contract-XXXXXX");
	assert_non_null(mkdtemp(world->dir));
	load_config(world);
	assert_int_equal(loop_create(&world->loop, &err), 0);
	if (journal_open(world->loop, world->dir, &world->journal, &err) < 0 ||
		events_create(1000, &world->events, &err) < 0 ||
		lease_table_create(world->loop, world->config, world->journal, world->events,
			&hooks, &world->table, &err) < 0)
		fail_msg("set-up: %s", err.text);
	return 0;
}

int world_setup(void **state)
{
	struct begun begun = {0};

	world_setup_idle(state);
	begun.world = *state;
	lease_table_start(begun.world->table, handle_begun, &begun);
	assert_false(begun.done);
	await(begun.world, &begun.done);
	if (begun.r < 0)
		fail_msg("start: %s", begun.err.text);
	return 0;
}

void world_start_and_stop(struct world *world)
{
	struct begun started = {.world = world}, stopped = {.world = world};

	lease_table_start(world->table, handle_begun, &started);
	world->stopped = true;
	lease_table_stop(world->table, handle_begun, &stopped);
	await(world, &stopped.done);
	assert_int_equal(stopped.r, 0);
	assert_true(started.done);
}

void world_stop(struct world *world)
{
	struct begun begun = {.world = world};

	world->stopped = true;
	lease_table_stop(world->table, handle_begun, &begun);
	assert_false(begun.done);
	await(world, &begun.done);
	assert_int_equal(begun.r, 0);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int world_teardown(void **state)
{
	struct world *world = *state;

	if (world->table && !world->stopped)
		world_stop(world);
	lease_table_destroy(world->table);
	events_destroy(world->events);
	journal_close(world->journal);
	loop_timer_stop(world->patience);
	loop_destroy(world->loop);
	config_free(world->config);
	(void)nftw(world->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	free(world);
	return 0;
}

/* creating */

static void handle_acquired(void *data, int r, struct lease *lease, const struct error *err)
{
	struct creation *creation = data;

	assert_false(creation->done);
	creation->done = true;
	creation->r = r;
	creation->lease = lease;
	creation->order = ++done_count;
	if (err)
		creation->err = *err;
	assert_int_equal(r < 0, err != NULL);
	assert_int_equal(r == 0, lease != NULL);
	loop_stop(creation->world->loop);
}

void create_begin(struct world *world, const char *request, struct creation *creation)
{
	struct sandbox_spec spec;
	struct error err = ERROR_NONE;

	*creation = (struct creation){.world = world};
	if (sandbox_spec_decode(request, strlen(request), &spec, &err) < 0)
		fail_msg("%s: %s", request, err.text);
	creation->op = lease_create(world->table, &spec, handle_acquired, creation);
	sandbox_spec_fini(&spec);
	assert_non_null(creation->op);
	assert_false(creation->done);
}

void create_now_begin(struct world *world, const char *id, struct creation *creation)
{
	struct sandbox_spec spec;

	*creation = (struct creation){.world = world};
	assert_int_equal(sandbox_spec_from_id(id, &spec, NULL), 0);
	creation->op = lease_create_now(world->table, &spec, handle_acquired, creation);
	sandbox_spec_fini(&spec);
	assert_non_null(creation->op);
	assert_false(creation->done);
}

struct lease *take(struct world *world, const char *request)
{
	struct creation creation;

	create_begin(world, request, &creation);
	await(world, &creation.done);
	if (creation.r < 0)
		fail_msg("%s: %s", request, creation.err.text);
	return creation.lease;
}

void refuse(struct world *world, const char *request, int code, enum reason reason)
{
	struct creation creation;

	create_begin(world, request, &creation);
	await(world, &creation.done);
	assert_int_equal(creation.r, -code);
	assert_string_equal(reason_word(creation.err.reason), reason_word(reason));
	assert_true(creation.err.text[0]);
}

/* commands */

static void handle_ended(void *data, int r, struct command_result *result, const struct error *err)
{
	struct running *running = data;

	assert_false(running->done);
	running->done = true;
	running->r = r;
	if (err)
		running->err = *err;
	if (result) {
		running->result = *result;
		command_result_init(result);
	}
	loop_stop(running->world->loop);
}

void run_begin(
	struct world *world, struct lease *lease, const char *request, struct running *running)
{
	struct command command;
	struct error err = ERROR_NONE;

	*running = (struct running){.world = world};
	command_result_init(&running->result);
	if (command_decode(request, strlen(request), world->config, &command, &err) < 0)
		fail_msg("%s: %s", request, err.text);
	running->op = lease_run(lease, &command, handle_ended, running);
	command_fini(&command);
	assert_non_null(running->op);
	assert_false(running->done);
}

void run(struct world *world, struct lease *lease, const char *request, struct running *running)
{
	run_begin(world, lease, request, running);
	await(world, &running->done);
}

void running_fini(struct running *running)
{
	command_result_fini(&running->result);
}

void lose(struct world *world, struct lease *lease)
{
	struct running running;

	if (!world_is_fake()) {
		struct pool *pool = lease_table_pool(world->table);

		for (unsigned i = 0; i < pool_slot_count(pool); i++) {
			struct slot_view view = slot_view(pool_slot(pool, i));

			if (!strcmp(view.holder, lease_trajectory(lease)))
				assert_int_equal(kill(view.pid, SIGKILL), 0);
		}
		await_state(world, lease, LEASE_LOST);
		return;
	}
	run(world, lease, "lose", &running);
	assert_int_equal(running.r, 0);
	assert_true(running.result.infra_failure);
	running_fini(&running);
	await_state(world, lease, LEASE_LOST);
}

cJSON *end(struct world *world, const char *id)
{
	struct strbuf reply = STRBUF_INIT;
	struct error err = ERROR_NONE;
	cJSON *object = NULL;

	if (lease_end_by_id(world->table, id, REASON_TERMINATED, &reply, &err) < 0)
		fail_msg("%s: %s", id, err.text);
	if (json_parse_object(reply.data, reply.size, &object, &err) < 0)
		fail_msg("%s: %s", reply.data, err.text);
	strbuf_fini(&reply);
	return object;
}

const char *text_of(const cJSON *object, const char *key)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));

	if (!text)
		fail_msg("no text '%s'", key);
	return text;
}

bool truth_of(const cJSON *object, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

	if (!cJSON_IsBool(item))
		fail_msg("no truth '%s'", key);
	return cJSON_IsTrue(item);
}

int number_of(const cJSON *object, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

	if (!cJSON_IsNumber(item))
		fail_msg("no number '%s'", key);
	return item->valueint;
}
