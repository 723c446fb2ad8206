/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* exec: a command in a lease, its output and its exit status as if it had run here. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "tools/client.h"

struct exec_options {
	const char *cwd; /* NULL: the sandbox's own */
	double timeout;  /* negative: not given */
	bool no_stdin, json;
	struct strbuf env; /* members of a JSON object */
};

static bool add_variable(struct exec_options *options, const char *text)
{
	const char *equals = strchr(text, '=');

	if (!equals || equals == text) {
		complain("--env takes NAME=VALUE, not '%s'", text);
		return false;
	}
	if (options->env.size)
		strbuf_addc(&options->env, ',');
	json_add_string(&options->env, text, (size_t)(equals - text));
	strbuf_addc(&options->env, ':');
	json_add_cstring(&options->env, equals + 1);
	need_strbuf(&options->env);
	return true;
}

static int parse_exec(int argc, char **argv, struct exec_options *options)
{
	static const struct option table[] = {
		{"cwd", required_argument, NULL, 'C'},
		{"env", required_argument, NULL, 'e'},
		{"timeout", required_argument, NULL, 't'},
		{"no-stdin", no_argument, NULL, 'n'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};

	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no second thread */
	for (int c; (c = getopt_long(argc, argv, "hn", table, NULL)) != -1;) {
		if (c == 'h')
			return command_help(&exec_command);
		if (c == '?')
			return command_usage(&exec_command);
		if (c == 'e' && !add_variable(options, optarg))
			return EXIT_USAGE;
		if (c == 't' && !parse_seconds("--timeout", optarg, false, &options->timeout))
			return EXIT_USAGE;
		if (c == 'C')
			options->cwd = optarg;
		options->no_stdin |= c == 'n';
		options->json |= c == 'j';
	}
	if (argc - optind < 2)
		return command_usage(&exec_command);
	return -1;
}

/* What stands on standard input, unless that is a terminal. */
static int read_stdin(struct strbuf *out)
{
	int r = read_all(STDIN_FILENO, out);

	need_strbuf(out);
	if (r == 0 || r == -EBADF)
		return -1;
	complain("cannot read standard input: %s", strerrordesc_np(-r));
	return EXEC_INFRASTRUCTURE;
}

static int render_request(char **command, const struct exec_options *options, struct strbuf *out)
{
	CLEANUP(strbuf_fini) struct strbuf input = STRBUF_INIT;
	int code = options->no_stdin || isatty(STDIN_FILENO) ? -1 : read_stdin(&input);

	if (code >= 0)
		return code;
	strbuf_adds(out, "{\"command\":[");
	for (char **word = command; *word; word++) {
		if (word != command)
			strbuf_addc(out, ',');
		json_add_cstring(out, *word);
	}
	strbuf_addc(out, ']');
	if (options->cwd) {
		strbuf_adds(out, ",\"cwd\":");
		json_add_cstring(out, options->cwd);
	}
	if (options->env.size)
		strbuf_addf(out, ",\"env\":{%s}", options->env.data);
	if (options->timeout >= 0)
		strbuf_addf(out, ",\"timeout\":%.3f", options->timeout);
	if (input.size) {
		strbuf_adds(out, ",\"stdin_base64\":");
		json_add_base64(out, input.data, input.size);
	}
	strbuf_adds(out, "}\n");
	need_strbuf(out);
	return -1;
}

/* Writes one stream as the command wrote it; says what the daemon had to cut. */
static void put_stream(int fd, const cJSON *result, const char *name)
{
	CLEANUP(strbuf_fini) struct strbuf raw = STRBUF_INIT;
	const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(result, "metadata");
	const char *text = json_text(result, name);
	char key[32];

	(void)snprintf(key, sizeof(key), "%s_base64", name);
	if (*json_text(metadata, key)) {
		const char *base64 = json_text(metadata, key);

		(void)base64_decode(base64, strlen(base64), &raw, NULL);
	} else {
		strbuf_adds(&raw, text);
	}
	need_strbuf(&raw);
	(void)put_bytes(fd, raw.data, raw.size);
	(void)snprintf(key, sizeof(key), "%s_truncated", name);
	if (json_is_true(metadata, key)) {
		(void)snprintf(key, sizeof(key), "%s_bytes", name);
		complain("%s was cut: %zu of %.0f bytes kept (max_output)", name, raw.size,
			json_number(metadata, key));
	}
}

static int exit_code_of_result(const cJSON *result)
{
	const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(result, "metadata");
	const cJSON *returncode = cJSON_GetObjectItemCaseSensitive(result, "returncode");
	int code;

	if (json_is_true(metadata, "infra_failure") || !cJSON_IsNumber(returncode)) {
		complain("the sandbox failed, not the command: %s", json_text(metadata, "reason"));
		return EXEC_INFRASTRUCTURE;
	}
	if (json_is_true(result, "timed_out"))
		return EXEC_TIMED_OUT;
	code = (int)returncode->valuedouble;
	return code < 0 ? EXEC_SIGNAL_BASE - code : code;
}

static int show_result(const struct strbuf *reply, bool json, struct error *err)
{
	cJSON *result = json_parse_reply(reply);
	int code;

	if (!result)
		return error_set(err, EIO, "the reply of run_command makes no sense");
	if (json) {
		(void)put_bytes(STDOUT_FILENO, reply->data, reply->size);
	} else {
		put_stream(STDOUT_FILENO, result, "stdout");
		put_stream(STDERR_FILENO, result, "stderr");
	}
	code = exit_code_of_result(result);
	cJSON_Delete(result);
	return code;
}

/* What stands behind the trajectory; a second -- does where the trajectory itself needed the first
 * one (exec -- -id -- cmd). */
static char **command_of(char **words)
{
	return strcmp(words[1], "--") == 0 && words[2] ? words + 2 : words + 1;
}

static int run_in_lease(struct client *client, char **words, const struct exec_options *options)
{
	CLEANUP(strbuf_fini)
	struct strbuf request = STRBUF_INIT, reply = STRBUF_INIT, path = STRBUF_INIT;
	struct error err = ERROR_NONE;
	int code;

	if (client_connect(client) != EXIT_DONE)
		return EXEC_INFRASTRUCTURE;
	code = render_request(command_of(words), options, &request);
	if (code >= 0)
		return code;
	code = client_lease_path(words[0], "run_command", &path, &err);
	if (code == 0)
		code = client_ask(client, path.data, &request, &reply, &err);
	if (code == 0) {
		code = show_result(&reply, options->json, &err);
		if (code >= 0)
			return code;
	}
	if (err.code == ENOENT)
		complain("no lease '%s' at '%s'; take one with  dressage create '%s'", words[0],
			client->mount, words[0]);
	else
		(void)fail(&err);
	return EXEC_INFRASTRUCTURE;
}

static int run_exec(struct client *client, int argc, char **argv)
{
	struct exec_options options = {.timeout = -1, .env = STRBUF_INIT};
	int code = parse_exec(argc, argv, &options);

	if (code < 0)
		code = run_in_lease(client, argv + optind, &options);
	strbuf_fini(&options.env);
	return code;
}

const struct client_command exec_command = {
	.name = "exec",
	.arguments =
		"TRAJECTORY [--cwd DIR] [--env NAME=VALUE] ... [--timeout SECONDS] [--no-stdin] [--json] -- COMMAND ...",
	.summary = "run a command in a lease",
	.details =
		"  --cwd DIR          where to run it; relative to /workspace, which is the default\n"
		"  --env NAME=VALUE   adds a variable; may be given many times\n"
		"  --timeout SECONDS  kill it after this: exit status 124\n"
		"  --no-stdin, -n     do not pass standard input (which is read to its end first, unless it is a terminal)\n"
		"  --json             print the CommandResult instead of the output\n\n"
		"The words after -- are the program and its arguments; no shell stands between (use: -- sh -c '...').\n"
		"Exit status: the command's own; 124 timed out, 125 the sandbox or this program failed, 128+n killed by signal n.\n",
	.run = run_exec,
};
