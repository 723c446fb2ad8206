/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A slot with a range of ids: its commands' user namespace has all of the one above, and commands
 * that are root inside keep what installing packages needs.
 */
#include "pool/init/range.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/init/init.h"

/* Changing owners, and becoming another user: nothing that reaches beyond the slot's own ids. */
static const int kept[] = {
	CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_SETGID, CAP_SETUID};

bool range_keeps(int capability)
{
	for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++) {
		if (kept[i] == capability)
			return true;
	}
	return false;
}

/* In the namespace above: we may not give ourselves more than one id. The exit status. */
static int write_maps(int ready_fd)
{
	char map[32], byte;

	if (read(ready_fd, &byte, 1) != 1)
		return EPIPE;
	(void)snprintf(map, sizeof(map), "0 0 %u\n", INIT_RANGE);
	if (write_file("/proc/1/gid_map", map) < 0 || write_file("/proc/1/uid_map", map) < 0)
		return errno;
	return 0;
}

int range_unshare(void)
{
	int ends[2], status = 0;
	pid_t child;

	if (pipe(ends) < 0)
		return -errno;
	child = fork();
	if (child < 0)
		return -errno;
	if (child == 0) {
		(void)close(ends[1]);
		_exit(write_maps(ends[0]));
	}
	(void)close(ends[0]);
	if (unshare(CLONE_NEWUSER) < 0)
		return -errno;
	if (write(ends[1], "x", 1) != 1)
		return -EPIPE;
	(void)close(ends[1]);
	if (waitpid(child, &status, 0) < 0)
		return -errno;
	if (!WIFEXITED(status))
		return -EIO;
	return -WEXITSTATUS(status);
}

/* Root is root, and who is not loses what it has, as everywhere; but nobody can have it otherwise.
 */
int range_lock_securebits(void)
{
	unsigned long bits = SECURE_ALL_LOCKS | SECBIT_NO_CAP_AMBIENT_RAISE;

	return prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0 ? -errno : 0;
}

int range_keep_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[2] = {0};

	for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
		sets[kept[i] / 32].permitted |= 1U << (kept[i] % 32);
	sets[0].effective = sets[0].permitted;
	return syscall(SYS_capset, &header, sets) < 0 ? -errno : 0;
}
