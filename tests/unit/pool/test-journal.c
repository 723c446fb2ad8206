/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/strbuf.h"
#include "pool/journal.h"

struct fixture {
	char dir[64], state_dir[96];
	struct loop *loop;
	struct journal *journal;
	struct strbuf seen; /* what visits and commits wrote down */
	unsigned commits, wanted;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strbuf_init(&f->seen);
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/test-journal-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	(void)snprintf(f->state_dir, sizeof(f->state_dir), "%s/a/state", f->dir);
	assert_int_equal(loop_create(&f->loop, NULL), 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	static const char *const left[] = {"a/state/journal.db", "a/state/journal.db-wal",
		"a/state/journal.db-shm", "a/state/lock", "a/state", "a", ""};
	struct fixture *f = *state;
	char path[128];
	int r = 0;

	journal_close(f->journal);
	loop_destroy(f->loop);
	for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", f->dir, left[i]);
		r = remove(path);
	}
	strbuf_fini(&f->seen);
	free(f);
	return r;
}

static void open_journal(struct fixture *f)
{
	struct error err = ERROR_NONE;

	if (journal_open(f->loop, f->state_dir, &f->journal, &err) < 0)
		fail_msg("%s", err.text);
}

static void close_journal(struct fixture *f)
{
	journal_close(take_ptr(&f->journal));
}

static void note_slot(void *data, const struct journal_slot *slot)
{
	struct fixture *f = data;

	strbuf_addf(&f->seen, "%u g%u %s %d@%llu %s %s\n", slot->slot, slot->generation,
		slot->state, (int)slot->pid, (unsigned long long)slot->pid_starttime, slot->dir,
		slot->cgroup);
}

static void note_lease(void *data, const struct journal_lease *lease)
{
	struct fixture *f = data;

	strbuf_addf(&f->seen, "%s %s %s '%s' %u g%u %.1f %.1f %s\n", lease->lease_id,
		lease->trajectory_id, lease->state, lease->reason, lease->slot, lease->generation,
		lease->created_at, lease->deadline, lease->spec);
}

static void count_commit(void *data, int r, const struct error *err)
{
	struct fixture *f = data;

	strbuf_addf(&f->seen, "%s ", r < 0 ? error_name(-r) : "ok");
	if (++f->commits == f->wanted)
		loop_stop(f->loop);
}

static const struct journal_slot slot_row = {.slot = 3,
	.generation = 7,
	.state = "LEASED",
	.pid = 1234,
	.pid_starttime = 99,
	.dir = "/d",
	.cgroup = ""};
static const struct journal_lease lease_row = {.lease_id = "lease-1",
	.trajectory_id = "t/1\n",
	.state = "ACTIVE",
	.reason = "",
	.slot = 3,
	.generation = 7,
	.created_at = 1.5,
	.deadline = 0,
	.spec = "{}"};

static void rows_outlive_the_daemon(void **state)
{
	struct fixture *f = *state;
	struct journal_slot later = slot_row;

	open_journal(f);
	later.state = "LOST";
	journal_put_slot(f->journal, &slot_row, NULL, NULL);
	journal_put_lease(f->journal, &lease_row, NULL, NULL);
	journal_put_slot(f->journal, &later, NULL, NULL);
	close_journal(f);
	open_journal(f);
	assert_int_equal(journal_each_slot(f->journal, note_slot, f, NULL), 0);
	assert_int_equal(journal_each_lease(f->journal, note_lease, f, NULL), 0);
	assert_string_equal(
		f->seen.data, "3 g7 LOST 1234@99 /d \nlease-1 t/1\n ACTIVE '' 3 g7 1.5 0.0 {}\n");
}

static void put_last_and_note(void *data, const struct journal_slot *slot)
{
	struct fixture *f = data;
	struct journal_slot last = slot_row;

	note_slot(f, slot);
	if (slot->slot != 0)
		return;
	last.slot = 99;
	last.state = "LOST";
	journal_put_slot(f->journal, &last, NULL, NULL);
	(void)usleep(200 * 1000); /* time enough for one who does not wait */
}

/* Else two threads use one connection at once, which damages the journal. */
static void what_a_visitor_puts_is_written_after_the_visit(void **state)
{
	struct fixture *f = *state;
	struct journal_slot row = slot_row;

	open_journal(f);
	for (row.slot = 0; row.slot < 100; row.slot++)
		journal_put_slot(f->journal, &row, NULL, NULL);
	assert_int_equal(journal_each_slot(f->journal, put_last_and_note, f, NULL), 0);
	assert_non_null(strstr(f->seen.data, "\n98 g7 LEASED "));
	assert_non_null(strstr(f->seen.data, "\n99 g7 LEASED "));
	strbuf_clear(&f->seen);
	assert_int_equal(journal_each_slot(f->journal, note_slot, f, NULL), 0);
	assert_non_null(strstr(f->seen.data, "\n99 g7 LOST "));
}

static void a_dropped_lease_and_a_reset_journal_are_empty(void **state)
{
	struct fixture *f = *state;

	open_journal(f);
	journal_put_lease(f->journal, &lease_row, NULL, NULL);
	journal_drop_lease(f->journal, "lease-1", NULL, NULL);
	journal_put_slot(f->journal, &slot_row, NULL, NULL);
	assert_int_equal(journal_each_lease(f->journal, note_lease, f, NULL), 0);
	assert_int_equal(f->seen.size, 0);
	assert_int_equal(journal_reset(f->journal, NULL), 0);
	assert_int_equal(journal_each_slot(f->journal, note_slot, f, NULL), 0);
	assert_int_equal(f->seen.size, 0);
}

static void every_commit_is_told_once_and_on_the_loop(void **state)
{
	struct fixture *f = *state;

	open_journal(f);
	f->wanted = 500;
	for (unsigned i = 0; i < f->wanted; i++) {
		struct journal_slot row = slot_row;

		row.slot = i;
		journal_put_slot(f->journal, &row, count_commit, f);
	}
	assert_int_equal(f->commits, 0);
	loop_run(f->loop);
	assert_int_equal(f->commits, 500);
	strbuf_clear(&f->seen);
	assert_int_equal(journal_each_slot(f->journal, note_slot, f, NULL), 0);
	assert_non_null(strstr(f->seen.data, "\n499 g7"));
}

static void a_second_daemon_is_refused_and_told_the_first_ones_pid(void **state)
{
	struct fixture *f = *state;
	struct journal *second = NULL;
	struct error err = ERROR_NONE;
	char pid[32];

	open_journal(f);
	assert_int_equal(journal_open(f->loop, f->state_dir, &second, &err), -EBUSY);
	assert_null(second);
	(void)snprintf(pid, sizeof(pid), "pid %ld;", (long)getpid());
	assert_non_null(strstr(err.text, pid));
	close_journal(f);
	open_journal(f);
}

static void the_directory_is_passable_and_the_file_private(void **state)
{
	struct fixture *f = *state;
	struct stat st;
	char path[128];
	mode_t old = umask(0077);

	open_journal(f);
	(void)umask(old);
	assert_int_equal(stat(f->state_dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0711);
	(void)snprintf(path, sizeof(path), "%s/journal.db", f->state_dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	(void)snprintf(path, sizeof(path), "%s/journal.db-wal", f->state_dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void a_damaged_file_is_named_with_the_way_out(void **state)
{
	struct fixture *f = *state;
	struct error err = ERROR_NONE;
	char path[128];
	FILE *file;

	open_journal(f);
	close_journal(f);
	(void)snprintf(path, sizeof(path), "%s/journal.db", f->state_dir);
	file = fopen(path, "w");
	assert_non_null(file);
	for (unsigned i = 0; i < 4096; i++)
		(void)fputs("nonsense", file);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(journal_open(f->loop, f->state_dir, &f->journal, &err), -EUCLEAN);
	assert_non_null(strstr(err.text, path));
	assert_non_null(strstr(err.text, "move it away"));
}

/* RLIMIT_FSIZE stands in for a full disk: SQLite sees a write that fails. */
static void a_write_that_fails_is_told_and_costs_no_later_row(void **state)
{
	struct fixture *f = *state;
	struct rlimit before, none = {0};
	struct journal_lease big = lease_row;
	char *spec = malloc(300001);

	memset(spec, 'x', 300000);
	spec[300000] = '\0';
	open_journal(f);
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	none = before;
	none.rlim_cur = 200000;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	big.lease_id = "lease-big";
	big.spec = spec;
	f->wanted = 3;
	journal_put_lease(f->journal, &lease_row, count_commit, f);
	journal_put_lease(f->journal, &big, count_commit, f);
	journal_put_slot(f->journal, &slot_row, count_commit, f);
	loop_run(f->loop);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	free(spec);
	assert_true(!strcmp(f->seen.data, "ok EIO ok ") || !strcmp(f->seen.data, "ok ENOSPC ok "));
	close_journal(f);
	open_journal(f);
	strbuf_clear(&f->seen);
	assert_int_equal(journal_each_slot(f->journal, note_slot, f, NULL), 0);
	assert_int_equal(journal_each_lease(f->journal, note_lease, f, NULL), 0);
	assert_string_equal(
		f->seen.data, "3 g7 LEASED 1234@99 /d \nlease-1 t/1\n ACTIVE '' 3 g7 1.5 0.0 {}\n");
}

static void closing_with_rows_under_way_writes_them_and_tells_nobody(void **state)
{
	struct fixture *f = *state;

	open_journal(f);
	journal_put_slot(f->journal, &slot_row, count_commit, f);
	close_journal(f);
	assert_int_equal(f->commits, 0);
	open_journal(f);
	assert_int_equal(journal_each_slot(f->journal, note_slot, f, NULL), 0);
	assert_true(f->seen.size > 0);
}

static void after_a_restart_of_the_machine_a_pid_is_nobodys(void **state)
{
	struct fixture *f = *state;
	char path[256];
	sqlite3 *db;

	open_journal(f);
	journal_put_slot(f->journal, &slot_row, NULL, NULL);
	close_journal(f);
	(void)snprintf(path, sizeof(path), "%s/journal.db", f->state_dir);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "UPDATE boot SET id = 'x'", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	open_journal(f);
	assert_int_equal(journal_each_slot(f->journal, note_slot, f, NULL), 0);
	assert_string_equal(f->seen.data, "3 g7 LEASED 0@0 /d \n");
}

static bool has_mark(struct fixture *f, const char *name)
{
	bool set = false;

	assert_int_equal(journal_has_mark(f->journal, name, &set, NULL), 0);
	return set;
}

static void a_mark_outlives_the_daemon_and_a_reset_until_it_is_cleared(void **state)
{
	struct fixture *f = *state;

	open_journal(f);
	assert_false(has_mark(f, "tired"));
	journal_put_mark(f->journal, "tired", true, NULL, NULL);
	journal_put_mark(f->journal, "tired", true, NULL, NULL);
	close_journal(f);
	open_journal(f);
	assert_int_equal(journal_reset(f->journal, NULL), 0);
	assert_true(has_mark(f, "tired"));
	assert_false(has_mark(f, "hungry"));
	journal_put_mark(f->journal, "tired", false, NULL, NULL);
	close_journal(f);
	open_journal(f);
	assert_false(has_mark(f, "tired"));
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(rows_outlive_the_daemon),
		CASE(what_a_visitor_puts_is_written_after_the_visit),
		CASE(a_dropped_lease_and_a_reset_journal_are_empty),
		CASE(every_commit_is_told_once_and_on_the_loop),
		CASE(a_second_daemon_is_refused_and_told_the_first_ones_pid),
		CASE(the_directory_is_passable_and_the_file_private),
		CASE(a_damaged_file_is_named_with_the_way_out),
		CASE(a_write_that_fails_is_told_and_costs_no_later_row),
		CASE(after_a_restart_of_the_machine_a_pid_is_nobodys),
		CASE(a_mark_outlives_the_daemon_and_a_reset_until_it_is_cleared),
		CASE(closing_with_rows_under_way_writes_them_and_tells_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
