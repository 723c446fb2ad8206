/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/journal-db.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "base/strbuf.h"

enum { JOURNAL_VERSION = 1 };

enum statement {
	PUT_SLOT,
	PUT_LEASE,
	DROP_LEASE,
	PUT_MARK,
	DROP_MARK,
	HAS_MARK,
	EACH_SLOT,
	EACH_LEASE,
	STATEMENT_COUNT,
};

static const char *const statement_texts[STATEMENT_COUNT] = {
	[PUT_SLOT] = "INSERT OR REPLACE INTO slots VALUES (?,?,?,?,?,?,?)",
	[PUT_LEASE] = "INSERT OR REPLACE INTO leases VALUES (?,?,?,?,?,?,?,?,?)",
	[DROP_LEASE] = "DELETE FROM leases WHERE lease_id = ?",
	[PUT_MARK] = "INSERT OR IGNORE INTO marks VALUES (?)",
	[DROP_MARK] = "DELETE FROM marks WHERE name = ?",
	[HAS_MARK] = "SELECT 1 FROM marks WHERE name = ?",
	[EACH_SLOT] = "SELECT * FROM slots ORDER BY slot",
	[EACH_LEASE] = "SELECT * FROM leases ORDER BY created_at, lease_id",
};

static const char schema[] =
	"BEGIN;"
	"CREATE TABLE slots (slot INTEGER PRIMARY KEY, generation INTEGER NOT NULL, state TEXT NOT NULL,"
	" pid INTEGER NOT NULL, pid_starttime INTEGER NOT NULL, dir TEXT NOT NULL, cgroup TEXT NOT NULL);"
	"CREATE TABLE leases (lease_id TEXT PRIMARY KEY, trajectory_id TEXT NOT NULL, state TEXT NOT NULL,"
	" reason TEXT NOT NULL, slot INTEGER NOT NULL, generation INTEGER NOT NULL, created_at REAL NOT NULL,"
	" deadline REAL NOT NULL, spec TEXT NOT NULL);"
	"PRAGMA user_version = 1;"
	"COMMIT;";

/* After a restart of the machine a slot's pid, and even its time of birth, may be another's. */
static const char same_boot_text[] = "SELECT 1 FROM boot WHERE id = %Q";
static const char new_boot_text[] = "BEGIN;"
				    "UPDATE slots SET pid = 0, pid_starttime = 0;"
				    "DELETE FROM boot;"
				    "INSERT INTO boot VALUES (%Q);"
				    "COMMIT;";

struct journal_db {
	sqlite3 *sqlite;
	sqlite3_stmt *statements[STATEMENT_COUNT];
	char path[PATH_MAX];
};

static int errno_of(int sqlite_code)
{
	switch (sqlite_code & 0xff) {
	case SQLITE_OK:
	case SQLITE_DONE:
	case SQLITE_ROW:
		return 0;
	case SQLITE_FULL:
		return ENOSPC;
	case SQLITE_NOMEM:
		return ENOMEM;
	case SQLITE_READONLY:
		return EROFS;
	case SQLITE_PERM:
	case SQLITE_CANTOPEN:
		return EACCES;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return EBUSY;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return EUCLEAN;
	default:
		return EIO;
	}
}

static int failure(struct journal_db *db, int code, const char *what, struct error *err)
{
	if (errno_of(code) == EUCLEAN)
		return error_set(err, EUCLEAN,
			"the journal '%s' is damaged (%s); move it away to start afresh", db->path,
			sqlite3_errmsg(db->sqlite));
	return error_set(err, errno_of(code), "%s the journal '%s': %s", what, db->path,
		db->sqlite ? sqlite3_errmsg(db->sqlite) : sqlite3_errstr(code));
}

static int execute(struct journal_db *db, const char *sql, struct error *err)
{
	int code = sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL);

	return code == SQLITE_OK ? 0 : failure(db, code, "cannot write", err);
}

/* The first column of the first row; 0 when there is none. */
static int read_number(struct journal_db *db, const char *sql, int *ret_number, struct error *err)
{
	sqlite3_stmt *statement = NULL;
	int code = sqlite3_prepare_v2(db->sqlite, sql, -1, &statement, NULL);

	if (code == SQLITE_OK)
		code = sqlite3_step(statement);
	if (errno_of(code) == 0)
		*ret_number = code == SQLITE_ROW ? sqlite3_column_int(statement, 0) : 0;
	(void)sqlite3_finalize(statement);
	return errno_of(code) == 0 ? 0 : failure(db, code, "cannot read", err);
}

/* The tables that came after the first version, and whether the machine has been restarted. */
static int note_boot(struct journal_db *db, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf id = STRBUF_INIT;
	char *same_boot, *new_boot;
	int same = 0, r;

	r = execute(db,
		"CREATE TABLE IF NOT EXISTS boot (id TEXT NOT NULL);"
		"CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY)",
		err);
	if (r < 0)
		return r;
	r = read_text("/proc/sys/kernel/random/boot_id", &id);
	if (r < 0)
		return error_errno(err, -r, "cannot read the machine's boot_id");
	same_boot = sqlite3_mprintf(same_boot_text, id.data);
	new_boot = sqlite3_mprintf(new_boot_text, id.data);
	r = same_boot && new_boot ? read_number(db, same_boot, &same, err)
				  : error_set(err, ENOMEM, "no memory for the journal");
	if (r == 0 && !same)
		r = execute(db, new_boot, err);
	sqlite3_free(same_boot);
	sqlite3_free(new_boot);
	return r;
}

static int bring_up(struct journal_db *db, struct error *err)
{
	int version = 0;
	int r = execute(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;", err);

	if (r < 0)
		return r;
	r = read_number(db, "PRAGMA user_version", &version, err);
	if (r == 0 && version == 0)
		r = execute(db, schema, err);
	if (r < 0)
		return r;
	if (version != 0 && version != JOURNAL_VERSION)
		return error_set(err, EUCLEAN,
			"the journal '%s' is of version %d, this daemon knows %d; move it away to start afresh",
			db->path, version, JOURNAL_VERSION);
	return note_boot(db, err);
}

static int prepare_all(struct journal_db *db, struct error *err)
{
	for (unsigned i = 0; i < STATEMENT_COUNT; i++) {
		int code = sqlite3_prepare_v3(db->sqlite, statement_texts[i], -1,
			SQLITE_PREPARE_PERSISTENT, &db->statements[i], NULL);

		if (code != SQLITE_OK)
			return failure(db, code, "cannot use", err);
	}
	return 0;
}

/* Made before SQLite opens it, which gives -wal and -shm the same mode. */
static int make_file(int dir_fd, const char *path, struct error *err)
{
	CLEANUP(closep)
	int fd = openat(
		dir_fd, "journal.db", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

	if (fd < 0 || fchmod(fd, 0600) < 0)
		return error_errno(err, errno, "cannot make the journal '%s'", path);
	return 0;
}

static int open_file(struct journal_db *db, struct error *err)
{
	int code = sqlite3_open_v2(db->path, &db->sqlite,
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, NULL);
	int r;

	if (code != SQLITE_OK)
		return failure(db, code, "cannot open", err);
	r = bring_up(db, err);
	return r < 0 ? r : prepare_all(db, err);
}

int journal_db_open(
	int dir_fd, const char *state_dir, struct journal_db **ret_db, struct error *err)
{
	struct journal_db *db = calloc(1, sizeof(*db));
	CLEANUP(freep)
	char *real = realpath(state_dir, NULL); /* SQLite's NOFOLLOW minds every component */
	int r;

	if (!db || !real) {
		free(db);
		return error_set(err, ENOMEM, "no memory for the journal");
	}
	if (snprintf(db->path, sizeof(db->path), "%s/journal.db", real) >= (int)sizeof(db->path))
		r = error_set(err, ENAMETOOLONG, "state directory's name is too long");
	else
		r = make_file(dir_fd, db->path, err);
	if (r == 0)
		r = open_file(db, err);
	if (r < 0) {
		journal_db_close(db);
		return r;
	}
	*ret_db = db;
	return 0;
}

void journal_db_close(struct journal_db *db)
{
	if (!db)
		return;
	for (unsigned i = 0; i < STATEMENT_COUNT; i++)
		(void)sqlite3_finalize(db->statements[i]);
	(void)sqlite3_close(db->sqlite);
	free(db);
}

static const char *text_at(sqlite3_stmt *row, int column)
{
	const unsigned char *text = sqlite3_column_text(row, column);

	return text ? (const char *)text : "";
}

int journal_db_each_slot(
	struct journal_db *db, journal_slot_fn *visit, void *data, struct error *err)
{
	sqlite3_stmt *row = db->statements[EACH_SLOT];
	int code;

	while ((code = sqlite3_step(row)) == SQLITE_ROW) {
		struct journal_slot slot = {
			.slot = (uint32_t)sqlite3_column_int64(row, 0),
			.generation = (uint32_t)sqlite3_column_int64(row, 1),
			.state = text_at(row, 2),
			.pid = (pid_t)sqlite3_column_int64(row, 3),
			.pid_starttime = (uint64_t)sqlite3_column_int64(row, 4),
			.dir = text_at(row, 5),
			.cgroup = text_at(row, 6),
		};

		visit(data, &slot);
	}
	(void)sqlite3_reset(row);
	return code == SQLITE_DONE ? 0 : failure(db, code, "cannot read", err);
}

int journal_db_each_lease(
	struct journal_db *db, journal_lease_fn *visit, void *data, struct error *err)
{
	sqlite3_stmt *row = db->statements[EACH_LEASE];
	int code;

	while ((code = sqlite3_step(row)) == SQLITE_ROW) {
		struct journal_lease lease = {
			.lease_id = text_at(row, 0),
			.trajectory_id = text_at(row, 1),
			.state = text_at(row, 2),
			.reason = text_at(row, 3),
			.slot = (uint32_t)sqlite3_column_int64(row, 4),
			.generation = (uint32_t)sqlite3_column_int64(row, 5),
			.created_at = sqlite3_column_double(row, 6),
			.deadline = sqlite3_column_double(row, 7),
			.spec = text_at(row, 8),
		};

		visit(data, &lease);
	}
	(void)sqlite3_reset(row);
	return code == SQLITE_DONE ? 0 : failure(db, code, "cannot read", err);
}

int journal_db_begin(struct journal_db *db, struct error *err)
{
	return execute(db, "BEGIN IMMEDIATE", err);
}

int journal_db_commit(struct journal_db *db, struct error *err)
{
	return execute(db, "COMMIT", err);
}

void journal_db_rollback(struct journal_db *db)
{
	if (!sqlite3_get_autocommit(db->sqlite))
		(void)sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL);
}

static int run(struct journal_db *db, sqlite3_stmt *statement, struct error *err)
{
	int code = sqlite3_step(statement);
	int r = code == SQLITE_DONE ? 0 : failure(db, code, "cannot write", err);

	(void)sqlite3_reset(statement);
	(void)sqlite3_clear_bindings(statement);
	return r;
}

static void bind_text(sqlite3_stmt *statement, int index, const char *text)
{
	(void)sqlite3_bind_text(statement, index, text ? text : "", -1, SQLITE_STATIC);
}

int journal_db_put_slot(struct journal_db *db, const struct journal_slot *slot, struct error *err)
{
	sqlite3_stmt *put = db->statements[PUT_SLOT];

	(void)sqlite3_bind_int64(put, 1, slot->slot);
	(void)sqlite3_bind_int64(put, 2, slot->generation);
	bind_text(put, 3, slot->state);
	(void)sqlite3_bind_int64(put, 4, slot->pid);
	(void)sqlite3_bind_int64(put, 5, (sqlite3_int64)slot->pid_starttime);
	bind_text(put, 6, slot->dir);
	bind_text(put, 7, slot->cgroup);
	return run(db, put, err);
}

int journal_db_put_lease(
	struct journal_db *db, const struct journal_lease *lease, struct error *err)
{
	sqlite3_stmt *put = db->statements[PUT_LEASE];

	bind_text(put, 1, lease->lease_id);
	bind_text(put, 2, lease->trajectory_id);
	bind_text(put, 3, lease->state);
	bind_text(put, 4, lease->reason);
	(void)sqlite3_bind_int64(put, 5, lease->slot);
	(void)sqlite3_bind_int64(put, 6, lease->generation);
	(void)sqlite3_bind_double(put, 7, lease->created_at);
	(void)sqlite3_bind_double(put, 8, lease->deadline);
	bind_text(put, 9, lease->spec);
	return run(db, put, err);
}

int journal_db_drop_lease(struct journal_db *db, const char *lease_id, struct error *err)
{
	bind_text(db->statements[DROP_LEASE], 1, lease_id);
	return run(db, db->statements[DROP_LEASE], err);
}

int journal_db_put_mark(struct journal_db *db, const char *name, struct error *err)
{
	bind_text(db->statements[PUT_MARK], 1, name);
	return run(db, db->statements[PUT_MARK], err);
}

int journal_db_drop_mark(struct journal_db *db, const char *name, struct error *err)
{
	bind_text(db->statements[DROP_MARK], 1, name);
	return run(db, db->statements[DROP_MARK], err);
}

int journal_db_has_mark(struct journal_db *db, const char *name, bool *ret_set, struct error *err)
{
	sqlite3_stmt *has = db->statements[HAS_MARK];
	int code;

	bind_text(has, 1, name);
	code = sqlite3_step(has);
	if (errno_of(code) == 0)
		*ret_set = code == SQLITE_ROW;
	(void)sqlite3_reset(has);
	(void)sqlite3_clear_bindings(has);
	return errno_of(code) == 0 ? 0 : failure(db, code, "cannot read", err);
}

int journal_db_reset(struct journal_db *db, struct error *err)
{
	return execute(db, "DELETE FROM slots; DELETE FROM leases;", err);
}
