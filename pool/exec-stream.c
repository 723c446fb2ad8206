/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/exec-stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"

enum {
	CHUNK = 64 * 1024,   /* what a pipe holds */
	CHUNKS_PER_TURN = 2, /* of what is awaited; then others have their turn */
};

/* A pipe of which `ours` is non-blocking and the other end is not; both belong to the command's
 * uid. */
static int make_pipe(
	const struct exec_stream_options *options, int ours, int fds[2], struct error *err)
{
	if (pipe2(fds, O_CLOEXEC) < 0) {
		fds[0] = fds[1] = -1;
		return error_errno(err, errno, "cannot make a pipe for a command");
	}
	if (fcntl(fds[ours], F_SETFL, O_NONBLOCK) < 0 ||
		(geteuid() == 0 && fchown(fds[0], options->uid, options->gid) < 0)) {
		int code = errno;

		closep(&fds[0]);
		closep(&fds[1]);
		return error_errno(err, code, "cannot prepare a pipe for a command");
	}
	return 0;
}

void exec_input_close(struct exec_input *in)
{
	loop_watch_stop(take_ptr(&in->watch));
	closep(&in->fd);
	in->fd = -1;
	free(take_ptr(&in->bytes));
}

/* EPIPE is fine: a command need not read its input. */
static void handle_writable(void *data, unsigned events)
{
	struct exec_input *in = data;

	while (in->at < in->size) {
		ssize_t n = write(in->fd, in->bytes + in->at, in->size - in->at);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			break;
		in->at += (size_t)n;
	}
	exec_input_close(in);
}

static int feed(struct exec_input *in, const struct exec_stream_options *options, const char *bytes,
	size_t size, struct error *err)
{
	in->bytes = malloc(size ? size : 1);
	if (!in->bytes)
		return error_set(err, ENOMEM, "no memory for a command's input");
	memcpy(in->bytes, bytes, size);
	in->size = size;
	handle_writable(in, LOOP_WRITABLE);
	if (in->fd < 0)
		return 0;
	return loop_watch_start(
		options->loop, in->fd, LOOP_WRITABLE, handle_writable, in, &in->watch, err);
}

static int open_null(int *ret_fd, struct error *err)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return error_errno(err, errno, "cannot open /dev/null");
	*ret_fd = fd;
	return 0;
}

int exec_input_open(struct exec_input *in, const struct exec_stream_options *options,
	const char *bytes, size_t size, int *ret_fd, struct error *err)
{
	int fds[2];
	int r;

	if (!bytes)
		return open_null(ret_fd, err);
	r = make_pipe(options, 1, fds, err);
	if (r < 0)
		return r;
	in->fd = fds[1];
	r = feed(in, options, bytes, size, err);
	if (r < 0) {
		(void)close(fds[0]);
		exec_input_close(in);
		return r;
	}
	*ret_fd = fds[0];
	return 0;
}

void exec_output_close(struct exec_output *out)
{
	loop_watch_stop(take_ptr(&out->watch));
	closep(&out->fd);
	out->fd = -1;
}

bool exec_output_closed(const struct exec_output *out)
{
	return out->fd < 0;
}

void exec_output_pause(struct exec_output *out, bool pause)
{
	if (out->watch)
		loop_watch_events(out->watch, pause ? 0 : LOOP_READABLE);
}

/* Reads past what is kept: nothing is copied, for there may be no end of it. */
static ssize_t drop(struct exec_output *out)
{
	ssize_t n = splice(out->fd, NULL, out->null_fd, NULL, CHUNK, SPLICE_F_NONBLOCK);

	if (n > 0 && !out->into)
		out->late += (uint64_t)n;
	return n;
}

static ssize_t keep(struct exec_output *out)
{
	uint64_t left = out->keep - out->into->size;
	size_t size;
	char *room;
	ssize_t n;

	if (left > *out->budget)
		left = *out->budget;
	size = left < CHUNK ? (size_t)left : CHUNK;
	room = strbuf_room(out->into, size);

	if (!room)
		return drop(out);
	n = read(out->fd, room, size);
	if (n > 0) {
		strbuf_grown(out->into, (size_t)n);
		*out->budget -= (uint64_t)n;
		out->kept += (uint64_t)n;
	}
	return n;
}

/* False when there is nothing more for now. */
static bool read_chunk(struct exec_output *out)
{
	bool budget_left = *out->budget > 0;
	bool wanted = out->into && !strbuf_failed(out->into) && out->into->size < out->keep;
	ssize_t n = wanted && budget_left ? keep(out) : drop(out);

	if (n > 0) {
		out->total += out->into ? (uint64_t)n : 0;
		return true;
	}
	if (n == 0 || (errno != EAGAIN && errno != EINTR))
		exec_output_close(out);
	return false;
}

void exec_output_read(struct exec_output *out)
{
	unsigned left = out->into ? CHUNKS_PER_TURN : 1;

	while (left > 0 && out->fd >= 0 && read_chunk(out))
		left--;
}

static void handle_readable(void *data, unsigned events)
{
	struct exec_output *out = data;

	exec_output_read(out);
	out->changed(out->data); /* may free us */
}

int exec_output_open(struct exec_output *out, const struct exec_stream_options *options,
	struct strbuf *into, int *ret_fd, struct error *err)
{
	int fds[2];
	int r = make_pipe(options, 0, fds, err);

	if (r < 0)
		return r;
	*out = (struct exec_output){.fd = fds[0],
		.into = into,
		.keep = options->keep,
		.budget = options->budget,
		.null_fd = options->null_fd,
		.changed = options->changed,
		.data = options->data};
	*ret_fd = fds[1];
	return 0;
}

int exec_output_watch(struct exec_output *out, struct loop *loop, struct error *err)
{
	return loop_watch_start(
		loop, out->fd, LOOP_READABLE, handle_readable, out, &out->watch, err);
}

void exec_output_finish(struct exec_output *out)
{
	int there = 0;
	uint64_t end;

	if (out->fd >= 0 && ioctl(out->fd, FIONREAD, &there) == 0 && there > 0) {
		end = out->total + (uint64_t)there;
		while (out->fd >= 0 && out->total < end && read_chunk(out))
			;
	}
	out->into = NULL;
}
