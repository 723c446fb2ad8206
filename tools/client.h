/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * client.h: what the commands of `dressage` share: the mount they talk to, and one conversation
 * with a file on it.
 *
 * There is no protocol but the files: a request is written to a control file, its reply read from
 * the same descriptor. Running out of memory ends the program (a tool has nothing to save).
 * Threads: none.
 */
#ifndef TOOLS_CLIENT_H
#define TOOLS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "base/strbuf.h"

struct error;

/* Exit codes of every command but `exec`, which exits as its command did. */
enum exit_code {
	EXIT_DONE = 0,
	EXIT_REFUSED = 1,
	EXIT_USAGE = 2,
	EXIT_NO_DAEMON = 3,
	EXIT_DEGRADED = 4,
	EXIT_TIMED_OUT = 5,
	EXIT_NOTHING_FREE = 6,
};

/* Exit codes that `exec` adds. */
enum { EXEC_TIMED_OUT = 124, EXEC_INFRASTRUCTURE = 125, EXEC_SIGNAL_BASE = 128 };

struct client {
	const char
		*mount_option; /* --mount; NULL: $DRESSAGE_MOUNT, then the configured mountpoint */
	const char *config_option; /* --config; NULL: searched */
	char *mount;               /* absolute path, after client_connect() */
};

/* One command of `dressage`. */
struct client_command {
	const char *name, *arguments, *summary;
	const char *details; /* further lines of its --help; "" when there are none */
	/* argv[0] is the command's name. Returns the exit code. */
	int (*run)(struct client *client, int argc, char **argv);
};

extern const struct client_command create_command, terminate_command, exec_command, ttl_command,
	wait_command, ls_command, status_command, drain_command, undrain_command,
	restart_slot_command, release_command, config_command, doctor_command;

/* What --mount or $DRESSAGE_MOUNT says; NULL: neither does. */
const char *client_given_mount(const struct client *client);
/* Finds the mount and sees that a dressagefs answers there. Complains and returns EXIT_NO_DAEMON,
 * or EXIT_REFUSED for a broken configuration. */
int client_connect(struct client *client);
void client_fini(struct client *client);

/* Appends the whole file at MOUNT/path. -errno. */
int client_read_file(
	const struct client *client, const char *path, struct strbuf *out, struct error *err);

/* Writes the request to MOUNT/path and appends the reply. -errno, with the daemon's own sentence
 * where it gave one. */
int client_ask(const struct client *client, const char *path, const struct strbuf *request,
	struct strbuf *out, struct error *err);

/* Appends leases/NAME/FILE for a trajectory id. -EINVAL for one that cannot be an id. */
int client_lease_path(
	const char *trajectory, const char *file, struct strbuf *out, struct error *err);

/* The exit code for a failure with this errno (negative or positive). */
int exit_code_of(int error_code);

/* Prints "dressage: sentence" to standard error. */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same for a failure; returns its exit code. */
int fail(const struct error *err);

/* Prints "usage: dressage NAME ARGUMENTS" with the details, to standard output for --help, else to
 * standard error; returns the exit code. */
int command_help(const struct client_command *command);
int command_usage(const struct client_command *command);

/* Writes all bytes to a descriptor; false when that failed (said, but for a closed pipe). */
bool put_bytes(int fd, const char *bytes, size_t size);

/* Ends the program when memory ran out. */
void need_memory(const void *pointer);
void need_strbuf(const struct strbuf *buf);

/* What the daemon said, parsed (it may hold \u0000, which no request may). cJSON_Delete() it; NULL:
 * no JSON. */
cJSON *json_parse_reply(const struct strbuf *reply);

/* A field of an object: "" or 0 when it is not there or of another type. */
const char *json_text(const cJSON *object, const char *key);
double json_number(const cJSON *object, const char *key);
bool json_is_true(const cJSON *object, const char *key);

/* A positive number of seconds from the command line. False (said) when it is not one. */
bool parse_seconds(const char *option, const char *text, bool zero_allowed, double *ret_seconds);

#endif
