/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * init.h: the parts of the program that is pid 1 of a slot. main.c decides which of its two uses is
 * meant, setup.c (with landlock.c and network.c) builds and locks the slot, serve.c is the loop
 * that then runs until death, command.c starts commands.
 *
 * One thread. Memory is not shared with what runs inside: the process is not dumpable, and its
 * image is not theirs.
 */
#ifndef POOL_INIT_INIT_H
#define POOL_INIT_INIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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

/* Sends a report, waiting for room. False when the daemon is gone. */
bool report_send(const struct init_report *report, int fd);

/* Writes a short text into an existing file, whole. -errno. */
int write_file(const char *path, const char *text);

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

/* One command, from its EXEC until its leader is reaped. */
struct command {
	struct command *next;
	uint32_t id;
	pid_t pid;
	struct launch *launch; /* what the child needs until exec; NULL afterwards */
	bool failed;           /* never ran; was reported */
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

/* Runs fn(arg), which must not return, in a new process on its own stack; with CLONE_VM among the
 * flags, and without CLONE_VFORK, in our memory. */
long clone_onto_stack(uint64_t flags, void *stack, size_t stack_size, int cgroup_fd,
	void (*fn)(void *), void *arg);

#endif
