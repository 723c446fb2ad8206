/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tools/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/program.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { OUTPUT_MAX = 64 * 1024 };

/* What others build on comes first. */
static const struct doctor_check checks[] = {
	{"kernel", check_kernel},
	{"fuse", check_fuse},
	{"libfuse", check_libfuse},
	{"allow_other", check_allow_other},
	{"request_timeout", check_request_timeout},
	{"mounts", check_mounts},
	{"daemon", check_daemon},
	{"user_namespaces", check_user_namespaces},
	{"proc", check_proc},
	{"seccomp", check_seccomp},
	{"bwrap", check_bwrap},
	{"uids", check_uids},
	{"groups", check_groups},
	{"user_quotas", check_user_quotas},
	{"cgroup", check_cgroup},
	{"disk", check_disk},
	{"descriptors", check_descriptors},
	{"ports", check_ports},
	{"nat", check_nat},
	{"slot", check_slot},
};

static void run(struct doctor *doctor, const struct doctor_check *check)
{
	doctor->check = check;
	check->run(doctor);
	doctor->check = NULL;
}

void doctor_run(struct doctor *doctor)
{
	for (size_t i = 0; i < COUNT(checks); i++)
		run(doctor, &checks[i]);
}

bool doctor_run_one(struct doctor *doctor, const char *name)
{
	for (size_t i = 0; i < COUNT(checks); i++) {
		if (strcmp(checks[i].name, name) != 0)
			continue;
		run(doctor, &checks[i]);
		return true;
	}
	return false;
}

/* Lines of programs and names of files may stand in it. */
static void make_one_line(struct strbuf *text)
{
	for (char *at = text->data; *at; at++)
		if ((unsigned char)*at < 0x20 || *at == 0x7f)
			*at = ' ';
}

__attribute__((format(printf, 4, 0))) static void say(struct doctor *doctor,
	enum doctor_level level, const char *remedy, const char *fmt, va_list args)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	strbuf_vaddf(&text, fmt, args);
	if (text.size > 0)
		make_one_line(&text);
	if (level > doctor->worst)
		doctor->worst = level;
	doctor->say(doctor->data, level, doctor->check->name, text.data, remedy);
}

void doctor_ok(struct doctor *doctor, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say(doctor, DOCTOR_OK, "", fmt, args);
	va_end(args);
}

void doctor_warn(struct doctor *doctor, const char *remedy, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say(doctor, DOCTOR_WARN, remedy, fmt, args);
	va_end(args);
}

void doctor_fail(struct doctor *doctor, const char *remedy, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say(doctor, DOCTOR_FAIL, remedy, fmt, args);
	va_end(args);
}

bool doctor_read(const struct doctor *doctor, const char *path, struct strbuf *ret_text)
{
	CLEANUP(strbuf_fini) struct strbuf whole = STRBUF_INIT;

	strbuf_clear(ret_text);
	strbuf_addf(&whole, "%s%s", doctor->root, path);
	return !strbuf_failed(&whole) && read_text(whole.data, ret_text) == 0;
}

long long doctor_number(const struct doctor *doctor, const char *path, long long fallback)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	char *end;
	long long number;

	if (!doctor_read(doctor, path, &text))
		return fallback;
	number = strtoll(text.data, &end, 10);
	return end == text.data ? fallback : number;
}

/* Programs */

/* Until it has ended, or must. */
static int wait_for(pid_t pid, unsigned timeout_ms)
{
	struct pollfd ended = {.fd = pidfd_open(pid, 0), .events = POLLIN};
	bool late = poll(&ended, 1, (int)timeout_ms) == 0;
	int status = 0;

	closep(&ended.fd);
	if (late) {
		(void)kill(-pid, SIGKILL);
		/* it may wait in the kernel for what never comes, and is left then */
		ended = (struct pollfd){.fd = pidfd_open(pid, 0), .events = POLLIN};
		(void)poll(&ended, 1, 1000);
		closep(&ended.fd);
		(void)waitpid(pid, &status, WNOHANG);
		return -ETIMEDOUT;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int doctor_spawn(const char *const *argv, unsigned timeout_ms, struct strbuf *output)
{
	CLEANUP(closep) int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	CLEANUP(closep) int fd = memfd_create("output", MFD_CLOEXEC);
	const struct spawn_fd fds[] = {
		{null_fd, STDIN_FILENO}, {fd, STDOUT_FILENO}, {fd, STDERR_FILENO}};
	const struct spawn spawn = {
		argv[0], (char *const *)argv, environ, fds, COUNT(fds), 0, SPAWN_GROUP};
	char *room;
	ssize_t size;
	pid_t pid = 0;
	int r;

	if (null_fd < 0 || fd < 0)
		return -errno;
	r = spawn_program(&spawn, &pid);
	if (r < 0)
		return r;
	r = wait_for(pid, timeout_ms);
	room = strbuf_room(output, OUTPUT_MAX);
	size = room ? pread(fd, room, OUTPUT_MAX, 0) : -1;
	if (size > 0)
		strbuf_grown(output, (size_t)size);
	return r;
}
