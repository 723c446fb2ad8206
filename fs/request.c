/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/request.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "fs/context.h"
#include "fs/control.h"
#include "fs/interrupt.h"
#include "fs/notifier.h"

enum { WATCH_ATONCE = 100 }; /* requests looked at in one turn of the loop: 2 ms */

struct request *request_create(fuse_req_t fuse, fuse_ino_t ino, const void *bytes, size_t size,
	const struct fuse_file_info *file)
{
	const struct fs_context *context = fuse_req_userdata(fuse);
	struct request *request = calloc(1, sizeof(*request) + size + 1);

	if (!request) {
		(void)fuse_reply_err(fuse, ENOMEM);
		return NULL;
	}
	request->control = context->control;
	request->fuse = fuse;
	request->ino = ino;
	request->size = size;
	if (bytes)
		memcpy(request->bytes, bytes, size);
	if (file) {
		request->file = *file;
		request->has_file = true;
	}
	return request;
}

static void run_task(void *data)
{
	struct request *request = data;

	request->run(request);
}

void request_post(struct request *owned_request, request_fn *run)
{
	owned_request->run = run;
	owned_request->task.fn = run_task;
	owned_request->task.data = owned_request;
	loop_post(owned_request->control->loop, &owned_request->task);
}

static void free_request(struct request *request)
{
	poll_wait_free(request->poller);
	free(request);
}

static void watch(void *data);

/* Linux tells of one signal a request. After a harmless one we have to look for ourselves whether a
 * fatal one follows. */
static void start_watching(struct request *request)
{
	struct control *control = request->control;

	request->watched = true;
	if (!control->watch)
		(void)loop_timer_start(
			control->loop, INTERRUPT_AGAIN_MS, watch, control, &control->watch, NULL);
}

/* Those that were looked at go to the end of the list, so that each has its turn however many there
 * are. */
static void watch(void *data)
{
	struct control *control = data;
	struct request *request, *after, *first_seen = NULL;
	int looked = 0;

	loop_timer_stop(control->watch);
	control->watch = NULL;
	DL_FOREACH_SAFE2(control->held, request, after, held_next)
	{
		if (request == first_seen || looked == WATCH_ATONCE)
			break;
		if (!request->watched)
			continue;
		looked++;
		if (interrupt_cancels(fuse_req_ctx(request->fuse)->pid)) {
			request->cancelled(
				request); /* others may go with it: look again next time */
			break;
		}
		first_seen = first_seen ? first_seen : request;
		DL_DELETE2(control->held, request, held_prev, held_next);
		DL_APPEND2(control->held, request, held_prev, held_next);
	}
	if (looked > 0)
		(void)loop_timer_start(
			control->loop, INTERRUPT_AGAIN_MS, watch, control, &control->watch, NULL);
}

static void run_interrupt(void *data)
{
	struct request *request = data;

	if (request->answered) {
		free_request(request);
		return;
	}
	atomic_store(&request->interrupt_posted, false);
	if (atomic_load(&request->fatal))
		request->cancelled(request);
	else
		start_watching(request);
}

/* On a worker, or inside request_hold() when it has come already; libfuse holds the request's lock.
 */
static void handle_interrupt(fuse_req_t fuse, void *data)
{
	struct request *request = data;

	if (atomic_exchange(&request->interrupt_posted, true))
		return;
	atomic_store(&request->fatal, interrupt_cancels(fuse_req_ctx(fuse)->pid));
	request->interrupt.fn = run_interrupt;
	request->interrupt.data = request;
	loop_post(request->control->loop, &request->interrupt);
}

void request_hold(struct request *request, request_fn *cancelled)
{
	assert(loop_is_mine(request->control->loop));
	request->cancelled = cancelled;
	request->held = true;
	DL_APPEND2(request->control->held, request, held_prev, held_next);
	fuse_req_interrupt_func(request->fuse, handle_interrupt, request);
}

/* Before the answer: from here on no interrupt can find the request any more. */
static fuse_req_t begin_answer(struct request *request)
{
	assert(loop_is_mine(request->control->loop) && !request->answered);
	request->answered = true;
	if (request->held) {
		DL_DELETE2(request->control->held, request, held_prev, held_next);
		fuse_req_interrupt_func(request->fuse, NULL, NULL);
	}
	return request->fuse;
}

static void end_answer(struct request *request)
{
	if (!atomic_load(&request->interrupt_posted))
		free_request(request); /* else run_interrupt() does it */
}

void request_reply_code(struct request *request, int code)
{
	(void)fuse_reply_err(begin_answer(request), code);
	end_answer(request);
}

void request_reply_entry(struct request *request, const struct fuse_entry_param *entry)
{
	(void)fuse_reply_entry(begin_answer(request), entry);
	end_answer(request);
}

void request_reply_attr(struct request *request, const struct stat *st, double timeout)
{
	(void)fuse_reply_attr(begin_answer(request), st, timeout);
	end_answer(request);
}

bool request_reply_open(struct request *request, const struct fuse_file_info *file)
{
	int r = fuse_reply_open(begin_answer(request), file);

	end_answer(request);
	return r == 0;
}

void request_reply_bytes(struct request *request, const char *bytes, size_t size)
{
	(void)fuse_reply_buf(begin_answer(request), bytes, size);
	end_answer(request);
}

void request_reply_written(struct request *request, size_t size)
{
	(void)fuse_reply_write(begin_answer(request), size);
	end_answer(request);
}

void request_reply_poll(struct request *request, unsigned events)
{
	(void)fuse_reply_poll(begin_answer(request), events);
	end_answer(request);
}

void request_reply_statfs(struct request *request, const struct statvfs *space)
{
	(void)fuse_reply_statfs(begin_answer(request), space);
	end_answer(request);
}

unsigned request_held_count(const struct control *control)
{
	const struct request *request;
	unsigned count;

	DL_COUNT2(control->held, request, count, held_next);
	return count;
}

void request_end_all(struct control *control)
{
	while (control->held)
		control->held->cancelled(control->held);
}
