/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/init/init.h"
#include "pool/init/raw.h"

/* The command's own 0 to 3 must not be overwritten before they are copied. */
enum { FIRST_FREE_FD = 4 };

/* Shared with the child, which runs while we go on: written by nobody once it lives, except `path`,
 * which is the child's. */
struct launch {
	char *payload;      /* cwd, argv and environment */
	char **argv, **env; /* into payload */
	const char *cwd;
	char *path; /* room for a PATH entry and argv[0] */
	void *stack;
	int fds[3], extra_fd, cgroup_fd, join_fd,
		write_fd; /* closed here as soon as the child has its copies */
	int result_fd;
	bool tty;          /* descriptor 0 becomes the terminal of its session */
	bool join_by_file; /* the child has to write itself into the cgroup */
};

enum step { STEP_CLONE, STEP_CGROUP, STEP_STDIO, STEP_CHDIR, STEP_EXEC };

const char *command_step(int step)
{
	static const char *const names[] = {
		[STEP_CLONE] = "clone",
		[STEP_CGROUP] = "cgroup",
		[STEP_STDIO] = "stdio",
		[STEP_CHDIR] = "chdir",
		[STEP_EXEC] = "exec",
	};

	if (step < 0 || step >= (int)(sizeof(names) / sizeof(*names)))
		return "start";
	return names[step];
}

/* ---- In the child: our memory, so no libc call that writes any of it, errno included ---- */

static void child_fail(const struct launch *launch, enum step step, long error)
{
	struct command_failure failure = {.error = (int)-error, .step = (int)step};

	(void)raw_call3(SYS_write, launch->write_fd, (long)&failure, sizeof(failure));
	(void)raw_call3(SYS_exit_group, 127, 0, 0);
}

/* A thread that writes itself into `tasks` waits for nobody, unlike a process by its number. */
static long child_join(const struct launch *launch)
{
	long fd, r = 0;

	if (launch->join_fd >= 0)
		r = raw_call3(SYS_write, launch->join_fd, (long)"0", 1);
	if (r < 0 || !launch->join_by_file)
		return r < 0 ? r : 0;
	fd = raw_call4(
		SYS_openat, launch->cgroup_fd, (long)"cgroup.procs", O_WRONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	r = raw_call3(SYS_write, fd, (long)"0", 1);
	return r < 0 ? r : 0;
}

static long child_stdio(const struct launch *launch)
{
	long r = 0;

	for (int i = 0; i < 3 && r >= 0; i++)
		r = raw_call3(SYS_dup3, launch->fds[i], i, 0);
	if (r >= 0 && launch->extra_fd >= 0)
		r = raw_call3(SYS_dup3, launch->extra_fd, 3, 0);
	return r < 0 ? r : 0;
}

static long child_execve(const struct launch *launch, const char *path)
{
	return raw_call3(SYS_execve, (long)path, (long)launch->argv, (long)launch->env);
}

static const char *search_path(const struct launch *launch)
{
	for (char **word = launch->env; *word; word++) {
		if (strncmp(*word, "PATH=", 5) == 0)
			return *word + 5;
	}
	return "/usr/local/bin:/usr/bin:/bin";
}

/* execvp()'s search: what is not there is passed over, what may not be executed is remembered. */
static long child_search(const struct launch *launch)
{
	const char *entry = search_path(launch);
	const char *end;
	long error = -ENOENT, r;

	for (;; entry = end + 1) {
		size_t length;

		end = strchrnul(entry, ':');
		length = (size_t)(end - entry);
		memcpy(launch->path, entry, length);
		if (length > 0)
			launch->path[length++] = '/';
		memcpy(launch->path + length, launch->argv[0], strlen(launch->argv[0]) + 1);
		r = child_execve(launch, launch->path);
		if (r == -EACCES)
			error = r;
		else if (r != -ENOENT && r != -ENOTDIR)
			return r;
		if (*end == '\0')
			return error;
	}
}

static long child_exec(const struct launch *launch)
{
	const char *name = launch->argv[0];

	if (*name == '\0')
		return -ENOENT;
	return strchr(name, '/') ? child_execve(launch, name) : child_search(launch);
}

static void child_main(void *arg)
{
	const struct launch *launch = arg;
	const uint64_t no_signals = 0;
	long r;

	if (!left_out("session of a command"))
		(void)raw_call3(SYS_setsid, 0, 0, 0);
	r = child_join(launch);
	if (r < 0)
		child_fail(launch, STEP_CGROUP, r);
	r = child_stdio(launch);
	if (r < 0)
		child_fail(launch, STEP_STDIO, r);
	if (launch->tty)
		(void)raw_call3(SYS_ioctl, 0, TIOCSCTTY, 0);
	r = raw_call3(SYS_chdir, (long)launch->cwd, 0, 0);
	if (r < 0)
		child_fail(launch, STEP_CHDIR, r);
	(void)raw_call4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&no_signals, 0, sizeof(no_signals));
	child_fail(launch, STEP_EXEC, child_exec(launch));
}

/* In the runner, which could make no child. */
static void runner_failed(void *arg, long error)
{
	child_fail(arg, STEP_CLONE, error);
}

/* ---- In init ---- */

static void close_fd(int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

/* Once: the numbers stay in the struct, where the child reads them. */
static void close_borrowed(const struct launch *launch)
{
	for (int i = 0; i < 3; i++)
		close_fd(launch->fds[i]);
	close_fd(launch->extra_fd);
	close_fd(launch->cgroup_fd);
	close_fd(launch->join_fd);
	close_fd(launch->write_fd);
}

static struct launch *launch_create(void)
{
	struct launch *launch = calloc(1, sizeof(*launch));

	if (!launch)
		return NULL;
	launch->fds[0] = launch->fds[1] = launch->fds[2] = -1;
	launch->extra_fd = launch->cgroup_fd = launch->join_fd = -1;
	launch->write_fd = launch->result_fd = -1;
	return launch;
}

/* The child must be past exec, or dead. */
static void launch_destroy(struct launch *launch)
{
	if (!launch)
		return;
	close_fd(launch->result_fd);
	if (launch->stack)
		(void)munmap(launch->stack, STACK_SIZE);
	free(launch->payload);
	free(launch->argv);
	free(launch->path);
	free(launch);
}

/* Sorts the descriptors by what the flags say is there. On failure none of them is taken. */
static int take_fds(
	struct launch *launch, unsigned flags, const int *fds, size_t count, int *ret_payload_fd)
{
	size_t wanted = 3 + !!(flags & INIT_EXEC_PAYLOAD_FD) + !!(flags & INIT_EXEC_EXTRA_FD) +
			!!(flags & INIT_EXEC_CGROUP_FD) + !!(flags & INIT_EXEC_JOIN_FD);

	if (count != wanted)
		return -EBADF;
	for (size_t i = 0; i < count; i++) {
		if (fds[i] < FIRST_FREE_FD)
			return -EBADF;
	}
	if (flags & INIT_EXEC_PAYLOAD_FD)
		*ret_payload_fd = *fds++;
	for (int i = 0; i < 3; i++)
		launch->fds[i] = *fds++;
	if (flags & INIT_EXEC_EXTRA_FD)
		launch->extra_fd = *fds++;
	if (flags & INIT_EXEC_CGROUP_FD)
		launch->cgroup_fd = *fds++;
	if (flags & INIT_EXEC_JOIN_FD)
		launch->join_fd = *fds++;
	return 0;
}

static int read_payload(int fd, char *into, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = pread(fd, into + done, size - done, (off_t)done);

		if (n <= 0)
			return n < 0 ? -errno : -EPROTO;
		done += (size_t)n;
	}
	return 0;
}

/* The next string, or NULL when the payload ends before its NUL. */
static char *next_string(char **at, const char *end)
{
	char *string = *at;
	char *nul = memchr(string, '\0', (size_t)(end - string));

	if (!nul)
		return NULL;
	*at = nul + 1;
	return string;
}

static int split_payload(struct launch *launch, const struct init_request *request)
{
	char *at = launch->payload;
	const char *end = at + request->payload_size;
	size_t strings = (size_t)request->argc + request->envc;

	launch->cwd = next_string(&at, end);
	if (!launch->cwd || request->argc == 0 || strings > request->payload_size)
		return -EPROTO;
	launch->argv = calloc(strings + 2, sizeof(*launch->argv));
	if (!launch->argv)
		return -ENOMEM;
	launch->env = launch->argv + request->argc + 1;
	for (size_t i = 0; i < strings; i++) {
		char *string = next_string(&at, end);

		if (!string)
			return -EPROTO;
		if (i < request->argc)
			launch->argv[i] = string;
		else
			launch->env[i - request->argc] = string;
	}
	return at == end ? 0 : -EPROTO;
}

static int unpack(struct launch *launch, const struct init_request *request, const char *payload,
	int payload_fd)
{
	int r = 0;

	launch->payload = malloc((size_t)request->payload_size + 1);
	if (!launch->payload)
		return -ENOMEM;
	if (payload_fd >= 0)
		r = read_payload(payload_fd, launch->payload, request->payload_size);
	else
		memcpy(launch->payload, payload, request->payload_size);
	if (r == 0)
		r = split_payload(launch, request);
	if (r < 0)
		return r;
	launch->path = malloc(strlen(search_path(launch)) + strlen(launch->argv[0]) + 2);
	return launch->path ? 0 : -ENOMEM;
}

static int make_ways_back(struct launch *launch)
{
	int ends[2];
	void *stack;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	launch->result_fd = ends[0];
	launch->write_fd = ends[1];
	stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return -errno;
	launch->stack = stack;
	return 0;
}

/* Being born in the cgroup costs nothing; moving there waits for an RCU grace period, but needs
 * fewer rights. */
static int make_child(struct launch *launch, struct birth *birth)
{
	long pid = clone_onto_stack(birth, child_main, launch);

	if (pid < 0 && pid != -EAGAIN && pid != -ENOMEM) {
		launch->join_by_file = launch->cgroup_fd >= 0;
		birth->cgroup_fd = -1;
		pid = clone_onto_stack(birth, child_main, launch);
	}
	return (int)pid;
}

static int give_birth(struct command *command, uint64_t flags)
{
	struct launch *launch = command->launch;
	struct birth birth = {
		.flags = flags, .stack = launch->stack, .cgroup_fd = launch->cgroup_fd};
	int r;

	if (launch->cgroup_fd < 0 && !left_out("clone without vfork"))
		return runner_start(&birth, child_main, runner_failed, launch, &command->runner);
	r = make_child(launch, &birth);
	if (r < 0)
		return r;
	command->pid = r;
	return 0;
}

static int start(struct command *command, const struct init_request *request, const char *payload,
	int payload_fd, const char **ret_step)
{
	int r;

	*ret_step = "request";
	r = unpack(command->launch, request, payload, payload_fd);
	if (r < 0)
		return r;
	*ret_step = "clone";
	r = make_ways_back(command->launch);
	if (r < 0)
		return r;
	return give_birth(command, request->flags & INIT_EXEC_OWN_MEMORY ? 0 : CLONE_VM);
}

static void close_all(const int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		(void)close(fds[i]);
}

int command_start(const struct init_request *request, const char *payload, int *fds,
	size_t fd_count, struct command **ret_command, const char **ret_step)
{
	struct command *command = calloc(1, sizeof(*command));
	int payload_fd = -1, r = -ENOMEM;

	*ret_step = "request";
	if (command)
		command->launch = launch_create();
	if (command && command->launch)
		r = take_fds(command->launch, request->flags, fds, fd_count, &payload_fd);
	if (r == 0)
		command->launch->tty = request->flags & INIT_EXEC_TTY;
	if (r < 0) {
		close_all(fds, fd_count);
		command_free(command);
		return r;
	}
	r = start(command, request, payload, payload_fd, ret_step);
	close_fd(payload_fd);
	close_borrowed(command->launch);
	if (r < 0) {
		command_free(command);
		return r;
	}
	command->id = request->id;
	*ret_command = command;
	return 0;
}

void command_forget_launch(struct command *command)
{
	launch_destroy(command->launch);
	command->launch = NULL;
}

void command_free(struct command *command)
{
	if (!command)
		return;
	command_forget_launch(command);
	runner_free(command->runner);
	free(command);
}

bool command_outcome(struct command *command, struct command_failure *ret_failure)
{
	ssize_t n = read(command->launch->result_fd, ret_failure, sizeof(*ret_failure));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n != (ssize_t)sizeof(*ret_failure))
		*ret_failure =
			(struct command_failure){0}; /* closed by exec, or by a death before it */
	return true;
}
