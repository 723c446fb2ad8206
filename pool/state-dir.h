/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * state-dir.h: the directory that outlives the daemon, and the lock that keeps it one daemon's.
 * Threads: any.
 */
#ifndef POOL_STATE_DIR_H
#define POOL_STATE_DIR_H

struct error;

/*
 * Opens the directory, making it (0711) and its parents where they are missing, and locks it: flock
 * on `lock`, which holds our pid. Both descriptors are the caller's; closing *ret_lock_fd unlocks.
 * -EBUSY: a living daemon has it (the text says which pid); -EPERM: it belongs to somebody else.
 */
int state_dir_open(const char *path, int *ret_dir_fd, int *ret_lock_fd, struct error *err);

/* Makes a directory (0711) and its parents; what is there already is left as it is. */
int make_directories(const char *path, struct error *err);

#endif
