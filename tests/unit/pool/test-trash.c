/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* `--user` runs everything as an ordinary user, whom modes can keep out. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/loop.h"
#include "pool/slot-dirs.h"
#include "pool/trash.h"

struct place {
	char dir[64];
	int fd;       /* of dir */
	int trash_fd; /* of dir/trash */
};

static void become_ordinary(void)
{
	const uid_t uid = 1999001;

	if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
		abort();
}

static int set_up(void **state)
{
	struct place *place = calloc(1, sizeof(*place));

	(void)snprintf(place->dir, sizeof(place->dir), "/tmp/dressage-trash-XXXXXX");
	assert_non_null(mkdtemp(place->dir));
	place->fd = open(place->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(place->fd, "trash", 0700), 0);
	place->trash_fd = openat(place->fd, "trash", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(place->trash_fd >= 0);
	*state = place;
	return 0;
}

static int tear_down(void **state)
{
	struct place *place = *state;

	(void)trash_empty(place->fd, NULL);
	(void)close(place->fd);
	(void)close(place->trash_fd);
	assert_int_equal(rmdir(place->dir), 0);
	free(place);
	return 0;
}

static void make_file(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	(void)close(fd);
}

static void assert_empties(const struct place *place)
{
	struct error err = ERROR_NONE;

	if (trash_empty(place->trash_fd, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(unlinkat(place->fd, "trash", AT_REMOVEDIR), 0);
}

static void a_tree_deeper_than_any_path_is_removed(void **state)
{
	const struct place *place = *state;
	int fd = dup(place->trash_fd);
	char name[256];

	memset(name, 'd', 255);
	name[255] = '\0';
	for (unsigned depth = 0; depth < 3000; depth++) {
		int next;

		assert_int_equal(mkdirat(fd, name, 0700), 0);
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		(void)close(fd);
		fd = next;
		make_file(fd, "f");
	}
	(void)close(fd);
	assert_empties(place);
}

static void a_wide_tree_needs_few_descriptors(void **state)
{
	const struct place *place = *state;
	struct rlimit before, few;

	for (unsigned i = 0; i < 40; i++) {
		char name[64];

		(void)snprintf(name, sizeof(name), "d%u", i);
		assert_int_equal(mkdirat(place->trash_fd, name, 0700), 0);
		for (unsigned j = 0; j < 40; j++) {
			(void)snprintf(name, sizeof(name), "d%u/e%u", i, j);
			assert_int_equal(mkdirat(place->trash_fd, name, 0700), 0);
			(void)snprintf(name, sizeof(name), "d%u/e%u/f", i, j);
			make_file(place->trash_fd, name);
		}
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = (rlim_t)place->trash_fd + 6;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(trash_empty(place->trash_fd, NULL), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_empties(place);
}

static void symbolic_links_are_not_followed(void **state)
{
	const struct place *place = *state;
	struct stat st;

	assert_int_equal(mkdirat(place->fd, "precious", 0700), 0);
	make_file(place->fd, "precious/file");
	assert_int_equal(mkdirat(place->trash_fd, "d", 0700), 0);
	assert_int_equal(symlinkat("../precious", place->trash_fd, "link"), 0);
	assert_int_equal(symlinkat("../../precious", place->trash_fd, "d/link"), 0);
	assert_int_equal(symlinkat("/", place->trash_fd, "d/root"), 0);
	assert_int_equal(symlinkat("loop", place->trash_fd, "d/loop"), 0);
	assert_empties(place);
	assert_int_equal(fstatat(place->fd, "precious/file", &st, 0), 0);
}

static void directories_that_nobody_may_read_or_change_are_removed(void **state)
{
	static const mode_t modes[] = {0, 0111, 0400, 0500, 0200};
	const struct place *place = *state;

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		char name[64];

		(void)snprintf(name, sizeof(name), "d%zu", i);
		assert_int_equal(mkdirat(place->trash_fd, name, 0700), 0);
		(void)snprintf(name, sizeof(name), "d%zu/e", i);
		assert_int_equal(mkdirat(place->trash_fd, name, 0700), 0);
		(void)snprintf(name, sizeof(name), "d%zu/e/f", i);
		make_file(place->trash_fd, name);
		(void)snprintf(name, sizeof(name), "d%zu/e", i);
		assert_int_equal(fchmodat(place->trash_fd, name, modes[i], 0), 0);
		(void)snprintf(name, sizeof(name), "d%zu", i);
		assert_int_equal(fchmodat(place->trash_fd, name, modes[i], 0), 0);
	}
	assert_empties(place);
}

static void every_kind_of_file_goes_whatever_its_name(void **state)
{
	static const char *const names[] = {
		"-rf", " ", "\n", "\xff\xfe", "...", "*", "up-1", "up-2"};
	const struct place *place = *state;

	assert_int_equal(mkdirat(place->trash_fd, "d", 0700), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char inner[64];

		assert_int_equal(mkdirat(place->trash_fd, names[i], 0700), 0);
		(void)snprintf(inner, sizeof(inner), "d/%s", names[i]);
		assert_int_equal(mkdirat(place->trash_fd, inner, 0700), 0);
		(void)snprintf(inner, sizeof(inner), "d/%s/x", names[i]);
		assert_int_equal(mknodat(place->trash_fd, inner, S_IFIFO | 0600, 0), 0);
	}
	assert_empties(place);
}

static void turn_until(struct loop *loop, const bool *flag)
{
	while (!*flag)
		(void)uv_run(loop_uv(loop), UV_RUN_ONCE);
}

static void note_empty(void *data, int r, const struct error *err)
{
	assert_int_equal(r, 0);
	*(bool *)data = true;
}

static void a_woken_trash_empties_itself_in_the_background(void **state)
{
	const struct place *place = *state;
	struct trash *trash = NULL;
	struct loop *loop = NULL;
	char path[128], name[64];
	bool empty = false;

	assert_int_equal(loop_create(&loop, NULL), 0);
	(void)snprintf(path, sizeof(path), "%s/trash", place->dir);
	assert_int_equal(trash_create(loop, path, &trash, NULL), 0);
	for (unsigned i = 0; i < 20; i++) {
		trash_name(trash, name);
		assert_int_equal(mkdirat(trash_fd(trash), name, 0700), 0);
		trash_wake(trash);
	}
	trash_on_empty(trash, note_empty, &empty);
	turn_until(loop, &empty);
	assert_int_equal(rmdir(path), 0);
	trash_destroy(trash);
	loop_destroy(loop);
}

static void note_stuck(void *data, int r, const struct error *err)
{
	assert_int_equal(r, -EMFILE);
	*(bool *)data = true;
}

struct trouble {
	bool told;
	int code;
};

static void note_trouble(void *data, const struct error *err)
{
	*(struct trouble *)data = (struct trouble){.told = true, .code = err ? err->code : 0};
}

static void a_trash_that_cannot_be_emptied_says_so_once_and_when_it_can_again(void **state)
{
	const struct place *place = *state;
	struct trouble trouble = {0};
	struct rlimit before, none;
	struct trash *trash = NULL;
	struct loop *loop = NULL;
	bool empty = false;
	char path[128];

	assert_int_equal(loop_create(&loop, NULL), 0);
	(void)snprintf(path, sizeof(path), "%s/trash", place->dir);
	assert_int_equal(trash_create(loop, path, &trash, NULL), 0);
	trash_on_trouble(trash, note_trouble, &trouble);
	make_file(trash_fd(trash), "old");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){0, before.rlim_max};
	for (unsigned i = 0; i < 2; i++) {
		empty = false;
		trouble.told = false;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
		trash_wake(trash);
		trash_on_empty(trash, note_stuck, &empty);
		turn_until(loop, &empty);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		assert_int_equal(trouble.told, i == 0);
		assert_int_equal(trouble.code, EMFILE);
	}
	trouble.told = false;
	trash_wake(trash);
	turn_until(loop, &trouble.told);
	assert_int_equal(trouble.code, 0);
	trash_destroy(trash);
	loop_destroy(loop);
}

/* Something is mounted in the middle of it. */
static void what_cannot_be_removed_is_named_and_does_not_keep_the_rest(void **state)
{
	const struct place *place = *state;
	struct error err = ERROR_NONE;
	struct stat st;
	char path[128];

	assert_int_equal(mkdirat(place->trash_fd, "before", 0700), 0);
	assert_int_equal(mkdirat(place->trash_fd, "busy", 0700), 0);
	assert_int_equal(mkdirat(place->trash_fd, "busy/mounted", 0700), 0);
	assert_int_equal(mkdirat(place->trash_fd, "busy/other", 0700), 0);
	make_file(place->trash_fd, "busy/other/file");
	make_file(place->trash_fd, "file");
	(void)snprintf(path, sizeof(path), "%.60s/trash/busy/mounted", place->dir);
	assert_int_equal(mount("none", path, "tmpfs", 0, NULL), 0);
	assert_int_equal(trash_empty(place->trash_fd, &err), -EBUSY);
	assert_non_null(strstr(err.text, "'busy'"));
	assert_int_equal(fstatat(place->trash_fd, "before", &st, 0), -1);
	assert_int_equal(fstatat(place->trash_fd, "file", &st, 0), -1);
	assert_int_equal(fstatat(place->trash_fd, "busy/other", &st, 0), -1);
	assert_int_equal(umount(path), 0);
	assert_int_equal(trash_empty(place->trash_fd, &err), 0);
	assert_int_equal(fstatat(place->trash_fd, "busy", &st, 0), -1);
}

static void a_slots_directories_are_replaced_with_the_right_owners_and_modes(void **state)
{
	static const struct {
		const char *name;
		mode_t mode;
		bool inside;
	} wanted[] = {{"home", 0755, true}, {"work", 0755, true}, {"runtime", 0755, true},
		{"tmp", 01777, true}, {"logs", 0700, false}, {"archives", 0700, false}};
	const struct place *place = *state;
	uid_t uid = geteuid() ? geteuid() : 2000000;
	const struct slot_dirs_wish wish = {SLOT_DIRS_FILES, uid, uid, uid, uid};
	struct trash *trash = NULL;
	struct loop *loop = NULL;
	char path[128], slot[96];
	struct stat st;
	mode_t old = umask(0077);

	assert_int_equal(loop_create(&loop, NULL), 0);
	(void)snprintf(path, sizeof(path), "%s/trash", place->dir);
	(void)snprintf(slot, sizeof(slot), "%s/0000", place->dir);
	assert_int_equal(trash_create(loop, path, &trash, NULL), 0);
	assert_int_equal(slot_dirs_replace(slot, trash, &wish, NULL), 0);
	make_file(place->fd, "0000/work/left");
	make_file(place->fd, "0000/archives/kept");
	assert_int_equal(fchmodat(place->fd, "0000/work", 0, 0), 0);
	assert_int_equal(slot_dirs_replace(slot, trash, &wish, NULL), 0);
	(void)umask(old);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		(void)snprintf(path, sizeof(path), "0000/%s", wanted[i].name);
		assert_int_equal(fstatat(place->fd, path, &st, 0), 0);
		assert_int_equal(st.st_mode & 07777, wanted[i].mode);
		assert_int_equal(st.st_uid, wanted[i].inside ? uid : geteuid());
	}
	assert_int_equal(fstatat(place->fd, "0000", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0710);
	assert_int_equal(fstatat(place->fd, "0000/work/left", &st, 0), -1);
	assert_int_equal(fstatat(place->fd, "0000/archives/kept", &st, 0), 0);
	assert_int_equal(slot_dirs_remove(slot, trash, NULL), 0);
	assert_int_equal(fstatat(place->fd, "0000/archives/kept", &st, 0), 0);
	assert_int_equal(fstatat(place->fd, "0000/work", &st, 0), -1);
	trash_destroy(trash);
	loop_destroy(loop);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(a_tree_deeper_than_any_path_is_removed),
		CASE(a_wide_tree_needs_few_descriptors),
		CASE(symbolic_links_are_not_followed),
		CASE(directories_that_nobody_may_read_or_change_are_removed),
		CASE(every_kind_of_file_goes_whatever_its_name),
		CASE(a_woken_trash_empties_itself_in_the_background),
		CASE(a_trash_that_cannot_be_emptied_says_so_once_and_when_it_can_again),
		CASE(a_slots_directories_are_replaced_with_the_right_owners_and_modes),
		/* only root may mount: */
		CASE(what_cannot_be_removed_is_named_and_does_not_keep_the_rest),
	};
	size_t count = sizeof(tests) / sizeof(*tests);

	if (argc > 1 && !strcmp(argv[1], "--user") && geteuid() == 0)
		become_ordinary();
	if (geteuid() != 0)
		count--;
	return _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
}
