/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/exec-tty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"

enum {
	HELD = 4096,
	DRAIN_READS = 16,            /* a pty holds less than so many times HELD */
	PIPE_GROWN_MAX = 256 * 1024, /* of the output, when it was full at the end */
};

struct exec_tty {
	int master; /* -1: nobody has the other end any more */
	int output; /* -1: nobody reads */
	struct loop_watch *watch, *output_watch;
	char held[HELD]; /* read, not passed on yet */
	size_t size, at;
	bool wanted;     /* somebody wants to feed it, and could not */
	bool end_wanted; /* ^D found no room */
	loop_fn *ready;
	void *data;
};

static bool has_held(const struct exec_tty *tty)
{
	return tty->at < tty->size;
}

static void look(struct exec_tty *tty)
{
	bool holds = has_held(tty);

	if (tty->watch)
		loop_watch_events(
			tty->watch, (holds ? 0 : LOOP_READABLE) |
					    (tty->wanted || tty->end_wanted ? LOOP_WRITABLE : 0));
	if (tty->output_watch)
		loop_watch_events(tty->output_watch, holds ? LOOP_WRITABLE : 0);
}

static void close_output(struct exec_tty *tty)
{
	loop_watch_stop(take_ptr(&tty->output_watch));
	closep(&tty->output);
	tty->output = -1;
}

static void close_master(struct exec_tty *tty)
{
	loop_watch_stop(take_ptr(&tty->watch));
	closep(&tty->master);
	tty->master = -1;
}

/* Passes on what it holds; what nobody reads is dropped. */
static void flush(struct exec_tty *tty)
{
	while (has_held(tty) && tty->output >= 0) {
		ssize_t n = write(tty->output, tty->held + tty->at, tty->size - tty->at);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			close_output(tty);
		else
			tty->at += (size_t)n;
	}
	tty->at = tty->size = 0;
	if (tty->master < 0)
		close_output(tty);
}

/* EIO: the last one who had the other end is gone. False: there is nothing more for now. */
static bool fill(struct exec_tty *tty)
{
	ssize_t n;

	if (has_held(tty) || tty->master < 0)
		return false;
	n = read(tty->master, tty->held, sizeof(tty->held));
	if (n > 0)
		tty->size = (size_t)n;
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		close_master(tty);
	flush(tty);
	return n > 0;
}

static void tell_ready(struct exec_tty *tty)
{
	if (!tty->wanted)
		return;
	tty->wanted = false;
	tty->ready(tty->data);
}

static void type_end(struct exec_tty *tty)
{
	static const char end = '\004';

	tty->end_wanted = write(tty->master, &end, 1) < 0 && errno == EAGAIN;
}

static void handle_master(void *data, unsigned events)
{
	struct exec_tty *tty = data;

	if (events & LOOP_READABLE)
		(void)fill(tty);
	if ((events & LOOP_WRITABLE) && tty->master >= 0 && tty->end_wanted)
		type_end(tty);
	if (((events & LOOP_WRITABLE) && !tty->end_wanted) || tty->master < 0)
		tell_ready(tty);
	look(tty);
}

static void handle_output(void *data, unsigned events)
{
	struct exec_tty *tty = data;

	(void)events;
	flush(tty);
	look(tty);
}

static bool grow_output(struct exec_tty *tty)
{
	int size = fcntl(tty->output, F_GETPIPE_SZ);

	return size > 0 && size < PIPE_GROWN_MAX && fcntl(tty->output, F_SETPIPE_SZ, size * 2) >= 0;
}

/* False: it still holds something. */
static bool pass_on(struct exec_tty *tty)
{
	flush(tty);
	if (has_held(tty) && grow_output(tty))
		flush(tty);
	return !has_held(tty);
}

void exec_tty_drain(struct exec_tty *tty)
{
	if (!tty)
		return;
	for (unsigned i = 0; i < DRAIN_READS && pass_on(tty) && fill(tty); i++)
		;
	(void)pass_on(tty);
	if (tty->master < 0)
		tell_ready(tty);
	look(tty);
}

static int set_size(int fd, uint16_t rows, uint16_t cols)
{
	const struct winsize size = {.ws_row = rows, .ws_col = cols};

	return ioctl(fd, TIOCSWINSZ, &size) < 0 ? -errno : 0;
}

/* The other end comes from the master itself: a path might be another's by now. */
static int open_pair(const struct exec_tty_options *options, struct exec_tty *tty, int fds[3])
{
	const int unlocked = 0;

	tty->master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (tty->master < 0 || ioctl(tty->master, TIOCSPTLCK, &unlocked) < 0)
		return -errno;
	fds[0] = ioctl(tty->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (fds[0] < 0 || (geteuid() == 0 && fchown(fds[0], options->uid, options->gid) < 0) ||
		fchmod(fds[0], 0600) < 0)
		return -errno;
	for (unsigned i = 1; i < 3; i++)
		if ((fds[i] = fcntl(fds[0], F_DUPFD_CLOEXEC, 0)) < 0)
			return -errno;
	return set_size(tty->master, options->rows, options->cols);
}

static int watch(const struct exec_tty_options *options, struct exec_tty *tty, struct error *err)
{
	int r;

	tty->output = fcntl(options->output_fd, F_DUPFD_CLOEXEC, 0);
	if (tty->output < 0 || fcntl(tty->output, F_SETFL, O_NONBLOCK) < 0)
		return error_errno(err, errno, "cannot prepare a pipe for a command");
	r = loop_watch_start(
		options->loop, tty->master, LOOP_READABLE, handle_master, tty, &tty->watch, err);
	if (r == 0)
		r = loop_watch_start(
			options->loop, tty->output, 0, handle_output, tty, &tty->output_watch, err);
	return r;
}

int exec_tty_open(const struct exec_tty_options *options, struct exec_tty **ret_tty, int fds[3],
	struct error *err)
{
	struct exec_tty *tty = calloc(1, sizeof(*tty));
	int r;

	if (!tty)
		return error_set(err, ENOMEM, "no memory for a terminal");
	tty->output = -1;
	tty->ready = options->ready;
	tty->data = options->data;
	r = open_pair(options, tty, fds);
	if (r < 0)
		(void)error_errno(err, -r, "cannot make a terminal");
	else
		r = watch(options, tty, err);
	if (r < 0) {
		exec_tty_close(tty);
		return r;
	}
	*ret_tty = tty;
	return 0;
}

void exec_tty_close(struct exec_tty *tty)
{
	if (!tty)
		return;
	close_master(tty);
	close_output(tty);
	free(tty);
}

ssize_t exec_tty_feed(struct exec_tty *tty, const void *bytes, size_t size)
{
	ssize_t n;

	if (size == 0)
		return 0;
	if (tty->master < 0)
		return -EPIPE;
	if (!tty->end_wanted) { /* else it is for whoever reads behind that end */
		n = write(tty->master, bytes, size);
		if (n > 0)
			return n;
		if (n < 0 && errno != EAGAIN)
			return -EPIPE;
	}
	tty->wanted = true;
	look(tty);
	return -EAGAIN;
}

void exec_tty_feed_end(struct exec_tty *tty)
{
	if (tty->master < 0)
		return;
	type_end(tty);
	look(tty);
}

int exec_tty_resize(struct exec_tty *tty, uint16_t rows, uint16_t cols, struct error *err)
{
	int r = tty->master < 0 ? -EIO : set_size(tty->master, rows, cols);

	return r < 0 ? error_errno(err, -r, "cannot resize the terminal") : 0;
}
