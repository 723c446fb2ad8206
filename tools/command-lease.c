/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ttl, wait: a lease's time, and its end. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "tools/client.h"

/* True when the lease in that directory has this id. */
static bool has_id(const struct client *client, const char *name, const char *id)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT, text = STRBUF_INIT;
	const cJSON *metadata;
	cJSON *lease;
	bool same;

	strbuf_addf(&path, "leases/%s/lease.json", name);
	need_strbuf(&path);
	if (client_read_file(client, path.data, &text, NULL) < 0)
		return false; /* it ended since the directory was read */
	lease = json_parse_reply(&text);
	metadata = cJSON_GetObjectItemCaseSensitive(lease, "metadata");
	same = !strcmp(json_text(metadata, "lease_id"), id);
	cJSON_Delete(lease);
	return same;
}

static bool find_by_id(
	const struct client *client, const char *id, const char *file, struct strbuf *out)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;
	CLEANUP(closedirp) DIR *dir = NULL;

	strbuf_addf(&path, "%s/leases", client->mount);
	need_strbuf(&path);
	dir = opendir(path.data);
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no second thread */
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (entry->d_name[0] == '.' || !has_id(client, entry->d_name, id))
			continue;
		strbuf_addf(out, "leases/%s/%s", entry->d_name, file);
		need_strbuf(out);
		return true;
	}
	return false;
}

/* Appends the path of a lease's file below the mount, for a trajectory or lease id. */
static int find_lease(const struct client *client, const char *id, const char *file,
	struct strbuf *out, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf whole = STRBUF_INIT, relative = STRBUF_INIT;

	if (client_lease_path(id, file, &relative, NULL) == 0) {
		strbuf_addf(&whole, "%s/%s", client->mount, relative.data);
		need_strbuf(&whole);
		if (access(whole.data, F_OK) == 0) {
			strbuf_add(out, relative.data, relative.size);
			need_strbuf(out);
			return 0;
		}
	}
	if (find_by_id(client, id, file, out))
		return 0;
	return error_set(
		err, ENOENT, "no lease '%s' at '%s'; 'dressage ls' lists them", id, client->mount);
}

/* ttl */

static int show_ttl(struct client *client, const char *path)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	struct error err = ERROR_NONE;

	if (client_read_file(client, path, &text, &err) < 0)
		return fail(&err);
	return put_bytes(STDOUT_FILENO, text.data, text.size) ? EXIT_DONE : EXIT_REFUSED;
}

static int set_ttl(struct client *client, const char *path, double seconds)
{
	CLEANUP(strbuf_fini) struct strbuf request = STRBUF_INIT, reply = STRBUF_INIT;
	struct error err = ERROR_NONE;

	strbuf_addf(&request, "{\"ttl\":%.3f}\n", seconds);
	need_strbuf(&request);
	if (client_ask(client, path, &request, &reply, &err) < 0)
		return fail(&err);
	return put_bytes(STDOUT_FILENO, reply.data, reply.size) ? EXIT_DONE : EXIT_REFUSED;
}

static int run_ttl(struct client *client, int argc, char **argv)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;
	static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {0}};
	struct error err = ERROR_NONE;
	double seconds = 0;
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no second thread */
	int c = getopt_long(argc, argv, "h", options, NULL), words = argc - optind, code;

	if (c == 'h')
		return command_help(&ttl_command);
	if (c != -1 || words < 1 || words > 2)
		return command_usage(&ttl_command);
	if (words == 2 && !parse_seconds("ttl", argv[optind + 1], false, &seconds))
		return EXIT_USAGE;
	code = client_connect(client);
	if (code != EXIT_DONE)
		return code;
	if (find_lease(client, argv[optind], "ttl", &path, &err) < 0)
		return fail(&err);
	return words == 2 ? set_ttl(client, path.data, seconds) : show_ttl(client, path.data);
}

const struct client_command ttl_command = {
	.name = "ttl",
	.arguments = "LEASE-OR-TRAJECTORY [SECONDS]",
	.summary = "print how many seconds a lease has left, or give it so many from now",
	.details =
		"Plain way: cat MOUNT/leases/TRAJECTORY/ttl, echo SECONDS >MOUNT/leases/TRAJECTORY/ttl\n",
	.run = run_ttl,
};

/* wait */

static int open_wait(const struct client *client, const char *path)
{
	CLEANUP(strbuf_fini) struct strbuf whole = STRBUF_INIT;

	strbuf_addf(&whole, "%s/%s", client->mount, path);
	need_strbuf(&whole);
	return open(whole.data, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

/* False: it is still not over after timeout seconds (negative: no end to the wait). */
static bool poll_end(int fd, double timeout)
{
	struct pollfd poller = {.fd = fd, .events = POLLIN};
	double left_ms = ceil(timeout * 1000);
	int r;

	do { /* of longer waits a piece at a time */
		r = poll(&poller, 1, timeout < 0 ? -1 : left_ms > 1e9 ? 1000000000 : (int)left_ms);
		left_ms -= 1e9;
	} while (r == 0 && left_ms > 0);
	return r != 0;
}

static int wait_for_end(const struct client *client, const char *id, double timeout)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT, text = STRBUF_INIT;
	CLEANUP(closep) int fd = -1;
	struct error err = ERROR_NONE;
	int r;

	if (find_lease(client, id, "wait", &path, &err) < 0)
		return fail(&err);
	fd = open_wait(client, path.data);
	if (fd < 0) {
		(void)error_errno(&err, errno, "cannot open '%s/%s'", client->mount, path.data);
		return fail(&err);
	}
	if (!poll_end(fd, timeout)) {
		complain("the lease '%s' is still there after %g s", id, timeout);
		return EXIT_TIMED_OUT;
	}
	r = read_all(fd, &text);
	need_strbuf(&text);
	if (r < 0) {
		(void)error_errno(&err, -r, "cannot read '%s/%s'", client->mount, path.data);
		return fail(&err);
	}
	return put_bytes(STDOUT_FILENO, text.data, text.size) ? EXIT_DONE : EXIT_REFUSED;
}

static int run_wait(struct client *client, int argc, char **argv)
{
	static const struct option options[] = {
		{"timeout", required_argument, NULL, 't'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	double timeout = -1;
	int code;

	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no second thread */
	for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
		if (c == 'h')
			return command_help(&wait_command);
		if (c == '?')
			return command_usage(&wait_command);
		if (!parse_seconds("--timeout", optarg, true, &timeout))
			return EXIT_USAGE;
	}
	if (argc - optind != 1)
		return command_usage(&wait_command);
	code = client_connect(client);
	return code == EXIT_DONE ? wait_for_end(client, argv[optind], timeout) : code;
}

const struct client_command wait_command = {
	.name = "wait",
	.arguments = "[--timeout SECONDS] LEASE-OR-TRAJECTORY",
	.summary = "wait until a lease is over and print its state and the reason",
	.details =
		"  --timeout SECONDS  no longer than this: exit status 5 when it is still there then\n\n"
		"Plain way: cat MOUNT/leases/TRAJECTORY/wait\n",
	.run = run_wait,
};
