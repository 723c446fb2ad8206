/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* range.h: steps of a slot that has a range of ids instead of one. Each gives -errno. */
#ifndef POOL_INIT_RANGE_H
#define POOL_INIT_RANGE_H

#include <stdbool.h>

/* A user namespace with the ids of the one above, setgroups(2) allowed. */
int range_unshare(void);
/* For commands that are root inside: their capabilities are root's, of the few that are kept. */
bool range_keeps(int capability);
int range_lock_securebits(void);
int range_keep_capabilities(void);

#endif
