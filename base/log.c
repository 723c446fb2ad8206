/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"

static const struct {
	const char *name, *journal_prefix;
} levels[] = {
	[LOG_LEVEL_ERROR] = {"error", "<3>"},
	[LOG_LEVEL_WARN] = {"warn", "<4>"},
	[LOG_LEVEL_INFO] = {"info", "<6>"},
	[LOG_LEVEL_DEBUG] = {"debug", "<7>"},
};

static struct {
	atomic_int level;
	int fd;
	bool journal;
} target = {.level = LOG_LEVEL_INFO, .fd = STDERR_FILENO};

/* systemd names the socket that it reads lines from as "device:inode"; standard error may have been
 * redirected since. */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM"); // NOLINT(concurrency-mt-unsafe)
	unsigned long long dev, ino;
	struct stat st;

	if (!stream || sscanf(stream, "%llu:%llu", &dev, &ino) != 2)
		return false;
	return fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

static int open_file(const char *path, int *ret_fd, struct error *err)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640);

	if (fd < 0)
		return error_errno(err, errno, "cannot open the log file '%s'", path);
	*ret_fd = fd;
	return 0;
}

int log_open(enum log_level level, const char *path, struct error *err)
{
	int fd = STDERR_FILENO;
	int r;

	atomic_store(&target.level, (int)level);
	r = path ? open_file(path, &fd, err) : 0;
	if (r < 0)
		return r;
	if (target.fd != STDERR_FILENO)
		(void)close(target.fd);
	target.fd = fd;
	target.journal = !path && stderr_is_journal();
	return 0;
}

int log_reopen(const char *path, struct error *err)
{
	CLEANUP(closep) int fd = -1;
	int r = open_file(path, &fd, err);

	if (r < 0)
		return r;
	/* in place: another thread may be writing a line to it */
	if (dup3(fd, target.fd, target.fd == STDERR_FILENO ? 0 : O_CLOEXEC) < 0)
		return error_errno(err, errno, "cannot take the new log file '%s'", path);
	return 0;
}

void log_set_level(enum log_level level)
{
	atomic_store(&target.level, (int)level);
}

static size_t put_prefix(char *line, size_t size, enum log_level level)
{
	struct timespec now;
	struct tm tm;
	char stamp[32];

	if (target.journal)
		return (size_t)snprintf(line, size, "%s", levels[level].journal_prefix);
	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)gmtime_r(&now.tv_sec, &tm);
	(void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
	return (size_t)snprintf(
		line, size, "%s.%03ldZ %-5s ", stamp, now.tv_nsec / 1000000, levels[level].name);
}

static size_t put_escaped(char *line, size_t size, const char *text)
{
	size_t len = 0;

	for (const unsigned char *p = (const unsigned char *)text; *p && len + 5 < size; p++) {
		if (*p < 0x20 || *p == 0x7f)
			len += (size_t)snprintf(line + len, size - len, "\\x%02x", *p);
		else
			line[len++] = (char)*p;
	}
	return len;
}

__attribute__((format(printf, 2, 0))) static void write_line(
	enum log_level level, const char *fmt, va_list args)
{
	char text[1024], line[1536];
	size_t len;

	if ((int)level > atomic_load(&target.level))
		return;
	(void)vsnprintf(text, sizeof(text), fmt, args);
	len = put_prefix(line, sizeof(line), level);
	len += put_escaped(line + len, sizeof(line) - len - 1, text);
	line[len++] = '\n';
	if (write(target.fd, line, len) < 0)
		return; /* there is nobody left to tell */
}

#define DEFINE_LOG(name, level)                                                                    \
	void log_##name(const char *fmt, ...)                                                      \
	{                                                                                          \
		va_list args;                                                                      \
                                                                                                   \
		va_start(args, fmt);                                                               \
		write_line(level, fmt, args);                                                      \
		va_end(args);                                                                      \
	}

DEFINE_LOG(error, LOG_LEVEL_ERROR)
DEFINE_LOG(warn, LOG_LEVEL_WARN)
DEFINE_LOG(info, LOG_LEVEL_INFO)
DEFINE_LOG(debug, LOG_LEVEL_DEBUG)
#undef DEFINE_LOG
