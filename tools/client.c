/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tools/client.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "config/settings.h"
#include "providers/lease-name.h"
#include "providers/request.h"

void complain(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	(void)fputs("dressage: ", stderr);
	(void)vfprintf(stderr, fmt, args);
	(void)fputc('\n', stderr);
	va_end(args);
}

int exit_code_of(int error_code)
{
	switch (abs(error_code)) {
	case ETIMEDOUT:
		return EXIT_TIMED_OUT;
	case EAGAIN:
		return EXIT_NOTHING_FREE;
	default:
		return EXIT_REFUSED;
	}
}

int fail(const struct error *err)
{
	complain("%s", err->text);
	return exit_code_of(err->code);
}

void need_memory(const void *pointer)
{
	if (pointer)
		return;
	complain("out of memory");
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no second thread */
	exit(EXIT_REFUSED);
}

void need_strbuf(const struct strbuf *buf)
{
	need_memory(strbuf_failed(buf) ? NULL : buf);
}

static char *configured_mountpoint(const struct client *client, struct error *err)
{
	const struct config_sources sources = {
		.file = client->config_option,
		.environ = (const char *const *)environ,
	};
	char *mountpoint = NULL;

	if (config_find_mountpoint(&sources, &mountpoint, err) < 0)
		return NULL;
	return mountpoint;
}

const char *client_given_mount(const struct client *client)
{
	const char *given = client->mount_option;

	if (!given)
		/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no second thread */
		given = getenv("DRESSAGE_MOUNT");
	return given && *given ? given : NULL;
}

static char *find_mount(const struct client *client, struct error *err)
{
	const char *given = client_given_mount(client);
	char *mount;

	if (!given)
		return configured_mountpoint(client, err);
	mount = strdup(given);
	need_memory(mount);
	return mount;
}

static bool is_dressage_mount(const char *mount)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;
	struct statfs fs;

	strbuf_addf(&path, "%s/status.json", mount);
	need_strbuf(&path);
	return statfs(mount, &fs) == 0 && fs.f_type == FUSE_SUPER_MAGIC &&
	       access(path.data, R_OK) == 0;
}

int client_connect(struct client *client)
{
	struct error err = ERROR_NONE;

	client->mount = find_mount(client, &err);
	if (!client->mount)
		return fail(&err);
	if (is_dressage_mount(client->mount))
		return EXIT_DONE;
	complain(
		"no dressagefs answers at '%s'; start one with  dressagefs '%s'  or name another place with --mount",
		client->mount, client->mount);
	return EXIT_NO_DAEMON;
}

void client_fini(struct client *client)
{
	free(client->mount);
	client->mount = NULL;
}

static int open_file(const struct client *client, const char *path, int flags, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf whole = STRBUF_INIT;
	int fd;

	strbuf_addf(&whole, "%s/%s", client->mount, path);
	need_strbuf(&whole);
	fd = open(whole.data, flags | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return error_errno(err, errno, "cannot open '%s'", whole.data);
	return fd;
}

static int read_rest(int fd, struct strbuf *out)
{
	int r = read_all(fd, out);

	need_strbuf(out);
	return r;
}

int client_read_file(
	const struct client *client, const char *path, struct strbuf *out, struct error *err)
{
	CLEANUP(closep) int fd = open_file(client, path, O_RDONLY, err);
	int r;

	if (fd < 0)
		return fd;
	r = read_rest(fd, out);
	if (r < 0)
		return error_errno(err, -r, "cannot read '%s/%s'", client->mount, path);
	return 0;
}

/* The message of the error reply that a failed descriptor still holds. False: it holds none. */
static bool read_error_reply(int fd, int code, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	const char *message;
	cJSON *reply;
	bool said;

	if (read_rest(fd, &text) < 0)
		return false;
	reply = json_parse_reply(&text);
	message = json_text(cJSON_GetObjectItemCaseSensitive(reply, "error"), "message");
	said = *message != '\0';
	if (said)
		(void)error_set(err, code, "%s", message);
	cJSON_Delete(reply);
	return said;
}

/* The sentence in the last_error beside the file: maybe another request's, so only the second
 * choice. */
static bool read_last_error(
	const struct client *client, const char *path, int code, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf beside = STRBUF_INIT, sentence = STRBUF_INIT;
	const char *slash = strrchr(path, '/');

	strbuf_addf(&beside, "%.*slast_error", slash ? (int)(slash - path) + 1 : 0, path);
	need_strbuf(&beside);
	if (client_read_file(client, beside.data, &sentence, NULL) < 0 || sentence.size <= 1)
		return false;
	(void)error_set(err, code, "%.*s", (int)strcspn(sentence.data, "\n"), sentence.data);
	return true;
}

static int explain(
	const struct client *client, const char *path, int fd, int code, struct error *err)
{
	if (read_error_reply(fd, code, err) || read_last_error(client, path, code, err))
		return -code;
	return error_errno(err, code, "'%s/%s'", client->mount, path);
}

int client_ask(const struct client *client, const char *path, const struct strbuf *request,
	struct strbuf *out, struct error *err)
{
	CLEANUP(closep) int fd = open_file(client, path, O_RDWR, err);
	int r;

	if (fd < 0)
		return fd;
	r = write_all(fd, request->data, request->size);
	if (r == 0)
		r = read_rest(fd, out);
	if (r < 0)
		return explain(client, path, fd, -r, err);
	return 0;
}

int client_lease_path(
	const char *trajectory, const char *file, struct strbuf *out, struct error *err)
{
	char name[LEASE_NAME_MAX + 1];
	int r = lease_name_encode(trajectory, strlen(trajectory), name, err);

	if (r < 0)
		return r;
	strbuf_addf(out, "leases/%s/%s", name, file);
	need_strbuf(out);
	return 0;
}

static void print_help(const struct client_command *command, FILE *to)
{
	(void)fprintf(to, "usage: dressage %s %s\n\n%s\n", command->name, command->arguments,
		command->summary);
	if (*command->details)
		(void)fprintf(to, "\n%s", command->details);
}

int command_help(const struct client_command *command)
{
	print_help(command, stdout);
	return EXIT_DONE;
}

int command_usage(const struct client_command *command)
{
	print_help(command, stderr);
	return EXIT_USAGE;
}

bool put_bytes(int fd, const char *bytes, size_t size)
{
	int r = write_all(fd, bytes, size);

	if (r < 0 && r != -EPIPE)
		complain("cannot write the output: %s", strerrordesc_np(-r));
	return r == 0;
}

cJSON *json_parse_reply(const struct strbuf *reply)
{
	return cJSON_ParseWithLength(reply->data, reply->size);
}

const char *json_text(const cJSON *object, const char *key)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));

	return text ? text : "";
}

double json_number(const cJSON *object, const char *key)
{
	const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);

	return cJSON_IsNumber(value) ? value->valuedouble : 0;
}

bool json_is_true(const cJSON *object, const char *key)
{
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, key));
}

bool parse_seconds(const char *option, const char *text, bool zero_allowed, double *ret_seconds)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds >= 0 && seconds <= REQUEST_SECONDS_MAX) ||
		(seconds == 0 && !zero_allowed)) {
		complain("%s takes a number of seconds %s to %.0f, not '%s'", option,
			zero_allowed ? "from 0" : "above 0 and up", REQUEST_SECONDS_MAX, text);
		return false;
	}
	*ret_seconds = seconds;
	return true;
}
