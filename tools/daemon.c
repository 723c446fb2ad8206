/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tools/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/strbuf.h"
#include "config/settings.h"
#include "fs/filesystem.h"
#include "fs/mountpoint.h"
#include "pool/events.h"
#include "pool/journal.h"
#include "providers/lease.h"
#include "tools/background.h"
#include "tools/deadline.h"
#include "tools/mount-watch.h"
#include "tools/options.h"
#include "tools/probe.h"
#include "tools/reload.h"

enum {
	EVENTS_KEPT = 5000,
	STOP_MS = 70000,  /* what the pool allows itself for each of its steps, and some seconds */
	CLOSE_MS = 10000, /* everything has ended by then */
};

struct daemon {
	struct daemon_options *options;
	struct config *config;
	struct loop *loop;
	struct journal *journal;
	struct events *events;
	struct filesystem *fs;
	struct lease_table *leases;
	struct reload *reload;
	struct deadline *deadline; /* of the stop */
	int signal_fd;
	bool on_terminal; /* at the start */
	struct loop_watch *signal_watch;
	struct loop_watch *starter_watch;
	struct probe *probe; /* of the mount, at start */
	struct mount_watch *mount_watch;
	bool mounted, ready, stopping, leases_stopped;
	struct error failure; /* code 0: none; the first one stays */
};

static void note_failure(struct daemon *daemon, const struct error *why)
{
	if (daemon->failure.code == 0)
		daemon->failure = *why;
}

static void say_event(struct daemon *daemon, const char *from, const char *to)
{
	events_add(daemon->events,
		&(struct event){.kind = "daemon", .id = "dressagefs", .from = from, .to = to});
}

/* ---- Stop ---- */

static void finish_when_quiet(struct daemon *daemon)
{
	if (daemon->leases_stopped && !daemon->mounted)
		loop_stop(daemon->loop);
}

static void handle_leases_stopped(void *data, int r, const struct error *err)
{
	struct daemon *daemon = data;

	if (r < 0)
		note_failure(daemon, err);
	daemon->leases_stopped = true;
	if (daemon->mounted)
		filesystem_unmount(daemon->fs);
	finish_when_quiet(daemon);
}

static void begin_stop(struct daemon *daemon)
{
	if (daemon->stopping)
		return;
	daemon->stopping = true;
	(void)deadline_start(STOP_MS, &daemon->deadline);
	say_event(daemon,
		!daemon->ready                            ? "STARTING"
		: lease_table_is_draining(daemon->leases) ? "DRAINING"
							  : "READY",
		"STOPPING");
	lease_table_stop(daemon->leases, handle_leases_stopped, daemon);
}

static void handle_unmounted(void *data)
{
	struct daemon *daemon = data;

	daemon->mounted = false;
	if (!daemon->stopping)
		log_info("unmounted from outside");
	begin_stop(daemon);
	finish_when_quiet(daemon);
}

/* Slots may have a copy of the mount: while they live the session does not hear that it is gone. */
static void handle_mount_gone(void *data)
{
	struct daemon *daemon = data;

	if (!daemon->stopping)
		log_info("unmounted from outside");
	begin_stop(daemon);
}

static void fail_start(struct daemon *daemon, const struct error *why)
{
	note_failure(daemon, why);
	begin_stop(daemon);
}

/* ---- Signals ---- */

static void handle_signal(void *data, unsigned events)
{
	struct daemon *daemon = data;
	struct signalfd_siginfo info;

	(void)events;
	if (read(daemon->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	/* a terminal that is closed sends it too, and would leave a daemon that nobody sees */
	if (info.ssi_signo == SIGHUP && (!daemon->on_terminal || isatty(STDIN_FILENO))) {
		if (!daemon->stopping)
			reload_begin(daemon->reload);
		return;
	}
	if (!daemon->stopping)
		log_info("stopping: SIG%s", sigabbrev_np((int)info.ssi_signo));
	begin_stop(daemon);
}

/* Blocks the signals for every thread that will be: they arrive as bytes on a descriptor. */
static int open_signals(struct daemon *daemon, struct error *err)
{
	sigset_t stop;

	(void)sigemptyset(&stop);
	(void)sigaddset(&stop, SIGTERM);
	(void)sigaddset(&stop, SIGINT);
	(void)sigaddset(&stop, SIGQUIT);
	(void)sigaddset(&stop, SIGHUP);
	(void)sigaddset(
		&stop, SIGPIPE); /* never read: a write to a closed pipe fails with EPIPE instead */
	(void)pthread_sigmask(SIG_BLOCK, &stop, NULL);
	(void)sigdelset(&stop, SIGPIPE);
	daemon->on_terminal = isatty(STDIN_FILENO);
	daemon->signal_fd = signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK);
	if (daemon->signal_fd < 0)
		return error_errno(err, errno, "cannot listen for signals");
	return loop_watch_start(daemon->loop, daemon->signal_fd, LOOP_READABLE, handle_signal,
		daemon, &daemon->signal_watch, err);
}

/* ---- Start ---- */

/* Only an error can be seen at this end of the pipe: the starter has gone, and nobody would know of
 * this daemon. */
static void handle_starter_gone(void *data, unsigned events)
{
	struct daemon *daemon = data;
	struct error why = ERROR_NONE;

	(void)events;
	loop_watch_stop(daemon->starter_watch);
	daemon->starter_watch = NULL;
	(void)error_set(&why, ECANCELED, "whoever started the daemon has gone before it was ready");
	fail_start(daemon, &why);
}

/* In the background the log goes beside the journal, unless the configuration names another
 * file. */
static void leave_terminal(struct daemon *daemon)
{
	const struct config *config = daemon->config;
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;
	CLEANUP(closep) int log_fd = -1;

	strbuf_addf(&path, "%s/dressagefs.log", config->dressage.state_dir);
	if (!*config->dressage.log_file)
		log_fd =
			open(path.data, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640);
	if (log_fd >= 0)
		reload_follow_log(daemon->reload, path.data);
	background_leave_terminal(log_fd);
}

static void say_ready(struct daemon *daemon)
{
	log_info("ready: mounted at '%s', %u slots of %s", daemon->config->mount.mountpoint,
		daemon->config->pool.slots, daemon->config->dressage.provider);
	daemon->ready = true;
	if (lease_table_is_draining(daemon->leases))
		log_warn("draining, as the daemon before: no new leases until 'dressage undrain'");
	say_event(
		daemon, "STARTING", lease_table_is_draining(daemon->leases) ? "DRAINING" : "READY");
	if (daemon->options->ready_fd < 0)
		return;
	loop_watch_stop(daemon->starter_watch);
	daemon->starter_watch = NULL;
	background_say_ready(daemon->options->ready_fd);
	(void)close(daemon->options->ready_fd);
	daemon->options->ready_fd = -1;
}

static void handle_mount_tried(void *data, int r, const struct error *err)
{
	struct daemon *daemon = data;

	if (daemon->stopping)
		return;
	if (r < 0)
		fail_start(daemon, err);
	else
		say_ready(daemon);
}

static void handle_leases_started(void *data, int r, const struct error *err)
{
	struct daemon *daemon = data;
	struct error why = ERROR_NONE;

	if (daemon->stopping)
		return;
	if (r < 0) {
		(void)error_set(
			&why, -r, "%.180s; 'dressage doctor' looks for the cause", err->text);
		fail_start(daemon, &why);
		return;
	}
	if (filesystem_mount(daemon->fs, daemon->leases, &why) < 0) {
		fail_start(daemon, &why);
		return;
	}
	daemon->mounted = true;
	if (mount_watch_start(daemon->loop, filesystem_path(daemon->fs), handle_mount_gone, daemon,
		    &daemon->mount_watch, &why) < 0)
		log_warn("an unmount from outside may go unnoticed: %s", why.text);
	if (probe_start(daemon->loop, daemon->config->mount.mountpoint, handle_mount_tried, daemon,
		    &daemon->probe, &why) < 0)
		fail_start(daemon, &why);
}

static int open_leases(struct daemon *daemon, struct error *err)
{
	const struct filesystem_options options = {
		.loop = daemon->loop,
		.config = daemon->config,
		.events = daemon->events,
		.read_only = daemon->options->read_only,
	};
	const struct filesystem_hooks hooks = {.unmounted = handle_unmounted, .data = daemon};
	struct lease_hooks lease_hooks;
	int r;

	r = filesystem_create(&options, &hooks, &daemon->fs, err);
	if (r < 0)
		return r;
	lease_hooks = filesystem_lease_hooks(daemon->fs);
	return lease_table_create(daemon->loop, daemon->config, daemon->journal, daemon->events,
		&lease_hooks, &daemon->leases, err);
}

static int open_all(struct daemon *daemon, struct error *err)
{
	const char *log_file = daemon->config->dressage.log_file;
	int r;

	r = log_open((enum log_level)daemon->config->dressage.log_level,
		*log_file ? log_file : NULL, err);
	if (r == 0)
		r = loop_create(&daemon->loop, err);
	if (r == 0)
		r = reload_create(
			daemon->loop, daemon->options, daemon->config, &daemon->reload, err);
	if (r == 0)
		r = open_signals(daemon, err);
	if (r == 0 && daemon->options->ready_fd >= 0)
		r = loop_watch_start(daemon->loop, daemon->options->ready_fd, LOOP_READABLE,
			handle_starter_gone, daemon, &daemon->starter_watch, err);
	if (r == 0) /* before anything is written: nothing is left behind then */
		r = mountpoint_check(daemon->config->mount.mountpoint, err);
	if (r == 0)
		r = journal_open(
			daemon->loop, daemon->config->dressage.state_dir, &daemon->journal, err);
	if (r == 0 && daemon->options->ready_fd >= 0)
		leave_terminal(daemon);
	if (r == 0)
		r = events_create(EVENTS_KEPT, &daemon->events, err);
	if (r == 0)
		r = open_leases(daemon, err);
	return r;
}

/* Accepts one that is half open. */
static void close_all(struct daemon *daemon)
{
	if (daemon->deadline)
		deadline_restart(daemon->deadline, CLOSE_MS);
	else
		(void)deadline_start(CLOSE_MS, &daemon->deadline);
	probe_destroy(daemon->probe);
	filesystem_destroy(daemon->fs); /* its threads may hold references to leases */
	lease_table_destroy(daemon->leases);
	events_destroy(daemon->events);
	journal_close(daemon->journal);
	loop_watch_stop(daemon->starter_watch);
	loop_watch_stop(daemon->signal_watch);
	mount_watch_stop(daemon->mount_watch);
	if (daemon->signal_fd >= 0)
		(void)close(daemon->signal_fd);
	loop_destroy(daemon->loop);
	reload_destroy(daemon->reload);
	deadline_stop(daemon->deadline);
}

int daemon_run(struct daemon_options *options, struct config *config, struct error *err)
{
	struct daemon daemon = {
		.options = options,
		.config = config,
		.signal_fd = -1,
	};
	int r = open_all(&daemon, err);

	if (r == 0) {
		config_each_remark(config, reload_log_remark, NULL);
		lease_table_start(daemon.leases, handle_leases_started, &daemon);
		loop_run(daemon.loop);
		if (daemon.failure.code != 0) {
			*err = daemon.failure;
			r = -err->code;
		} else {
			log_info("stopped");
		}
	}
	close_all(&daemon);
	return r;
}
