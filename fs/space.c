/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/space.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/loop.h"

enum { FRESH_MS = 1000 };

/* One look at the directory. Of the loop and of the worker, the one that leaves last frees it: a
 * daemon that stops does not wait for the other. */
struct look {
	atomic_uint refs;
	atomic_bool found; /* `now` is complete */
	uint64_t at_ms;
	struct statvfs now;
	char path[];
};

struct space {
	struct look *look; /* sent and not yet taken; NULL: none */
	struct statvfs known;
	uint64_t known_at_ms;
	char path[];
};

int space_create(const char *path, struct space **ret_space, struct error *err)
{
	size_t size = strlen(path) + 1;
	struct space *space = calloc(1, sizeof(*space) + size);

	if (!space)
		return error_set(err, ENOMEM, "no memory for the control files");
	memcpy(space->path, path, size);
	(void)statvfs(path, &space->known);
	*ret_space = space;
	return 0;
}

static void look_unref(struct look *look)
{
	if (look && atomic_fetch_sub(&look->refs, 1) == 1)
		free(look);
}

void space_destroy(struct space *space)
{
	if (!space)
		return;
	look_unref(space->look);
	free(space);
}

static void ask(void *data)
{
	struct look *look = data;

	if (statvfs(look->path, &look->now) < 0)
		look->now = (struct statvfs){0};
	look->at_ms = loop_now_ms();
	atomic_store(&look->found, true);
	look_unref(look);
}

/* The loop may be gone, or the look: who wants the answer comes for it. */
static void nobody_waits(void *data)
{
	(void)data;
}

static void send_worker(struct space *space, struct loop *loop)
{
	size_t size = strlen(space->path) + 1;
	struct look *look = calloc(1, sizeof(*look) + size);

	if (!look)
		return;
	memcpy(look->path, space->path, size);
	atomic_init(&look->refs, 2);
	if (loop_work(loop, ask, nobody_waits, look, NULL) < 0)
		free(look);
	else
		space->look = look;
}

static void take_answer(struct space *space)
{
	struct look *look = space->look;

	if (!look || !atomic_load(&look->found))
		return;
	if (look->now.f_frsize > 0)
		space->known = look->now;
	space->known_at_ms = look->at_ms;
	space->look = NULL;
	look_unref(look);
}

void space_read(struct space *space, struct loop *loop, struct statvfs *ret_space)
{
	take_answer(space);
	if (!space->look && loop_now_ms() - space->known_at_ms > FRESH_MS)
		send_worker(space, loop);
	*ret_space = space->known;
}
