/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tools/exec-relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "tools/client.h"

enum { BUFFER_SIZE = 128 * 1024, READS_AT_ONCE = 16 };

enum source { FROM_SIGNALS, FROM_INPUT, TO_COMMAND, FROM_STDOUT, FROM_STDERR, FROM_WAIT, SOURCES };

struct relay {
	const struct relay_options *options;
	struct pollfd polled[SOURCES];
	int fds[SOURCES]; /* -1: not there, or over */
	struct relay_shown shown;
	bool closed;     /* nobody takes what the command writes */
	size_t size, at; /* of input: what is on its way to the command */
	char input[BUFFER_SIZE], output[BUFFER_SIZE];
};

static int open_at(const struct relay *relay, const char *name, int flags, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;
	int fd;

	strbuf_addf(&path, "%s/%s", relay->options->path, name);
	need_strbuf(&path);
	fd = open(path.data, flags | O_CLOEXEC);
	return fd < 0 ? error_errno(err, errno, "cannot open '%s'", path.data) : fd;
}

static void end(struct relay *relay, enum source source)
{
	closep(&relay->fds[source]);
	relay->fds[source] = -1;
}

static void end_all(struct relay *relay)
{
	for (enum source source = 0; source < SOURCES; source++)
		if (source != FROM_INPUT) /* is not ours */
			end(relay, source);
}

static int watch_signals(struct error *err)
{
	sigset_t forwarded, blocked;
	int fd;

	(void)sigemptyset(&forwarded);
	(void)sigaddset(&forwarded, SIGINT);
	(void)sigaddset(&forwarded, SIGTERM);
	(void)sigaddset(&forwarded, SIGHUP);
	(void)sigaddset(&forwarded, SIGQUIT);
	blocked = forwarded;
	(void)sigaddset(&blocked, SIGPIPE); /* EPIPE tells */
	(void)sigprocmask(SIG_BLOCK, &blocked, NULL);
	fd = signalfd(-1, &forwarded, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? error_errno(err, errno, "cannot wait for signals") : fd;
}

static int open_all(struct relay *relay, struct error *err)
{
	static const struct {
		enum source source;
		const char *name;
		int flags;
	} files[] = {
		{FROM_STDOUT, "stdout", O_RDONLY | O_NONBLOCK},
		{FROM_STDERR, "stderr", O_RDONLY | O_NONBLOCK},
		{TO_COMMAND, "stdin", O_WRONLY | O_NONBLOCK},
		{FROM_WAIT, "wait", O_RDONLY},
	};
	const bool wanted[] = {
		relay->options->output, relay->options->output, relay->options->input, true};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		int fd = wanted[i] ? open_at(relay, files[i].name, files[i].flags, err) : -1;

		if (wanted[i] && fd < 0)
			return fd;
		relay->fds[files[i].source] = fd;
	}
	if (relay->options->input)
		relay->fds[FROM_INPUT] = STDIN_FILENO;
	relay->fds[FROM_SIGNALS] = watch_signals(err);
	return relay->fds[FROM_SIGNALS] < 0 ? -err->code : 0;
}

static void send_signal(const struct relay *relay, const char *name)
{
	struct error err = ERROR_NONE;
	int fd = open_at(relay, "signal", O_WRONLY, &err);
	char line[32];

	if (fd < 0) /* it has gone: so has the command */
		return;
	(void)snprintf(line, sizeof(line), "%s\n", name);
	(void)write_all(fd, line, strlen(line)); /* fails when it has ended */
	(void)close(fd);
}

static void forward_signals(const struct relay *relay)
{
	struct signalfd_siginfo info;

	while (read(relay->fds[FROM_SIGNALS], &info, sizeof(info)) == sizeof(info))
		send_signal(relay, sigabbrev_np((int)info.ssi_signo));
}

static void read_input(struct relay *relay)
{
	ssize_t n = read(STDIN_FILENO, relay->input, sizeof(relay->input));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	relay->at = 0;
	relay->size = n > 0 ? (size_t)n : 0;
	if (relay->size == 0) {
		relay->fds[FROM_INPUT] = -1;
		end(relay, TO_COMMAND);
	}
}

static void feed(struct relay *relay)
{
	ssize_t n =
		write(relay->fds[TO_COMMAND], relay->input + relay->at, relay->size - relay->at);

	if (n >= 0) {
		relay->at += (size_t)n;
	} else if (errno != EAGAIN && errno != EINTR) { /* it reads no more */
		relay->fds[FROM_INPUT] = -1;
		relay->at = relay->size = 0;
		end(relay, TO_COMMAND);
	}
}

/* 1: something was there. */
static int show_some(struct relay *relay, enum source source, struct error *err)
{
	int to = source == FROM_STDOUT ? STDOUT_FILENO : STDERR_FILENO;
	ssize_t n = read(relay->fds[source], relay->output, sizeof(relay->output));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return error_errno(err, errno, "cannot read the command's output");
	if (n == 0) {
		end(relay, source);
		return 0;
	}
	*(source == FROM_STDOUT ? &relay->shown.out : &relay->shown.err) += (size_t)n;
	if (put_bytes(to, relay->output, (size_t)n))
		return 1;
	relay->closed = true;
	return 0;
}

/* Asking poll(2) again costs more than a read: as long as there is more, within reason. */
static int show(struct relay *relay, enum source source, struct error *err)
{
	int r = 1;

	for (int i = 0; i < READS_AT_ONCE && r > 0; i++)
		r = show_some(relay, source, err);
	return r < 0 ? r : 0;
}

/* What is to be waited for now. */
static void fill(struct relay *relay)
{
	bool fed = relay->at == relay->size;

	for (enum source source = 0; source < SOURCES; source++) {
		relay->polled[source].fd = relay->fds[source];
		relay->polled[source].events = source == TO_COMMAND ? POLLOUT : POLLIN;
	}
	relay->polled[fed ? TO_COMMAND : FROM_INPUT].fd = -1;
	if (relay->options->output)
		relay->polled[FROM_WAIT].fd = -1; /* the ends of the outputs tell */
}

static int handle(struct relay *relay, struct error *err)
{
	int r = 0;

	if (relay->polled[FROM_SIGNALS].revents)
		forward_signals(relay);
	if (relay->polled[FROM_INPUT].revents)
		read_input(relay);
	if (relay->polled[TO_COMMAND].revents)
		feed(relay);
	for (enum source source = FROM_STDOUT; source <= FROM_STDERR && r == 0; source++)
		if (relay->polled[source].revents)
			r = show(relay, source, err);
	return r;
}

static bool is_over(const struct relay *relay)
{
	if (relay->options->output)
		return relay->fds[FROM_STDOUT] < 0 && relay->fds[FROM_STDERR] < 0;
	return relay->polled[FROM_WAIT].revents != 0;
}

static int pass_on(struct relay *relay, struct error *err)
{
	int r = 0;

	while (r == 0 && !relay->closed && !is_over(relay)) {
		fill(relay);
		if (poll(relay->polled, SOURCES, -1) < 0 && errno != EINTR)
			return error_errno(err, errno, "cannot wait for the command");
		r = handle(relay, err);
	}
	return r;
}

int relay_run(const struct relay_options *options, struct relay_shown *ret_shown,
	struct strbuf *out, struct error *err)
{
	struct relay *relay = calloc(1, sizeof(*relay));
	int r;

	need_memory(relay);
	relay->options = options;
	for (enum source source = 0; source < SOURCES; source++)
		relay->fds[source] = -1;
	r = open_all(relay, err);
	if (r == 0)
		r = pass_on(relay, err);
	if (r == 0 && relay->closed) {
		send_signal(relay, "PIPE");
		r = RELAY_CLOSED;
	}
	if (r == 0) {
		r = read_all(relay->fds[FROM_WAIT], out);
		need_strbuf(out);
		if (r < 0)
			(void)error_errno(err, -r, "cannot read the command's result");
	}
	*ret_shown = relay->shown;
	end_all(relay);
	free(relay);
	return r;
}
