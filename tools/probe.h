/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * probe.h: does our own mount answer? Asked by another process: a daemon that waits for itself
 * could not even be killed. Threads: loop; probe_mount() is what that process runs.
 */
#ifndef TOOLS_PROBE_H
#define TOOLS_PROBE_H

struct error;
struct loop;
struct probe;

/* r 0: it answers; else -errno with a sentence. The probe has ended; probe_destroy() it. */
typedef void probe_done_fn(void *data, int r, const struct error *err);

/* Runs this program as `--probe=MOUNTPOINT`. done() runs once, later. */
int probe_start(struct loop *loop, const char *mountpoint, probe_done_fn *done, void *data,
	struct probe **ret_probe, struct error *err);
/* Ends it, without done(), when it is still running; then the mount must be gone, or answer.
 * Accepts NULL. */
void probe_destroy(struct probe *probe);

/* Looks at the mount's status. Returns 0 or the errno, for use as exit status. */
int probe_mount(const char *mountpoint);

#endif
