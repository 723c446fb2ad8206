/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * interrupt.h: what the processes behind a request are about to do, read from /proc.
 *
 * Linux sends FUSE an INTERRUPT for any signal of the waiting thread, a SIGWINCH or a handled
 * SIGALRM as well as a ^C. Only one that will end the process, or that its user sent to end it,
 * cancels what the request waits for. And Linux sends one INTERRUPT for a request, no more: after
 * one that does not cancel, whoever holds the request asks again every INTERRUPT_AGAIN_MS, else
 * the process could not even be killed.
 *
 * A pid or tid is as FUSE gives it: 0 when the process lives in a pid namespace that we cannot see.
 * Threads: any. Each call reads one small file of /proc and does not block.
 */
#ifndef FS_INTERRUPT_H
#define FS_INTERRUPT_H

#include <stdbool.h>
#include <sys/types.h>

enum { INTERRUPT_AGAIN_MS = 100 };

/* True when SIGKILL (every fatal default action without a core dump shows as that), INT, TERM, HUP,
 * QUIT or, neither caught nor ignored, one that dumps core is pending for the thread, or when it
 * cannot be seen. */
bool interrupt_cancels(pid_t tid);

/* True when the process is exiting because of a signal. False when that cannot be seen. */
bool process_is_dying(pid_t tid);

/* True when the process is exiting, whatever for: no signal reaches it any more, so it must not be
 * made to wait. False when that cannot be seen. */
bool process_is_exiting(pid_t tid);

/* The thread-group id (what people call the pid) of a thread; 0 when it cannot be seen. */
pid_t process_of_thread(pid_t tid);

/* The same from the texts of /proc/<tid>/status and /proc/<tid>/stat; pure. */
bool interrupt_cancels_by_status(const char *status);
bool process_is_dying_by_stat(const char *stat);
bool process_is_exiting_by_stat(const char *stat);
pid_t process_by_status(const char *status);

#endif
