/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/settings.h"
#include "pool/bubble.h"
#include "pool/pool-private.h"

/* Asked of init's own mount: nothing that a command can do inside answers for it, or is waited for.
 */
bool slot_storage_is_full(const struct slot *slot)
{
	CLEANUP(closep) int dir = -1;
	struct statfs space;

	if (slot->pool->config->slot.storage != STORAGE_TMPFS || !slot->booted)
		return false;
	dir = openat(bubble_root_fd(slot->bubble), "workspace",
		O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fstatfs(dir, &space) < 0)
		return false;
	return space.f_bavail == 0 || space.f_ffree == 0;
}
