/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * as-user.h: what a root daemon makes for a sandbox is made as the sandbox's user.
 *
 * Then it has the right owner from its first moment, on every file system: one that was mounted
 * inside the sandbox refuses to make anything for host root (EOVERFLOW). Only the ids that file
 * systems look at are changed, of this thread alone. Nothing may be opened by handle meanwhile,
 * which needs root. Threads: any; what is changed is the calling thread's.
 */
#ifndef FS_AS_USER_H
#define FS_AS_USER_H

#include <linux/capability.h>
#include <stdbool.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static inline void as_user_begin(uid_t uid, gid_t gid)
{
	(void)setfsgid(gid);
	(void)setfsuid(uid);
}

/* The same, but what the file's permissions say does not count: for what that user may not do and
 * the client, whose kernel has looked, may. False: not permitted; end it all the same. */
static inline bool as_user_begin_anywhere(uid_t uid, gid_t gid)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {0};

	as_user_begin(uid, gid); /* takes away the capabilities that are for files */
	if (syscall(SYS_capget, &header, sets) < 0)
		return false;
	sets[0].effective |= 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER;
	return syscall(SYS_capset, &header, sets) == 0;
}

/* Gives them back. */
static inline void as_user_end(void)
{
	(void)setfsuid(0);
	(void)setfsgid(0);
}

#endif
