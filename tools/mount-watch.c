/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tools/mount-watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "base/mounts.h"
#include "base/strbuf.h"

struct mount_watch {
	int fd; /* /proc/self/mountinfo: has priority data when something was mounted or unmounted
		 */
	unsigned long id;
	struct loop_watch *watch;
	loop_fn *gone;
	void *data;
};

static int read_mounts(int fd, struct strbuf *out)
{
	return lseek(fd, 0, SEEK_SET) < 0 ? -errno : read_all(fd, out);
}

/* The last one there is on top. 0: none. */
static unsigned long find_at(const char *mounts, const char *path)
{
	unsigned long found = 0;
	struct mount_line mount;

	while (mount_next(&mounts, &mount))
		if (mount_is_at(&mount, path))
			found = mount.id;
	return found;
}

static bool has_id(const char *mounts, unsigned long wanted)
{
	struct mount_line mount;

	while (mount_next(&mounts, &mount))
		if (mount.id == wanted)
			return true;
	return false;
}

static void handle_change(void *data, unsigned events)
{
	CLEANUP(strbuf_fini) struct strbuf mounts = STRBUF_INIT;
	struct mount_watch *watch = data;

	if (read_mounts(watch->fd, &mounts) < 0 || has_id(mounts.data, watch->id))
		return;
	loop_watch_events(watch->watch, 0);
	watch->gone(watch->data);
}

static int fill(struct mount_watch *watch, const char *path, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf mounts = STRBUF_INIT;
	int r;

	watch->fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	r = watch->fd < 0 ? -errno : read_mounts(watch->fd, &mounts);
	if (r < 0)
		return error_errno(err, -r, "cannot read /proc/self/mountinfo");
	watch->id = find_at(mounts.data, path);
	return watch->id ? 0 : error_set(err, ENOENT, "nothing is mounted at '%s'", path);
}

int mount_watch_start(struct loop *loop, const char *path, loop_fn *gone, void *data,
	struct mount_watch **ret_watch, struct error *err)
{
	struct mount_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return error_set(err, ENOMEM, "no memory for the mount's watch");
	watch->gone = gone;
	watch->data = data;
	watch->fd = -1;
	r = fill(watch, path, err);
	if (r == 0)
		r = loop_watch_start(
			loop, watch->fd, LOOP_PRIORITY, handle_change, watch, &watch->watch, err);
	if (r < 0) {
		mount_watch_stop(watch);
		return r;
	}
	*ret_watch = watch;
	return 0;
}

void mount_watch_stop(struct mount_watch *watch)
{
	if (!watch)
		return;
	loop_watch_stop(watch->watch);
	closep(&watch->fd);
	free(watch);
}
