/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* user.h: what the user database says. Threads: any; reads files, so not the daemon's loop. */
#ifndef BASE_USER_H
#define BASE_USER_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether the user has a name. In a container that was told a bare number it often has none, and
 * fusermount3 then refuses to mount. */
bool user_has_name(uid_t uid);

#endif
