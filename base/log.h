/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * log.h: one line an event, to standard error or a file.
 *
 * Levels: error = somebody must act; warn = something is worse than configured; info = one line for
 * each event of a normal day; debug = for whoever writes this code. Under systemd (JOURNAL_STREAM
 * is standard error) lines carry the "<4>" prefixes its journal understands and no time of their
 * own. Control bytes in a line are written as \xNN. The level and target are process-wide, like
 * standard error itself. Threads: any; a line is one write(2).
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

struct error;

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Sets level and file (NULL: standard error; else opened for appending). Call before other threads
 * exist. */
int log_open(enum log_level level, const char *path, struct error *err);
void log_set_level(enum log_level level);
/* Opens the log's file anew, which somebody may have moved aside. When that fails, lines go where
 * they went. Any thread. */
int log_reopen(const char *path, struct error *err);

void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
