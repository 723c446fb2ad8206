/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/user.h"

#include <pwd.h>
#include <stddef.h>

enum { ENTRY_ROOM = 16384 };

bool user_has_name(uid_t uid)
{
	struct passwd entry, *found = NULL;
	char room[ENTRY_ROOM];

	return getpwuid_r(uid, &entry, room, sizeof(room), &found) == 0 && found;
}
