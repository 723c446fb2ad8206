/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
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

static int send_setup(int control_fd, const struct bubble_kit *kit)
{
	struct iovec parts[] = {
		{.iov_base = (void *)&kit->setup, .iov_len = sizeof(kit->setup)},
		{.iov_base = kit->filter, .iov_len = kit->filter_size},
		{.iov_base = (void *)kit->targets.inside,
			.iov_len = kit->targets.inside_count * sizeof(struct init_target)},
	};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};

	return sendmsg(control_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

struct spawn_fds {
	int null, complaints, control, image, cgroup;
	int joins[INIT_JOINS_MAX];
	unsigned join_count;
};

static int set_files(posix_spawn_file_actions_t *files, const struct spawn_fds *fds)
{
	int first_other = INIT_IMAGE_FD + 1;
	int r = posix_spawn_file_actions_adddup2(files, fds->null, STDIN_FILENO);

	if (r == 0)
		r = posix_spawn_file_actions_adddup2(files, fds->null, STDOUT_FILENO);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(files, fds->complaints, STDERR_FILENO);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(files, fds->control, INIT_CONTROL_FD);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(files, fds->image, INIT_IMAGE_FD);
	if (r == 0 && fds->cgroup >= 0) {
		r = posix_spawn_file_actions_adddup2(files, fds->cgroup, INIT_CGROUP_FD);
		first_other = INIT_CGROUP_FD + 1;
	}
	for (unsigned i = 0; r == 0 && i < fds->join_count; i++) {
		r = posix_spawn_file_actions_adddup2(files, fds->joins[i], INIT_JOIN_FD + (int)i);
		first_other = INIT_JOIN_FD + 1 + (int)i;
	}
	return r == 0 ? posix_spawn_file_actions_addclosefrom_np(files, first_other) : r;
}

static int set_attributes(posix_spawnattr_t *attributes)
{
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	r = posix_spawnattr_setflags(
		attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	if (r == 0)
		r = posix_spawnattr_setsigmask(attributes, &none);
	return r == 0 ? posix_spawnattr_setsigdefault(attributes, &all) : r;
}

static int run(const char *path, char *const *argv, const struct spawn_fds *fds, pid_t *ret_pid)
{
	char *no_environment[] = {NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	int r = posix_spawn_file_actions_init(&files);

	if (r != 0)
		return -r;
	r = posix_spawnattr_init(&attributes);
	if (r == 0) {
		r = set_files(&files, fds);
		if (r == 0)
			r = set_attributes(&attributes);
		if (r == 0)
			r = posix_spawn(ret_pid, path, &files, &attributes, argv, no_environment);
		(void)posix_spawnattr_destroy(&attributes);
	}
	(void)posix_spawn_file_actions_destroy(&files);
	return -r;
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
		r = send_setup(bubble->control_fd, bubble->kit);
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
