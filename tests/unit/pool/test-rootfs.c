/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/settings.h"
#include "pool/bubble-private.h"
#include "pool/rootfs.h"

struct place {
	char dir[64];
	struct words words;
	char *text; /* the words, parted by blanks, dir as ROOT */
};

static void make(struct place *place, const char *name, const char *link_text)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", place->dir, name);
	if (link_text)
		assert_int_equal(symlink(link_text, path), 0);
	else
		assert_int_equal(mkdir(path, 0755), 0);
}

static void make_file(struct place *place, const char *name, mode_t mode)
{
	char path[PATH_MAX];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", place->dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
	assert_true(fd >= 0);
	(void)fchmod(fd, mode);
	(void)close(fd);
}

static int set_up(void **state)
{
	struct place *place = calloc(1, sizeof(*place));

	(void)snprintf(place->dir, sizeof(place->dir), "/tmp/dressage-rootfs-XXXXXX");
	assert_non_null(mkdtemp(place->dir));
	make(place, "bin", NULL);
	make_file(place, "bin/sh", 0755);
	*state = place;
	return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static int tear_down(void **state)
{
	struct place *place = *state;

	words_fini(&place->words);
	free(place->text);
	(void)nftw(place->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	free(place);
	return 0;
}

static const char *compose(struct place *place, const struct word_list *also)
{
	size_t skip = strlen(place->dir);
	struct error err = ERROR_NONE;
	FILE *out;
	size_t size;

	if (rootfs_add_words(&place->words, place->dir, also, &err) < 0)
		fail_msg("%s", err.text);
	out = open_memstream(&place->text, &size);
	for (size_t i = 0; i < place->words.count; i++) {
		const char *word = place->words.word[i];
		bool below = !strncmp(word, place->dir, skip);

		(void)fprintf(out, "%s%s ", below ? "ROOT" : "", word + (below ? skip : 0));
	}
	(void)fclose(out);
	return place->text;
}

static void shows(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no '%s' in '%s'", part, text);
}

static void what_is_there_is_bound_read_only_or_stays_a_link(void **state)
{
	struct place *place = *state;
	const char *text;

	make(place, "usr", NULL);
	make(place, "lib", "usr/lib");
	make_file(place, "file", 0644);
	text = compose(place, NULL);
	shows(text, "--ro-bind ROOT/bin /bin ");
	shows(text, "--ro-bind ROOT/usr /usr ");
	shows(text, "--ro-bind ROOT/file /file ");
	shows(text, "--symlink usr/lib /lib ");
}

static void a_slots_own_places_are_left_out(void **state)
{
	static const char *const names[] = {
		"dev", "etc", "proc", "run", "sys", "tmp", "workspace", "var", "var/tmp"};
	struct place *place = *state;
	const char *text;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		make(place, names[i], NULL);
	make(place, "var/run", "/run");
	text = compose(place, NULL); /* in whatever order the directory has */
	shows(text, "--ro-bind ROOT/bin /bin ");
	shows(text, "--perms 0755 --dir /var ");
	assert_int_equal(place->words.count, 3 + 4);
}

static void what_is_beside_a_place_of_ours_is_shown(void **state)
{
	struct place *place = *state;
	const char *text;

	make(place, "home", NULL);
	make(place, "home/blackbox", NULL);
	make(place, "home/other", NULL);
	text = compose(place, NULL);
	shows(text, "--perms 0755 --dir /home --ro-bind ROOT/home/other /home/other ");
	assert_null(strstr(text, "ROOT/home/blackbox"));
	assert_null(strstr(text, "ROOT/home "));
}

static void what_the_machine_gives_too_makes_room(void **state)
{
	char *paths[] = {(char[]){"/opt/tools"}, (char[]){"/usr"}, NULL};
	const struct word_list also = {paths, 2};
	struct place *place = *state;
	const char *text;

	make(place, "usr", NULL);
	make(place, "opt", NULL);
	make(place, "opt/tools", NULL);
	make(place, "opt/data", NULL);
	text = compose(place, &also);
	shows(text, "--dir /opt --ro-bind ROOT/opt/data /opt/data ");
	assert_null(strstr(text, "/usr"));
	assert_null(strstr(text, "/opt/tools"));
}

static void check(struct place *place, int r, const char *why)
{
	struct error err = ERROR_NONE;

	assert_int_equal(rootfs_check(place->dir, &err), r);
	if (r < 0)
		shows(err.text, why);
}

static void a_root_has_a_shell_that_all_may_run(void **state)
{
	struct place *place = *state;
	char shell[PATH_MAX];

	check(place, 0, NULL);
	(void)snprintf(shell, sizeof(shell), "%s/bin/sh", place->dir);
	assert_int_equal(chmod(shell, 0700), 0);
	check(place, -EACCES, "/bin/sh in");
	assert_int_equal(unlink(shell), 0);
	check(place, -ENOENT, "has no /bin/sh");
	/* the machine's own is not meant */
	make(place, "bin/sh", "/usr/bin/env");
	check(place, -ENOENT, "has no /bin/sh");
	make(place, "usr", NULL);
	make(place, "usr/bin", NULL);
	make_file(place, "usr/bin/env", 0755);
	check(place, 0, NULL);
}

static void a_link_or_a_file_where_a_place_belongs_is_refused(void **state)
{
	struct place *place = *state;
	char path[PATH_MAX];

	make(place, "home", "usr");
	check(place, -ELOOP, "at /home/blackbox");
	(void)snprintf(path, sizeof(path), "%s/home", place->dir);
	assert_int_equal(unlink(path), 0);
	make_file(place, "tmp", 0644);
	check(place, -ENOTDIR, "at /tmp");
}

static void too_many_names_to_bind_one_by_one_are_refused(void **state)
{
	struct place *place = *state;
	struct error err = ERROR_NONE;
	char name[32];

	for (int i = 0; i < 1000; i++) {
		(void)snprintf(name, sizeof(name), "link%d", i);
		make(place, name, "x");
	}
	assert_int_equal(rootfs_add_words(&place->words, place->dir, NULL, &err), -E2BIG);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(what_is_there_is_bound_read_only_or_stays_a_link),
		CASE(a_slots_own_places_are_left_out),
		CASE(what_is_beside_a_place_of_ours_is_shown),
		CASE(what_the_machine_gives_too_makes_room),
		CASE(a_root_has_a_shell_that_all_may_run),
		CASE(a_link_or_a_file_where_a_place_belongs_is_refused),
		CASE(too_many_names_to_bind_one_by_one_are_refused),
	};

	return cmocka_run_group_tests_name("rootfs", tests, NULL, NULL);
}
