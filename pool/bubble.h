/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * bubble.h: one running bubblewrap with our init as its pid 1, from posix_spawn to death.
 *
 *	bubble_spawn() -> ready() -> bubble_exec_start() ... -> died() -> bubble_destroy()
 *	              \-> died() (the start failed: the text names the step)
 *
 * died() comes after bubble_kill() or a crash. Everything that comes out of a bubble is hostile: a
 * message that breaks the protocol kills it. docs/slot.md has the recipe.
 * Threads: loop. No call blocks.
 */
#ifndef POOL_BUBBLE_H
#define POOL_BUBBLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "pool/init/protocol.h"

struct bubble;
struct bubble_exec;
struct bubble_kit;
struct config;
struct error;
struct loop;

/*
 * What all bubbles of a daemon share, made once: init in a sealed memfd, the seccomp program, and
 * for each root file system a generated /etc and the list of what to bind. The former are made (and
 * replaced) at etc_path, and at etc_path with "-1", "-2" ... for those of [images]. Fails when one
 * of them lacks what a slot needs. Destroy after the last bubble.
 */
int bubble_kit_create(const struct config *config, const char *etc_path,
	struct bubble_kit **ret_kit, struct error *err);
void bubble_kit_destroy(struct bubble_kit *kit);

/* Whether slots have a range of 65536 host ids from host_uid on, 0 inside being the first, rather
 * than that one alone. */
bool bubble_is_ranged(const struct config *config);

struct bubble_options {
	unsigned slot;
	uint32_t generation;
	unsigned image; /* 0: the default; n: the n-th of [images] */
	/* absolute; what slot-dirs.h makes: work/ home/ tmp/ runtime/ unless they are on a tmpfs,
	 * the user's own, and layers for an overlay */
	const char *dir;
	uid_t host_uid; /* never 0: the uid its processes have on the host (an unprivileged daemon:
			    its own) */
	gid_t host_gid;
	int cgroup_fd; /* directory of its own cgroup v2, kept open by the caller; -1: none */
	/* `tasks` of cgroups v1 that it joins before bwrap, INIT_JOINS_MAX at most; borrowed for
	 * the call */
	const int *join_fds;
	unsigned join_count;
	bool counts_forks; /* a cgroup holds pids_max and counts whom it refused: its rlimit, which
			      does not count, comes later */
	uint64_t start_timeout_ms;
};

/* Whose words they are. */
enum bubble_voice { BUBBLE_INIT, BUBBLE_BWRAP };

struct bubble_hooks {
	void (*ready)(void *data); /* not after bubble_kill() */
	/*
	 * No process of it lives any more. Runs once, last. why->code is ECANCELED after
	 * bubble_kill(), ENOTCONN (slot_lost) when it died by itself, else why it never got ready.
	 */
	void (*died)(void *data, const struct error *why);
	/* A line for its log, not ended by a newline; bwrap's come from outside. May be NULL. */
	void (*said)(void *data, enum bubble_voice voice, const char *line);
	void *data;
};

/* Begins to start one. Hooks run later. -errno: nothing was started, no hook runs. */
int bubble_spawn(struct loop *loop, struct bubble_kit *kit, const struct bubble_options *options,
	const struct bubble_hooks *hooks, struct bubble **ret_bubble, struct error *err);

/* SIGKILL to pid 1 by pidfd; died() follows. Harmless when it is dead or was killed already. */
void bubble_kill(struct bubble *bubble);
/* Only after died(), or with the loop about to be destroyed. Accepts NULL. Execs still open are
 * forgotten, their ended() not run. */
void bubble_destroy(struct bubble *bubble);

/* pid 1 as the host sees it; 0 before READY. */
pid_t bubble_pid(const struct bubble *bubble);
/* A pidfd of pid 1, the bubble's own; -1 before READY. */
int bubble_pidfd(const struct bubble *bubble);
/*
 * O_PATH descriptor of a copy of its mounts, at `/`; the bubble's own; -1 before READY. Its files
 * can be walked to from there as long as it is open, also when the bubble is dead.
 */
int bubble_root_fd(const struct bubble *bubble);
/* Of the Landlock that keeps its signals and abstract sockets inside; 0: the kernel has none, or it
 * is not READY. */
int bubble_landlock_abi(const struct bubble *bubble);
/* /dev/null, the kit's own. */
int bubble_null_fd(const struct bubble *bubble);

/* One command. Descriptors are borrowed for the call (init gets its own copies). */
struct bubble_exec_options {
	const char *const *argv; /* NULL-terminated */
	const char *const *env;  /* NULL-terminated, whole */
	const char *cwd;         /* absolute inside */
	int stdin_fd, stdout_fd, stderr_fd;
	int extra_fd;    /* becomes descriptor 3 of the command (a script's memfd); -1: none */
	int cgroup_fd;   /* directory of its own cgroup; -1: none */
	bool tty;        /* stdin_fd becomes its controlling terminal */
	bool own_memory; /* INIT_EXEC_OWN_MEMORY; costs a tenth of a short command */
};

struct bubble_exec_end {
	bool lost;
	int start_errno;
	const char *failed_step;
	int wait_status;
	bool survived; /* after bubble_exec_kill(): something of its tree may live */
	struct rusage rusage;
};

struct bubble_exec_hooks {
	/*
	 * It runs, or ran (a short command's start is told with its end); pid is the leader's,
	 * inside, which is also its process group and session. Not run when it cannot start. May be
	 * NULL.
	 */
	void (*started)(void *data, pid_t inside_pid);
	/*
	 * The leader was reaped, or it was killed before it was born. start_errno != 0: it never
	 * ran, and failed_step is "chdir", "exec", "cgroup", "clone", "stdio", "request" or "send".
	 * lost: the bubble died first; wait_status and rusage mean nothing. Runs once, last.
	 */
	void (*ended)(void *data, const struct bubble_exec_end *end);
	void *data;
};

/* Every later command joins the cgroup v1 of this `tasks` file before it executes anything; init
 * does not. Borrowed; -1: none. */
void bubble_join_commands(struct bubble *bubble, int tasks_fd);

int bubble_exec_start(struct bubble *bubble, const struct bubble_exec_options *options,
	const struct bubble_exec_hooks *hooks, struct bubble_exec **ret_exec, struct error *err);
/* Its hooks never run. The bubble keeps the entry until the command's end: init will report it. */
void bubble_exec_forget(struct bubble_exec *exec);
/* Sends a signal to the leader's process group through init. */
void bubble_exec_signal(struct bubble_exec *exec, int signal);
void bubble_exec_signal_leader(struct bubble_exec *exec, int signal); /* to it alone */
/* The same with SIGTERM, for a command without a cgroup: when the leader is dead the rest of the
 * tree is killed as with bubble_exec_kill(). */
void bubble_exec_doom(struct bubble_exec *exec);
/* SIGKILL to the whole tree of a command without a cgroup, through init. ended() then comes when
 * nothing of it is left, or says that it survived. */
void bubble_exec_kill(struct bubble_exec *exec);

/*
 * The listener that init has made for target `number` of the kit, moved out: the caller's from now
 * on. -1: there is none (it was optional), or it was taken.
 */
int bubble_take_listener(struct bubble *bubble, unsigned number);

/*
 * Namespaces of a slot with network = nat, and the helper that becomes its host user (init's image:
 * `enter UID GID - 0 PROGRAM ...`), for whoever starts its slirp4netns; the bubble's and the kit's
 * own. A namespace lives as long as somebody has it open: forget it as soon as it has been passed
 * on.
 */
int bubble_namespace(const struct bubble *bubble, enum init_namespace which);
void bubble_forget_namespaces(struct bubble *bubble);
int bubble_helper_fd(const struct bubble *bubble);

/* fd is the receiver's: a TCP socket of the slot's network, not connected, not blocking. Negative:
 * -errno. */
typedef void bubble_socket_fn(void *data, int fd);
struct bubble_socket;

/* Asks init for a socket; got() runs once, later, unless it is forgotten. -ENOTCONN, -ENOMEM: it
 * does not run. */
int bubble_socket_ask(struct bubble *bubble, bool v6, bubble_socket_fn *got, void *data,
	struct bubble_socket **ret_socket);
/* Its got() never runs. Accepts NULL. */
void bubble_socket_forget(struct bubble_socket *socket);

/* Asks init for a sign of life; pong() runs once: r 0, or -ETIMEDOUT after timeout_ms, or
 * -ENOTCONN. One at a time. */
void bubble_ping(
	struct bubble *bubble, uint64_t timeout_ms, void (*pong)(void *data, int r), void *data);

#endif
