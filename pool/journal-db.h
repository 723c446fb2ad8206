/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * journal-db.h: the journal's SQLite file: WAL, synchronous=NORMAL (a commit survives the daemon's
 * death; a power cut may cost the last ones, never the file). For journal.c alone. Threads: one at
 * a time.
 */
#ifndef POOL_JOURNAL_DB_H
#define POOL_JOURNAL_DB_H

#include "pool/journal.h"

struct journal_db;

/* Opens or makes the file (0600). -EUCLEAN when it is damaged or of another version; the text says
 * what to do. */
int journal_db_open(
	int dir_fd, const char *state_dir, struct journal_db **ret_db, struct error *err);
void journal_db_close(struct journal_db *db);

int journal_db_each_slot(
	struct journal_db *db, journal_slot_fn *visit, void *data, struct error *err);
int journal_db_each_lease(
	struct journal_db *db, journal_lease_fn *visit, void *data, struct error *err);

/* SQLite's failures as errno: a full disk is -ENOSPC. */
int journal_db_begin(struct journal_db *db, struct error *err);
int journal_db_commit(struct journal_db *db, struct error *err);
/* Also when SQLite has rolled back by itself, as it does on a full disk. */
void journal_db_rollback(struct journal_db *db);
int journal_db_put_slot(struct journal_db *db, const struct journal_slot *slot, struct error *err);
int journal_db_put_lease(
	struct journal_db *db, const struct journal_lease *lease, struct error *err);
int journal_db_drop_lease(struct journal_db *db, const char *lease_id, struct error *err);
int journal_db_put_mark(struct journal_db *db, const char *name, struct error *err);
int journal_db_drop_mark(struct journal_db *db, const char *name, struct error *err);
int journal_db_has_mark(struct journal_db *db, const char *name, bool *ret_set, struct error *err);
int journal_db_reset(struct journal_db *db, struct error *err);

#endif
