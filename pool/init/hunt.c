/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Without a cgroup nothing names a tree but the way its orphans take: to the nearest subreaper
 * above. A hunted command's runner is killed first, and its tree comes to us. From then on whatever
 * is our child and no runner is game. Only we reap our children, and new ones come to the list's
 * end: a list that was read to its end has missed nobody who was there at its beginning.
 *
 * A process that forks and dies before it is hit is followed by the one that it has made, so a
 * tree that does nothing else can outrun us, above all when it has taken every processor. kill(-1)
 * is sure: the kernel hits all at once, forks under way included. It cannot tell trees apart, so it
 * is SIGSTOP that is sent, and SIGCONT afterwards: for a moment the other commands of the slot
 * stand still, too.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "pool/init/init.h"

enum {
	STOP_WORLD_MS = 20, /* an ordinary tree is dead by then */
	GIVE_UP_MS = 250,   /* after that */
	DEPTH_MAX = 64,     /* each holds a descriptor */
};

int64_t now_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Without the file, which a kernel may not have, each hunt fails. */
void hunt_open(struct hunt *hunt)
{
	hunt->children_fd = open("/proc/self/task/1/children", O_RDONLY | O_CLOEXEC);
}

void hunt_begin(struct hunt *hunt)
{
	if (hunt->on)
		return;
	hunt->on = true;
	hunt->began_ms = now_ms();
}

static bool is_spared(const struct command *commands, pid_t pid)
{
	for (const struct command *command = commands; command; command = command->next) {
		if (command->runner && runner_pid(command->runner) == pid)
			return !command->hunted;
	}
	return false;
}

static int kill_listed(
	const struct hunt *hunt, int list_fd, const struct command *commands, unsigned depth);

/*
 * Generation after generation comes to us by itself, one with each death of its parents. Where
 * nobody moves, so that a number stays its process's, that need not be waited for; but what cannot
 * be traced shows nobody its children.
 */
static void kill_below(const struct hunt *hunt, pid_t pid, unsigned depth)
{
	char path[64];
	int fd;

	if (!hunt->world_stopped || depth == DEPTH_MAX)
		return;
	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)kill_listed(hunt, fd, NULL, depth + 1);
	(void)close(fd);
}

static int kill_one(
	const struct hunt *hunt, pid_t pid, const struct command *commands, unsigned depth)
{
	if (pid <= 1 || is_spared(commands, pid))
		return 0;
	kill_below(hunt, pid, depth);
	(void)kill(pid, SIGKILL);
	return 1;
}

/* How many there were; -1 when that cannot be said. */
static int kill_listed(
	const struct hunt *hunt, int list_fd, const struct command *commands, unsigned depth)
{
	char text[1024];
	ssize_t size;
	pid_t pid = 0;
	int count = 0;

	while ((size = read(list_fd, text, sizeof(text))) > 0) {
		for (ssize_t i = 0; i < size; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (text[i] - '0');
				continue;
			}
			count += kill_one(hunt, pid, commands, depth);
			pid = 0;
		}
	}
	return size < 0 ? -1 : count;
}

static int kill_children(const struct hunt *hunt, const struct command *commands)
{
	if (lseek(hunt->children_fd, 0, SEEK_SET) < 0)
		return -1;
	return kill_listed(hunt, hunt->children_fd, commands, 0);
}

/* Again and again: where a dying shell leaves a stopped group of its session behind, the kernel
 * itself continues that. */
static void stop_world(struct hunt *hunt, int64_t now)
{
	if (!hunt->world_stopped)
		hunt->began_ms = now;
	hunt->world_stopped = true;
	(void)kill(-1, SIGSTOP);
}

static enum hunt_result end(struct hunt *hunt, enum hunt_result result)
{
	hunt->on = false;
	if (hunt->world_stopped)
		(void)kill(-1, SIGCONT);
	hunt->world_stopped = false;
	return result;
}

enum hunt_result hunt_round(struct hunt *hunt, const struct command *commands)
{
	int64_t now = now_ms(), elapsed = now - hunt->began_ms;
	int count;

	if (hunt->world_stopped || elapsed >= STOP_WORLD_MS)
		stop_world(hunt, now);
	count = kill_children(hunt, commands);
	if (count == 0)
		return end(hunt, HUNT_OVER);
	if (count < 0 || now - hunt->began_ms >= GIVE_UP_MS)
		return end(hunt, HUNT_FAILED);
	return HUNT_GOES_ON;
}
