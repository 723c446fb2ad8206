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

#include <sys/fsuid.h>
#include <sys/types.h>

static inline void as_user_begin(uid_t uid, gid_t gid)
{
	(void)setfsgid(gid);
	(void)setfsuid(uid);
}

static inline void as_user_end(void)
{
	(void)setfsuid(0);
	(void)setfsgid(0);
}

#endif
