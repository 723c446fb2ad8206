/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * process.h: telling one process from another that has its number, and ending it. Threads: any,
 * unless said.
 */
#ifndef POOL_PROCESS_H
#define POOL_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

struct loop;

/* Field 22 of /proc/<pid>/stat, ticks since boot; 0: there is no such process. */
uint64_t process_starttime(pid_t pid);
/* Kills the process that had this number at that time, and waits for its end. 0: it is gone, also
 * when it was; -ETIMEDOUT, -errno. */
int process_kill(pid_t pid, uint64_t starttime, uint64_t deadline_ms);

/* Kills a process group of children of ours that nobody watches, and reaps them on a worker; where
 * there is no memory for that they stay zombies. Thread: loop. */
void process_discard_group(struct loop *loop, pid_t group);

#endif
