/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * environment.h: the environment of a slot's commands, made from nothing.
 *
 * In this order, later ones replacing earlier ones of the same name: what the patterns of [slot]
 * env_pass let through of the daemon's own; HOME, TMPDIR and the like, as they are inside; what the
 * command asks for; the slot's markers, which nothing overrides. Pure. Threads: any.
 */
#ifndef POOL_ENVIRONMENT_H
#define POOL_ENVIRONMENT_H

#include <stdint.h>

struct error;
struct word_list;

#define INSIDE_WORK    "/workspace"
#define INSIDE_HOME    "/home/blackbox"
#define INSIDE_TMP     "/tmp"
#define INSIDE_RUNTIME "/workspace_sandbox/blackbox_server_runtime"

struct environment_options {
	const char *const *inherited; /* the daemon's own, NULL-terminated */
	const struct word_list *pass; /* patterns of names, as fnmatch(3) */
	const char *const *extra;     /* the command's, NULL-terminated; NULL: none */
	unsigned slot;
	uint32_t generation, port;
	const char *slot_dir, *bind_host;
	const char *slot_token, *run_id; /* random words: of this generation, of this daemon */
};

/* The list and all its words; free with environment_free(). -ENOMEM; -EINVAL for an extra word that
 * is no NAME=value. */
int environment_build(
	const struct environment_options *options, char ***ret_env, struct error *err);
void environment_free(char **env); /* accepts NULL */
/* The value of a variable, or NULL. */
const char *environment_get(char *const *env, const char *name);

#endif
