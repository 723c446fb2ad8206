/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* exec: a command in a lease, its output and its exit status as if it had run here. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/utf8.h"
#include "tools/client.h"
#include "tools/exec-relay.h"
#include "tools/terminal.h"

struct exec_options {
	const char *cwd;              /* NULL: the sandbox's own */
	double timeout, idle_timeout; /* negative: not given */
	bool no_stdin, interactive, tty, json;
	struct strbuf env; /* members of a JSON object */
	bool has_term;     /* TERM is among them */
	struct terminal *terminal;
};

static bool add_variable(struct exec_options *options, const char *text)
{
	const char *equals = strchr(text, '=');

	if (!equals || equals == text) {
		complain("--env takes NAME=VALUE, not '%s'", text);
		return false;
	}
	options->has_term |= strncmp(text, "TERM=", strlen("TERM=")) == 0;
	if (options->env.size)
		strbuf_addc(&options->env, ',');
	json_add_string(&options->env, text, (size_t)(equals - text));
	strbuf_addc(&options->env, ':');
	json_add_cstring(&options->env, equals + 1);
	need_strbuf(&options->env);
	return true;
}

static bool are_sound(const struct exec_options *options)
{
	if (options->tty && options->no_stdin)
		complain(
			"-t hands over the terminal, and with it what is typed: leave out --no-stdin");
	else if (options->tty && options->json)
		complain("-t shows the output itself: leave out --json");
	return !options->tty || (!options->no_stdin && !options->json);
}

static int parse_exec(int argc, char **argv, struct exec_options *options)
{
	static const struct option table[] = {
		{"cwd", required_argument, NULL, 'C'},
		{"env", required_argument, NULL, 'e'},
		{"timeout", required_argument, NULL, 'T'},
		{"idle-timeout", required_argument, NULL, 'I'},
		{"no-stdin", no_argument, NULL, 'n'},
		{"interactive", no_argument, NULL, 'i'},
		{"tty", no_argument, NULL, 't'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};

	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no second thread */
	for (int c; (c = getopt_long(argc, argv, "hint", table, NULL)) != -1;) {
		if (c == 'h')
			return command_help(&exec_command);
		if (c == '?')
			return command_usage(&exec_command);
		if (c == 'e' && !add_variable(options, optarg))
			return EXIT_USAGE;
		if (c == 'T' && !parse_seconds("--timeout", optarg, false, &options->timeout))
			return EXIT_USAGE;
		if (c == 'I' &&
			!parse_seconds("--idle-timeout", optarg, false, &options->idle_timeout))
			return EXIT_USAGE;
		if (c == 'C')
			options->cwd = optarg;
		options->no_stdin |= c == 'n';
		options->interactive |= c == 'i';
		options->tty |= c == 't';
		options->json |= c == 'j';
	}
	if (argc - optind < (options->tty ? 1 : 2))
		return command_usage(&exec_command);
	return are_sound(options) ? -1 : EXIT_USAGE;
}

/* A terminal's user types for the shell, unless he says otherwise. */
static bool passes_input(const struct exec_options *options)
{
	return !options->no_stdin &&
	       (options->interactive || options->tty || !isatty(STDIN_FILENO));
}

static void render_terminal(struct exec_options *options, struct strbuf *out)
{
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no second thread */
	const char *term = getenv("TERM");
	unsigned rows, columns;

	terminal_size(options->terminal, &rows, &columns);
	strbuf_addf(out, ",\"tty\":{\"rows\":%u,\"cols\":%u}", rows, columns);
	if (options->has_term || !term || !utf8_valid(term, strlen(term)))
		return;
	strbuf_adds(&options->env, options->env.size ? ",\"TERM\":" : "\"TERM\":");
	json_add_cstring(&options->env, term);
	need_strbuf(&options->env);
}

static void render_request(char **command, struct exec_options *options, struct strbuf *out)
{
	strbuf_adds(out, "{\"command\":[");
	for (char **word = command; *word; word++) {
		if (word != command)
			strbuf_addc(out, ',');
		json_add_cstring(out, *word);
	}
	strbuf_addc(out, ']');
	if (options->terminal)
		render_terminal(options, out);
	else if (passes_input(options))
		strbuf_adds(out, ",\"stdin_pipe\":true");
	if (options->cwd) {
		strbuf_adds(out, ",\"cwd\":");
		json_add_cstring(out, options->cwd);
	}
	if (options->env.size)
		strbuf_addf(out, ",\"env\":{%s}", options->env.data);
	if (options->timeout >= 0)
		strbuf_addf(out, ",\"timeout\":%.3f", options->timeout);
	if (!options->json) /* it is read from the streams, and need not be rendered too */
		strbuf_adds(out, ",\"max_output_bytes\":0");
	if (options->idle_timeout >= 0)
		strbuf_addf(out, ",\"idle_timeout\":%.3f", options->idle_timeout);
	strbuf_adds(out, "}\n");
	need_strbuf(out);
}

/* The daemon keeps so much of a stream and no more. */
static void tell_if_cut(const cJSON *result, const char *name, uint64_t shown)
{
	const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(result, "metadata");
	char key[32];

	(void)snprintf(key, sizeof(key), "%s_bytes", name);
	if (json_number(metadata, key) > (double)shown)
		complain("%s was cut: %" PRIu64 " of %.0f bytes kept (max_spool)", name, shown,
			json_number(metadata, key));
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

static int show_result(
	const struct strbuf *reply, const struct relay_result *shown, bool json, struct error *err)
{
	cJSON *result;
	int code;

	if (shown->failed == EPIPE)
		return EXEC_SIGNAL_BASE + SIGPIPE;
	if (shown->failed)
		return error_errno(err, shown->failed, "cannot write the command's output");
	result = json_parse_reply(reply);
	if (!result)
		return error_set(err, EIO, "the result of the command makes no sense");
	if (json) {
		(void)put_bytes(STDOUT_FILENO, reply->data, reply->size);
	} else if (shown->left) {
		complain("nobody took the rest of the output");
	} else {
		tell_if_cut(result, "stdout", shown->out);
		tell_if_cut(result, "stderr", shown->err);
	}
	code = exit_code_of_result(result);
	cJSON_Delete(result);
	return code;
}

/* What stands behind the trajectory; a second -- does where the trajectory itself needed the first
 * one (exec -- -id -- cmd). With nothing there, at a terminal, a shell. */
static char **command_of(char **words)
{
	static char *shell[] = {(char *)"sh", (char *)"-c",
		(char *)"command -v bash >/dev/null && exec bash; exec sh", NULL};

	if (words[1] && strcmp(words[1], "--") == 0)
		words++;
	return words[1] ? words + 1 : shell;
}

/* Starts it; appends the path of its directory. */
static int start(struct client *client, char **words, struct exec_options *options,
	struct strbuf *ret_path, struct error *err)
{
	CLEANUP(strbuf_fini)
	struct strbuf request = STRBUF_INIT, number = STRBUF_INIT, path = STRBUF_INIT;
	int r = client_lease_path(words[0], "exec/new", &path, err);

	if (r < 0)
		return r;
	render_request(command_of(words), options, &request);
	r = client_ask(client, path.data, &request, &number, err);
	if (r < 0)
		return r;
	strbuf_addf(ret_path, "%s/%.*s%.*s", client->mount, (int)(path.size - strlen("new")),
		path.data, (int)strcspn(number.data, "\n"), number.data);
	need_strbuf(ret_path);
	return 0;
}

static int run_to_the_end(
	struct client *client, char **words, struct exec_options *options, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT, result = STRBUF_INIT;
	struct relay_options relay = {.terminal = options->terminal,
		.input = passes_input(options),
		.output = !options->json};
	struct relay_result shown = {0};
	int r;

	relay_catch_signals(options->terminal);
	r = start(client, words, options, &path, err);
	if (r < 0)
		return r;
	relay.path = path.data;
	r = relay_run(&relay, &shown, &result, err);
	return r < 0 ? r : show_result(&result, &shown, options->json, err);
}

/* Whatever is said then is said at the terminal as it was. */
static int run_with_terminal(
	struct client *client, char **words, struct exec_options *options, struct error *err)
{
	int r;

	if (!options->tty)
		return run_to_the_end(client, words, options, err);
	r = terminal_open(&options->terminal, err);
	if (r < 0)
		return r;
	r = run_to_the_end(client, words, options, err);
	terminal_close(options->terminal);
	return r;
}

static bool has_gone(int code)
{
	return code == ENOTCONN || code == ECONNABORTED || code == ENODEV;
}

static int run_in_lease(struct client *client, char **words, struct exec_options *options)
{
	struct error err = ERROR_NONE;
	int code;

	if (client_connect(client) != EXIT_DONE)
		return EXEC_INFRASTRUCTURE;
	code = run_with_terminal(client, words, options, &err);
	if (code >= 0)
		return code;
	if (err.code == ENOENT)
		complain("no lease '%s' at '%s'; take one with  dressage create '%s'", words[0],
			client->mount, words[0]);
	else if (has_gone(err.code))
		complain(
			"the sandbox failed, not the command: dressagefs at '%s' has gone (daemon_lost)",
			client->mount);
	else
		(void)fail(&err);
	return EXEC_INFRASTRUCTURE;
}

static int run_exec(struct client *client, int argc, char **argv)
{
	struct exec_options options = {.timeout = -1, .idle_timeout = -1, .env = STRBUF_INIT};
	int code = parse_exec(argc, argv, &options);

	if (code < 0)
		code = run_in_lease(client, argv + optind, &options);
	strbuf_fini(&options.env);
	return code;
}

const struct client_command exec_command = {
	.name = "exec",
	.arguments =
		"TRAJECTORY [--cwd DIR] [--env NAME=VALUE] ... [--timeout SECONDS] [--idle-timeout SECONDS] [-n | -i | -it | --json] -- COMMAND ...",
	.summary = "run a command in a lease",
	.details =
		"  --cwd DIR          where to run it; relative to /workspace, which is the default\n"
		"  --env NAME=VALUE   adds a variable; may be given many times\n"
		"  --timeout SECONDS  kill it after this: exit status 124\n"
		"  --idle-timeout SECONDS\n"
		"                     kill it when it has written nothing for so long: exit status 124\n"
		"  --no-stdin, -n     do not pass standard input\n"
		"  --interactive, -i  pass standard input even if it is a terminal\n"
		"  --tty, -t          give it a terminal, which follows this one: every key goes to it; without a\n"
		"                     COMMAND a shell (-it, as elsewhere, is the same)\n"
		"  --json             print the CommandResult instead of the output\n\n"
		"Output is shown as it comes; INT, TERM, HUP and QUIT go to all processes of the command, a second\n"
		"INT kills them. It ends as its first process ends, whatever others are left in the lease.\n"
		"The words after -- are the program and its arguments; no shell stands between (use: -- sh -c '...').\n"
		"Exit status: the command's own; 124 timed out, 125 the sandbox or this program failed, 128+n killed by signal n.\n",
	.run = run_exec,
};
