/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ls, status, config: what there is. */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "config/settings.h"
#include "tools/client.h"

/* Parses --help and one flag. -1: go on; else the exit code. */
static int parse_flag(int argc, char **argv, const char *flag, bool *ret_flag,
	const struct client_command *command)
{
	const struct option options[] = {
		{"help", no_argument, NULL, 'h'},
		{flag, no_argument, NULL, 'f'},
		{0},
	};

	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no second thread */
	for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
		if (c == 'h')
			return command_help(command);
		if (c != 'f')
			return command_usage(command);
		*ret_flag = true;
	}
	return -1;
}

static void print_time_left(const cJSON *deadline)
{
	if (cJSON_IsNumber(deadline))
		(void)printf("%8.0fs", deadline->valuedouble - (double)time(NULL));
	else
		(void)printf("%9s", "-");
}

static void print_lease(const struct client *client, const char *name)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT, text = STRBUF_INIT;
	const cJSON *metadata;
	cJSON *lease;

	strbuf_addf(&path, "leases/%s/lease.json", name);
	need_strbuf(&path);
	/* one that ended since the directory was read is no longer worth a line */
	if (client_read_file(client, path.data, &text, NULL) < 0)
		return;
	lease = json_parse_reply(&text);
	metadata = cJSON_GetObjectItemCaseSensitive(lease, "metadata");
	(void)printf("%-9s ", json_text(lease, "state"));
	if (cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(metadata, "slot_id")))
		(void)printf("%4.0f ", json_number(metadata, "slot_id"));
	else
		(void)printf("%4s ",
			*json_text(metadata, "slot_id") ? json_text(metadata, "slot_id") : "-");
	print_time_left(cJSON_GetObjectItemCaseSensitive(lease, "deadline"));
	(void)printf("  %s%s%s\n", name, *json_text(lease, "reason") ? "  # " : "",
		json_text(lease, "reason"));
	cJSON_Delete(lease);
}

static int run_ls(struct client *client, int argc, char **argv)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;
	CLEANUP(closedirp) DIR *dir = NULL;
	bool names_only = false;
	int code = parse_flag(argc, argv, "names", &names_only, &ls_command);

	if (code >= 0)
		return code;
	if (optind != argc)
		return command_usage(&ls_command);
	code = client_connect(client);
	if (code != EXIT_DONE)
		return code;
	strbuf_addf(&path, "%s/leases", client->mount);
	need_strbuf(&path);
	dir = opendir(path.data);
	if (!dir) {
		complain("cannot read '%s': %s", path.data, strerrordesc_np(errno));
		return EXIT_REFUSED;
	}
	if (!names_only)
		(void)puts("STATE     SLOT      LEFT  LEASE");
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no second thread */
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] == '.')
			continue; /* a lease's name never begins so */
		if (names_only)
			(void)puts(entry->d_name);
		else
			print_lease(client, entry->d_name);
	}
	return EXIT_DONE;
}

const struct client_command ls_command = {
	.name = "ls",
	.arguments = "[--names]",
	.summary = "list the leases",
	.details =
		"  --names  only their directories' names, one a line\n\nPlain way: ls MOUNT/leases\n",
	.run = run_ls,
};

/* A slot that is tried again is in a state of those that start, for as long as the try takes. */
static bool has_failing_slot(const cJSON *status)
{
	const cJSON *slot;

	cJSON_ArrayForEach (slot, cJSON_GetObjectItemCaseSensitive(status, "slots"))
		if (json_is_true(slot, "failing"))
			return true;
	return false;
}

/* True when every slot can be lent or is on its way back. */
static bool is_healthy(const struct strbuf *status_json)
{
	cJSON *status = json_parse_reply(status_json);
	bool healthy;

	healthy = status && !json_is_true(status, "closed") &&
		  json_number(status, "total_failed") == 0 &&
		  json_number(status, "total_lost") == 0 && !has_failing_slot(status);
	cJSON_Delete(status);
	return healthy;
}

static int run_status(struct client *client, int argc, char **argv)
{
	CLEANUP(strbuf_fini) struct strbuf machine = STRBUF_INIT, people = STRBUF_INIT;
	const struct strbuf *shown = &people;
	struct error err = ERROR_NONE;
	bool json = false;
	int code = parse_flag(argc, argv, "json", &json, &status_command);

	if (code >= 0)
		return code;
	if (optind != argc)
		return command_usage(&status_command);
	code = client_connect(client);
	if (code != EXIT_DONE)
		return code;
	if (client_read_file(client, "status.json", &machine, &err) < 0)
		return fail(&err);
	if (!json && client_read_file(client, "status", &people, &err) < 0)
		return fail(&err);
	if (json)
		shown = &machine;
	if (!put_bytes(STDOUT_FILENO, shown->data, shown->size))
		return EXIT_REFUSED;
	return is_healthy(&machine) ? EXIT_DONE : EXIT_DEGRADED;
}

const struct client_command status_command = {
	.name = "status",
	.arguments = "[--json]",
	.summary = "show the pool; exit status 4 when a slot has failed, is tried again or is lost",
	.details =
		"  --json  as a program wants it\n\nPlain way: cat MOUNT/status, cat MOUNT/status.json\n",
	.run = run_status,
};

static int show_config(const struct client *client, bool origin, struct strbuf *out)
{
	const struct config_sources sources = {
		.file = client->config_option,
		.environ = (const char *const *)environ,
	};
	struct config *config;
	struct error err = ERROR_NONE;

	if (config_load(&sources, &config, &err) < 0)
		return fail(&err);
	config_show(config, origin, out);
	config_free(config);
	return EXIT_DONE;
}

static int run_config(struct client *client, int argc, char **argv)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	bool origin = false;
	int code = parse_flag(argc, argv, "origin", &origin, &config_command);

	if (code >= 0)
		return code;
	if (argc - optind == 1 && strcmp(argv[optind], "sample") == 0 && !origin)
		config_sample(&text);
	else if (argc - optind == 1 && strcmp(argv[optind], "manual") == 0 && !origin)
		config_manual(&text);
	else if (argc - optind != 1 || strcmp(argv[optind], "show") != 0)
		return command_usage(&config_command);
	else if ((code = show_config(client, origin, &text)) != EXIT_DONE)
		return code;
	need_strbuf(&text);
	return put_bytes(STDOUT_FILENO, text.data, text.size) ? EXIT_DONE : EXIT_REFUSED;
}

const struct client_command config_command = {
	.name = "config",
	.arguments = "show [--origin] | sample | manual",
	.summary = "print every setting, a sample dressage.ini, or its manual page",
	.details =
		"  show      the settings that a daemon started here and now would have; secrets are masked\n"
		"  --origin  with where each comes from\n"
		"  sample    a dressage.ini with every key, its range and meaning, all commented out\n"
		"  manual    the page dressage.ini(5): dressage config manual | man -l -\n\n"
		"What a running daemon has: cat MOUNT/config\n",
	.run = run_config,
};
