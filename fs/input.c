/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/input.h"

#include <errno.h>
#include <fcntl.h>
#include <utlist.h>

#include "fs/control.h"
#include "fs/handle-private.h"
#include "fs/inode.h"
#include "fs/reply.h"
#include "providers/lease-exec.h"

/* What went is what a WRITE says, and the failure is for the next one, as with a pipe. */
static void reply_fed(struct request *request, ssize_t r)
{
	if (request->fed > 0 || r >= 0)
		request_reply_written(request, request->fed);
	else
		request_reply_code(request, reply_errno((int)r));
}

/* 0: all of it went; -EAGAIN: what is left has to wait; -EPIPE. */
static ssize_t feed(struct handle *handle, struct request *request)
{
	while (request->fed < request->size) {
		ssize_t n = lease_exec_feed(handle->node.exec, request->bytes + request->fed,
			request->size - request->fed);

		handle->full = n == -EAGAIN;
		if (n < 0)
			return n;
		request->fed += (size_t)n;
	}
	return 0;
}

static void cancel(struct request *request)
{
	DL_DELETE(handle_of(request)->waiting, request);
	reply_fed(request, -EINTR);
}

/* There is one WRITE at a time: the kernel locks a file for those that are written past it. */
void input_write(struct handle *handle, struct request *request)
{
	ssize_t r = lease_exec_can_be_fed(handle->node.exec) ? feed(handle, request) : -EPIPE;

	if (r != -EAGAIN || request->file.flags & O_NONBLOCK) {
		reply_fed(request, r);
		return;
	}
	DL_APPEND(handle->waiting, request);
	request_hold(request, cancel);
}

bool input_write_would_wait(const struct handle *handle)
{
	return handle->full && lease_exec_can_be_fed(handle->node.exec);
}

void input_closed(struct handle *handle)
{
	const struct handle *other;

	if (!handle->writes)
		return;
	DL_FOREACH (handle->inode->handles, other)
		if (other->writes)
			return;
	lease_exec_feed_end(handle->node.exec);
}

static void serve_waiting(struct handle *handle)
{
	struct request *request, *after;

	handle->full = false;
	DL_FOREACH_SAFE (handle->waiting, request, after) {
		ssize_t r = feed(handle, request);

		if (r == -EAGAIN)
			return;
		DL_DELETE(handle->waiting, request);
		reply_fed(request, r);
	}
}

void input_wake(struct control *control, fuse_ino_t ino)
{
	handle_wake(control, ino, serve_waiting);
}
