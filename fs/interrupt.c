/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/procfs.h"
#include "base/strbuf.h"

enum {
	FLAG_EXITING = 0x4, /* PF_EXITING of linux/sched.h */
	STAT_FLAGS = 9,     /* fields as proc(5) numbers them */
	STAT_EXIT_CODE = 52,
};

/* The number that stands behind "key:" at the beginning of a line. */
static bool status_number(const char *status, const char *key, int base, uint64_t *ret_value)
{
	size_t len = strlen(key);

	for (const char *line = status; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, len) || line[len] != ':')
			continue;
		*ret_value = strtoull(line + len + 1, NULL, base);
		return true;
	}
	return false;
}

static uint64_t signal_set(const int *signals, size_t count)
{
	uint64_t set = 0;

	for (size_t i = 0; i < count; i++)
		set |= UINT64_C(1) << (signals[i] - 1);
	return set;
}

#define SIGNAL_SET(...)                                                                            \
	signal_set((const int[]){__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int))

/* Somebody wants an end: also of a program that catches the signal. */
static uint64_t ending_signals(void)
{
	return SIGNAL_SET(SIGKILL, SIGINT, SIGTERM, SIGHUP, SIGQUIT);
}

/* Unless they are caught these end a program with a core dump, and only for those without one does
 * Linux show SIGKILL in the place of the signal. */
static uint64_t dumping_signals(void)
{
	return SIGNAL_SET(
		SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGXCPU, SIGXFSZ);
}

bool interrupt_cancels_by_status(const char *status)
{
	uint64_t mine, shared, blocked, caught = 0, ignored = 0;

	if (!status_number(status, "SigPnd", 16, &mine) ||
		!status_number(status, "ShdPnd", 16, &shared) ||
		!status_number(status, "SigBlk", 16, &blocked))
		return true; /* nothing that we know of a thread: it cannot be seen */
	(void)status_number(status, "SigCgt", 16, &caught);
	(void)status_number(status, "SigIgn", 16, &ignored);
	return ((mine | shared) & ~blocked &
		       (ending_signals() | (dumping_signals() & ~caught & ~ignored))) != 0;
}

pid_t process_by_status(const char *status)
{
	uint64_t tgid;

	return status_number(status, "Tgid", 10, &tgid) ? (pid_t)tgid : 0;
}

bool process_is_exiting_by_stat(const char *stat)
{
	const char *flags = procfs_stat_field(stat, STAT_FLAGS);

	return flags && strtoul(flags, NULL, 10) & FLAG_EXITING;
}

bool process_is_dying_by_stat(const char *stat)
{
	const char *exit_code = procfs_stat_field(stat, STAT_EXIT_CODE);

	return exit_code && process_is_exiting_by_stat(stat) && strtoul(exit_code, NULL, 10) & 0x7f;
}

/* Reads /proc/<tid>/<name>; nothing when that thread cannot be seen. */
static void read_proc(pid_t tid, const char *name, struct strbuf *out)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)tid, name);
	if (tid > 0 && read_text(path, out) < 0)
		strbuf_clear(out);
}

bool interrupt_cancels(pid_t tid)
{
	CLEANUP(strbuf_fini) struct strbuf status = STRBUF_INIT;

	read_proc(tid, "status", &status);
	return interrupt_cancels_by_status(status.data);
}

bool process_is_dying(pid_t tid)
{
	CLEANUP(strbuf_fini) struct strbuf stat = STRBUF_INIT;

	read_proc(tid, "stat", &stat);
	return process_is_dying_by_stat(stat.data);
}

bool process_is_exiting(pid_t tid)
{
	CLEANUP(strbuf_fini) struct strbuf stat = STRBUF_INIT;

	read_proc(tid, "stat", &stat);
	return process_is_exiting_by_stat(stat.data);
}

/* The thread that has its process's number. Signal 0 asks and does nothing, in a hundredth of the
 * time that its status takes. */
static bool is_first_thread(pid_t tid)
{
	return tid > 0 && (tgkill(tid, tid, 0) == 0 || errno == EPERM);
}

pid_t process_of_thread(pid_t tid)
{
	CLEANUP(strbuf_fini) struct strbuf status = STRBUF_INIT;

	if (is_first_thread(tid))
		return tid;
	read_proc(tid, "status", &status);
	return process_by_status(status.data);
}
