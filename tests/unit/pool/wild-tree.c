/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A command that does not want to be killed. Runs inside a slot, so it is static.
 *
 *	wild-tree FIFO KIND COUNT
 *
 * When the tree stands it writes a line to FIFO and waits for ever.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void ignore_what_can_be(void)
{
	for (int number = 1; number < 32; number++)
		(void)signal(number, SIG_IGN);
}

static void wait_for_ever(void)
{
	for (;;)
		pause();
}

/* True in the child. What churns may leave no room for another process just now. */
static bool in_child(void)
{
	pid_t pid;

	while ((pid = fork()) < 0)
		;
	return pid == 0;
}

/* Daemons with sessions of their own. */
static void make_daemons(int count)
{
	for (int i = 0; i < count; i++) {
		if (!in_child())
			continue;
		(void)setsid();
		if (fork() > 0)
			_exit(0);
		ignore_what_can_be();
		wait_for_ever();
	}
}

/* Each forks a successor and exits. */
static void churn(int count)
{
	for (int i = 0; i < count; i++) {
		if (!in_child())
			continue;
		while (in_child())
			;
		_exit(0);
	}
}

static void churn_in_sessions(int count)
{
	for (int i = 0; i < count; i++) {
		if (!in_child())
			continue;
		while (in_child())
			(void)setsid();
		_exit(0);
	}
}

/* A chain, each in a session of its own and ignoring its child. */
static void make_chain(int count)
{
	for (int i = 0; i < count; i++) {
		if (!in_child()) {
			ignore_what_can_be();
			wait_for_ever();
		}
		(void)setsid();
	}
}

/* Nobody without privileges finds these in /proc. */
static void hide(int count)
{
	(void)prctl(PR_SET_DUMPABLE, 0);
	make_daemons(count);
}

/* Without a cgroup our parent is what keeps the tree together. */
static void kill_the_parent(int count)
{
	if (getppid() > 1)
		(void)kill(getppid(), SIGKILL);
	make_daemons(count);
}

static void stop_the_parent(int count)
{
	make_daemons(count);
	if (getppid() > 1)
		(void)kill(getppid(), SIGSTOP);
}

static const struct kind {
	const char *name;
	void (*make)(int count);
} kinds[] = {
	{"daemons", make_daemons},
	{"churn", churn},
	{"churn-in-sessions", churn_in_sessions},
	{"chain", make_chain},
	{"hidden", hide},
	{"parricide", kill_the_parent},
	{"stopped-parent", stop_the_parent},
};

static void say_ready(const char *fifo)
{
	int fd = open(fifo, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "up\n", 3) != 3)
		_exit(3);
	(void)close(fd);
}

int main(int argc, char **argv)
{
	pid_t leader = getpid();

	for (size_t i = 0; argc == 4 && i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (strcmp(argv[2], kinds[i].name) != 0)
			continue;
		kinds[i].make(atoi(argv[3]));
		if (getpid() == leader || strcmp(argv[2], "chain") == 0)
			say_ready(argv[1]);
		wait_for_ever();
	}
	return 2;
}
