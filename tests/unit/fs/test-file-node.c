/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "fs/file-node.h"

static atomic_uint gone_count;

static void count_gone(struct file_node *node)
{
	atomic_fetch_add(&gone_count, 1);
}

static int setup(void **state)
{
	struct file_node_table *table;

	atomic_store(&gone_count, 0);
	if (file_node_table_create(1000, count_gone, &table) < 0)
		return -1;
	*state = table;
	return 0;
}

static int teardown(void **state)
{
	file_node_table_destroy(*state);
	return 0;
}

static struct file_identity identity_of(uint32_t type, uint64_t number)
{
	struct file_identity identity = {.mount = 7, .type = type, .handle_type = 1, .size = 8};

	memcpy(identity.bytes, &number, sizeof(number));
	return identity;
}

/* Tells it and returns it with the reference. */
static struct file_node *tell(struct file_node_table *table, struct file_node *parent,
	const char *name, uint32_t type, uint64_t number)
{
	struct file_identity identity = identity_of(type, number);
	struct file_node_told told = {
		.parent = parent, .name = name, .serial = 3, .identity = &identity};
	struct file_node *node;
	bool is_new;

	assert_int_equal(file_node_tell(table, &told, &node, &is_new), 0);
	return node;
}

static struct file_node *tell_root(struct file_node_table *table)
{
	return tell(table, NULL, "", S_IFDIR, 1);
}

static unsigned depth_of(struct file_node *node, bool wanted_exact)
{
	bool exact;
	unsigned depth = file_node_depth(node, &exact);

	assert_int_equal(exact, wanted_exact);
	return depth;
}

static void a_file_told_twice_is_one_node_with_two_lookups(void **state)
{
	struct file_node *root = tell_root(*state), *a = tell(*state, root, "a", S_IFREG, 2);
	struct file_node *again = tell(*state, root, "a", S_IFREG, 2);
	uint64_t id = a->id;

	assert_ptr_equal(a, again);
	assert_true(id & FILE_NODE_ID_BIT);
	file_node_put(a);
	file_node_put(again);
	file_node_forget(*state, id, 1);
	assert_int_equal(file_node_table_count(*state), 2);
	file_node_forget(*state, id, 1);
	assert_int_equal(file_node_table_count(*state), 1);
	assert_null(file_node_get(*state, id));
	file_node_put(root);
}

static void two_names_of_one_file_are_one_node(void **state)
{
	struct file_node *root = tell_root(*state), *a = tell(*state, root, "a", S_IFREG, 2);
	struct file_node *b = tell(*state, root, "b", S_IFREG, 2);

	assert_ptr_equal(a, b);
	file_node_put(a);
	file_node_put(b);
	file_node_put(root);
}

static void the_same_handle_on_another_mount_or_of_another_lease_is_another_file(void **state)
{
	struct file_identity identity = identity_of(S_IFREG, 2);
	struct file_node_told told = {.name = "a", .serial = 3, .identity = &identity};
	struct file_node *root = tell_root(*state), *a, *b, *c;
	bool is_new;

	told.parent = root;
	assert_int_equal(file_node_tell(*state, &told, &a, &is_new), 0);
	identity.mount = 8;
	assert_int_equal(file_node_tell(*state, &told, &b, &is_new), 0);
	assert_true(is_new);
	told.serial = 3 + 64; /* of the same shard */
	told.parent = NULL;
	told.name = "";
	assert_int_equal(file_node_tell(*state, &told, &c, &is_new), 0);
	assert_true(is_new);
	assert_ptr_not_equal(a, b);
	assert_ptr_not_equal(b, c);
	file_node_put(a);
	file_node_put(b);
	file_node_put(c);
	file_node_put(root);
}

static void numbers_are_never_used_again(void **state)
{
	struct file_node *root = tell_root(*state), *node;
	uint64_t last = root->id;
	int i;

	for (i = 0; i < 100; i++) {
		node = tell(*state, root, "a", S_IFREG, 2);
		assert_true(node->id > last);
		last = node->id;
		file_node_forget(*state, node->id, 1);
		file_node_put(node);
	}
	assert_int_equal(atomic_load(&gone_count), 100);
	file_node_put(root);
}

static void a_parent_stays_while_a_child_does(void **state)
{
	struct file_node *root = tell_root(*state), *dir = tell(*state, root, "d", S_IFDIR, 2);
	struct file_node *file = tell(*state, dir, "l", S_IFLNK, 3);
	uint64_t dir_id = dir->id;

	file_node_forget(*state, dir_id, 1);
	file_node_put(dir);
	dir = file_node_get(*state, dir_id);
	assert_non_null(dir);
	file_node_put(dir);
	file_node_forget(*state, file->id, 1);
	file_node_put(file);
	assert_null(file_node_get(*state, dir_id));
	assert_int_equal(file_node_table_count(*state), 1);
	file_node_put(root);
}

static void more_is_forgotten_than_was_told_without_harm(void **state)
{
	struct file_node *root = tell_root(*state), *a = tell(*state, root, "a", S_IFREG, 2);

	file_node_forget(*state, a->id, 99);
	file_node_forget(*state, a->id, 1);
	file_node_forget(*state, FILE_NODE_ID_BIT | 12345, 1);
	file_node_put(a);
	assert_int_equal(file_node_table_count(*state), 1);
	file_node_put(root);
}

static void the_table_has_an_end(void **state)
{
	struct file_identity identity;
	struct file_node_told told = {.name = "n", .serial = 3, .identity = &identity};
	struct file_node *node, *root = tell_root(*state);
	uint64_t i;
	bool is_new;

	told.parent = root;
	for (i = 2; i <= 1000; i++) {
		identity = identity_of(S_IFREG, i);
		assert_int_equal(file_node_tell(*state, &told, &node, &is_new), 0);
		file_node_put(node);
	}
	identity = identity_of(S_IFREG, i);
	assert_int_equal(file_node_tell(*state, &told, &node, &is_new), -ENFILE);
	assert_int_equal(file_node_table_count(*state), 1000);
	file_node_put(root);
}

static void depth_counts_the_directories_above(void **state)
{
	struct file_node *root = tell_root(*state), *a = tell(*state, root, "a", S_IFDIR, 2);
	struct file_node *b = tell(*state, a, "b", S_IFDIR, 3),
			 *link = tell(*state, b, "l", S_IFLNK, 4);
	struct file_node *top = tell(*state, root, "l", S_IFLNK, 5);

	assert_int_equal(depth_of(top, true), 0);
	assert_int_equal(depth_of(link, true), 2);
	file_node_put(top);
	file_node_put(link);
	file_node_put(b);
	file_node_put(a);
	file_node_put(root);
}

static void a_directory_found_elsewhere_is_another_node_and_the_old_one_stays_where_it_was(
	void **state)
{
	struct file_node *root = tell_root(*state), *a = tell(*state, root, "a", S_IFDIR, 2);
	struct file_node *old = tell(*state, a, "d", S_IFDIR, 3),
			 *deep = tell(*state, old, "l", S_IFLNK, 4);
	struct file_node *moved = tell(*state, root, "d", S_IFDIR, 3);
	struct file_node *renamed = tell(*state, root, "e", S_IFDIR, 3);
	struct file_node *shallow = tell(*state, moved, "l", S_IFLNK, 4);

	assert_ptr_not_equal(old, moved);
	assert_ptr_not_equal(moved, renamed);
	assert_ptr_not_equal(deep, shallow);
	assert_int_equal(depth_of(deep, true), 2);
	assert_int_equal(depth_of(shallow, true), 1);
	file_node_put(shallow);
	file_node_put(renamed);
	file_node_put(moved);
	file_node_put(deep);
	file_node_put(old);
	file_node_put(a);
	file_node_put(root);
}

static void what_another_file_replaced_counts_as_deep_as_the_root(void **state)
{
	struct file_node *root = tell_root(*state), *a = tell(*state, root, "a", S_IFDIR, 2);
	struct file_node *old = tell(*state, a, "d", S_IFDIR, 3),
			 *link = tell(*state, old, "l", S_IFLNK, 4);
	struct file_node *other = tell(*state, a, "d", S_IFDIR, 5);

	assert_ptr_not_equal(old, other);
	assert_int_equal(depth_of(link, false), 0);
	file_node_put(other);
	file_node_put(link);
	file_node_put(old);
	file_node_put(a);
	file_node_put(root);
}

static void a_rename_to_a_shallower_place_is_known_below_it_at_once(void **state)
{
	struct file_node *root = tell_root(*state), *a = tell(*state, root, "a", S_IFDIR, 2);
	struct file_node *b = tell(*state, a, "b", S_IFDIR, 3),
			 *c = tell(*state, b, "c", S_IFDIR, 4);
	struct file_node *link = tell(*state, c, "l", S_IFLNK, 5);

	assert_int_equal(depth_of(link, true), 3);
	file_node_renamed(a, "b", root, "b", false);
	assert_int_equal(depth_of(link, true), 2);
	assert_ptr_equal(tell(*state, root, "b", S_IFDIR, 3), b);
	file_node_put(b);
	file_node_put(link);
	file_node_put(c);
	file_node_put(b);
	file_node_put(a);
	file_node_put(root);
}

static void a_rename_to_a_deeper_place_counts_only_in_a_new_node(void **state)
{
	struct file_node *root = tell_root(*state), *a = tell(*state, root, "a", S_IFDIR, 2);
	struct file_node *b = tell(*state, a, "b", S_IFDIR, 3),
			 *d = tell(*state, root, "d", S_IFDIR, 4);
	struct file_node *link = tell(*state, d, "l", S_IFLNK, 5), *fresh, *again;

	file_node_renamed(root, "d", b, "d", false);
	assert_int_equal(depth_of(link, false), 1);
	assert_true(file_node_renew(link));
	assert_false(file_node_renew(link));
	assert_int_equal(depth_of(link, false), 0);
	fresh = tell(*state, b, "d", S_IFDIR, 4);
	assert_ptr_not_equal(fresh, d);
	again = tell(*state, fresh, "l", S_IFLNK, 5);
	assert_int_equal(depth_of(again, true), 3);
	file_node_put(again);
	file_node_put(fresh);
	file_node_put(link);
	file_node_put(d);
	file_node_put(b);
	file_node_put(a);
	file_node_put(root);
}

static void an_exchange_moves_both(void **state)
{
	struct file_node *root = tell_root(*state), *a = tell(*state, root, "a", S_IFDIR, 2);
	struct file_node *deep = tell(*state, a, "x", S_IFDIR, 3),
			 *flat = tell(*state, root, "y", S_IFDIR, 4);
	struct file_node *in_deep = tell(*state, deep, "l", S_IFLNK, 5);
	struct file_node *in_flat = tell(*state, flat, "l", S_IFLNK, 6);

	file_node_renamed(a, "x", root, "y", true);
	assert_int_equal(depth_of(in_deep, true), 1);
	assert_int_equal(depth_of(in_flat, false), 1);
	file_node_put(in_flat);
	file_node_put(in_deep);
	file_node_put(flat);
	file_node_put(deep);
	file_node_put(a);
	file_node_put(root);
}

static void a_renamed_link_is_as_deep_as_its_smallest_place(void **state)
{
	struct file_node *root = tell_root(*state), *a = tell(*state, root, "a", S_IFDIR, 2);
	struct file_node *link = tell(*state, a, "l", S_IFLNK, 3);

	assert_int_equal(depth_of(link, true), 1);
	file_node_renamed(a, "l", root, "l", false);
	assert_int_equal(depth_of(link, true), 0);
	file_node_renamed(root, "l", a, "l", false);
	assert_int_equal(depth_of(link, false), 0);
	file_node_put(link);
	file_node_put(a);
	file_node_put(root);
}

static void a_place_is_known_until_its_name_is_removed(void **state)
{
	struct file_node *root = tell_root(*state), *a = tell(*state, root, "a", S_IFDIR, 2),
			 *parent;
	char name[256];

	assert_false(file_node_place(root, &parent, name));
	assert_true(file_node_place(a, &parent, name));
	assert_ptr_equal(parent, root);
	assert_string_equal(name, "a");
	file_node_put(parent);
	file_node_removed(root, "a");
	assert_false(file_node_place(a, &parent, name));
	file_node_put(a);
	file_node_put(root);
}

static void a_kept_name_follows_the_last_that_was_told(void **state)
{
	struct file_identity identity = identity_of(S_IFREG, 9);
	struct file_node_told told = {
		.name = "x", .serial = 3, .identity = &identity, .keep_name = true};
	struct file_node *root = tell_root(*state), *dir = tell(*state, root, "d", S_IFDIR, 2);
	struct file_node *node, *parent;
	uint64_t dir_id = dir->id;
	char name[256];
	bool is_new;

	told.parent = dir;
	assert_int_equal(file_node_tell(*state, &told, &node, &is_new), 0);
	file_node_put(node);
	file_node_forget(*state, dir_id, 1);
	file_node_put(dir);
	told.parent = root;
	told.name = "y";
	assert_int_equal(file_node_tell(*state, &told, &node, &is_new), 0);
	assert_false(is_new);
	assert_null(file_node_get(*state, dir_id)); /* nothing was left that needed it */
	assert_true(file_node_place(node, &parent, name));
	assert_string_equal(name, "y");
	file_node_put(parent);
	file_node_put(node);
	file_node_put(root);
}

enum { THREADS = 4, ROUNDS = 3000 };

static void *tell_and_forget(void *data)
{
	struct file_node_table *table = data;
	struct file_node *root = tell_root(table), *dir, *file;
	char name[8];
	int i;

	for (i = 0; i < ROUNDS; i++) {
		(void)snprintf(name, sizeof(name), "%d", i % 5);
		dir = tell(table, root, name, S_IFDIR, 10 + (unsigned)(i % 7));
		file = tell(table, dir, name, S_IFREG, 20 + (unsigned)(i % 3));
		file_node_renamed(root, name, dir, "x", i % 2);
		file_node_renew(dir);
		file_node_forget(table, dir->id, 1);
		file_node_put(dir);
		file_node_forget(table, file->id, 1);
		file_node_put(file);
	}
	file_node_forget(table, root->id, 1);
	file_node_put(root);
	return NULL;
}

static void threads_that_tell_and_forget_leave_nothing_behind(void **state)
{
	pthread_t threads[THREADS];
	int i;

	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, tell_and_forget, *state), 0);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(file_node_table_count(*state), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_file_told_twice_is_one_node_with_two_lookups, setup, teardown),
		cmocka_unit_test_setup_teardown(
			two_names_of_one_file_are_one_node, setup, teardown),
		cmocka_unit_test_setup_teardown(
			the_same_handle_on_another_mount_or_of_another_lease_is_another_file, setup,
			teardown),
		cmocka_unit_test_setup_teardown(numbers_are_never_used_again, setup, teardown),
		cmocka_unit_test_setup_teardown(a_parent_stays_while_a_child_does, setup, teardown),
		cmocka_unit_test_setup_teardown(
			more_is_forgotten_than_was_told_without_harm, setup, teardown),
		cmocka_unit_test_setup_teardown(the_table_has_an_end, setup, teardown),
		cmocka_unit_test_setup_teardown(
			depth_counts_the_directories_above, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_directory_found_elsewhere_is_another_node_and_the_old_one_stays_where_it_was,
			setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_another_file_replaced_counts_as_deep_as_the_root, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_rename_to_a_shallower_place_is_known_below_it_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_rename_to_a_deeper_place_counts_only_in_a_new_node, setup, teardown),
		cmocka_unit_test_setup_teardown(an_exchange_moves_both, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_renamed_link_is_as_deep_as_its_smallest_place, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_place_is_known_until_its_name_is_removed, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_kept_name_follows_the_last_that_was_told, setup, teardown),
		cmocka_unit_test_setup_teardown(
			threads_that_tell_and_forget_leave_nothing_behind, setup, teardown),
	};

	return cmocka_run_group_tests_name("node", tests, NULL, NULL);
}
