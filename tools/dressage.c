/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* dressage: the mount from a command line. Everything here can be done with echo, cat, mkdir and
 * rmdir as well. */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "tools/client.h"

static const struct client_command *const commands[] = {
	&create_command,
	&terminate_command,
	&exec_command,
	&ttl_command,
	&wait_command,
	&ls_command,
	&status_command,
	&drain_command,
	&undrain_command,
	&restart_slot_command,
	&release_command,
	&config_command,
	&doctor_command,
	NULL,
};

static void print_usage(FILE *to)
{
	(void)fputs(
		"usage: dressage [--mount DIR] [--config FILE] COMMAND ...\n\n"
		"Takes agent sandboxes from a dressagefs mount, runs commands in them and gives them back.\n\n"
		"commands:\n",
		to);
	for (const struct client_command *const *command = commands; *command; command++)
		(void)fprintf(to, "  %-12s %s\n", (*command)->name, (*command)->summary);
	(void)fputs(
		"\noptions:\n"
		"  --mount DIR    the mount to talk to; else $DRESSAGE_MOUNT, else the configured mountpoint\n"
		"  --config FILE  the configuration to find that mountpoint in\n"
		"  --help, --version\n\n"
		"exit status: 0 done or healthy, 1 refused or failed, 2 usage, 3 no daemon, 4 degraded, 5 timed out,\n"
		"6 nothing free; exec: the command's own, 124 timeout, 125 infrastructure, 128+n signal n\n\n"
		"'dressage COMMAND --help' says more of each.\n",
		to);
}

static const struct client_command *find_command(const char *name)
{
	for (const struct client_command *const *command = commands; *command; command++) {
		if (strcmp((*command)->name, name) == 0)
			return *command;
	}
	return NULL;
}

/* Reads the options before the command. -1: go on; else the exit code. */
static int parse_options(int argc, char **argv, struct client *client)
{
	static const struct option options[] = {
		{"mount", required_argument, NULL, 'm'},
		{"config", required_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{0},
	};

	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no second thread */
	for (int c; (c = getopt_long(argc, argv, "+h", options, NULL)) != -1;) {
		switch (c) {
		case 'm':
			client->mount_option = optarg;
			break;
		case 'c':
			client->config_option = optarg;
			break;
		case 'h':
			print_usage(stdout);
			return EXIT_DONE;
		case 'V':
			(void)puts("dressage " DRESSAGE_VERSION);
			return EXIT_DONE;
		default:
			print_usage(stderr);
			return EXIT_USAGE;
		}
	}
	return -1;
}

/* What is sent as JSON has to be text: another character in its place would be another argument. */
static bool are_text(char **words)
{
	for (; *words; words++) {
		if (utf8_valid(*words, strlen(*words)))
			continue;
		complain("the argument '%s' is not UTF-8; a command can read such bytes from its "
			 "standard input",
			*words);
		return false;
	}
	return true;
}

/* A file that is opened must not become standard output because that was closed: the place is held
 * by what can be neither read nor written. */
static bool open_standard_files(void)
{
	int fd;

	do
		fd = open("/dev/null", O_PATH | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	return fd >= 0 && close(fd) == 0;
}

int main(int argc, char **argv)
{
	struct client client = {0};
	const struct client_command *command;
	int code = open_standard_files() ? parse_options(argc, argv, &client) : EXIT_REFUSED;

	if (code >= 0)
		return code;
	if (optind == argc) {
		print_usage(stderr);
		return EXIT_USAGE;
	}
	command = find_command(argv[optind]);
	if (!command) {
		complain("no command '%s'; 'dressage --help' lists them", argv[optind]);
		return EXIT_USAGE;
	}
	argc -= optind;
	argv += optind;
	if (!are_text(argv))
		return EXIT_USAGE;
	optind = 0; /* glibc: begin anew */
	code = command->run(&client, argc, argv);
	client_fini(&client);
	return code;
}
