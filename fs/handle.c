/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/handle.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/operation.h"
#include "fs/control.h"
#include "fs/inode.h"
#include "fs/job.h"
#include "fs/notifier.h"
#include "fs/reply.h"
#include "providers/lease.h"

static struct handle *handle_of(const struct request *request)
{
	return (struct handle *)(uintptr_t)request->file.fh; // NOLINT(performance-no-int-to-ptr)
}

static const struct verb *verb_of(const struct handle *handle)
{
	return node_type(handle->node.kind)->verb;
}

/* Opening and closing */

static enum conversation_kind conversation_kind_of(const struct verb *verb)
{
	if (verb->script)
		return CONVERSATION_SCRIPT;
	return verb->immediate ? CONVERSATION_VERB : CONVERSATION_LINE;
}

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
	strbuf_init(&handle->text);
	if (type->render)
		type->render(control, node, &handle->text);
	handle->conversing = type->verb != NULL;
	if (handle->conversing && !inode->handles)
		inode->told_size = tree_size(control, node); /* by the lookup a moment ago */
	if (handle->conversing)
		conversation_init(&handle->talk, conversation_kind_of(type->verb), opener);
	DL_PREPEND(inode->handles, handle);
	return handle;
}

static void leave_job(struct handle *handle)
{
	struct job *job = take_ptr(&handle->job);

	if (!job)
		return;
	DL_DELETE2(job->handles, handle, job_prev, job_next);
	job_unref(job);
}

static void destroy(struct handle *handle)
{
	struct inode *inode = handle->inode;

	leave_job(handle);
	DL_DELETE(inode->handles, handle);
	poll_wait_free(handle->poller);
	conversation_fini(&handle->talk);
	job_unref(handle->shown);
	strbuf_fini(&handle->text);
	if (handle->node.lease)
		lease_unref(handle->node.lease);
	inode_tidy(handle->control, inode);
	free(handle);
}

void handle_open(struct request *request)
{
	struct node node;
	const struct node_type *type;
	struct handle *handle;
	bool writes = (request->file.flags & O_ACCMODE) != O_RDONLY;
	int r = tree_node(request->control, request->ino, &node);

	if (r < 0) {
		request_reply_code(request, -r);
		return;
	}
	type = node_type(node.kind);
	if (writes && !type->verb) { /* root passes every mode */
		request_reply_code(request, EACCES);
		return;
	}
	handle = create(request->control, &node, request->process);
	if (!handle || strbuf_failed(&handle->text)) {
		if (handle)
			destroy(handle);
		request_reply_code(request, ENOMEM);
		return;
	}
	handle->impatient = (request->file.flags & O_NONBLOCK) != 0;
	handle->reads = (request->file.flags & O_ACCMODE) != O_WRONLY;
	request->file.fh = (uintptr_t)handle;
	request->file.direct_io = 1;
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 11)
	request->file.noflush = !writes; /* nothing can be pending: saves a round trip */
#endif
	request_reply_open(request, &request->file);
}

void handle_abandon(struct handle *handle)
{
	destroy(handle);
}

/* The job of a turn */

/* Before the answer to whatever may have changed it. */
static void note_pending(struct handle *handle)
{
	atomic_store(&handle->pending, conversation_pending(&handle->talk));
}

static bool answer_turn(struct handle *handle, const char *bytes, size_t size)
{
	CLEANUP(strbuf_fini) struct strbuf reply = STRBUF_INIT;

	strbuf_add(&reply, bytes, size);
	return conversation_answer(&handle->talk, handle->talk.turn, &reply);
}

/* The reply of a turn's job, which may have many megabytes and many readers: it is not copied. */
static void show_reply(struct handle *handle, struct job *job)
{
	struct job *former = handle->shown;

	if (!conversation_lend(&handle->talk, handle->talk.turn, &job->reply))
		return;
	handle->shown = job_ref(job);
	job_unref(former);
}

/* Gives the READ what there is by now: bytes, or the failure of what it committed itself. */
static void serve(struct handle *handle, struct request *request, int committed_result)
{
	struct error err = ERROR_NONE;
	const char *bytes = "";
	size_t size = 0;
	int r;

	if (request->commits && committed_result < 0) {
		request_reply_code(request, reply_errno(committed_result));
		return;
	}
	r = conversation_read(&handle->talk, request->offset, request->size, &bytes, &size, &err);
	if (r == CONVERSATION_REPLY)
		request_reply_bytes(request, bytes, size);
	else
		request_reply_code(request, r < 0 ? reply_errno(r) : EIO);
}

static void answer_waiting(struct handle *handle, struct request *request, int result)
{
	DL_DELETE(handle->waiting, request);
	if (request->run == handle_read)
		serve(handle, request, result);
	else
		request_reply_code(request, reply_errno(result));
}

void handle_settle(struct handle *handle)
{
	struct job *job = job_ref(handle->job);

	leave_job(handle);
	show_reply(handle, job);
	while (handle->waiting)
		answer_waiting(handle, handle->waiting, job->result);
	job_unref(job);
}

void handle_wake_poller(struct handle *handle)
{
	if (handle->poller)
		notifier_wake(handle->control->notifier, take_ptr(&handle->poller));
}

/* From now on the handle's turn is about this job. Takes over the reference. False: it is done
 * already, and its reply given. */
static bool follow(struct handle *handle, struct job *owned_job, bool own)
{
	leave_job(handle);
	handle->own = own;
	if (owned_job->done) {
		show_reply(handle, owned_job);
		job_unref(owned_job);
		return false;
	}
	handle->job = owned_job;
	DL_APPEND2(owned_job->handles, handle, job_prev, job_next);
	return true;
}

/* Carries out what the conversation has collected. -errno: it failed at once, and was said; 0: it
 * is done; 1: it goes on. */
static int commit(struct handle *handle)
{
	const struct strbuf *text = conversation_request(&handle->talk);
	struct job *job;
	int result;

	job = job_begin(handle->control, &handle->node, text->data, text->size,
		conversation_request_is_json(&handle->talk));
	if (!job) {
		(void)answer_turn(handle, "", 0);
		return -ENOMEM;
	}
	result = job->result;
	return follow(handle, job, true) ? 1 : result;
}

/* The lease's caller has gone, or asks for an end: what was committed here is cancelled; what
 * others committed is not ours. */
static void cancel_waiting(struct request *request)
{
	struct handle *handle = handle_of(request);
	struct operation *operation = handle->job && handle->own ? handle->job->operation : NULL;

	DL_DELETE(handle->waiting, request);
	request_reply_code(request, EINTR);
	operation_cancel(operation);
}

static void wait_for_job(struct handle *handle, struct request *request)
{
	DL_APPEND(handle->waiting, request);
	request_hold(request, cancel_waiting);
}

/* READ */

static void read_text(struct handle *handle, struct request *request)
{
	size_t size = handle->text.size;
	size_t from = request->offset < size ? (size_t)request->offset : size;
	size_t left = size - from;

	request_reply_bytes(
		request, handle->text.data + from, left < request->size ? left : request->size);
}

/*
 * The request whose reply is shown to a reader who wrote nothing. Who opened with O_NONBLOCK gets
 * the last one that is done. Who set the flag later (Go, event loops) does so in order to poll, and
 * wants what anybody gets.
 */
static struct job *shown_job(const struct handle *handle)
{
	const struct inode *inode = handle->inode;

	if (!verb_of(handle)->shows_last)
		return NULL;
	if (handle->impatient && inode->last_done && !inode->last->done)
		return inode->last_done;
	return inode->last;
}

/* Reading without having written: the last request's reply, or what the file says by itself. True:
 * it has to wait. */
static bool ask(struct handle *handle)
{
	const struct verb *verb = verb_of(handle);
	struct job *job = shown_job(handle);

	if (job)
		return follow(handle, job_ref(job), false);
	if (verb->usage)
		(void)answer_turn(handle, verb->usage, strlen(verb->usage));
	else
		(void)answer_turn(handle, handle->text.data, handle->text.size);
	return false;
}

/*
 * Go sets the flag on every file in order to poll, and polls for its Read, which goes on behind
 * what was written; its ReadAt (pread) takes EAGAIN for a failure.
 */
static bool may_poll(const struct handle *handle, const struct request *request)
{
	return handle->impatient || request->offset == handle->write_end;
}

/* last_error stands beside several request files: it says which one was written to. */
static struct error named_after(const struct handle *handle, const struct error *err)
{
	struct error named = *err;

	(void)error_wrap(&named, "%s", verb_of(handle)->name);
	return named;
}

static void fail(struct handle *handle, struct request *request, const struct error *err)
{
	struct error named = named_after(handle, err);

	reply_failure(request, handle->node.lease, &named);
}

static void wait_or_again(struct handle *handle, struct request *request)
{
	if (request->file.flags & O_NONBLOCK && may_poll(handle, request))
		request_reply_code(request, EAGAIN);
	else
		wait_for_job(handle, request);
}

static void read_conversation(struct handle *handle, struct request *request)
{
	struct error err = ERROR_NONE;
	const char *bytes;
	size_t size;
	int result = 0, r = conversation_read(
				&handle->talk, request->offset, request->size, &bytes, &size, &err);
	bool waits = r == CONVERSATION_WAIT;

	note_pending(handle);
	if (r < 0) {
		fail(handle, request, &err);
		return;
	}
	if (r == CONVERSATION_REPLY) {
		request_reply_bytes(request, bytes, size);
		return;
	}
	if (r == CONVERSATION_ASK)
		waits = ask(handle);
	if (r == CONVERSATION_COMMIT) {
		request->commits = true;
		result = commit(handle);
		waits = result > 0;
	}
	if (waits)
		wait_or_again(handle, request);
	else
		serve(handle, request, result);
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
		read_conversation(handle, request);
	else
		read_text(handle, request);
}

/* WRITE, and the calls that commit */

/* The lease cannot do it any more: said to the WRITE, which a shell listens to, and kept as the
 * request's outcome. */
static bool refused(struct handle *handle, struct request *request)
{
	const struct verb *verb = verb_of(handle);
	struct error err = ERROR_NONE;
	struct job *job;

	if (!verb->refuse || verb->refuse(&handle->node, &err) == 0)
		return false;
	conversation_truncate(&handle->talk);
	note_pending(handle);
	job = job_refused(handle->control, &handle->node, &err);
	job_unref(job);
	request_reply_code(request, reply_errno(-err.code));
	return true;
}

static void write_conversation(struct request *request)
{
	struct handle *handle = handle_of(request);
	struct error err = ERROR_NONE;
	int r;

	if (request->control->ended) {
		request_reply_code(request, ENOTCONN);
		return;
	}
	if (refused(handle, request))
		return;
	r = conversation_write(
		&handle->talk, request->bytes, request->size, handle->waiting != NULL, &err);
	note_pending(handle);
	if (r == -EBUSY) {
		request_reply_code(request, EBUSY);
		return;
	}
	if (r < 0) {
		fail(handle, request, &err);
		return;
	}
	handle->write_end = request->offset + request->size;
	leave_job(handle); /* what was asked before goes on without us */
	if (handle->talk.state != CONVERSATION_ANSWERED)
		job_unref(take_ptr(&handle->shown));
	r = r == CONVERSATION_COMMIT ? commit(handle) : 0;
	if (r < 0)
		request_reply_code(request, reply_errno(r));
	else
		request_reply_written(request, request->size);
}

/* On the notifier's thread. */
static void send_stretch(struct notice *notice, struct fuse_session *session)
{
	struct request *request =
		(struct request *)((char *)notice - offsetof(struct request, notice));

	notifier_stretch(session, request->ino, UNSETTLED_SIZE);
	request_post(request, write_conversation);
}

/*
 * The reply is read where the request ended. sendfile(2) takes what stands at or behind the size
 * that the kernel believes in for the end of the file, and asks neither for the size nor for the
 * bytes; so that size has to grow before a request goes beyond it.
 */
static bool needs_stretch(const struct handle *handle, const struct request *request)
{
	off_t end = (off_t)(request->offset + request->size);

	return handle->reads && end >= handle->inode->told_size && end < UNSETTLED_SIZE;
}

void handle_write(struct request *request)
{
	struct handle *handle = handle_of(request);

	if (!handle->conversing) {
		request_reply_code(request, EBADF);
		return;
	}
	if (!needs_stretch(handle, request)) {
		write_conversation(request);
		return;
	}
	handle->inode->told_size = UNSETTLED_SIZE;
	request->notice.send = send_stretch;
	notifier_post(request->control->notifier, &request->notice);
}

/* Answers a FLUSH or fsync that the conversation has decided on. */
static void finish_commit(
	struct handle *handle, struct request *request, int todo, const struct error *err)
{
	int r;

	note_pending(handle);
	if (todo < 0) {
		fail(handle, request, err);
		return;
	}
	r = todo == CONVERSATION_COMMIT ? commit(handle) : 0;
	request->commits = true;
	if (r > 0 && !verb_of(handle)->in_background && !request->exiting)
		wait_for_job(handle, request);
	else
		request_reply_code(request, reply_errno(r));
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
	struct error err = ERROR_NONE;

	if (!handle->conversing || !conversation_pending(&handle->talk))
		request_reply_code(request, 0);
	else
		finish_commit(handle, request,
			conversation_flush(&handle->talk, request->process, request->dying, &err),
			&err);
}

void handle_fsync(struct request *request)
{
	struct handle *handle = handle_of(request);
	struct error err = ERROR_NONE;

	if (!handle->conversing)
		request_reply_code(request, 0);
	else
		finish_commit(handle, request, conversation_fsync(&handle->talk, &err), &err);
}

void handle_release(struct request *request)
{
	struct handle *handle = handle_of(request);
	struct error err = ERROR_NONE;
	int r = handle->conversing ? conversation_release(&handle->talk, &err) : 0;

	if (r == CONVERSATION_COMMIT) {
		(void)commit(handle); /* nobody is left to be told; last_error has it */
	} else if (r < 0) {
		struct error named = named_after(handle, &err);

		inode_note_error(handle->control, handle->node.lease, &named);
	}
	destroy(handle);
	request_reply_code(request, 0);
}

void handle_truncate(struct handle *handle)
{
	if (!handle->conversing)
		return;
	conversation_truncate(&handle->talk);
	note_pending(handle);
}

/* poll */

static bool read_would_wait(const struct handle *handle)
{
	const struct job *job;

	if (!handle->conversing)
		return false;
	if (handle->talk.state != CONVERSATION_QUIET)
		return handle->talk.state == CONVERSATION_RUNNING;
	job = shown_job(handle);
	return job && !job->done;
}

void handle_poll(struct request *request)
{
	struct handle *handle = handle_of(request);
	unsigned ready = POLLOUT | POLLWRNORM;

	if (!read_would_wait(handle))
		ready |= POLLIN | POLLRDNORM;
	if (request->poller) {
		poll_wait_free(handle->poller);
		handle->poller = take_ptr(&request->poller);
	}
	request_reply_poll(request, ready);
}
