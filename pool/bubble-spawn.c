/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/program.h"
#include "pool/bubble-private.h"

/* Of the sources none may be one of the targets 0 to 5, or a later dup2 would take the wrong one.
 */
static int raise_fd(int *fd)
{
	int high = fcntl(*fd, F_DUPFD_CLOEXEC, FIRST_HIGH_FD);

	if (high < 0)
		return -errno;
	(void)close(*fd);
	*fd = high;
	return 0;
}

static int open_pair(int *ret_ours, int *ret_theirs)
{
	const int on = 1;
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	*ret_ours = ends[0];
	*ret_theirs = ends[1];
	r = raise_fd(ret_theirs);
	if (r < 0)
		return r;
	/* init's pid and, since Linux 6.5, its pidfd come with its first message */
	if (setsockopt(*ret_ours, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
		return -errno;
	(void)setsockopt(*ret_ours, SOL_SOCKET, SO_PASSPIDFD, &on, sizeof(on));
	return fcntl(*ret_ours, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

/* Forks that are under way count for an rlimit before they are refused: two at a time may meet it
 * while their cgroup, which has two processes more, is not full yet. */
enum { FORKS_UNDER_WAY = 1024 };

static int send_setup(
	int control_fd, const struct bubble_kit *kit, const struct bubble_options *options)
{
	struct init_setup setup = kit->setup;
	struct iovec parts[] = {
		{.iov_base = &setup, .iov_len = sizeof(setup)},
		{.iov_base = kit->filter, .iov_len = kit->filter_size},
		{.iov_base = (void *)kit->targets.inside,
			.iov_len = kit->targets.inside_count * sizeof(struct init_target)},
	};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};

	if (options->counts_forks && setup.processes > 0)
		setup.processes += FORKS_UNDER_WAY;
	return sendmsg(control_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

struct spawn_fds {
	int null, complaints, control, image, cgroup;
	int joins[INIT_JOINS_MAX];
	unsigned join_count;
};

enum { SPAWN_FDS_MAX = 6 + INIT_JOINS_MAX };

static int run(const char *path, char *const *argv, const struct spawn_fds *fds, pid_t *ret_pid)
{
	struct spawn_fd moves[SPAWN_FDS_MAX] = {
		{fds->null, STDIN_FILENO},
		{fds->null, STDOUT_FILENO},
		{fds->complaints, STDERR_FILENO},
		{fds->control, INIT_CONTROL_FD},
		{fds->image, INIT_IMAGE_FD},
	};
	char *no_environment[] = {NULL};
	struct spawn spawn = {path, argv, no_environment, moves, 5, INIT_IMAGE_FD + 1,
		SPAWN_SESSION | SPAWN_DEFAULT_SIGNALS};

	if (fds->cgroup >= 0)
		moves[spawn.fd_count++] = (struct spawn_fd){fds->cgroup, INIT_CGROUP_FD};
	for (unsigned i = 0; i < fds->join_count; i++)
		moves[spawn.fd_count++] = (struct spawn_fd){fds->joins[i], INIT_JOIN_FD + (int)i};
	spawn.close_from = moves[spawn.fd_count - 1].to + 1;
	return spawn_program(&spawn, ret_pid);
}

/* The words' first is the program itself, but for the helper, which is init's file. */
static int run_words(struct bubble *bubble, const struct bubble_options *options,
	const struct spawn_fds *fds, struct error *err)
{
	CLEANUP(words_fini) struct words words = {0};
	char helper[32];
	int r = bubble_words(&words, bubble->kit, options, err);

	if (r < 0)
		return r;
	(void)snprintf(helper, sizeof(helper), "/proc/self/fd/%d", INIT_IMAGE_FD);
	r = run(bubble_needs_helper(bubble->kit, options) ? helper : words.word[0], words.word, fds,
		&bubble->runner_pid);
	if (r < 0)
		return error_errno(err, -r, "cannot start '%s'", bubble->kit->bwrap);
	bubble->runner_fd = pidfd_open(bubble->runner_pid, 0);
	return bubble->runner_fd < 0 ? error_errno(err, errno, "pidfd_open of bwrap") : 0;
}

/* Copies above the numbers that are filled. */
static int copy_cgroups(struct spawn_fds *fds, const struct bubble_options *options)
{
	assert(options->join_count <= INIT_JOINS_MAX);
	if (options->cgroup_fd >= 0) {
		fds->cgroup = fcntl(options->cgroup_fd, F_DUPFD_CLOEXEC, FIRST_HIGH_FD);
		if (fds->cgroup < 0)
			return -errno;
	}
	for (unsigned i = 0; i < options->join_count; i++) {
		int fd = fcntl(options->join_fds[i], F_DUPFD_CLOEXEC, FIRST_HIGH_FD);

		if (fd < 0)
			return -errno;
		fds->joins[fds->join_count++] = fd;
	}
	return 0;
}

static void close_cgroups(struct spawn_fds *fds)
{
	closep(&fds->cgroup);
	while (fds->join_count > 0)
		closep(&fds->joins[--fds->join_count]);
}

int bubble_spawn_runner(
	struct bubble *bubble, const struct bubble_options *options, struct error *err)
{
	CLEANUP(closep) int theirs = -1;
	CLEANUP(closep) int complaints = memfd_create("bwrap-stderr", MFD_CLOEXEC);
	CLEANUP(close_cgroups)
	struct spawn_fds fds = {
		.null = bubble->kit->null_fd, .image = bubble->kit->image_fd, .cgroup = -1};
	int r;

	if (complaints < 0 || raise_fd(&complaints) < 0)
		return error_errno(err, errno, "cannot make a memfd");
	r = open_pair(&bubble->control_fd, &theirs);
	if (r == 0)
		r = send_setup(bubble->control_fd, bubble->kit, options);
	if (r < 0)
		return error_errno(err, -r, "cannot make init's socket");
	r = copy_cgroups(&fds, options);
	if (r < 0)
		return error_errno(err, -r, "cannot pass the slot's cgroups");
	fds.control = theirs;
	fds.complaints = complaints;
	r = run_words(bubble, options, &fds, err);
	if (r == 0)
		bubble->complaints_fd = take_fd(&complaints);
	return r;
}
