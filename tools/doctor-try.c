/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What only trying shows: the programs that are there, and a slot of our own, started, used and
 * stopped as a daemon would. */
#define FUSE_USE_VERSION 318
#include <errno.h>
#include <fts.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "config/settings.h"
#include "pool/events.h"
#include "pool/journal.h"
#include "pool/pool.h"
#include "tools/doctor.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
	VERSION_MS = 5000,
	START_MS = 20000,
	TRIAL_MS = 40000, /* all of it */
	IDS_PER_SLOT = 65536,
	BWRAP_MINOR = 8, /* of 0.8: the oldest that was tried */
};

/* bwrap */

static void tell_version(struct doctor *doctor, const char *said)
{
	unsigned major = 0, minor = 0;

	if (sscanf(said, "bubblewrap %u.%u", &major, &minor) != 2)
		doctor_fail(doctor, "apt-get install bubblewrap",
			"'%s' is not bubblewrap: it says '%.100s'", doctor->config->slot.bwrap,
			said);
	else if (major == 0 && minor < BWRAP_MINOR)
		doctor_warn(doctor, "install bubblewrap 0.8 or newer",
			"bubblewrap %u.%u: nothing before 0.8 was tried", major, minor);
	else
		doctor_ok(doctor, "%.60s", said);
}

void check_bwrap(struct doctor *doctor)
{
	CLEANUP(strbuf_fini) struct strbuf said = STRBUF_INIT;
	const char *const argv[] = {doctor->config->slot.bwrap, "--version", NULL};
	int r = doctor_spawn(argv, VERSION_MS, &said);

	strbuf_cut(&said, strcspn(said.data, "\n"));
	if (r == -ENOENT)
		doctor_fail(doctor, "apt-get install bubblewrap, or set slot.bwrap",
			"'%s' is not in PATH", doctor->config->slot.bwrap);
	else if (r == -ETIMEDOUT)
		doctor_fail(doctor, "set slot.bwrap to a program that works",
			"'%s --version' does not end", doctor->config->slot.bwrap);
	else if (r != 0)
		doctor_fail(doctor, "set slot.bwrap to a program that works",
			"'%s --version': %.100s", doctor->config->slot.bwrap,
			r < 0 ? strerrordesc_np(-r) : said.data);
	else
		tell_version(doctor, said.data);
}

/* libfuse, which is the same in the daemon: they are built together */

void check_libfuse(struct doctor *doctor)
{
	unsigned major = 0, minor = 0;

	(void)sscanf(fuse_pkgversion(), "%u.%u", &major, &minor);
	if (major > 3 || minor >= 18)
		doctor_ok(doctor, "libfuse %s", fuse_pkgversion());
	else
		doctor_warn(doctor, "build with libfuse 3.18 (tools/setup brings its source)",
			"libfuse %s: no epoch notifications%s", fuse_pkgversion(),
			minor < 17 ? ", no passthrough" : "");
}

/* A slot */

struct trial {
	struct config config;
	char dir[64];
	struct loop *loop;
	struct journal *journal;
	struct events *events;
	struct pool *pool;
	struct loop_timer *timer;
	struct strbuf weak; /* "name: why\n" of what it should have and has not */
	uint64_t began_ms, ready_ms, ran_ms;
	int signal_fd; /* -1: none */
	struct loop_watch *signals;
	int signal; /* that ends us when the trial is cleared away; 0: none came */
	bool stopping;
	struct error why; /* code 0: all went well */
};

static void fail_trial(struct trial *trial, const struct error *why)
{
	if (why && trial->why.code == 0)
		trial->why = *why;
}

static void handle_stopped(void *data, int r, const struct error *err)
{
	struct trial *trial = data;

	if (r < 0)
		fail_trial(trial, err);
	loop_stop(trial->loop);
}

static void stop_trial(struct trial *trial)
{
	if (trial->stopping)
		return;
	trial->stopping = true;
	pool_stop(trial->pool, handle_stopped, trial);
}

/* The first one clears up, a second one no longer waits for it. */
static void handle_signal(void *data, unsigned events)
{
	struct trial *trial = data;
	struct signalfd_siginfo info;

	(void)events;
	if (read(trial->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (trial->signal)
		loop_stop(trial->loop);
	trial->signal = (int)info.ssi_signo;
	stop_trial(trial);
}

static void handle_ran(void *data, int r, struct command_result *result, const struct error *err)
{
	struct trial *trial = data;
	struct error why = ERROR_NONE;

	trial->ran_ms = loop_now_ms();
	if (r == 0 && result->returncode != 0)
		(void)error_set(&why, EIO, "'true' ended with %d: %s", result->returncode,
			result->start_error);
	fail_trial(trial, r < 0 ? err : &why);
	stop_trial(trial);
}

static bool is_set(const struct config *config, const char *limit)
{
	return (!strcmp(limit, "memory_max") && config->slot.memory_max > 0) ||
	       (!strcmp(limit, "pids_max") && config->slot.pids_max > 0) ||
	       (!strcmp(limit, "cpu_weight") && config->slot.cpu_weight > 0);
}

static void note_limit(void *data, const struct slot_limit *limit)
{
	struct trial *trial = data;

	if (*limit->why && is_set(&trial->config, limit->name))
		strbuf_addf(&trial->weak, "%s unlimited: %s\n", limit->name, limit->why);
}

static void note_isolation(void *data, const struct slot_limit *part)
{
	struct trial *trial = data;

	if (*part->why)
		strbuf_addf(&trial->weak, "%s absent: %s\n", part->name, part->why);
}

static void handle_lent(void *data, int r, struct slot *slot, const struct error *err)
{
	static char name[] = "true", *argv[] = {name, NULL};
	const struct command command = {.argv = argv, .timeout_ms = START_MS};
	struct trial *trial = data;
	const struct command_run run = {
		.command = &command, .number = 1, .ended = handle_ran, .data = trial};
	struct operation *op;
	struct error why;

	if (r == 0) {
		slot_each_limit(slot, note_limit, trial);
		slot_each_isolation(slot, note_isolation, trial);
	}
	if (r == 0 && slot_run(slot, &run, &op, &why) == 0)
		return;
	fail_trial(trial, r == 0 ? &why : err);
	stop_trial(trial);
}

static void handle_started(void *data, int r, const struct error *err)
{
	struct trial *trial = data;

	trial->ready_ms = loop_now_ms();
	if (r == 0 && pool_lend(trial->pool, "doctor", NULL, START_MS, handle_lent, trial))
		return;
	fail_trial(trial, err);
	stop_trial(trial);
}

static void handle_late(void *data)
{
	struct trial *trial = data;
	struct error why;

	(void)error_set(&why, ETIMEDOUT, "it did not start, run a command and end within %d s",
		TRIAL_MS / 1000);
	fail_trial(trial, &why);
	loop_stop(trial->loop);
}

/* As the daemon would be, but for one slot, in a place and with ids of its own: that daemon may be
 * running. */
static void set_config(struct trial *trial, const struct config *config)
{
	uint64_t beyond = config->slot.uid_base + (uint64_t)config->pool.slots * IDS_PER_SLOT;

	trial->config = *config;
	trial->config.dressage.state_dir = trial->config.pool.slot_dir = trial->dir;
	trial->config.pool.slots = 1;
	trial->config.pool.mode = POOL_COMMAND_ONLY;
	trial->config.pool.wait_ready_timeout_ms = START_MS;
	if (beyond + IDS_PER_SLOT < UINT32_MAX)
		trial->config.slot.uid_base = (uint32_t)beyond;
}

static int open_trial(struct trial *trial, struct error *err)
{
	static const struct pool_hooks none = {0};
	int r = loop_create(&trial->loop, err);

	if (r == 0)
		r = journal_open(trial->loop, trial->dir, &trial->journal, err);
	if (r == 0)
		r = events_create(16, &trial->events, err);
	if (r == 0)
		r = loop_timer_start(trial->loop, TRIAL_MS, handle_late, trial, &trial->timer, err);
	if (r == 0)
		r = loop_watch_start(trial->loop, trial->signal_fd, LOOP_READABLE, handle_signal,
			trial, &trial->signals, err);
	if (r == 0)
		r = pool_create(trial->loop, &trial->config, trial->journal, trial->events, &none,
			&trial->pool, err);
	return r;
}

static void close_trial(struct trial *trial)
{
	loop_timer_stop(trial->timer);
	loop_watch_stop(trial->signals);
	pool_destroy(trial->pool);
	events_destroy(trial->events);
	journal_close(trial->journal);
	loop_destroy(trial->loop);
}

static void remove_tree(char *dir)
{
	char *const tops[] = {dir, NULL};
	FTS *tree = fts_open(tops, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
	FTSENT *entry;

	while (tree && (entry = fts_read(tree)))
		if (entry->fts_info != FTS_D)
			(void)remove(entry->fts_path);
	if (tree)
		(void)fts_close(tree);
}

static void try_slot(struct trial *trial, const struct config *config)
{
	set_config(trial, config);
	log_set_level(LOG_LEVEL_ERROR);
	if (chmod(trial->dir, 0711) < 0 || open_trial(trial, &trial->why) < 0) {
		close_trial(trial);
		return;
	}
	trial->began_ms = loop_now_ms();
	pool_start(trial->pool, handle_started, trial);
	loop_run(trial->loop);
	close_trial(trial);
}

/* What bwrap or init said, and what is behind it. */
static const struct {
	const char *words, *remedy;
} known[] = {
	{"mount proc",
		"let the container have an unmasked /proc (docker run --security-opt systempaths=unconfined; podman run --security-opt unmask=ALL)"},
	{"max_*_namespaces", "raise user.max_user_namespaces"},
	{"new namespace",
		"allow user namespaces: sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces=15000; in a container --security-opt seccomp=unconfined"},
	{"setting up uid map",
		"sysctl kernel.apparmor_restrict_unprivileged_userns=0, or give bwrap an AppArmor profile with 'userns,'"},
	{"loopback",
		"sysctl kernel.apparmor_restrict_unprivileged_userns=0, or give bwrap an AppArmor profile with 'userns,'"},
	{"slave",
		"sysctl kernel.apparmor_restrict_unprivileged_userns=0; in a container --security-opt apparmor=unconfined"},
	{"not in PATH", "apt-get install bubblewrap"},
	{"needs slirp4netns", "apt-get install slirp4netns, or set slot.network to forward"},
	{"/dev/net/tun", "chmod 0666 /dev/net/tun as root, or set slot.network to forward"},
};

static const char *remedy_of(const char *why)
{
	for (size_t i = 0; i < COUNT(known); i++)
		if (strstr(why, known[i].words))
			return known[i].remedy;
	return "the findings above may say what it lacks";
}

static const struct {
	const char *words, *remedy;
} stronger[] = {
	{"network_namespace", "set slot.network to none or forward"},
	{"landlock", "run Linux 6.12 or newer, with landlock among its LSMs"},
	{"host_", "run the daemon as root: each slot then has host users of its own"},
	{"", "run the daemon as root, or by systemd with Delegate=yes; docs/slot.md, limits"},
};

static void tell_what_is_weak(struct doctor *doctor, char *lines)
{
	char *line;

	while ((line = strsep(&lines, "\n"))) {
		size_t i = 0;

		if (!*line)
			continue;
		while (strncmp(line, stronger[i].words, strlen(stronger[i].words)) != 0)
			i++;
		doctor_warn(doctor, stronger[i].remedy, "%s", line);
	}
}

static void tell_trial(struct doctor *doctor, struct trial *trial)
{
	if (trial->why.code != 0)
		doctor_fail(doctor, remedy_of(trial->why.text), "one of our own does not work: %s",
			trial->why.text);
	else
		doctor_ok(doctor,
			"one of our own was ready in %llu ms and ran a command in %llu ms",
			(unsigned long long)(trial->ready_ms - trial->began_ms),
			(unsigned long long)(trial->ran_ms - trial->ready_ms));
	tell_what_is_weak(doctor, trial->weak.size > 0 ? trial->weak.data : NULL);
}

/* What was made for the trial goes also when somebody does not want to wait for it. A signal that
 * is ignored would come to the descriptor too. */
static int catch_signals(sigset_t *ret_before)
{
	static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
	struct sigaction action;
	sigset_t end;

	(void)sigemptyset(&end);
	for (size_t i = 0; i < COUNT(numbers); i++)
		if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			(void)sigaddset(&end, numbers[i]);
	(void)pthread_sigmask(SIG_BLOCK, &end, ret_before);
	return signalfd(-1, &end, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* What came too late for the trial is pending, and ends us here. */
static void let_signals(struct trial *trial, const sigset_t *before)
{
	closep(&trial->signal_fd);
	(void)pthread_sigmask(SIG_SETMASK, before, NULL);
	if (trial->signal)
		(void)raise(trial->signal);
}

void check_slot(struct doctor *doctor)
{
	struct trial trial = {.dir = "/tmp/dressagefs-doctor-XXXXXX", .weak = STRBUF_INIT};
	sigset_t before;

	trial.signal_fd = catch_signals(&before);
	if (mkdtemp(trial.dir)) {
		try_slot(&trial, doctor->config);
		remove_tree(trial.dir);
		let_signals(&trial, &before);
		tell_trial(doctor, &trial);
	} else {
		doctor_fail(doctor, "make room in /tmp", "no place for a slot to try: %s",
			strerrordesc_np(errno));
		let_signals(&trial, &before);
	}
	strbuf_fini(&trial.weak);
}
