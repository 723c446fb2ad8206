/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tools/exec-relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "tools/client.h"
#include "tools/terminal.h"

enum {
	BUFFER_SIZE = 128 * 1024,
	READS_AT_ONCE = 16, /* before signals and input have their turn */
	PATIENCE_MS = 2000, /* with a command that was told to end */
	LATE = 256 * 1024,  /* output not shown yet that somebody at a terminal would wait for */
	LAST_SHOWN = 4096,  /* of it */
	CONTROL_C = 3,
	CONTROL_BACKSLASH = 28,
};

enum polled { SIGNALS, INPUT, COMMAND, OUT, ERR, WAIT, POLLED };

/* One of the command's outputs, on its way to ours. */
struct stream {
	int from; /* -1: it is over */
	int to;
	bool waits; /* a write to it may have to wait: a pipe, a socket, a terminal */
	bool owned; /* `to` is our own descriptor for it */
	uint64_t shown;
	size_t size, at;
	char bytes[BUFFER_SIZE];
};

struct relay {
	const struct relay_options *options;
	struct pollfd polled[POLLED];
	int signals, command, wait; /* -1: not there, or over */
	bool input_open, ended;
	int failed;       /* of our output: errno */
	int interrupts;   /* INT so far */
	int64_t kill_at;  /* monotonic ms; 0: never */
	bool told_to_end; /* by a signal that means no less */
	int64_t leave_at; /* it has ended since, and nobody takes the rest of its output */
	size_t size, at;  /* of input: what is on its way to the command */
	char input[BUFFER_SIZE];
	struct stream out, err;
};

static int64_t now_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int open_at(const struct relay *relay, const char *name, int flags, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;
	int fd;

	strbuf_addf(&path, "%s/%s", relay->options->path, name);
	need_strbuf(&path);
	fd = open(path.data, flags | O_CLOEXEC);
	return fd < 0 ? error_errno(err, errno, "cannot open '%s'", path.data) : fd;
}

static void end(int *fd)
{
	closep(fd);
	*fd = -1;
}

/*
 * A command may be far ahead of a terminal: what it writes goes to a file, not to us. Who
 * interrupts it at a terminal wants to see no more, and a terminal throws away what it has not
 * shown yet.
 */
static void skip_to_end(struct stream *stream)
{
	struct stat st;
	off_t at;

	if (stream->from < 0 || !stream->owned)
		return;
	at = lseek(stream->from, 0, SEEK_CUR);
	if (at < 0 || fstat(stream->from, &st) < 0 || st.st_size - at < LATE)
		return;
	if (lseek(stream->from, st.st_size - LAST_SHOWN, SEEK_SET) < 0)
		return;
	stream->shown += (uint64_t)(st.st_size - LAST_SHOWN - at) + stream->size;
	stream->at = stream->size = 0;
}

static void skip_outputs(struct relay *relay)
{
	skip_to_end(&relay->out);
	skip_to_end(&relay->err);
}

/* signals */

/* What whoever started this has it ignore (nohup, a shell's &) is not for the command either. */
static void add_signal(sigset_t *set, int number)
{
	struct sigaction action;

	if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
		(void)sigaddset(set, number);
}

static sigset_t forwarded_signals(const struct terminal *terminal)
{
	static const int numbers[] = {
		SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT}; /* 3: a terminal's */
	size_t count = sizeof(numbers) / sizeof(numbers[0]) - (terminal ? 0 : 3);
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < count; i++)
		add_signal(&set, numbers[i]);
	return set;
}

void relay_catch_signals(const struct terminal *terminal)
{
	sigset_t blocked = forwarded_signals(terminal);

	(void)sigaddset(&blocked, SIGPIPE); /* EPIPE tells */
	(void)sigprocmask(SIG_BLOCK, &blocked, NULL);
}

static void tell_command(const struct relay *relay, const char *line)
{
	int fd = open_at(relay, "signal", O_WRONLY, NULL);

	if (fd < 0) /* it has gone: so has the command */
		return;
	(void)write_all(fd, line, strlen(line)); /* fails when it has ended */
	(void)close(fd);
}

static void give_it_time_to_end(struct relay *relay)
{
	if (!relay->kill_at)
		relay->kill_at = now_ms() + PATIENCE_MS;
}

static void forward(struct relay *relay, int number)
{
	char line[32];

	if (number == SIGINT && ++relay->interrupts > 1)
		number = SIGKILL;
	(void)snprintf(line, sizeof(line), "%s\n", sigabbrev_np(number));
	tell_command(relay, line);
	skip_outputs(relay);
	relay->told_to_end |= number != SIGINT;
	if (!relay->options->terminal || (number != SIGTERM && number != SIGHUP))
		return;
	if (number == SIGTERM) /* an interactive shell is deaf to it */
		tell_command(relay, "HUP\n");
	give_it_time_to_end(relay);
}

static void tell_size(const struct relay *relay)
{
	unsigned rows, columns;
	char line[64];

	terminal_size(relay->options->terminal, &rows, &columns);
	(void)snprintf(line, sizeof(line), "winsize %u %u\n", rows, columns);
	tell_command(relay, line);
}

/* Stops here, as the signal would have it, with the terminal as its owner knows it. */
static void stop(const struct relay *relay)
{
	sigset_t tstp;

	terminal_restore(relay->options->terminal);
	(void)sigemptyset(&tstp);
	(void)sigaddset(&tstp, SIGTSTP);
	(void)raise(SIGTSTP);
	(void)sigprocmask(SIG_UNBLOCK, &tstp, NULL);
	(void)sigprocmask(SIG_BLOCK, &tstp, NULL);
}

static int handle_signal(struct relay *relay, int number, struct error *err)
{
	switch (number) {
	case SIGWINCH:
		tell_size(relay);
		return 0;
	case SIGTSTP:
		stop(relay);
		return terminal_make_raw(relay->options->terminal, err);
	case SIGCONT:
		tell_size(relay);
		return terminal_make_raw(relay->options->terminal, err);
	default:
		forward(relay, number);
		return 0;
	}
}

static int handle_signals(struct relay *relay, struct error *err)
{
	struct signalfd_siginfo info;
	int r = 0;

	while (r == 0 && read(relay->signals, &info, sizeof(info)) == sizeof(info))
		r = handle_signal(relay, (int)info.ssi_signo, err);
	return r;
}

/* input */

static void end_input(struct relay *relay)
{
	relay->input_open = false;
	relay->at = relay->size = 0;
	end(&relay->command);
}

static void feed(struct relay *relay)
{
	while (relay->at < relay->size) {
		ssize_t n =
			write(relay->command, relay->input + relay->at, relay->size - relay->at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) { /* it reads no more */
			end_input(relay);
			return;
		}
		relay->at += (size_t)n;
	}
}

static bool has_interrupt(const struct relay *relay)
{
	return memchr(relay->input, CONTROL_C, relay->size) ||
	       memchr(relay->input, CONTROL_BACKSLASH, relay->size);
}

static void read_input(struct relay *relay)
{
	ssize_t n = read(STDIN_FILENO, relay->input, sizeof(relay->input));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		end_input(relay);
		return;
	}
	relay->at = 0;
	relay->size = (size_t)n;
	if (relay->options->terminal && has_interrupt(relay))
		skip_outputs(relay);
	feed(relay);
}

/* output */

/* What others share must not become O_NONBLOCK; a terminal can be opened once more. */
static void open_own(struct stream *stream, int fd)
{
	char path[32];
	struct stat st;
	int again;

	stream->to = fd;
	if (fstat(fd, &st) < 0)
		return;
	stream->waits = S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode);
	if (!isatty(fd))
		return;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (again < 0)
		return;
	stream->to = again;
	stream->owned = true;
}

/* Does not wait; -1 with EAGAIN. */
static ssize_t write_some(const struct stream *stream)
{
	struct iovec rest = {(char *)stream->bytes + stream->at, stream->size - stream->at};
	struct pollfd ready = {.fd = stream->to, .events = POLLOUT};
	ssize_t n;

	if (!stream->waits)
		return write(stream->to, rest.iov_base, rest.iov_len);
	n = pwritev2(stream->to, &rest, 1, -1, RWF_NOWAIT);
	if (n >= 0 || (errno != EOPNOTSUPP && errno != EINVAL))
		return n;
	/* an older kernel: a pipe that is ready takes so much at once */
	if (poll(&ready, 1, 0) == 0) {
		errno = EAGAIN;
		return -1;
	}
	return write(stream->to, rest.iov_base, rest.iov_len < PIPE_BUF ? rest.iov_len : PIPE_BUF);
}

/* Nobody takes what it writes: as in a pipeline it is told, and not suffered for long. */
static void fail_output(struct relay *relay, int code)
{
	if (relay->failed)
		return;
	relay->failed = code;
	tell_command(relay, "PIPE\n");
	give_it_time_to_end(relay);
}

static void note_progress(struct relay *relay, struct stream *stream, size_t size)
{
	stream->at += size;
	if (relay->leave_at)
		relay->leave_at = now_ms() + PATIENCE_MS;
}

static void flush(struct relay *relay, struct stream *stream)
{
	while (stream->at < stream->size && !relay->failed) {
		ssize_t n = write_some(stream);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			fail_output(relay, errno);
		else
			note_progress(relay, stream, (size_t)n);
	}
	if (!relay->failed)
		stream->shown += stream->size;
	stream->at = stream->size = 0;
}

/* Passes on what is there. */
static int pump(struct relay *relay, struct stream *stream, struct error *err)
{
	flush(relay, stream);
	for (int i = 0; i < READS_AT_ONCE && stream->size == 0; i++) {
		ssize_t n = read(stream->from, stream->bytes, sizeof(stream->bytes));

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0)
			return error_errno(err, errno, "cannot read the command's output");
		if (n == 0) {
			end(&stream->from);
			return 0;
		}
		stream->size = (size_t)n;
		flush(relay, stream);
	}
	return 0;
}

/* the loop */

static bool outputs_are_over(const struct relay *relay)
{
	return relay->out.from < 0 && relay->err.from < 0;
}

static void watch(struct relay *relay, enum polled which, int fd, short events)
{
	relay->polled[which] = (struct pollfd){.fd = fd, .events = events};
}

static void watch_stream(struct relay *relay, enum polled which, const struct stream *stream)
{
	bool is_full = stream->size > 0;

	watch(relay, which, is_full ? stream->to : stream->from, is_full ? POLLOUT : POLLIN);
}

/* Its end alone is no reason to leave: somebody may take the rest of its output. */
static bool end_is_of_interest(const struct relay *relay)
{
	return outputs_are_over(relay) || (relay->told_to_end && !relay->leave_at);
}

static int ms_to_next_deadline(const struct relay *relay)
{
	int64_t next = relay->kill_at, left;

	if (relay->leave_at && (!next || relay->leave_at < next))
		next = relay->leave_at;
	if (!next)
		return -1;
	left = next - now_ms();
	return left > 0 ? (int)left : 0;
}

/* Waits for what can be gone on with now. */
static int wait_for_something(struct relay *relay, struct error *err)
{
	bool is_fed = relay->at == relay->size;

	watch(relay, SIGNALS, relay->signals, POLLIN);
	watch(relay, INPUT, relay->input_open && is_fed ? STDIN_FILENO : -1, POLLIN);
	watch(relay, COMMAND, is_fed ? -1 : relay->command, POLLOUT);
	watch_stream(relay, OUT, &relay->out);
	watch_stream(relay, ERR, &relay->err);
	watch(relay, WAIT, end_is_of_interest(relay) ? relay->wait : -1, POLLIN);
	if (poll(relay->polled, POLLED, ms_to_next_deadline(relay)) < 0 && errno != EINTR)
		return error_errno(err, errno, "cannot wait for the command");
	return 0;
}

static void handle_end(struct relay *relay)
{
	relay->ended = outputs_are_over(relay);
	if (!relay->ended)
		relay->leave_at = now_ms() + PATIENCE_MS;
}

static int handle(struct relay *relay, struct error *err)
{
	int r = 0;

	if (relay->polled[SIGNALS].revents)
		r = handle_signals(relay, err);
	if (relay->polled[INPUT].revents)
		read_input(relay);
	if (relay->polled[COMMAND].revents)
		feed(relay);
	if (r == 0 && relay->polled[OUT].revents)
		r = pump(relay, &relay->out, err);
	if (r == 0 && relay->polled[ERR].revents)
		r = pump(relay, &relay->err, err);
	if (relay->polled[WAIT].revents)
		handle_end(relay);
	relay->ended = relay->ended || (relay->leave_at && now_ms() >= relay->leave_at);
	if (relay->kill_at && now_ms() >= relay->kill_at) {
		tell_command(relay, "KILL\n");
		relay->kill_at = 0;
	}
	return r;
}

static int read_result(const struct relay *relay, struct strbuf *out, struct error *err)
{
	int r = read_all(relay->wait, out);

	need_strbuf(out);
	return r < 0 ? error_errno(err, -r, "cannot read the command's result") : 0;
}

static int pass_on(struct relay *relay, struct strbuf *out, struct error *err)
{
	int r = 0;

	while (r == 0 && !relay->ended) {
		r = wait_for_something(relay, err);
		if (r == 0)
			r = handle(relay, err);
	}
	return r == 0 ? read_result(relay, out, err) : r;
}

/* beginning and end */

static int open_file(
	const struct relay *relay, const char *name, int flags, int *ret_fd, struct error *err)
{
	int fd = open_at(relay, name, flags, err);

	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

static int open_files(struct relay *relay, struct error *err)
{
	int r = open_file(relay, "wait", O_RDONLY, &relay->wait, err);

	if (r == 0 && relay->options->input)
		r = open_file(relay, "stdin", O_WRONLY | O_NONBLOCK, &relay->command, err);
	if (r < 0 || !relay->options->output)
		return r;
	r = open_file(relay, "stdout", O_RDONLY | O_NONBLOCK, &relay->out.from, err);
	if (r == 0)
		r = open_file(relay, "stderr", O_RDONLY | O_NONBLOCK, &relay->err.from, err);
	return r;
}

static int open_all(struct relay *relay, struct error *err)
{
	const sigset_t signals = forwarded_signals(relay->options->terminal);
	int r = open_files(relay, err);

	if (r < 0)
		return r;
	relay->input_open = relay->options->input;
	relay->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (relay->signals < 0)
		return error_errno(err, errno, "cannot wait for signals");
	open_own(&relay->out, STDOUT_FILENO);
	open_own(&relay->err, STDERR_FILENO);
	return relay->options->terminal ? terminal_make_raw(relay->options->terminal, err) : 0;
}

static struct relay *relay_create(const struct relay_options *options)
{
	struct relay *relay = calloc(1, sizeof(*relay));

	need_memory(relay);
	relay->options = options;
	relay->signals = relay->command = relay->wait = -1;
	relay->out.from = relay->err.from = -1;
	return relay;
}

static void relay_destroy(struct relay *relay)
{
	end(&relay->signals);
	end(&relay->command);
	end(&relay->wait);
	end(&relay->out.from);
	end(&relay->err.from);
	if (relay->out.owned)
		end(&relay->out.to);
	if (relay->err.owned)
		end(&relay->err.to);
	free(relay);
}

int relay_run(const struct relay_options *options, struct relay_result *ret_result,
	struct strbuf *out, struct error *err)
{
	struct relay *relay = relay_create(options);
	int r = open_all(relay, err);

	if (r == 0)
		r = pass_on(relay, out, err);
	if (r < 0) {
		end(&relay->wait); /* descriptors may be what it lacks */
		tell_command(relay, "KILL\n");
	}
	if (options->terminal)
		terminal_restore(options->terminal);
	*ret_result = (struct relay_result){.out = relay->out.shown,
		.err = relay->err.shown,
		.failed = relay->failed,
		.left = r == 0 && !outputs_are_over(relay)};
	relay_destroy(relay);
	return r;
}
