/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "providers/sandbox.h"

struct child {
	pid_t pid;
	int pidfd;
	struct sandbox_root *root;
};

static struct child child_start(void)
{
	char *argv[] = {(char[]){"sleep"}, (char[]){"100"}, NULL};
	struct child child;
	int fd = open("/tmp", O_PATH | O_CLOEXEC);

	assert_int_equal(posix_spawn(&child.pid, "/bin/sleep", NULL, NULL, argv, NULL), 0);
	child.pidfd = pidfd_open(child.pid, 0);
	assert_true(child.pidfd >= 0);
	assert_int_equal(sandbox_root_create(fd, child.pidfd, 1, 2, 9, &child.root, NULL), 0);
	assert_int_equal(close(fd), 0);
	return child;
}

static void child_end(struct child *child)
{
	(void)kill(child->pid, SIGKILL);
	(void)waitpid(child->pid, NULL, 0);
	(void)close(child->pidfd);
	sandbox_root_unref(child->root);
}

static void a_root_keeps_descriptors_of_its_own(void **state)
{
	struct child child = child_start();
	int why = 0;

	assert_true(fcntl(child.root->fd, F_GETFD) & FD_CLOEXEC);
	assert_true(sandbox_root_alive(child.root, &why));
	assert_ptr_equal(sandbox_root_ref(child.root), child.root);
	sandbox_root_unref(child.root);
	assert_true(sandbox_root_alive(child.root, &why));
	child_end(&child);
}

static void a_dead_pid_1_is_a_loss(void **state)
{
	struct child child = child_start();
	siginfo_t info;
	int why = 0;

	assert_int_equal(kill(child.pid, SIGKILL), 0);
	assert_int_equal(waitid(P_PIDFD, (id_t)child.pidfd, &info, WEXITED | WNOWAIT), 0);
	assert_false(sandbox_root_alive(child.root, &why));
	assert_int_equal(why, ENOTCONN);
	child_end(&child);
}

static void an_ended_lease_is_stale_dead_or_not(void **state)
{
	struct child child = child_start();
	siginfo_t info;
	int why = 0;

	atomic_store(&child.root->ended, true);
	assert_false(sandbox_root_alive(child.root, &why));
	assert_int_equal(why, ESTALE);
	assert_int_equal(kill(child.pid, SIGKILL), 0);
	assert_int_equal(waitid(P_PIDFD, (id_t)child.pidfd, &info, WEXITED | WNOWAIT), 0);
	assert_false(sandbox_root_alive(child.root, &why));
	assert_int_equal(why, ESTALE);
	child_end(&child);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_root_keeps_descriptors_of_its_own),
		cmocka_unit_test(a_dead_pid_1_is_a_loss),
		cmocka_unit_test(an_ended_lease_is_stale_dead_or_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
