/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* drain, undrain, restart-slot, release: what the file `control` does. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "tools/client.h"

/* Parses --help. -1: go on; else the exit code. min and max: how many words may follow. */
static int parse_words(
	int argc, char **argv, int min, int max, const struct client_command *command)
{
	static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {0}};
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no second thread */
	int c = getopt_long(argc, argv, "h", options, NULL);

	if (c == 'h')
		return command_help(command);
	if (c != -1 || argc - optind < min || argc - optind > max)
		return command_usage(command);
	return -1;
}

/* Sends {"verb":…} with the further members and prints the reply. */
static int order(struct client *client, const char *verb, const struct strbuf *members)
{
	CLEANUP(strbuf_fini) struct strbuf request = STRBUF_INIT, reply = STRBUF_INIT;
	struct error err = ERROR_NONE;
	int code = client_connect(client);

	if (code != EXIT_DONE)
		return code;
	strbuf_adds(&request, "{\"verb\":");
	json_add_cstring(&request, verb);
	strbuf_add(&request, members->data, members->size);
	strbuf_adds(&request, "}\n");
	need_strbuf(&request);
	if (client_ask(client, "control", &request, &reply, &err) < 0)
		return fail(&err);
	return put_bytes(STDOUT_FILENO, reply.data, reply.size) ? EXIT_DONE : EXIT_REFUSED;
}

static int run_drain(struct client *client, int argc, char **argv)
{
	const struct strbuf nothing = STRBUF_INIT;
	int code = parse_words(argc, argv, 0, 0, &drain_command);

	return code < 0 ? order(client, "drain", &nothing) : code;
}

const struct client_command drain_command = {
	.name = "drain",
	.arguments = "",
	.summary = "take no new leases; those that are there go on",
	.details =
		"Who waits in line is told at once. 'dressage undrain' ends it, a restart of the daemon does not.\n"
		"Plain way: echo drain >MOUNT/control\n",
	.run = run_drain,
};

static int run_undrain(struct client *client, int argc, char **argv)
{
	const struct strbuf nothing = STRBUF_INIT;
	int code = parse_words(argc, argv, 0, 0, &undrain_command);

	return code < 0 ? order(client, "undrain", &nothing) : code;
}

const struct client_command undrain_command = {
	.name = "undrain",
	.arguments = "",
	.summary = "take new leases again",
	.details = "Plain way: echo undrain >MOUNT/control\n",
	.run = run_undrain,
};

static int run_restart_slot(struct client *client, int argc, char **argv)
{
	CLEANUP(strbuf_fini) struct strbuf members = STRBUF_INIT;
	int code = parse_words(argc, argv, 1, 1, &restart_slot_command);
	const char *number;

	if (code >= 0)
		return code;
	number = argv[optind];
	if (!*number || strlen(number) > 9 || number[strspn(number, "0123456789")]) {
		complain("a slot has a number, which '%s' is not", number);
		return EXIT_USAGE;
	}
	strbuf_addf(&members, ",\"slot\":%lu", strtoul(number, NULL, 10));
	return order(client, "restart-slot", &members);
}

const struct client_command restart_slot_command = {
	.name = "restart-slot",
	.arguments = "N",
	.summary = "start a slot that is not lent anew, one that failed at once",
	.details =
		"A slot with a lease is refused: release that first. Plain way: echo restart-slot N >MOUNT/control\n",
	.run = run_restart_slot,
};

static int run_release(struct client *client, int argc, char **argv)
{
	CLEANUP(strbuf_fini) struct strbuf members = STRBUF_INIT;
	int code = parse_words(argc, argv, 1, 2, &release_command);

	if (code >= 0)
		return code;
	strbuf_adds(&members, ",\"lease\":");
	json_add_cstring(&members, argv[optind]);
	if (optind + 1 < argc) {
		strbuf_adds(&members, ",\"reason\":");
		json_add_cstring(&members, argv[optind + 1]);
	}
	need_strbuf(&members);
	return order(client, "release", &members);
}

const struct client_command release_command = {
	.name = "release",
	.arguments = "LEASE-OR-TRAJECTORY [REASON]",
	.summary = "end somebody's lease, as its operator",
	.details =
		"Its commands end, its user is told the reason 'operator'; REASON stands in the events.\n"
		"Plain way: echo release LEASE REASON >MOUNT/control\n",
	.run = run_release,
};
