/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tree over a real lease table with the scripted provider; no mount. */
#include "fs/tree.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/strbuf.h"
#include "config/settings.h"
#include "fs/control.h"
#include "fs/files.h"
#include "fs/inode.h"
#include "fs/render.h"
#include "pool/events.h"
#include "pool/journal.h"
#include "providers/lease.h"

struct world {
	char dir[64];
	struct config *config;
	struct loop *loop;
	struct journal *journal;
	struct events *events;
	struct control *control;
	struct lease_table *leases;
	struct lease *lease; /* the one that take() took */
	int result;
	struct loop_timer *deadline;
};

static void handle_lease_changed(void *data, struct lease *lease)
{
	struct world *world = data;

	control_lease_changed(world->control, lease);
}

static void handle_started(void *data, int r, const struct error *err)
{
	struct world *world = data;

	world->result = r;
	loop_stop(world->loop);
}

static void fail_late(void *data)
{
	(void)data;
	(void)fprintf(stderr, "nothing happened within 20 s\n");
	_Exit(1);
}

/* Runs the loop until a callback stops it. */
static int wait_for_end(struct world *world)
{
	loop_timer_restart(world->deadline, 20000);
	loop_run(world->loop);
	return world->result;
}

static int load_config(struct world *world, struct error *err)
{
	char state_dir[128];
	const char *overrides[] = {
		state_dir, "dressage.provider=fake", "pool.slots=2", "mount.mode=0750", NULL};
	struct config_sources sources = {.file = "", .overrides = overrides};

	(void)snprintf(state_dir, sizeof(state_dir), "dressage.state_dir=%s", world->dir);
	return config_load(&sources, &world->config, err);
}

static int open_world(struct world *world, struct error *err)
{
	struct lease_hooks hooks = {.changed = handle_lease_changed, .data = world};

	if (load_config(world, err) < 0 || loop_create(&world->loop, err) < 0 ||
		journal_open(world->loop, world->dir, &world->journal, err) < 0 ||
		events_create(100, &world->events, err) < 0 ||
		control_create(world->loop, world->config, world->events, &world->control, err) <
			0 ||
		lease_table_create(world->loop, world->config, world->journal, world->events,
			&hooks, &world->leases, err) < 0)
		return -1;
	control_begin(world->control, world->leases, NULL);
	return loop_timer_start(world->loop, 20000, fail_late, NULL, &world->deadline, err);
}

static int set_up(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	struct error err = ERROR_NONE;

	if (!world)
		return -1;
	*state = world;
	(void)snprintf(world->dir, sizeof(world->dir), "/tmp/test-tree-XXXXXX");
	if (!mkdtemp(world->dir) || open_world(world, &err) < 0) {
		(void)fprintf(stderr, "%s\n", err.text);
		return -1;
	}
	lease_table_start(world->leases, handle_started, world);
	return wait_for_end(world);
}

static int tear_down(void **state)
{
	struct world *world = *state;
	char command[128];

	lease_table_stop(world->leases, handle_started, world);
	(void)wait_for_end(world);
	lease_table_destroy(world->leases);
	control_destroy(world->control);
	loop_timer_stop(world->deadline);
	events_destroy(world->events);
	journal_close(world->journal);
	loop_destroy(world->loop);
	config_free(world->config);
	for (const char *const *name = (const char *const[]){"journal.db", "journal.db-wal",
		     "journal.db-shm", "lock", NULL};
		*name; name++) {
		(void)snprintf(command, sizeof(command), "%s/%s", world->dir, *name);
		(void)unlink(command);
	}
	(void)rmdir(world->dir);
	free(world);
	return 0;
}

static void handle_taken(void *data, int r, struct lease *lease, const struct error *err)
{
	struct world *world = data;

	world->lease = lease;
	world->result = r;
	loop_stop(world->loop);
}

static struct lease *take(struct world *world, const char *id)
{
	struct sandbox_spec spec = {0};
	struct error err = ERROR_NONE;

	assert_int_equal(sandbox_spec_from_id(id, &spec, &err), 0);
	assert_non_null(lease_create_now(world->leases, &spec, handle_taken, world));
	sandbox_spec_fini(&spec);
	assert_int_equal(wait_for_end(world), 0);
	return world->lease;
}

static struct node walk(const struct world *world, const char *path)
{
	CLEANUP(freep) char *copy = strdup(path);
	struct node node;
	char *rest = copy, *name;

	assert_int_equal(tree_node(world->control, FUSE_ROOT_ID, &node), 0);
	while ((name = strsep(&rest, "/")) != NULL) {
		struct node child;

		assert_int_equal(tree_child(world->control, &node, name, &child), 0);
		node = child;
	}
	return node;
}

static void every_number_leads_back_to_its_node(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	static const char *const paths[] = {"create", "terminate", "status", "status.json",
		"config", "events", "last_error", "leases", "slots", "leases/t",
		"leases/t/lease.json", "leases/t/state", "leases/t/run_command",
		"leases/t/terminate", "leases/t/ttl", "leases/t/last_error"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct node node = walk(world, paths[i]), again;
		fuse_ino_t ino = node_ino(node.kind, node.object);

		assert_false(files_owns(ino));
		assert_int_equal(tree_node(world->control, ino, &again), 0);
		assert_int_equal(again.kind, node.kind);
		assert_ptr_equal(again.lease, node.lease);
		assert_true(node.lease == NULL || node.lease == lease);
	}
}

static void a_number_that_never_was_is_stale(void **state)
{
	struct world *world = *state;
	struct node node;

	assert_int_equal(tree_node(world->control, 0, &node), -ESTALE);
	assert_int_equal(tree_node(world->control, 0xff, &node), -ESTALE);
	assert_int_equal(tree_node(world->control, node_ino(NODE_LEASE, 12345), &node), -ESTALE);
	assert_int_equal(tree_node(world->control, node_ino(NODE_SLOT, 0), &node), -ESTALE);
}

static void a_lease_that_has_ended_leaves_no_number_behind(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	fuse_ino_t old = node_ino(NODE_RUN_COMMAND, lease_serial(lease));
	struct node node;

	lease_end(lease, REASON_TERMINATED, NULL);
	assert_int_equal(tree_node(world->control, old, &node), -ESTALE);
	lease = take(world, "t");
	assert_int_not_equal(node_ino(NODE_RUN_COMMAND, lease_serial(lease)), old);
	assert_int_equal(tree_node(world->control, old, &node), -ESTALE);
}

static void a_name_that_is_not_there_is_ENOENT(void **state)
{
	struct world *world = *state;
	static const char *const names[] = {"", "nonsense", "STATUS", "fs", "lease.json"};
	struct node root, child, slots;

	assert_int_equal(tree_node(world->control, FUSE_ROOT_ID, &root), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(tree_child(world->control, &root, names[i], &child), -ENOENT);
	slots = walk(world, "slots");
	assert_int_equal(tree_child(world->control, &slots, "0", &child), -ENOENT);
	assert_int_equal(tree_child(world->control, &slots, "99999", &child), -ENOENT);
	child = walk(world, "status");
	assert_int_equal(tree_child(world->control, &child, "x", &child), -ENOTDIR);
}

struct names {
	char text[1024];
};

static void add_name(void *data, const char *name, const struct node *node)
{
	struct names *names = data;
	size_t len = strlen(names->text);

	(void)snprintf(names->text + len, sizeof(names->text) - len, "%s%s", len ? " " : "", name);
}

static void a_directory_lists_what_it_has(void **state)
{
	struct world *world = *state;
	struct names root = {""}, leases = {""}, lease = {""};
	struct node node;

	(void)take(world, "a/b");
	assert_int_equal(tree_node(world->control, FUSE_ROOT_ID, &node), 0);
	tree_each_child(world->control, &node, add_name, &root);
	assert_string_equal(root.text,
		"create terminate control status status.json metrics config events events.follow last_error leases slots");
	node = walk(world, "leases");
	tree_each_child(world->control, &node, add_name, &leases);
	assert_string_equal(leases.text, "a%2Fb");
	node = walk(world, "leases/a%2Fb");
	tree_each_child(world->control, &node, add_name, &lease);
	/* the scripted provider has no files */
	assert_string_equal(lease.text,
		"lease.json state run_command terminate ttl hold wait endpoints exec last_error log");
}

static void an_expired_lease_has_no_files_and_lists_what_refuses(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct names names = {""};
	struct error err = ERROR_NONE;
	struct node node;

	assert_int_equal(lease_renew(lease, 0.001, &err), 0);
	while (lease_state(lease) == LEASE_ACTIVE) {
		struct loop_timer *soon;

		assert_int_equal(loop_timer_start(world->loop, 5, (loop_fn *)loop_stop, world->loop,
					 &soon, &err),
			0);
		(void)wait_for_end(world);
		loop_timer_stop(soon);
	}
	node = walk(world, "leases/t");
	tree_each_child(world->control, &node, add_name, &names);
	assert_string_equal(names.text,
		"lease.json state run_command terminate ttl hold wait endpoints exec last_error log");
	(void)walk(world, "leases/t/run_command");
}

static void check_size(struct world *world, const char *path)
{
	struct node node = walk(world, path);
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	struct stat st;

	tree_stat(world->control, &node, &st);
	node_type(node.kind)->render(world->control, &node, &text);
	assert_int_equal(st.st_size, text.size);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(st.st_mode & 0222, node_type(node.kind)->verb ? 0200 : 0);
}

static void a_text_has_its_exact_size(void **state)
{
	static const char *const paths[] = {"status", "status.json", "config", "events",
		"last_error", "leases/t/lease.json", "leases/t/state", "leases/t/ttl",
		"leases/t/last_error"};
	struct world *world = *state;

	(void)take(world, "t");
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		check_size(world, paths[i]);
}

static void a_directory_counts_its_directories(void **state)
{
	struct world *world = *state;
	struct node node = walk(world, "leases");
	struct stat st;

	tree_stat(world->control, &node, &st);
	assert_int_equal(st.st_nlink, 2);
	(void)take(world, "a");
	(void)take(world, "b");
	tree_stat(world->control, &node, &st);
	assert_int_equal(st.st_nlink, 4);
	assert_int_equal(st.st_mode, S_IFDIR | 0750);
	lease_end(lease_find(world->leases, "a"), REASON_TERMINATED, NULL);
	tree_stat(world->control, &node, &st);
	assert_int_equal(st.st_nlink, 3);
}

static void status_json_has_the_keys_of_the_contract(void **state)
{
	static const char *const keys[] = {"version", "closed", "pool_mode", "total_capacity",
		"total_ready", "total_leased", "total_resetting", "total_restarting",
		"total_failed", "total_lost", "queue", "nodes", "leases", "slots"};
	static const char *const node_keys[] = {"node_id", "node_ip", "hostname", "capacity",
		"alive", "ready", "leased", "used", "free", "resetting", "restarting", "failed",
		"lost", "draining", "last_heartbeat_ts", "last_error"};
	struct world *world = *state;
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	struct node node = walk(world, "status.json");
	struct error err = ERROR_NONE;
	const cJSON *first;
	cJSON *object;

	(void)take(world, "t");
	render_status_json(world->control, &node, &text);
	assert_int_equal(json_parse_object(text.data, text.size, &object, &err), 0);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		assert_true(cJSON_HasObjectItem(object, keys[i]));
	first = cJSON_GetArrayItem(cJSON_GetObjectItem(object, "nodes"), 0);
	for (size_t i = 0; i < sizeof(node_keys) / sizeof(node_keys[0]); i++)
		assert_true(cJSON_HasObjectItem(first, node_keys[i]));
	assert_int_equal(
		cJSON_GetObjectItem(cJSON_GetObjectItem(object, "leases"), "active")->valueint, 1);
	cJSON_Delete(object);
}

static void a_failure_stands_beside_its_file_until_its_lease_is_gone(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct node node = walk(world, "leases/t/last_error");
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	struct error err = ERROR_NONE;
	fuse_ino_t ino = node_ino(NODE_LEASE_LAST_ERROR, lease_serial(lease));

	(void)error_set(&err, EINVAL, "no\ngood");
	inode_note_error(world->control, lease, &err);
	render_last_error(world->control, &node, &text);
	assert_string_equal(text.data, "no\\x0agood\n");
	assert_null(inode_find(world->control, node_ino(NODE_LAST_ERROR, 0)));
	lease_end(lease, REASON_TERMINATED, NULL);
	assert_null(inode_find(world->control, ino));
}

int main(void)
{
#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(every_number_leads_back_to_its_node),
		CASE(a_number_that_never_was_is_stale),
		CASE(a_lease_that_has_ended_leaves_no_number_behind),
		CASE(a_name_that_is_not_there_is_ENOENT),
		CASE(a_directory_lists_what_it_has),
		CASE(an_expired_lease_has_no_files_and_lists_what_refuses),
		CASE(a_text_has_its_exact_size),
		CASE(a_directory_counts_its_directories),
		CASE(status_json_has_the_keys_of_the_contract),
		CASE(a_failure_stands_beside_its_file_until_its_lease_is_gone),
	};

	return cmocka_run_group_tests_name("fs/tree", tests, NULL, NULL);
}
