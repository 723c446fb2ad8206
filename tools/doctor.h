/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * doctor.h: what `dressage doctor` looks at. Each check is a function in one table (doctor.c) and
 * says what it found, once or several times: fine, worse than it could be, or in the way of a
 * daemon; and what to do about it.
 *
 * A check reads the host's files below `root`, so that a test can show it any host; what a check
 * tries for real it tries on this one. Programs are started by posix_spawn and killed when they
 * take too long. Threads: none.
 */
#ifndef TOOLS_DOCTOR_H
#define TOOLS_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/strbuf.h"

struct config;
struct doctor;

enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL, DOCTOR_LEVEL_COUNT };

/* remedy: "" where nothing need be done. Texts are one line each, borrowed for the call. */
typedef void doctor_say_fn(void *data, enum doctor_level level, const char *name,
	const char *finding, const char *remedy);

struct doctor_check {
	const char *name;
	void (*run)(struct doctor *doctor);
};

struct doctor {
	const char *root;              /* "" for this host */
	const struct config *config;   /* of the daemon that is to run here */
	const char *mountpoint;        /* where it mounts */
	bool privileged;               /* it will be root's */
	int (*look)(const char *path); /* doctor_look_apart(), or a test's */
	bool mounted;                  /* a daemon of it answers: set by the check of the mount */
	doctor_say_fn *say;
	void *data;
	const struct doctor_check *check; /* the one that runs */
	enum doctor_level worst;          /* of all that was said */
};

/* Runs every check in order; the worst of what was said is in doctor->worst. */
void doctor_run(struct doctor *doctor);
/* One by its name, for tests. False: there is none of it. */
bool doctor_run_one(struct doctor *doctor, const char *name);

void doctor_ok(struct doctor *doctor, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void doctor_warn(struct doctor *doctor, const char *remedy, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void doctor_fail(struct doctor *doctor, const char *remedy, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The text of a file below root; false when it cannot be read. */
bool doctor_read(const struct doctor *doctor, const char *path, struct strbuf *ret_text);
/* The number that a file below root begins with; fallback when there is none. */
long long doctor_number(const struct doctor *doctor, const char *path, long long fallback);

/*
 * Runs a program (looked for along PATH) and appends what it says on both outputs, at most 64 KiB.
 * Its exit status; 128 + signal; -ETIMEDOUT after it was killed, -errno when it cannot be started.
 */
int doctor_spawn(const char *const *argv, unsigned timeout_ms, struct strbuf *output);

/* doctor-host.c: the kernel and what an administrator has set. */
void check_kernel(struct doctor *doctor);
void check_fuse(struct doctor *doctor);
void check_allow_other(struct doctor *doctor);
void check_request_timeout(struct doctor *doctor);
void check_user_namespaces(struct doctor *doctor);
void check_proc(struct doctor *doctor);
void check_seccomp(struct doctor *doctor);
void check_cgroup(struct doctor *doctor);
/* doctor-user.c: as whom the daemon runs. */
void check_uids(struct doctor *doctor);
void check_groups(struct doctor *doctor);
void check_user_quotas(struct doctor *doctor);
/* doctor-place.c: what it needs room in. */
void check_disk(struct doctor *doctor);
void check_descriptors(struct doctor *doctor);
void check_ports(struct doctor *doctor);
/* doctor-net.c */
void check_nat(struct doctor *doctor);
/* doctor-try.c: what only trying shows. */
void check_bwrap(struct doctor *doctor);
void check_libfuse(struct doctor *doctor);
void check_slot(struct doctor *doctor);
/* doctor-mounts.c: what is mounted, and whether it answers. */
void check_mounts(struct doctor *doctor);
void check_daemon(struct doctor *doctor);
/* Looks at a path that may hang: 0, -errno, -ETIMEDOUT. */
int doctor_look_apart(const char *path);

#endif
