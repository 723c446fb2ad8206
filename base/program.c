/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/program.h"

#include <signal.h>
#include <spawn.h>

static int set_files(posix_spawn_file_actions_t *files, const struct spawn *spawn)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < spawn->fd_count; i++)
		r = posix_spawn_file_actions_adddup2(files, spawn->fds[i].from, spawn->fds[i].to);
	if (r == 0 && spawn->close_from > 0)
		r = posix_spawn_file_actions_addclosefrom_np(files, spawn->close_from);
	return r;
}

static int set_attributes(posix_spawnattr_t *attributes, unsigned flags)
{
	short set = POSIX_SPAWN_SETSIGMASK;
	sigset_t none, all;
	int r;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	if (flags & SPAWN_SESSION)
		set |= POSIX_SPAWN_SETSID;
	if (flags & SPAWN_GROUP)
		set |= POSIX_SPAWN_SETPGROUP; /* 0, as it is initialised: its own */
	if (flags & SPAWN_DEFAULT_SIGNALS)
		set |= POSIX_SPAWN_SETSIGDEF;
	r = posix_spawnattr_setflags(attributes, set);
	if (r == 0)
		r = posix_spawnattr_setsigmask(attributes, &none);
	return r == 0 ? posix_spawnattr_setsigdefault(attributes, &all) : r;
}

int spawn_program(const struct spawn *spawn, pid_t *ret_pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	int r = posix_spawn_file_actions_init(&files);

	if (r != 0)
		return -r;
	r = posix_spawnattr_init(&attributes);
	if (r == 0) {
		r = set_files(&files, spawn);
		if (r == 0)
			r = set_attributes(&attributes, spawn->flags);
		if (r == 0)
			r = posix_spawnp(ret_pid, spawn->program, &files, &attributes, spawn->argv,
				spawn->environment);
		(void)posix_spawnattr_destroy(&attributes);
	}
	(void)posix_spawn_file_actions_destroy(&files);
	return -r;
}
