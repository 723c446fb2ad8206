/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* `dressage doctor`: the checks of doctor.h as lines or as JSON. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/mounts.h"
#include "config/settings.h"
#include "tools/client.h"
#include "tools/doctor.h"

static const char *const level_words[DOCTOR_LEVEL_COUNT] = {
	[DOCTOR_OK] = "ok", [DOCTOR_WARN] = "warn", [DOCTOR_FAIL] = "fail"};

static void print_line(void *data, enum doctor_level level, const char *name, const char *finding,
	const char *remedy)
{
	(void)data;
	(void)printf("%-4s  %s: %s%s%s\n", level_words[level], name, finding, *remedy ? "; " : "",
		remedy);
	(void)fflush(stdout);
}

static void collect(void *data, enum doctor_level level, const char *name, const char *finding,
	const char *remedy)
{
	struct strbuf *list = data;

	strbuf_adds(list, list->size > 0 ? "," : "");
	strbuf_addf(
		list, "{\"level\":\"%s\",\"check\":\"%s\",\"finding\":", level_words[level], name);
	json_add_cstring(list, finding);
	strbuf_adds(list, ",\"remedy\":");
	json_add_cstring(list, remedy);
	strbuf_addc(list, '}');
}

struct doctor_flags {
	bool json;
	const char *look;
};

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct doctor_flags *flags)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"look", required_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};

	optind = 1;
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no second thread */
	for (int c; (c = getopt_long(argc, argv, "+h", options, NULL)) != -1;) {
		if (c == 'h')
			return command_help(&doctor_command);
		if (c != 'j' && c != 'l')
			return command_usage(&doctor_command);
		flags->json |= c == 'j';
		flags->look = c == 'l' ? optarg : flags->look;
	}
	return optind == argc ? -1 : command_usage(&doctor_command);
}

static int load(struct client *client, struct config **ret_config, struct error *err)
{
	const struct config_sources sources = {
		.file = client->config_option,
		.environ = (const char *const *)environ,
		.mountpoint = client_given_mount(client),
	};

	return config_load(&sources, ret_config, err);
}

static void examine(struct client *client, struct doctor *doctor)
{
	static const struct doctor_check configuration = {.name = "configuration"};
	struct error err = ERROR_NONE;
	struct config *config;

	if (load(client, &config, &err) < 0) {
		doctor->check = &configuration;
		doctor_fail(doctor, "correct it; everything else is looked at afterwards", "%s",
			err.text);
		return;
	}
	doctor->config = config;
	doctor->mountpoint = config->mount.mountpoint;
	doctor_run(doctor);
	config_free(config);
}

static int run_doctor(struct client *client, int argc, char **argv)
{
	static const int codes[DOCTOR_LEVEL_COUNT] = {[DOCTOR_OK] = EXIT_DONE,
		[DOCTOR_WARN] = EXIT_DEGRADED,
		[DOCTOR_FAIL] = EXIT_REFUSED};
	CLEANUP(strbuf_fini) struct strbuf list = STRBUF_INIT;
	struct doctor_flags flags = {0};
	struct doctor doctor = {.root = "",
		.privileged = geteuid() == 0,
		.look = doctor_look_apart,
		.say = print_line,
		.data = &list};
	int code = parse(argc, argv, &flags);
	struct stat st;

	if (code >= 0)
		return code;
	if (flags.look)
		return -mount_look(flags.look, &st);
	if (flags.json)
		doctor.say = collect;
	examine(client, &doctor);
	if (flags.json) {
		need_strbuf(&list);
		(void)printf("{\"result\":\"%s\",\"checks\":[%s]}\n", level_words[doctor.worst],
			list.data);
	}
	return codes[doctor.worst];
}

const struct client_command doctor_command = {
	.name = "doctor",
	.arguments = "[--json]",
	.summary = "look at this host: can sandboxes run here, and what is in the way",
	.details =
		"  --json  as a program wants it\n\n"
		"One line a finding: ok, warn or fail, what was looked at, and what to do about it.\n"
		"Starts a sandbox of its own for a moment. Run it as the user whose daemon it will be.\n"
		"Exit status 0: all is well, 4: something is worse than it could be, 1: a daemon would not work.\n",
	.run = run_doctor,
};
