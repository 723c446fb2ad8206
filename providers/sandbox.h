/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sandbox.h: what a caller may do with a sandbox, whoever provides it. The JSON names of the fields
 * are the field names. Threads: loop, except struct sandbox_root, which says its own.
 */
#ifndef PROVIDERS_SANDBOX_H
#define PROVIDERS_SANDBOX_H

#include <cjson/cJSON.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pool/command.h"

struct config;
struct error;
struct strbuf;

enum sandbox_capability {
	SANDBOX_COMMAND = 1u << 0,
	SANDBOX_FILE = 1u << 1,
	SANDBOX_PUBLIC_URL = 1u << 2,
};

struct sandbox_service {
	char *name;
	uint16_t port;
	char *health_path; /* "/health" unless given */
};

/* What a caller asks for. Every pointer is owned. */
struct sandbox_spec {
	char *trajectory_id; /* UTF-8, 1 to 255 bytes, no NUL */
	char *env_type;      /* NULL: not given */
	cJSON *env_args;     /* object, or NULL: none, or an empty one */
	cJSON *metadata;     /* object of strings, or NULL */
	cJSON *env; /* object of strings in the order of their names, or NULL: given to every
		       command, which may override it */
	struct sandbox_service *services;
	unsigned service_count;
	double timeout_sec; /* the lease's TTL; 0: not given */
	double wait_sec;    /* create's own: how long to queue; negative: not given */
};

/* Reads a request to `create`: a JSON SandboxSpec, or a bare trajectory id on one line. -EINVAL
 * with the place or field. */
int sandbox_spec_decode(
	const char *text, size_t size, struct sandbox_spec *ret_spec, struct error *err);
/* The spec of mkdir: an id and nothing else. */
int sandbox_spec_from_id(
	const char *trajectory_id, struct sandbox_spec *ret_spec, struct error *err);
int sandbox_spec_copy(
	const struct sandbox_spec *spec, struct sandbox_spec *ret_spec, struct error *err);
void sandbox_spec_fini(struct sandbox_spec *spec);
/* Appends it as JSON, keys in a fixed order, absent ones and wait_sec left out: what the journal
 * keeps. */
void sandbox_spec_render(const struct sandbox_spec *spec, struct strbuf *out);
/* env_args.sandbox_image; NULL: not given. */
const char *sandbox_spec_image(const struct sandbox_spec *spec);
/* The first field in which `asked` wants another image, environment or services than the live one
 * has; NULL: none. What is not given fits. */
const char *sandbox_spec_difference(
	const struct sandbox_spec *live, const struct sandbox_spec *asked);
/* What was asked for, and what that leaves out as it is in `former`: of a lease that is over and is
 * taken again, as what is not given fits a live one. */
int sandbox_spec_complete(const struct sandbox_spec *asked, const struct sandbox_spec *former,
	struct sandbox_spec *ret_spec, struct error *err);
/*
 * What no sandbox of this machine's pool can serve: -EPROTOTYPE (mode_mismatch) when
 * metadata.paddock_mode does not fit the pool's mode, -EINVAL for an image (unknown_image) or
 * services that it cannot have.
 */
int sandbox_spec_check_local(
	const struct sandbox_spec *spec, const struct config *config, struct error *err);

/* Reads a request to `run_command`: JSON as docs/control-files.md has it, or a shell script.
 * Defaults are the configuration's. -EINVAL. */
int command_decode(const char *text, size_t size, const struct config *config,
	struct command *ret_command, struct error *err);

/* Where a command ran, for its result. */
struct sandbox_place {
	const char *lease_id, *trajectory_id, *node_id, *node_ip;
	unsigned slot; /* UINT_MAX: none */
	uint32_t generation;
};

/*
 * Appends CommandResult JSON and a newline. stdout and stderr are the bytes with U+FFFD for what is
 * not UTF-8, and then also as base64 in metadata. Of a stream above 64 KiB that would be more than
 * twice as long as JSON text, there is only the base64. Any thread.
 */
void command_result_render(const struct sandbox_place *place, const struct command *command,
	const struct command_result *result, struct strbuf *out);

/* Appends ,"signal": and its name, or null. */
void command_result_add_signal(const struct command_result *result, struct strbuf *out);

/*
 * A local sandbox's own `/`, for whoever reads its files directly. Any thread; counted references.
 * After pid 1's death a walk from fd shows empty mount points without any error, so every use is
 * gated on sandbox_root_alive().
 */
struct sandbox_root {
	atomic_uint refs;
	atomic_bool ended; /* set on the loop when the lease ends, before anything is reset */
	int fd;            /* O_PATH */
	int pidfd;         /* of pid 1 */
	uid_t uid;         /* host ids of what commands make */
	gid_t gid;
	uid_t range; /* the first of its 65536 host ids, users and groups; 0: uid and gid alone */
	uint64_t serial; /* of this loan; never used again by this daemon */
};

/* Dups both descriptors. The new root has one reference. */
int sandbox_root_create(int fd, int pidfd, uid_t uid, gid_t gid, uint64_t serial,
	struct sandbox_root **ret_root, struct error *err);
struct sandbox_root *sandbox_root_ref(struct sandbox_root *root);
void sandbox_root_unref(struct sandbox_root *root);
/* False once the lease has ended (ESTALE) or pid 1 is dead (ENOTCONN): *ret_errno says which. A
 * poll(2) of the pidfd, no waiting. */
bool sandbox_root_alive(struct sandbox_root *root, int *ret_errno);

#endif
