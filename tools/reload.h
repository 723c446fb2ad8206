/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * reload.h: what SIGHUP does. The settings are read again from where they came from at the start;
 * what is live changes in the daemon's configuration, the rest is said to need a restart, and
 * nothing changes where they cannot be read. The log's file is opened anew, for who moves it aside.
 *
 * Threads: loop; a worker reads.
 */
#ifndef TOOLS_RELOAD_H
#define TOOLS_RELOAD_H

struct config;
struct daemon_options;
struct error;
struct loop;
struct reload;

/* Borrows all three until it is destroyed. Remembers the current directory. */
int reload_create(struct loop *loop, const struct daemon_options *options, struct config *config,
	struct reload **ret_reload, struct error *err);
/* After the loop, which waits for the worker. Accepts NULL. */
void reload_destroy(struct reload *reload);

/* The log goes to a file of the daemon's own choice from now on. */
void reload_follow_log(struct reload *reload, const char *path);
/* Begins to read, once more when it is at it. What comes of it is said in the log. */
void reload_begin(struct reload *reload);

/* Says a remark of the configuration in the log: a config_remark_fn. */
void reload_log_remark(void *data, int log_level, const char *sentence);

#endif
