/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/operation.h"
#include "fs/control.h"
#include "fs/handle-private.h"
#include "fs/inode.h"
#include "fs/job.h"
#include "fs/reply.h"

static const struct verb *verb_of(const struct handle *handle)
{
	return node_type(handle->node.kind)->verb;
}

static enum conversation_kind conversation_kind_of(const struct verb *verb)
{
	if (verb->script)
		return CONVERSATION_SCRIPT;
	return verb->immediate ? CONVERSATION_VERB : CONVERSATION_LINE;
}

void talk_open(struct handle *handle, pid_t opener)
{
	if (!handle->inode->handles)
		handle->inode->told_size =
			tree_size(handle->control, &handle->node); /* by the lookup a moment ago */
	conversation_init(&handle->talk, conversation_kind_of(verb_of(handle)), opener);
	if (verb_of(handle)->abandon && !handle->inode->last)
		job_unref(job_begin(handle->control, &handle->node, "", 0, false));
}

static void leave_job(struct handle *handle)
{
	struct job *job = take_ptr(&handle->job);

	if (!job)
		return;
	DL_DELETE2(job->handles, handle, job_prev, job_next);
	job_unref(job);
}

void talk_close(struct handle *handle)
{
	leave_job(handle);
	conversation_fini(&handle->talk);
	job_unref(handle->shown);
}

/* What was asked by opening the file, when nobody has it open any more. */
void talk_abandon(const struct handle *handle)
{
	struct inode *inode = handle->inode;
	struct job *job;

	if (!verb_of(handle)->abandon || inode->handles)
		return;
	job = take_ptr(&inode->last);
	job_unref(take_ptr(&inode->last_done));
	inode->changed_at = 0;
	if (job && !job->done)
		verb_of(handle)->abandon(job);
	job_unref(job);
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

void talk_read(struct handle *handle, struct request *request)
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

void talk_write(struct handle *handle, struct request *request)
{
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

void talk_flush(struct handle *handle, struct request *request)
{
	struct error err = ERROR_NONE;

	if (!conversation_pending(&handle->talk))
		request_reply_code(request, 0);
	else
		finish_commit(handle, request,
			conversation_flush(&handle->talk, request->process, request->dying, &err),
			&err);
}

void talk_fsync(struct handle *handle, struct request *request)
{
	struct error err = ERROR_NONE;

	finish_commit(handle, request, conversation_fsync(&handle->talk, &err), &err);
}

void talk_release(struct handle *handle)
{
	struct error err = ERROR_NONE;
	int r = conversation_release(&handle->talk, &err);

	if (r == CONVERSATION_COMMIT) {
		(void)commit(handle); /* nobody is left to be told; last_error has it */
	} else if (r < 0) {
		struct error named = named_after(handle, &err);

		inode_note_error(handle->control, handle->node.lease, &named);
	}
}

void talk_truncate(struct handle *handle)
{
	conversation_truncate(&handle->talk);
	note_pending(handle);
}

bool talk_read_would_wait(const struct handle *handle)
{
	const struct job *job;

	if (handle->talk.state != CONVERSATION_QUIET)
		return handle->talk.state == CONVERSATION_RUNNING;
	job = shown_job(handle);
	return job && !job->done;
}
