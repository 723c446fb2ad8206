/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * init.h: the parts of the program that is pid 1 of a slot. main.c decides which of its two uses is
 * meant, setup.c (with landlock.c and network.c) builds and locks the slot, serve.c is the loop
 * that then runs until death, command.c starts commands, runner.c and hunt.c keep together and kill
 * what a command has started where cgroups cannot.
 *
 * One thread. Memory is not shared with what runs inside: the process is not dumpable, and its
 * image is not theirs.
 */
#ifndef POOL_INIT_INIT_H
#define POOL_INIT_INIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "pool/init/protocol.h"

/* The use as exec helper of a daemon: joins the slot's cgroup, becomes the slot's host uid,
 * executes bwrap. */
int enter(int argc, char **argv);

/*
 * Builds the slot, step by step. On failure returns -errno and the step's name; nobody may go on
 * then. On success the process is locked in, *ret_root_fd describes its `/`, and *ret_landlock is
 * what landlock_scope() said.
 */
int setup_slot(int *ret_root_fd, int *ret_landlock, const char **ret_step);

/* The whole text, in one write. -errno. */
int write_file(const char *path, const char *text);

/* Sends bytes and, unless it is -1, a descriptor, waiting for room. False when nobody is there. */
bool send_with_fd(int socket, const void *bytes, size_t size, int fd);

/* The same with a report, to the daemon. */
bool report_send(const struct init_report *report, int fd);

/*
 * Makes the addresses of the targets the slot's own and sends a listener for each to the daemon.
 * Needs the capabilities of the namespace that owns the network. -errno.
 */
int network_open(const struct init_setup *options, const struct init_target *targets);
/* A new TCP socket of the slot's network, not connected. -errno. */
int network_socket(bool v6);

/* The loop: returns when the daemon is gone. */
void serve(void);

/*
 * Landlock keeps signals and abstract socket names to the slot's own processes: an addition for
 * slots that share the host's network, where the kernel has it (Linux 6.12). Needs no_new_privs.
 * The ABI in force, 0 where there is none, or -errno.
 */
int landlock_scope(void);

/*
 * Steps that a slot goes without, for the security suite alone: its own build of this program
 * defines LEAVE_OUT and left_out(). In every other the steps' names do not even appear.
 */
#ifdef LEAVE_OUT
bool left_out(const char *step);
#else
#define left_out(step) false
#endif

struct launch;
struct runner;

enum { SIGNAL_MAX = 64 };

/* One command, from its EXEC until its leader is reaped and its runner, if it has one, too. */
struct command {
	struct command *next;
	uint32_t id;
	pid_t pid;             /* of the leader; 0: of one with a runner, not known yet */
	struct launch *launch; /* what the child needs until exec; NULL afterwards */
	struct runner *runner; /* NULL: it has a cgroup, or its runner is dead */
	bool doomed;           /* when its leader is dead it is hunted */
	/* bit n - 1: n, which came before the leader was there: for its group, for it alone */
	uint64_t early_signals[2];
	bool hunted;         /* its end is told when nothing of its tree is left */
	bool ended;          /* its leader is dead, or never ran, */
	bool told;           /* and that was reported */
	int status;          /* of the leader, as wait4() gives it, */
	struct rusage usage; /* and what it used */
};

/* What the child tells through the pipe. */
struct command_failure {
	int error;
	int step; /* index into the names that command_step() knows */
};

/* Unpacks and starts one. Descriptors are taken over, also on failure. -errno, with the failed
 * step's name. */
int command_start(const struct init_request *request, const char *payload, int *fds,
	size_t fd_count, struct command **ret_command, const char **ret_step);
/* True when the outcome of exec is known: ret_failure->error is 0 when it runs. */
bool command_outcome(struct command *command, struct command_failure *ret_failure);
/* Frees what the child needed until then; it must be past exec, or dead. Harmless twice. */
void command_forget_launch(struct command *command);
const char *command_step(int step);
void command_free(struct command *command); /* accepts NULL */

/* How a process is made. */
struct birth {
	uint64_t flags; /* CLONE_VM or 0 */
	void *stack;    /* STACK_SIZE bytes */
	int cgroup_fd;  /* it is born there; -1: in ours */
	pid_t *pid;     /* gets its number; or NULL */
};

/*
 * A runner is a process of ours between init and a command that has no cgroup. It does nothing but
 * be there: as the "child subreaper" above the command it is who orphans of that tree come to, so
 * that init can tell them from others'. When it dies all of the tree that was its children becomes
 * init's: that is how a tree is killed (hunt.c), and what the tree gains by killing its runner. It
 * leaves by itself when nothing is below it any more.
 */
enum { STACK_SIZE = 16 * 1024 };

/* Starts one, which runs fn(arg) in a child of its own; if it cannot, it calls failed(arg, -errno),
 * which must not return. birth->pid is the runner's. -errno. */
int runner_start(const struct birth *birth, void (*fn)(void *), void (*failed)(void *, long),
	void *arg, struct runner **ret_runner);
pid_t runner_pid(const struct runner *runner);
/* Of the child; 0 while it is not born. */
pid_t runner_child(const struct runner *runner);
/* True when the runner has reaped the child. */
bool runner_outcome(const struct runner *runner, int *ret_status, struct rusage *ret_usage);
/* Only when it has been reaped, and its child is past exec or dead. Accepts NULL. */
void runner_free(struct runner *runner);

/*
 * The hunt for what is left of killed commands: every child of ours that is no runner, and what
 * becomes our child when that dies, until there is none. Processes that fork faster than they are
 * killed are stopped first, together with all others of the slot.
 */
enum hunt_result { HUNT_GOES_ON, HUNT_OVER, HUNT_FAILED };

struct hunt {
	int children_fd; /* which of our children there are, as text */
	bool on;
	bool world_stopped;
	int64_t began_ms; /* it, or its standing still */
};

void hunt_open(struct hunt *hunt);
void hunt_begin(struct hunt *hunt);
/* Kills what there is; to be called whenever children may have died, at least every few
 * milliseconds. Of `commands` those are spared whose runner is alive and that are not hunted. */
enum hunt_result hunt_round(struct hunt *hunt, const struct command *commands);

/* CLOCK_MONOTONIC */
int64_t now_ms(void);

/* Runs fn(arg), which must not return, in a new process on its own stack; with CLONE_VM among the
 * flags, and without CLONE_VFORK, in our memory. Its pid is in *pid, where not NULL, before it or
 * we go on. */
long clone_onto_stack(const struct birth *birth, void (*fn)(void *), void *arg);

#endif
