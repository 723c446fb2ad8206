/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* create and terminate: a lease's beginning and end. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "tools/client.h"

struct create_options {
	double wait, ttl; /* negative: not given */
	const char *spec; /* a file name; NULL: none */
};

static int parse_create(int argc, char **argv, struct create_options *ret_options)
{
	static const struct option options[] = {
		{"wait", required_argument, NULL, 'w'},
		{"ttl", required_argument, NULL, 't'},
		{"spec", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct create_options parsed = {.wait = -1, .ttl = -1};

	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no second thread */
	for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
		if (c == 'h')
			return command_help(&create_command);
		if (c == 'w' && parse_seconds("--wait", optarg, true, &parsed.wait))
			continue;
		if (c == 't' && parse_seconds("--ttl", optarg, false, &parsed.ttl))
			continue;
		if (c != 's')
			return c == '?' ? command_usage(&create_command) : EXIT_USAGE;
		parsed.spec = optarg;
	}
	if (argc - optind != (parsed.spec ? 0 : 1) ||
		(parsed.spec && (parsed.wait >= 0 || parsed.ttl >= 0)))
		return command_usage(&create_command);
	*ret_options = parsed;
	return -1;
}

/* `create` takes any text for a trajectory id; what is called a spec must be one. */
static int check_spec(const char *name, const struct strbuf *spec)
{
	struct error err = ERROR_NONE;
	cJSON *object;

	if (json_parse_object(spec->data, spec->size, &object, &err) < 0) {
		complain("'%s' is not a SandboxSpec in JSON: %s", name, err.text);
		return EXIT_REFUSED;
	}
	cJSON_Delete(object);
	return -1;
}

static int read_spec(const char *name, struct strbuf *out)
{
	bool is_stdin = strcmp(name, "-") == 0, broken;
	FILE *file = is_stdin ? stdin : fopen(name, "re");
	size_t n;

	if (!file) {
		complain("cannot open '%s': %s", name, strerrordesc_np(errno));
		return EXIT_REFUSED;
	}
	do {
		char *room = strbuf_room(out, 65536);

		need_memory(room);
		n = fread(room, 1, 65536, file);
		strbuf_grown(out, n);
	} while (n > 0);
	broken = ferror(file) != 0;
	if (!is_stdin)
		(void)fclose(file);
	if (broken) {
		complain("cannot read '%s'", name);
		return EXIT_REFUSED;
	}
	return check_spec(name, out);
}

static void render_spec(
	const char *trajectory, const struct create_options *options, struct strbuf *out)
{
	strbuf_adds(out, "{\"trajectory_id\":");
	json_add_cstring(out, trajectory);
	if (options->wait >= 0)
		strbuf_addf(out, ",\"wait\":%.3f", options->wait);
	if (options->ttl >= 0)
		strbuf_addf(out, ",\"timeout_sec\":%.3f", options->ttl);
	strbuf_adds(out, "}\n");
	need_strbuf(out);
}

static int run_create(struct client *client, int argc, char **argv)
{
	CLEANUP(strbuf_fini) struct strbuf request = STRBUF_INIT, reply = STRBUF_INIT;
	struct create_options options = {0};
	struct error err = ERROR_NONE;
	int code = parse_create(argc, argv, &options);

	if (code >= 0)
		return code;
	if (options.spec)
		code = read_spec(options.spec, &request);
	else
		render_spec(argv[optind], &options, &request);
	if (code < 0)
		code = client_connect(client);
	if (code != EXIT_DONE)
		return code;
	if (client_ask(client, "create", &request, &reply, &err) < 0)
		return fail(&err);
	return put_bytes(STDOUT_FILENO, reply.data, reply.size) ? EXIT_DONE : EXIT_REFUSED;
}

const struct client_command create_command = {
	.name = "create",
	.arguments = "[--wait SECONDS] [--ttl SECONDS] TRAJECTORY | --spec FILE",
	.summary = "take a sandbox for a trajectory and print its lease",
	.details =
		"  --wait SECONDS  how long to queue when nothing is free (0: not at all, exit status 6); default: acquire_timeout\n"
		"  --ttl SECONDS   the lease ends by itself after this; default: lease_ttl\n"
		"  --spec FILE     a SandboxSpec as JSON ('-': standard input) instead of a trajectory id\n\n"
		"A live lease of the same trajectory is printed again. Plain way: echo TRAJECTORY >MOUNT/create, or\n"
		"mkdir MOUNT/leases/TRAJECTORY, which never waits.\n",
	.run = run_create,
};

static int run_terminate(struct client *client, int argc, char **argv)
{
	static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {0}};
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no second thread */
	int c = getopt_long(argc, argv, "h", options, NULL);
	int code;

	if (c == 'h')
		return command_help(&terminate_command);
	if (c != -1 || optind == argc)
		return command_usage(&terminate_command);
	code = client_connect(client);
	if (code != EXIT_DONE)
		return code;
	for (int i = optind; i < argc; i++) {
		CLEANUP(strbuf_fini) struct strbuf request = STRBUF_INIT, reply = STRBUF_INIT;
		struct error err = ERROR_NONE;

		/* as JSON: an id may hold a newline, or look like JSON itself */
		strbuf_adds(&request, "{\"trajectory_id\":");
		json_add_cstring(&request, argv[i]);
		strbuf_adds(&request, "}\n");
		need_strbuf(&request);
		if (client_ask(client, "terminate", &request, &reply, &err) < 0)
			code = fail(&err);
		else if (!put_bytes(STDOUT_FILENO, reply.data, reply.size))
			code = EXIT_REFUSED;
	}
	return code;
}

const struct client_command terminate_command = {
	.name = "terminate",
	.arguments = "LEASE-OR-TRAJECTORY ...",
	.summary = "give sandboxes back and print what came of it",
	.details =
		"Plain way: echo TRAJECTORY >MOUNT/terminate, or rmdir MOUNT/leases/TRAJECTORY.\n",
	.run = run_terminate,
};
