/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * daemon.h: the daemon's life: what is opened in which order, when it is ready, and how it stops.
 *
 * loop, log, journal, events, file system, leases -> slots READY -> mount -> it answers -> ready;
 * SIGTERM, SIGINT: leases end -> unmount -> everything closed, last first; fusermount3 -u:
 * unmounted -> leases end -> everything closed.
 *
 * Threads: the caller's becomes the loop.
 */
#ifndef TOOLS_DAEMON_H
#define TOOLS_DAEMON_H

struct config;
struct daemon_options;
struct error;

/*
 * Runs until it is stopped. 0: stopped as asked; -errno: it could not start (nothing is left of
 * it), or a part of it failed. SIGHUP changes what is live in config. options->ready_fd is closed
 * and -1 once the starter has been told that the daemon is ready.
 */
int daemon_run(struct daemon_options *options, struct config *config, struct error *err);

#endif
