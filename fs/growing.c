/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/growing.h"

#include <errno.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "fs/control.h"
#include "fs/handle-private.h"
#include "fs/inode.h"
#include "fs/stream.h"
#include "pool/events.h"

enum { AT_ONCE = 64 * 1024 };

bool growing_asks_who(fuse_ino_t ino)
{
	return ino == node_ino(NODE_EVENTS, 0);
}

void growing_open(struct handle *handle, pid_t opener)
{
	handle->opener = opener;
	handle->position = events_count(handle->control->events) + 1;
}

/* Appends some of what has come since. False: nothing has. */
static bool grow(struct handle *handle)
{
	size_t size = handle->text.size;

	events_read(handle->control->events, &handle->position, AT_ONCE, &handle->text);
	if (handle->text.size == size)
		return false;
	if (handle->text.size > GROWING_KEPT) { /* by half, so that it is not moved each time */
		size = handle->text.size - GROWING_KEPT / 2;
		strbuf_drop(&handle->text, size);
		handle->text_from += size;
	}
	return true;
}

void growing_read(struct handle *handle, struct request *request)
{
	uint64_t place;
	size_t left;

	while (request->offset >= handle->text_from + handle->text.size && grow(handle))
		;
	if (strbuf_failed(&handle->text)) {
		request_reply_code(request, ENOMEM);
		return;
	}
	if (request->offset < handle->text_from) {
		request_reply_code(request, ENODATA);
		return;
	}
	place = request->offset - handle->text_from;
	left = place < handle->text.size ? handle->text.size - (size_t)place : 0;
	request_reply_bytes(request, handle->text.data + handle->text.size - left,
		left < request->size ? left : request->size);
}

static off_t end_of(const struct handle *handle)
{
	CLEANUP(strbuf_fini) struct strbuf more = STRBUF_INIT;
	uint64_t position = handle->position;

	events_read(handle->control->events, &position, SIZE_MAX / 2, &more);
	return (off_t)(handle->text_from + handle->text.size + more.size);
}

static off_t longer(off_t a, off_t b)
{
	return a > b ? a : b;
}

off_t growing_size(struct control *control, const struct node *node, pid_t process, off_t snapshot)
{
	struct inode *inode = inode_find(control, node_ino(node->kind, node->object));
	const struct handle *handle;
	off_t own = -1;

	if (!inode || !inode->handles)
		return snapshot;
	DL_FOREACH (inode->handles, handle)
		if (process > 0 && handle->opener == process)
			own = longer(own, end_of(handle));
	if (own >= 0)
		return own;
	/* by one that it was given, if there is no doubt which */
	return inode->handles->next ? snapshot : longer(snapshot, end_of(inode->handles));
}

/* events.follow */

static bool events_more(
	struct control *control, const struct node *node, uint64_t *position, struct strbuf *out)
{
	size_t size = out->size;

	(void)node;
	events_read(control->events, position, AT_ONCE, out);
	return control->finished && out->size == size;
}

const struct stream stream_events = {.endless = true, .more = events_more};
