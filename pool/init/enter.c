/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/init/init.h"
#include "pool/init/overlay.h"

/* Standard error is what the daemon shows of a start that failed. */
static int fail(const char *what)
{
	dprintf(STDERR_FILENO, "enter: %s: %s\n", what, strerror(errno));
	return 1;
}

/* Moving into a cgroup waits for an RCU grace period, 10 ms and more on an idle machine. */
static int move_to_cgroup(void)
{
	int fd = openat(INIT_CGROUP_FD, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = write(fd, "0", 1);
	(void)close(fd);
	return n == 1 ? 0 : -1;
}

/*
 * Being born there costs nothing. So another child of the daemon's is made in the cgroup, to go on
 * in our place: returns 1 in the one that is to end, 0 in the one that goes on. It names itself
 * before it can be anything else, and we end after its exec (CLONE_VFORK): so the daemon hears of
 * it before it hears of our end, or of init.
 */
static int enter_cgroup(void)
{
	struct clone_args args = {
		.flags = CLONE_PARENT | CLONE_VFORK | CLONE_INTO_CGROUP,
		.cgroup = INIT_CGROUP_FD,
	};
	struct init_report report = {.version = INIT_PROTOCOL_VERSION, .kind = INIT_SUCCESSOR};
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid < 0)
		return move_to_cgroup();
	if (pid > 0)
		return 1;
	report.pid = getpid();
	return report_send(&report, -1) ? 0 : -1;
}

/* One thread that names itself: no wait here. */
static int join_others(unsigned count)
{
	for (int fd = INIT_JOIN_FD; fd < INIT_JOIN_FD + (int)count; fd++) {
		if (write(fd, "0", 1) != 1)
			return -1;
		(void)close(fd);
	}
	return 0;
}

static bool parse_number(const char *text, unsigned *ret_number)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end != '\0' || value >= UINT32_MAX)
		return false;
	*ret_number = (unsigned)value;
	return true;
}

/* Root's groups go with it: a kept supplementary group could read what a bind shows. */
static int become(unsigned uid, unsigned gid)
{
	if (geteuid() != 0)
		return 0;
	if (!left_out("setgroups of the helper") && setgroups(0, NULL) < 0)
		return -1;
	if (left_out("setresuid of the helper"))
		return 0;
	return setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0 ? -1 : 0;
}

/* Both as root and as the slot's user there is something to be done. */
static const char *become_with_overlay(struct overlay *overlay, unsigned uid, unsigned gid)
{
	if (overlay_prepare(overlay, uid, gid) < 0)
		return "starting the mapper";
	if (become(uid, gid) < 0)
		return "becoming the slot's user";
	return overlay_enter(overlay);
}

static const char *become_and_prepare(char ***words, unsigned uid, unsigned gid)
{
	struct overlay overlay;
	int count = 0;

	while ((*words)[count])
		count++;
	if (strcmp((*words)[0], "overlay") != 0)
		return become(uid, gid) < 0 ? "becoming the slot's user" : NULL;
	if (count <= OVERLAY_WORDS + 1 || overlay_parse(*words + 1, &overlay) < 0)
		return "overlay's words";
	*words += OVERLAY_WORDS + 1;
	return become_with_overlay(&overlay, uid, gid);
}

int enter(int argc, char **argv)
{
	char **words = argv + 4;
	const char *failed;
	char *no_environment[] = {NULL};
	unsigned uid, gid, joins;
	int r = 0;

	if (argc < 5 || !parse_number(argv[0], &uid) || !parse_number(argv[1], &gid) || uid == 0 ||
		gid == 0 || !parse_number(argv[3], &joins) || joins > INIT_JOINS_MAX) {
		errno = EINVAL;
		return fail("uid, gid, cgroups");
	}
	if (strcmp(argv[2], "cgroup") == 0)
		r = enter_cgroup();
	if (r < 0)
		return fail("joining the slot's cgroup");
	if (r > 0)
		return 0;
	(void)close(INIT_CGROUP_FD);
	if (join_others(joins) < 0)
		return fail("joining the slot's cgroups");
	failed = become_and_prepare(&words, uid, gid);
	if (failed)
		return fail(failed);
	(void)execve(words[0], words, left_out("environment") ? environ : no_environment);
	return fail(words[0]);
}
