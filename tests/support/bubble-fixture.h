/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * bubble-fixture.h: real bubbles for tests: a temporary directory with a slot's four directories, a
 * kit, a loop, and calls that wait. Every wait has a deadline of 20 s and asserts.
 */
#ifndef TESTS_SUPPORT_BUBBLE_FIXTURE_H
#define TESTS_SUPPORT_BUBBLE_FIXTURE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "config/settings.h"
#include "pool/bubble.h"

enum { FIXTURE_SLOTS = 2 };

struct fixture {
	char dir[64];   /* temporary; slots are <dir>/0 and <dir>/1 */
	uid_t uid_base; /* a root daemon's slots' */
	struct config config;
	struct loop *loop;
	struct bubble_kit *kit;
	struct fixture_slot {
		struct bubble *bubble;
		bool ready, died;
		struct error why;
	} slots[FIXTURE_SLOTS];
};

/*
 * Reads the test program's arguments: `--user` makes an ordinary user of root, as whom the daemon
 * then runs, `--user-in-groups` one with groups that he should not have. False after
 * a `1..0 # SKIP` line, where bubbles cannot be tried.
 */
bool fixture_begin_tests(int argc, char **argv);

/* Change fixture->config between the two when a test needs to. */
void fixture_init(struct fixture *fixture);
void fixture_open(struct fixture *fixture);
/* Kills what lives, waits for it, removes everything. */
void fixture_fini(struct fixture *fixture);

/* cmocka's set-up and tear-down: *state is an open fixture. */
int fixture_set_up(void **state);
int fixture_tear_down(void **state);
/* Descriptors that this process has open. */
unsigned fixture_open_fds(void);

/* Options for slot n, with its directories made. */
struct bubble_options fixture_options(struct fixture *fixture, unsigned n);
/* Begins a start. */
void fixture_spawn(struct fixture *fixture, unsigned n, const struct bubble_options *options);
/* Starts slot n and waits until it is ready. */
struct bubble *fixture_start(struct fixture *fixture, unsigned n);
/* The same of a whole fixture whose bwrap is the fake one (FAKE_BWRAP in the environment), which
 * does as its act says, in slot 0. fixture_fini_fake() ends it. */
void fixture_start_fake(struct fixture *fixture, const char *act, uint64_t start_timeout_ms);
void fixture_fini_fake(struct fixture *fixture);
void fixture_wait(struct fixture *fixture, const bool *flag);
/* Turns the loop once, whatever happens first. */
void fixture_turn(struct fixture *fixture);

/* What came of a command. */
struct fixture_result {
	struct strbuf out; /* standard output and standard error */
	bool started, ended;
	pid_t inside_pid;
	struct bubble_exec *exec;
	struct bubble_exec_end end;
	char failed_step[32];
	int out_fd; /* read end of its output */
};

/* extra and cgroup descriptors are -1. Does not wait. */
void fixture_begin(struct fixture *fixture, unsigned n, const char *const *argv,
	struct fixture_result *result);
void fixture_begin_with(struct fixture *fixture, unsigned n, struct bubble_exec_options *options,
	struct fixture_result *result);
/* Waits for the end, reads what was written. */
void fixture_finish(struct fixture *fixture, struct fixture_result *result);
void fixture_run(struct fixture *fixture, unsigned n, const char *const *argv,
	struct fixture_result *result);
void fixture_shell(
	struct fixture *fixture, unsigned n, const char *script, struct fixture_result *result);
void fixture_result_fini(struct fixture_result *result);

#endif
