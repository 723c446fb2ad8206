/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/handle.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "fs/control.h"
#include "fs/endpoints.h"
#include "fs/growing.h"
#include "fs/handle-private.h"
#include "fs/inode.h"
#include "fs/input.h"
#include "fs/notifier.h"
#include "fs/output.h"
#include "fs/reply.h"
#include "fs/stream.h"
#include "providers/lease-exec.h"
#include "providers/lease.h"

static const struct stream *stream_of(const struct handle *handle)
{
	return node_type(handle->node.kind)->stream;
}

/* Opening and closing */

static struct handle *create(struct control *control, const struct node *node, pid_t opener)
{
	const struct node_type *type = node_type(node->kind);
	struct inode *inode = inode_get(control, node_ino(node->kind, node->object));
	struct handle *handle = inode ? calloc(1, sizeof(*handle)) : NULL;

	if (!handle) {
		inode_tidy(control, inode);
		return NULL;
	}
	handle->control = control;
	handle->inode = inode;
	handle->node = *node;
	if (node->lease)
		handle->node.lease = lease_ref(node->lease);
	if (node->exec)
		handle->node.exec = lease_exec_ref(node->exec);
	strbuf_init(&handle->text);
	if (type->render)
		type->render(control, node, &handle->text);
	if (node_is_output(node->kind))
		handle->output = output_open(node);
	handle->conversing = type->verb != NULL;
	if (handle->conversing)
		talk_open(handle, opener);
	if (type->grows)
		growing_open(handle, opener);
	DL_PREPEND(inode->handles, handle);
	return handle;
}

static void destroy(struct handle *handle)
{
	struct inode *inode = handle->inode;

	talk_close(handle);
	if (handle->holds)
		lease_let_go(handle->node.lease);
	DL_DELETE(inode->handles, handle);
	if (handle->conversing)
		talk_abandon(handle);
	if (node_type(handle->node.kind)->fed)
		input_closed(handle);
	poll_wait_free(handle->poller);
	strbuf_fini(&handle->text);
	output_close(handle->output);
	if (handle->node.exec)
		lease_exec_unref(handle->node.exec);
	if (handle->node.lease)
		lease_unref(handle->node.lease);
	inode_tidy(handle->control, inode);
	free(handle);
}

static bool opens_for_writing(const struct request *request)
{
	return (request->file.flags & O_ACCMODE) != O_RDONLY;
}

/* What stands in the way of opening it so: root passes every mode, a known name outlives a slot. */
static int check_open(const struct request *request, const struct node *node, struct error *err)
{
	const struct node_type *type = node_type(node->kind);

	if (opens_for_writing(request) && !(type->mode & 0222))
		return error_set(err, EACCES, "'%s' is not to be written", type->name);
	if (node->kind == NODE_ENDPOINT)
		return endpoints_check(node, err);
	return 0;
}

/* A writer of `hold` is one from here on, so that the number that he reads has him in it. */
static int hold_if_asked(
	const struct request *request, const struct node *node, bool *ret_holds, struct error *err)
{
	int r = 0;

	*ret_holds = false;
	if (!opens_for_writing(request) || !node_type(node->kind)->holds)
		return 0;
	r = lease_hold(node->lease, err);
	if (r < 0)
		return error_wrap(err, "hold");
	*ret_holds = true;
	return 0;
}

static void reply_open(struct handle *handle, struct request *request)
{
	const struct stream *stream = stream_of(handle);

	request->file.fh = (uintptr_t)handle;
	request->file.direct_io = 1;
	request->file.nonseekable = stream && stream->endless;
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 11)
	/* nothing can be pending: saves a round trip */
	request->file.noflush = !opens_for_writing(request) || !handle->conversing;
#endif
	if (!request_reply_open(request, &request->file))
		destroy(handle);
}

/* Nothing of it lacks for want of memory. */
static bool is_whole(const struct handle *handle)
{
	return !strbuf_failed(&handle->text) &&
	       (handle->output || !node_is_output(handle->node.kind));
}

static int open_node(struct request *request, const struct node *node, struct handle **ret_handle,
	struct error *err)
{
	struct handle *handle;
	bool holds;
	int r = check_open(request, node, err);

	if (r == 0)
		r = hold_if_asked(request, node, &holds, err);
	if (r < 0)
		return r;
	handle = create(request->control, node, request->process);
	if (handle)
		handle->holds = holds;
	else if (holds)
		lease_let_go(node->lease);
	if (handle && is_whole(handle)) {
		*ret_handle = handle;
		return 0;
	}
	if (handle)
		destroy(handle);
	return error_set(err, ENOMEM, "no memory to open a file");
}

void handle_open(struct request *request)
{
	struct node node;
	struct handle *handle = NULL;
	struct error err = ERROR_NONE;
	int r = tree_node(request->control, request->ino, &node);

	if (r < 0) {
		request_reply_code(request, -r);
		return;
	}
	r = open_node(request, &node, &handle, &err);
	if (r < 0) {
		reply_failure(request, node.lease, &err);
		return;
	}
	handle->impatient = (request->file.flags & O_NONBLOCK) != 0;
	handle->reads = (request->file.flags & O_ACCMODE) != O_WRONLY;
	handle->writes = opens_for_writing(request);
	reply_open(handle, request);
}

void handle_abandon(struct handle *handle)
{
	destroy(handle);
}

void handle_release(struct request *request)
{
	struct handle *handle = handle_of(request);
	struct control *control = handle->control;

	if (handle->conversing)
		talk_release(handle);
	destroy(handle);
	request_reply_code(request, 0);
	control_told_one(control);
}

/* Reading */

static void read_text(struct handle *handle, struct request *request)
{
	size_t size = handle->text.size;
	size_t from = request->offset < size ? (size_t)request->offset : size;
	size_t left = size - from;

	request_reply_bytes(
		request, handle->text.data + from, left < request->size ? left : request->size);
}

/*
 * sendfile(2) and private maps read through the page cache even of a direct_io file. The cache is
 * the node's, not the handle's, and its reads begin at a page, not where the reader stands: a
 * conversation cannot be had through it. EINVAL is what makes programs fall back to read(2). A text
 * is given to its latest reader only: the kernel emptied the cache when he opened.
 */
static bool may_be_cached(const struct handle *handle)
{
	return !handle->conversing && handle->inode->handles == handle;
}

void handle_read(struct request *request)
{
	struct handle *handle = handle_of(request);

	if (request->cached && !may_be_cached(handle))
		request_reply_code(request, EINVAL);
	else if (handle->conversing)
		talk_read(handle, request);
	else if (handle->output)
		output_read(handle, request);
	else if (stream_of(handle))
		stream_read(handle, request);
	else if (node_type(handle->node.kind)->grows)
		growing_read(handle, request);
	else
		read_text(handle, request);
}

static bool read_would_wait(struct handle *handle)
{
	if (handle->conversing)
		return talk_read_would_wait(handle);
	if (handle->output)
		return output_read_would_wait(handle);
	return stream_of(handle) && stream_read_would_wait(handle);
}

static unsigned poll_events(struct handle *handle)
{
	unsigned ready = 0;

	if (!handle->reads || !read_would_wait(handle))
		ready |= POLLIN | POLLRDNORM;
	if (!node_type(handle->node.kind)->fed || !input_write_would_wait(handle))
		ready |= POLLOUT | POLLWRNORM;
	return ready;
}

void handle_poll(struct request *request)
{
	struct handle *handle = handle_of(request);

	if (request->poller) {
		poll_wait_free(handle->poller);
		handle->poller = take_ptr(&request->poller);
	}
	request_reply_poll(request, poll_events(handle));
}

void handle_wake_poller(struct handle *handle)
{
	if (handle->poller)
		notifier_wake(handle->control->notifier, take_ptr(&handle->poller));
}

void handle_wake(struct control *control, fuse_ino_t ino, void (*serve)(struct handle *handle))
{
	struct inode *inode = inode_find(control, ino);
	struct handle *handle;

	if (!inode)
		return;
	DL_FOREACH (inode->handles, handle) {
		bool fed = node_type(handle->node.kind)->fed;

		serve(handle);
		if (handle->poller &&
			!(fed ? input_write_would_wait(handle) : read_would_wait(handle)))
			handle_wake_poller(handle);
	}
}

/* Writing */

void handle_write(struct request *request)
{
	struct handle *handle = handle_of(request);

	if (handle->conversing)
		talk_write(handle, request);
	else if (node_type(handle->node.kind)->fed)
		input_write(handle, request);
	else if (handle->holds) /* that it is open is all that it says */
		request_reply_written(request, request->size);
	else
		request_reply_code(request, EBADF);
}

/* A WRITE is answered after it was set, and a FLUSH of what was written comes after that answer. */
bool handle_flush_matters(const struct fuse_file_info *file)
{
	const struct handle *handle =
		(struct handle *)(uintptr_t)file->fh; // NOLINT(performance-no-int-to-ptr)

	return atomic_load(&handle->pending);
}

void handle_flush(struct request *request)
{
	struct handle *handle = handle_of(request);

	if (handle->conversing)
		talk_flush(handle, request);
	else
		request_reply_code(request, 0);
}

void handle_fsync(struct request *request)
{
	struct handle *handle = handle_of(request);

	if (handle->conversing)
		talk_fsync(handle, request);
	else
		request_reply_code(request, 0);
}

void handle_truncate(struct handle *handle)
{
	if (handle->conversing)
		talk_truncate(handle);
}
