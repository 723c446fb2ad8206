/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* dressagefs: the daemon. main() is a table of contents: options, configuration, background or run.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "config/settings.h"
#include "tools/background.h"
#include "tools/daemon.h"
#include "tools/options.h"

/* A started program may lack these three; whatever we opened next would take their numbers, and our
 * log would be written there. */
static void provide_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		(void)close(fd);
}

/* What we were started with must not reach a sandbox: every descriptor but the standard ones is
 * closed on exec. */
static void mark_inherited_descriptors(void)
{
	(void)close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
}

/* A slot takes a dozen descriptors and a lease's open files one each; the soft limit of 1024 is for
 * select(2) users. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

enum { LARGE_BLOCK = 264 << 10 };

/*
 * By default each worker gets a heap of its own, which keeps for ever what its busiest moment took;
 * what a thread needs often it has cached anyway. And by default the first large reply moves the
 * next ones into the heap, where they leave holes.
 */
static void keep_heaps_small(void)
{
	(void)mallopt(M_ARENA_MAX, 2);
	(void)mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK);
}

static int load_config(
	const struct daemon_options *options, struct config **ret_config, struct error *err)
{
	struct config_sources sources;

	options_sources(options, &sources);
	return config_load(&sources, ret_config, err);
}

static void print_remark(void *data, int level, const char *sentence)
{
	(void)data;
	if (level <= LOG_LEVEL_WARN)
		(void)fprintf(stderr, "dressagefs: %s\n", sentence);
}

static int run(int argc, char **argv, struct daemon_options *options, struct error *err)
{
	struct config *config;
	int r = load_config(options, &config, err);

	if (r < 0)
		return r;
	if (!options->foreground || options->check)
		config_each_remark(config, print_remark, NULL);
	if (options->check)
		(void)puts("OK");
	else if (options->foreground)
		r = daemon_run(options, config, err);
	else
		r = start_in_background(argc, argv, err);
	config_free(config);
	return r;
}

int main(int argc, char **argv)
{
	struct daemon_options options;
	struct error err = ERROR_NONE;
	int code;

	provide_standard_descriptors();
	mark_inherited_descriptors();
	code = options_parse(argc, argv, &options);
	if (code >= 0)
		return code;
	raise_descriptor_limit();
	keep_heaps_small();
	code = EXIT_SUCCESS;
	if (run(argc, argv, &options, &err) < 0) {
		code = EXIT_FAILURE;
		if (options.ready_fd >= 0)
			background_say_failed(options.ready_fd, &err);
		else
			(void)fprintf(stderr, "dressagefs: %s\n", err.text);
	}
	options_fini(&options);
	return code;
}
