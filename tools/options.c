/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tools/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "config/settings.h"
#include "tools/probe.h"

enum {
	OPTION_CHECK = 256,
	OPTION_CONFIG,
	OPTION_READY_FD,
	OPTION_PROBE,
	OPTION_HELP,
	OPTION_VERSION
};

static void print_usage(FILE *to)
{
	(void)fputs(
		"usage: dressagefs [-f] [--config FILE] [-o OPTION] ... [--check] [MOUNTPOINT]\n\n"
		"Mounts agent sandboxes as files: mkdir MOUNTPOINT/leases/T takes one, echo CMD >.../run_command runs a\n"
		"command in it, .../fs/ is its root directory, rmdir gives it back. Returns when the sandboxes are ready.\n\n"
		"  -f                    stay in the foreground and log to standard error\n"
		"  --config FILE         instead of $DRESSAGE_CONFIG, $XDG_CONFIG_HOME/dressage/dressage.ini and\n"
		"                        /etc/dressage/dressage.ini; without any file the defaults serve\n"
		"  -o section.key=value  a setting, above file and environment; many may follow, with commas between\n"
		"  -o ro                 nobody may change anything through the mount\n"
		"  -o allow_other        short for mount.allow_other=on\n"
		"  --check               read the configuration, say OK or what is wrong, and stop\n"
		"  --help, --version\n\n"
		"Stop it with SIGTERM or, while nobody has a file of it open, fusermount3 -u MOUNTPOINT.  Exit status: 0 ready\n"
		"(or stopped cleanly), 1 could not start, with the reason, 2 usage.\n",
		to);
}

static void print_help(void)
{
	CLEANUP(strbuf_fini) struct strbuf settings = STRBUF_INIT;

	print_usage(stdout);
	config_help(&settings);
	(void)printf("\nsettings:\n%s", settings.data);
}

/* Keeps a copy of the first `size` bytes as a setting. */
static bool add_override(struct daemon_options *options, const char *text, size_t size)
{
	char **grown = realloc(options->overrides, (options->override_count + 2) * sizeof(*grown));

	if (!grown)
		return false;
	options->overrides = grown;
	grown[options->override_count] = strndup(text, size);
	if (!grown[options->override_count])
		return false;
	grown[++options->override_count] = NULL;
	return true;
}

/* Bytes of one option at the start of the text: a comma ends it only where another option begins,
 * since values may have commas too. */
static size_t option_size(const char *text)
{
	static const char *const words[] = {"ro", "rw", "allow_other"};
	const char *comma = text;

	while ((comma = strchr(comma, ','))) {
		const char *next = ++comma;
		size_t key = strspn(next, "abcdefghijklmnopqrstuvwxyz0123456789_");

		if (next[key] == '.' && next[key + 1] && strchr(next + key, '='))
			return (size_t)(comma - text) - 1;
		for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
			if (strlen(words[i]) == key && strncmp(next, words[i], key) == 0 &&
				(!next[key] || next[key] == ','))
				return (size_t)(comma - text) - 1;
		}
	}
	return strlen(text);
}

static bool add_one(struct daemon_options *options, const char *text, size_t size)
{
	if (size == 2 && strncmp(text, "ro", 2) == 0) {
		options->read_only = true;
		return true;
	}
	if (size == 2 && strncmp(text, "rw", 2) == 0) {
		options->read_only = false;
		return true;
	}
	if (size == strlen("allow_other") && strncmp(text, "allow_other", size) == 0)
		return add_override(
			options, "mount.allow_other=on", strlen("mount.allow_other=on"));
	if (memchr(text, '=', size) && memchr(text, '.', size))
		return add_override(options, text, size);
	(void)fprintf(stderr,
		"dressagefs: -o takes section.key=value, ro or allow_other, not '%.*s'\n",
		(int)size, text);
	return false;
}

static bool add_options(struct daemon_options *options, const char *text)
{
	while (*text) {
		size_t size = option_size(text);

		if (!add_one(options, text, size))
			return false;
		text += size;
		text += *text == ',';
	}
	return true;
}

static int take_option(struct daemon_options *options, int c)
{
	switch (c) {
	case 'f':
		options->foreground = true;
		return -1;
	case 'o':
		return add_options(options, optarg) ? -1 : 2;
	case OPTION_CHECK:
		options->check = true;
		return -1;
	case OPTION_CONFIG:
		options->config = optarg;
		return -1;
	case OPTION_READY_FD:
		options->ready_fd = (int)strtol(optarg, NULL, 10);
		return -1;
	case OPTION_PROBE:
		return probe_mount(optarg);
	case OPTION_HELP:
		print_help();
		return 0;
	case OPTION_VERSION:
		(void)puts("dressagefs " DRESSAGE_VERSION);
		return 0;
	default:
		print_usage(stderr);
		return 2;
	}
}

int options_parse(int argc, char **argv, struct daemon_options *ret_options)
{
	static const struct option table[] = {
		{"check", no_argument, NULL, OPTION_CHECK},
		{"config", required_argument, NULL, OPTION_CONFIG},
		{"ready-fd", required_argument, NULL,
			OPTION_READY_FD}, /* from start_in_background() only */
		{"probe", required_argument, NULL, OPTION_PROBE}, /* from probe_start() only */
		{"help", no_argument, NULL, OPTION_HELP},
		{"version", no_argument, NULL, OPTION_VERSION},
		{0},
	};
	struct daemon_options options = {.ready_fd = -1};
	int code = -1;

	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no second thread */
	for (int c; code < 0 && (c = getopt_long(argc, argv, "fo:", table, NULL)) != -1;)
		code = take_option(&options, c);
	if (code < 0 && argc - optind > 1) {
		(void)fprintf(
			stderr, "dressagefs: one mountpoint, not also '%s'\n", argv[optind + 1]);
		code = 2;
	}
	if (code >= 0) {
		options_fini(&options);
		return code;
	}
	options.mountpoint = argv[optind];
	*ret_options = options;
	return -1;
}

void options_sources(const struct daemon_options *options, struct config_sources *ret_sources)
{
	*ret_sources = (struct config_sources){
		.file = options->config,
		.overrides = (const char *const *)options->overrides,
		.environ = (const char *const *)environ,
		.mountpoint = options->mountpoint,
	};
}

void options_fini(struct daemon_options *options)
{
	for (size_t i = 0; i < options->override_count; i++)
		free(options->overrides[i]);
	free(options->overrides);
	*options = (struct daemon_options){.ready_fd = -1};
}
