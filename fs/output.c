/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/output.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/loop.h"
#include "fs/control.h"
#include "fs/handle-private.h"
#include "fs/inode.h"
#include "fs/reply.h"
#include "pool/spool.h"
#include "providers/lease-exec.h"

enum { AT_ONCE = 128 * 1024 }; /* bytes of one READ */
enum { SETTLING_SEC = 1 };

struct output {
	unsigned refs; /* the handle's, and those of its READs on other threads; loop */
	struct spool *spool;
	bool settled;              /* when it was opened it had long been finished */
	_Atomic uint64_t read_end; /* where the last READ ended */
	pthread_mutex_t lock;      /* guards what follows; a leaf */
	struct spool_reader reader;
};

static struct spool *spool_of(const struct node *node)
{
	return lease_exec_spool(
		node->exec, node->kind == NODE_EXEC_STDOUT ? LEASE_EXEC_STDOUT : LEASE_EXEC_STDERR);
}

struct output *output_open(const struct node *node)
{
	struct output *output = calloc(1, sizeof(*output));
	double ended;

	if (!output)
		return NULL;
	output->refs = 1;
	output->spool = spool_of(node);
	ended = lease_exec_ended_at(node->exec);
	output->settled = ended > 0 && unix_now() - ended > SETTLING_SEC;
	output->reader = spool_reader(output->spool);
	pthread_mutex_init(&output->lock, NULL);
	return output;
}

void output_close(struct output *output)
{
	if (!output || --output->refs > 0)
		return;
	spool_reader_fini(&output->reader);
	pthread_mutex_destroy(&output->lock);
	free(output);
}

/* What a READ at that offset gets: *ret_end when nothing is there and nothing will come. */
static size_t size_there(const struct spool *spool, uint64_t offset, size_t size, bool *ret_end)
{
	bool finished = spool_finished(spool); /* before the size, which is final then */
	uint64_t kept = spool_size(spool);

	*ret_end = finished && offset >= kept;
	if (offset >= kept)
		return 0;
	return kept - offset < size ? (size_t)(kept - offset) : size;
}

/*
 * Where the size that the kernel knows ends, whoever reads pages takes for the end, and does not
 * ask. So that has to be the last one: told since the output ended, and no answer of before may be
 * on its way any more.
 */
static bool pages_may_be_read(const struct handle *handle)
{
	const struct output *output = handle->output;

	return output->settled && handle->inode->told_size == (off_t)spool_size(output->spool);
}

bool output_read_at_once(fuse_req_t fuse, fuse_ino_t ino, size_t size, off_t offset,
	const struct fuse_file_info *file)
{
	char buffer[AT_ONCE]; /* on the stack, where it costs no page faults */
	struct output *output;
	ssize_t n;
	bool end;

	if (!node_is_output((enum node_kind)(ino & 0xff)))
		return false;
	output =
		((struct handle *)(uintptr_t)file->fh)->output; // NOLINT(performance-no-int-to-ptr)
	if (file->lock_owner == 0)                              /* of pages */
		return false;
	size = size_there(output->spool, (uint64_t)offset, size < AT_ONCE ? size : AT_ONCE, &end);
	if (size == 0)
		return false;
	pthread_mutex_lock(&output->lock);
	n = spool_read(&output->reader, buffer, size, (uint64_t)offset);
	pthread_mutex_unlock(&output->lock);
	if (n < 0) {
		(void)fuse_reply_err(fuse, reply_errno((int)n));
		return true;
	}
	atomic_store(&output->read_end, (uint64_t)offset + (uint64_t)n);
	(void)fuse_reply_buf(fuse, buffer, (size_t)n);
	return true;
}

/* A READ that waited, or nearly. What is not in memory is read on a thread that may block on disk,
 * and answered on the loop. */
struct reading {
	struct request *request; /* NULL: answered, its caller has gone */
	struct output *output;   /* counted */
	char *buffer;
	size_t size;
	uint64_t offset;
	ssize_t result;
};

static void destroy_reading(struct reading *reading)
{
	output_close(reading->output);
	free(reading->buffer);
	free(reading);
}

static void read_it(void *data)
{
	struct reading *reading = data;
	struct output *output = reading->output;

	pthread_mutex_lock(&output->lock);
	reading->result =
		spool_read(&output->reader, reading->buffer, reading->size, reading->offset);
	pthread_mutex_unlock(&output->lock);
}

/*
 * What was written a moment ago is in the page cache: with the handle's own descriptor a reader at
 * the live end need not wait for a thread behind those that copy and delete trees. False: it has
 * to. The lock may be a worker's who reads from disk, so it is not waited for.
 */
static bool read_from_memory(struct reading *reading)
{
	struct iovec room = {.iov_base = reading->buffer, .iov_len = reading->size};
	struct output *output = reading->output;

	if (spool_in_memory(output->spool)) {
		read_it(reading);
		return true;
	}
	if (pthread_mutex_trylock(&output->lock) != 0)
		return false;
	if (output->reader.fd >= 0)
		reading->result =
			preadv2(output->reader.fd, &room, 1, (off_t)reading->offset, RWF_NOWAIT);
	pthread_mutex_unlock(&output->lock);
	return reading->result > 0;
}

static void answer(void *data)
{
	struct reading *reading = data;
	struct request *request = reading->request;

	if (request && reading->result < 0)
		request_reply_code(request, reply_errno((int)reading->result));
	else if (request)
		request_reply_bytes(request, reading->buffer, (size_t)reading->result);
	destroy_reading(reading);
}

static void cancel_reading(struct request *request)
{
	struct reading *reading =
		(struct reading *)(uintptr_t)request->file.fh; // NOLINT(performance-no-int-to-ptr)

	reading->request = NULL;
	request_reply_code(request, EINTR);
}

static struct reading *begin_reading(struct output *output, struct request *request, size_t size)
{
	struct reading *reading = calloc(1, sizeof(*reading));

	if (!reading)
		return NULL;
	reading->buffer = malloc(size);
	reading->request = request;
	reading->output = output;
	output->refs++;
	reading->size = size;
	reading->offset = request->offset;
	if (reading->buffer)
		return reading;
	destroy_reading(reading);
	return NULL;
}

static void give(struct handle *handle, struct request *request, size_t size)
{
	struct reading *reading = begin_reading(handle->output, request, size);

	atomic_store(&handle->output->read_end, request->offset + size);
	if (!reading) {
		request_reply_code(request, ENOMEM);
		return;
	}
	if (read_from_memory(reading)) {
		answer(reading);
		return;
	}
	request->file.fh = (uintptr_t)reading;
	if (request->held)
		request->cancelled = cancel_reading;
	else
		request_hold(request, cancel_reading);
	if (loop_work(handle->control->loop, read_it, answer, reading, NULL) < 0) {
		request_reply_code(request, ENOMEM);
		destroy_reading(reading);
	}
}

/* False: there is nothing for it yet. */
static bool there_is_more(const struct handle *handle, const struct request *request)
{
	bool end;

	return size_there(handle->output->spool, request->offset, 1, &end) > 0 || end;
}

static void serve(struct handle *handle, struct request *request)
{
	bool end;
	size_t size = size_there(handle->output->spool, request->offset, request->size, &end);

	if (size > 0)
		give(handle, request, size);
	else
		request_reply_bytes(request, "", 0);
}

static void cancel(struct request *request)
{
	DL_DELETE(handle_of(request)->waiting, request);
	request_reply_code(request, EINTR);
}

void output_read(struct handle *handle, struct request *request)
{
	if (request->cached && !pages_may_be_read(handle)) {
		request_reply_code(request, EINVAL);
		return;
	}
	if (there_is_more(handle, request)) {
		serve(handle, request);
		return;
	}
	atomic_store(&handle->output->read_end, request->offset);
	if (request->file.flags & O_NONBLOCK) {
		request_reply_code(request, EAGAIN);
		return;
	}
	DL_APPEND(handle->waiting, request);
	request_hold(request, cancel);
}

bool output_read_would_wait(const struct handle *handle)
{
	const struct output *output = handle->output;
	bool end;

	return size_there(output->spool, atomic_load(&output->read_end), 1, &end) == 0 && !end;
}

static void serve_waiting(struct handle *handle)
{
	struct request *request, *after;

	DL_FOREACH_SAFE (handle->waiting, request, after) {
		if (!there_is_more(handle, request))
			continue;
		DL_DELETE(handle->waiting, request);
		serve(handle, request);
	}
}

void output_wake(struct control *control, fuse_ino_t ino)
{
	handle_wake(control, ino, serve_waiting);
}

off_t output_size(const struct node *node)
{
	const struct spool *spool = spool_of(node);
	bool finished = spool_finished(spool);
	uint64_t size = spool_size(spool);

	return size == 0 && !finished ? 1 : (off_t)size;
}

double output_time(const struct node *node)
{
	return spool_changed_at(spool_of(node));
}
