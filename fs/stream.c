/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/reason.h"
#include "fs/control.h"
#include "fs/handle-private.h"
#include "fs/inode.h"
#include "fs/reply.h"
#include "providers/lease.h"

static const struct stream *stream_of(const struct handle *handle)
{
	return node_type(handle->node.kind)->stream;
}

/* Where in the text the reader stands. Of an endless one the text begins there. */
static uint64_t place_of(const struct handle *handle, const struct request *request)
{
	return stream_of(handle)->endless ? handle->text_read : request->offset;
}

/* Asks for more when all that there is has been read. False: there is nothing from that place on,
 * nor has the end come. */
static bool fetch(struct handle *handle, uint64_t place)
{
	const struct stream *stream = stream_of(handle);

	if (place >= handle->text.size && !handle->text_ended) {
		if (stream->endless) {
			strbuf_clear(&handle->text);
			place = handle->text_read = 0;
		}
		handle->text_ended = stream->more(
			handle->control, &handle->node, &handle->position, &handle->text);
	}
	return place < handle->text.size || handle->text_ended;
}

static void give(struct handle *handle, struct request *request)
{
	uint64_t place = place_of(handle, request);
	size_t from = place < handle->text.size ? (size_t)place : handle->text.size;
	size_t size = handle->text.size - from;

	if (size > request->size)
		size = request->size;
	handle->text_read = from + size;
	handle->end_read = size == 0 && handle->text_ended;
	if (strbuf_failed(&handle->text))
		request_reply_code(request, ENOMEM);
	else
		request_reply_bytes(request, handle->text.data + from, size);
	if (handle->end_read)
		control_told_one(handle->control);
}

static void cancel(struct request *request)
{
	DL_DELETE(handle_of(request)->waiting, request);
	request_reply_code(request, EINTR);
}

void stream_read(struct handle *handle, struct request *request)
{
	bool there;

	/* sendfile(2) and maps: they cannot wait, and a pipe has no pages */
	if (request->cached && (stream_of(handle)->endless || !handle->text_ended)) {
		request_reply_code(request, EINVAL);
		return;
	}
	there = !handle->waiting && fetch(handle, place_of(handle, request));
	if (there) {
		give(handle, request);
	} else if (request->file.flags & O_NONBLOCK) {
		request_reply_code(request, EAGAIN);
	} else {
		DL_APPEND(handle->waiting, request);
		request_hold(request, cancel);
	}
}

/* A READ at the very end of what ends is told so, which is no wait. */
bool stream_read_would_wait(struct handle *handle)
{
	return !fetch(handle, handle->text_read);
}

static void serve_waiting(struct handle *handle)
{
	struct request *request, *after;

	DL_FOREACH_SAFE (handle->waiting, request, after) {
		if (!fetch(handle, place_of(handle, request)))
			continue;
		DL_DELETE(handle->waiting, request);
		give(handle, request);
	}
}

void stream_wake(struct control *control, enum node_kind kind, uint64_t object)
{
	handle_wake(control, node_ino(kind, object), serve_waiting);
}

off_t stream_size(struct control *control, const struct node *node)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	const struct stream *stream = node_type(node->kind)->stream;
	uint64_t position = 0;

	if (stream->endless || !stream->more(control, node, &position, &text))
		return STREAM_OPEN_SIZE;
	return (off_t)text.size;
}

/* wait */

static bool wait_more(
	struct control *control, const struct node *node, uint64_t *position, struct strbuf *out)
{
	enum lease_state state = lease_state(node->lease);

	(void)control;
	(void)position;
	if (state == LEASE_STARTING || state == LEASE_ACTIVE)
		return false;
	strbuf_addf(
		out, "%s %s\n", lease_state_name(state), reason_word(lease_reason(node->lease)));
	return true;
}

const struct stream stream_wait = {.more = wait_more};
