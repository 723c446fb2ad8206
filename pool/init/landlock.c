/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A domain that handles no file access and no port, only the two scopes: so it refuses nothing of
 * what a command does among its own. Commands inherit it. Raw system calls, since headers older
 * than the kernel do not know the scopes.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/init/init.h"

enum { ABI_WITH_SCOPES = 6, VERSION_WANTED = 1 };
enum { SCOPE_ABSTRACT_SOCKETS = 1, SCOPE_SIGNALS = 2 };

struct ruleset {
	uint64_t files, ports, scopes;
};

static int restrict_self(void)
{
	const struct ruleset ruleset = {.scopes = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS};
	int fd = (int)syscall(SYS_landlock_create_ruleset, &ruleset, sizeof(ruleset), 0);
	int r;

	if (fd < 0)
		return -errno;
	r = syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? -errno : 0;
	(void)close(fd);
	return r;
}

/* ENOSYS: not built in; EOPNOTSUPP: not chosen at boot; EPERM: a container's own filter. */
int landlock_scope(void)
{
	int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION_WANTED);
	int r;

	if (abi < ABI_WITH_SCOPES)
		return 0;
	r = restrict_self();
	return r < 0 ? r : abi;
}
