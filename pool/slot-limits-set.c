/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/settings.h"
#include "pool/cgroup.h"
#include "pool/slot-limits-private.h"

enum {
	NO_WEIGHT = 100,  /* the kernel's own, of cgroup v2 */
	NO_SHARES = 1024, /* the same, of v1 */
};

static int open_in(const char *dir, const char *file, int flags)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;
	int fd;

	strbuf_addf(&path, "%s/%s", dir, file);
	if (strbuf_failed(&path))
		return -ENOMEM;
	fd = open(path.data, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int set_number(const char *path, const char *file, uint64_t number)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, number);
	return cgroup_write(path, file, text);
}

/* Memory and swap together, so that there is no more by swapping. The order matters: the one may
 * never be above the other. */
static int set_memory1(struct slot_limits *slot, const char *path, const struct config *config)
{
	uint64_t max = config->slot.memory_max;
	int r = max > 0 ? set_number(path, "memory.limit_in_bytes", max) : 0;

	if (r == 0 && max > 0) {
		r = set_number(path, "memory.memsw.limit_in_bytes", max);
		r = r == -ENOENT || r == -EOPNOTSUPP ? 0 : r;
	}
	if (r == 0)
		r = slot->commands_fd = open_in(path, "tasks", O_WRONLY);
	if (r >= 0)
		r = slot->oom_fd = open_in(path, "memory.oom_control", O_RDONLY);
	if (r >= 0)
		r = slot->usage_fd = open_in(path, "memory.usage_in_bytes", O_RDONLY);
	return r < 0 ? r : 0;
}

static int add_join(struct slot_limits *slot, const char *path)
{
	int fd = open_in(path, "tasks", O_WRONLY);

	if (fd < 0)
		return fd;
	slot->joins[slot->join_count++] = fd;
	return 0;
}

static int set_pids1(struct slot_limits *slot, const char *path, const struct config *config)
{
	int r = set_number(path, "pids.max", config->slot.pids_max);

	if (r == 0)
		r = add_join(slot, path);
	if (r == 0)
		slot->pids_fd = open_in(path, "pids.events", O_RDONLY); /* since Linux 4.8 */
	return r;
}

static int set_cpu1(struct slot_limits *slot, const char *path, const struct config *config)
{
	int r = set_number(
		path, "cpu.shares", (uint64_t)config->slot.cpu_weight * NO_SHARES / NO_WEIGHT);

	return r < 0 ? r : add_join(slot, path);
}

int slot_limits_set1(struct slot_limits *slot, enum controller controller, const char *name,
	const struct limits *limits, struct error *err)
{
	static int (*const setters[])(struct slot_limits *, const char *, const struct config *) = {
		[CONTROLLER_MEMORY] = set_memory1,
		[CONTROLLER_PIDS] = set_pids1,
		[CONTROLLER_CPU] = set_cpu1,
	};
	char *path;
	int r;

	if (asprintf(&path, "%s/%s", limits->by[controller].tree.data, name) < 0)
		return error_set(err, ENOMEM, "no memory for a slot's limits");
	slot->paths[controller] = path;
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return error_errno(err, errno, "cannot make the cgroup '%s'", path);
	r = setters[controller](slot, path, limits->config);
	return r < 0 ? error_errno(err, -r, "cannot set the limits of '%s'", path) : 0;
}

static int set_at(int dir_fd, const char *file, uint64_t number)
{
	CLEANUP(closep) int fd = openat(dir_fd, file, O_WRONLY | O_CLOEXEC);
	char text[24];
	int n = snprintf(text, sizeof(text), "%" PRIu64, number);

	if (fd < 0)
		return -errno;
	return write(fd, text, (size_t)n) == n ? 0 : -errno;
}

/* Swap would be memory without a limit; where it is not counted there is no file. One process at a
 * time is ended, not the slot. */
static int set_memory2(
	struct slot_limits *slot, const struct slot_cgroup *cgroup, const struct config *config)
{
	int dir_fd = slot_cgroup_commands_fd(cgroup);
	int r = set_at(dir_fd, "memory.oom.group", 0);

	if (r == 0 && config->slot.memory_high > 0) {
		r = set_at(dir_fd, "memory.high", config->slot.memory_high);
		slot->high = config->slot.memory_high;
		slot->high_fd = openat(dir_fd, "memory.high", O_WRONLY | O_CLOEXEC);
		if (slot->high_fd < 0) /* it could not be lifted */
			return -errno;
	}
	if (r == 0 && config->slot.memory_max > 0)
		r = set_at(dir_fd, "memory.max", config->slot.memory_max);
	if (r == 0) {
		r = set_at(dir_fd, "memory.swap.max", 0);
		r = r == -ENOENT ? 0 : r;
	}
	if (r < 0)
		return r;
	slot->oom_fd = openat(dir_fd, "memory.events", O_RDONLY | O_CLOEXEC);
	slot->usage_fd = openat(dir_fd, "memory.current", O_RDONLY | O_CLOEXEC);
	return slot->oom_fd < 0 || slot->usage_fd < 0 ? -errno : 0;
}

static int set_pids2(
	struct slot_limits *slot, const struct slot_cgroup *cgroup, const struct config *config)
{
	int dir_fd = slot_cgroup_dir_fd(cgroup);
	int r = set_at(dir_fd, "pids.max", config->slot.pids_max);

	if (r < 0)
		return r;
	slot->pids_fd = openat(dir_fd, "pids.events", O_RDONLY | O_CLOEXEC);
	return slot->pids_fd < 0 ? -errno : 0;
}

static int set_cpu2(
	struct slot_limits *slot, const struct slot_cgroup *cgroup, const struct config *config)
{
	return set_at(slot_cgroup_dir_fd(cgroup), "cpu.weight", config->slot.cpu_weight);
}

int slot_limits_set2(struct slot_limits *slot, enum controller controller,
	const struct slot_cgroup *cgroup, const struct limits *limits, struct error *err)
{
	static int (*const setters[])(
		struct slot_limits *, const struct slot_cgroup *, const struct config *) = {
		[CONTROLLER_MEMORY] = set_memory2,
		[CONTROLLER_PIDS] = set_pids2,
		[CONTROLLER_CPU] = set_cpu2,
	};
	int r = setters[controller](slot, cgroup, limits->config);

	return r < 0 ? error_errno(err, -r, "cannot set the limit on %s of '%s'",
			       controller_name(controller), slot_cgroup_path(cgroup))
		     : 0;
}
