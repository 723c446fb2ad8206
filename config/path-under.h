/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * path-under.h: whether one path leads into another, symlinks followed. Threads: any.
 */
#ifndef CONFIG_PATH_UNDER_H
#define CONFIG_PATH_UNDER_H

#include <stdbool.h>

/*
 * Whether the way to `path` comes to `dir`: it is `dir`, lies below it, or passes through. Both are
 * absolute; neither has to exist. Nothing at or below `dir` is touched: a daemon that looked into
 * its own mountpoint would wait for itself.
 */
bool path_is_under(const char *path, const char *dir);

#endif
