/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/net-nat.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "base/loop.h"
#include "base/program.h"
#include "pool/process.h"

/* Where its descriptors stand in it; the helper takes 4 and closes 5. */
enum { READY_FD = 3, HELPER_FD = 4, NETWORK_FD = 6, USER_FD = 7, EXIT_FD = 8, FIRST_FREE_FD = 16 };

static const char device[] = "/dev/net/tun";

struct net_nat {
	struct net_nat *prev, *next; /* net_nats::dying */
	struct net_nats *nats;
	struct loop *loop;
	unsigned slot;
	struct net_nat_hooks hooks;
	pid_t pid; /* and process group */
	int pidfd, ready_fd, complaints_fd;
	int exit_fd; /* it ends when this one is closed: with us, at the latest */
	struct loop_watch *death, *ready;
	struct loop_timer *deadline;
	uint64_t timeout_ms;
	bool stopped, failed;
};

static bool find_program(char *path, size_t size)
{
	static const char *const dirs[] = {
		"/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin"};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++) {
		(void)snprintf(path, size, "%s/slirp4netns", dirs[i]);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

static bool may_open(const struct stat *st, uid_t uid)
{
	mode_t wanted = st->st_uid == uid ? S_IRUSR | S_IWUSR : S_IROTH | S_IWOTH;

	if (uid == geteuid())
		return access(device, R_OK | W_OK) == 0;
	return (st->st_mode & wanted) == wanted;
}

int net_nat_check(uid_t uid, struct error *err)
{
	char path[64];
	struct stat st;

	if (!find_program(path, sizeof(path)))
		return error_set(err, ENOENT,
			"[slot] network = nat needs slirp4netns, which is not there; on Debian: apt-get install slirp4netns");
	if (stat(device, &st) < 0)
		return error_errno(err, errno,
			"[slot] network = nat needs '%s' (modprobe tun; in a container, the device), or use forward with reach",
			device);
	if (!may_open(&st, uid))
		return error_set(err, EACCES,
			"[slot] network = nat: user %u, as whom slots run, may not open '%s' (its mode is %04o): chmod 0666 %s, or use forward with reach",
			(unsigned)uid, device, (unsigned)(st.st_mode & 07777), device);
	return 0;
}

/* ---- Starting ---- */

static int raised(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
}

/* Of the sources none may be one of the targets. */
struct sources {
	int null, complaints, ready, helper, network, user, exit;
};

static void close_sources(struct sources *sources)
{
	closep(&sources->null);
	closep(&sources->complaints);
	closep(&sources->ready);
	closep(&sources->helper);
	closep(&sources->network);
	closep(&sources->user);
	closep(&sources->exit);
}

static int spawn(char *const *argv, const struct sources *sources, pid_t *ret_pid)
{
	const struct spawn_fd fds[] = {
		{sources->null, STDIN_FILENO},
		{sources->null, STDOUT_FILENO},
		{sources->complaints, STDERR_FILENO},
		{sources->ready, READY_FD},
		{sources->helper, HELPER_FD},
		{sources->network, NETWORK_FD},
		{sources->user, USER_FD},
		{sources->exit, EXIT_FD},
	};
	char helper[32], *no_environment[] = {NULL};
	const struct spawn how = {helper, argv, no_environment, fds, sizeof(fds) / sizeof(*fds),
		EXIT_FD + 1, SPAWN_SESSION | SPAWN_DEFAULT_SIGNALS};

	(void)snprintf(helper, sizeof(helper), "/proc/self/fd/%d", HELPER_FD);
	return spawn_program(&how, ret_pid);
}

static int run(const struct net_nat_options *options, const struct sources *sources, pid_t *ret_pid)
{
	char uid[16], gid[16], program[64], network[32], user[32], ready[8], exit_at[8];
	char *argv[] = {(char *)"dressage-init", (char *)"enter", uid, gid, (char *)"-",
		(char *)"0", program, (char *)"--configure", (char *)"--mtu=65520",
		(char *)"--disable-host-loopback", (char *)"--enable-seccomp", (char *)"--ready-fd",
		ready, (char *)"--exit-fd", exit_at, (char *)"--userns-path", user,
		(char *)"--netns-type=path", network, (char *)"tap0", NULL};

	if (!find_program(program, sizeof(program)))
		return -ENOENT;
	(void)snprintf(uid, sizeof(uid), "%u", (unsigned)options->uid);
	(void)snprintf(gid, sizeof(gid), "%u", (unsigned)options->gid);
	(void)snprintf(network, sizeof(network), "/proc/self/fd/%d", NETWORK_FD);
	(void)snprintf(user, sizeof(user), "/proc/self/fd/%d", USER_FD);
	(void)snprintf(ready, sizeof(ready), "%d", READY_FD);
	(void)snprintf(exit_at, sizeof(exit_at), "%d", EXIT_FD);
	return spawn(argv, sources, ret_pid);
}

static int open_sources(
	struct net_nat *nat, const struct net_nat_options *options, struct sources *sources)
{
	CLEANUP(closep) int complaints = memfd_create("slirp4netns", MFD_CLOEXEC);
	int ready[2], exit_at[2];

	if (complaints < 0 || pipe2(ready, O_CLOEXEC) < 0)
		return -errno;
	nat->ready_fd = ready[0];
	sources->ready = raised(ready[1]);
	(void)close(ready[1]);
	if (pipe2(exit_at, O_CLOEXEC) < 0)
		return -errno;
	nat->exit_fd = exit_at[1];
	sources->exit = raised(exit_at[0]);
	(void)close(exit_at[0]);
	nat->complaints_fd = raised(complaints);
	sources->complaints = raised(complaints);
	sources->null = raised(options->null_fd);
	sources->helper = raised(options->helper_fd);
	sources->network = raised(options->network_fd);
	sources->user = raised(options->user_fd);
	return sources->user < 0 || sources->network < 0 || sources->helper < 0 ||
			       sources->null < 0 || sources->complaints < 0 || sources->exit < 0 ||
			       sources->ready < 0 || nat->complaints_fd < 0
		       ? -EMFILE
		       : 0;
}

/* ---- Its life ---- */

static void nat_free(struct net_nat *nat)
{
	loop_watch_stop(nat->death);
	loop_watch_stop(nat->ready);
	loop_timer_stop(nat->deadline);
	closep(&nat->pidfd);
	closep(&nat->ready_fd);
	closep(&nat->complaints_fd);
	closep(&nat->exit_fd);
	free(nat);
}

/* What it says of each failure, behind the line that tells it, and of nothing. */
static bool tells_nothing(const char *line)
{
	static const char *const words[] = {
		"child failed", "parent failed", "do_slirp failed", "WARNING:"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strncmp(line, words[i], strlen(words[i])) == 0)
			return true;
	return !*line;
}

const char *net_nat_reason(char *said)
{
	const char *reason = "";
	char *line;

	while ((line = strsep(&said, "\n")))
		if (!tells_nothing(line) || (!*reason && strncmp(line, "WARNING:", 8) != 0))
			reason = line;
	return reason;
}

static void read_complaint(const struct net_nat *nat, char *text, size_t size)
{
	char tail[400];

	read_tail(nat->complaints_fd, tail, sizeof(tail));
	(void)snprintf(text, size, "%s", net_nat_reason(tail));
}

static void fail(struct net_nat *nat, int code, const char *what)
{
	char complaint[400];
	struct error why;

	if (nat->failed)
		return;
	nat->failed = true;
	read_complaint(nat, complaint, sizeof(complaint));
	(void)error_reason(&why, code, REASON_SLOT_LOST,
		"slot %u: slirp4netns, its network, %s%s%s", nat->slot, what,
		complaint[0] ? ": " : "", complaint);
	loop_timer_stop(take_ptr(&nat->deadline));
	nat->hooks.failed(nat->hooks.data, &why);
}

static void handle_dead(void *data, unsigned events)
{
	struct net_nat *nat = data;
	siginfo_t info;

	if (waitid(P_PIDFD, (id_t)nat->pidfd, &info, WEXITED | WNOHANG | WNOWAIT) == 0)
		(void)kill(-nat->pid, SIGKILL); /* what it started, while the number is ours */
	(void)waitid(P_PIDFD, (id_t)nat->pidfd, &info, WEXITED | WNOHANG);
	nat->pid = 0;
	loop_watch_stop(take_ptr(&nat->death));
	if (!nat->stopped) {
		fail(nat, EIO, "has ended");
		return;
	}
	DL_DELETE(nat->nats->dying, nat);
	nat_free(nat);
}

static void handle_ready(void *data, unsigned events)
{
	struct net_nat *nat = data;
	char byte;
	ssize_t n = read(nat->ready_fd, &byte, 1);

	loop_watch_stop(take_ptr(&nat->ready));
	if (n != 1)
		return; /* it is about to end, and that will be told */
	loop_timer_stop(take_ptr(&nat->deadline));
	nat->hooks.up(nat->hooks.data);
}

static void handle_deadline(void *data)
{
	fail(data, ETIMEDOUT, "is not ready in time");
}

static int watch(struct net_nat *nat, struct error *err)
{
	int r;

	nat->pidfd = pidfd_open(nat->pid, 0);
	if (nat->pidfd < 0)
		return error_errno(err, errno, "pidfd_open of slirp4netns");
	r = loop_watch_start(
		nat->loop, nat->pidfd, LOOP_READABLE, handle_dead, nat, &nat->death, err);
	if (r == 0)
		r = loop_watch_start(nat->loop, nat->ready_fd, LOOP_READABLE, handle_ready, nat,
			&nat->ready, err);
	if (r == 0)
		r = loop_timer_start(
			nat->loop, nat->timeout_ms, handle_deadline, nat, &nat->deadline, err);
	return r;
}

int net_nat_start(struct loop *loop, const struct net_nat_options *options,
	const struct net_nat_hooks *hooks, struct net_nat **ret_nat, struct error *err)
{
	struct net_nat *nat = calloc(1, sizeof(*nat));
	struct sources sources = {-1, -1, -1, -1, -1, -1, -1};
	int r;

	if (!nat)
		return error_set(err, ENOMEM, "no memory for slirp4netns");
	nat->nats = options->nats;
	nat->loop = loop;
	nat->slot = options->slot;
	nat->hooks = *hooks;
	nat->timeout_ms = options->timeout_ms;
	nat->pidfd = nat->ready_fd = nat->complaints_fd = nat->exit_fd = -1;
	r = open_sources(nat, options, &sources);
	if (r == 0)
		r = run(options, &sources, &nat->pid);
	close_sources(&sources);
	r = r < 0 ? error_errno(err, -r, "cannot start slirp4netns") : watch(nat, err);
	if (r < 0) {
		net_nat_stop(nat);
		return r;
	}
	*ret_nat = nat;
	return 0;
}

void net_nat_stop(struct net_nat *nat)
{
	if (!nat)
		return;
	nat->stopped = true;
	loop_watch_stop(take_ptr(&nat->ready));
	loop_timer_stop(take_ptr(&nat->deadline));
	if (nat->death) {
		(void)kill(-nat->pid, SIGKILL);
		DL_APPEND(nat->nats->dying, nat);
		return;
	}
	if (nat->pid > 0) /* nobody watches it */
		process_discard_group(nat->loop, nat->pid);
	nat_free(nat);
}

void net_nats_fini(struct net_nats *nats)
{
	while (nats->dying) {
		struct net_nat *nat = nats->dying;
		siginfo_t info;

		while (waitid(P_PIDFD, (id_t)nat->pidfd, &info, WEXITED) < 0 && errno == EINTR)
			;
		DL_DELETE(nats->dying, nat);
		nat_free(nat);
	}
}
