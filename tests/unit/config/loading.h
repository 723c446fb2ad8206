/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * loading.h: loading a configuration from text, on a machine that the test describes. Nothing is
 * read from the real environment, /etc or home directory. Include after cmocka.h.
 */
#ifndef TESTS_UNIT_CONFIG_LOADING_H
#define TESTS_UNIT_CONFIG_LOADING_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "config/setting.h"

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct config_facts root_facts = {
	.uid = 0, .gid = 0, .cpus = 4, .nofile_hard = 1048576};
static const struct config_facts user_facts = {
	.uid = 4321, .gid = 4321, .cpus = 4, .nofile_hard = 4096};

/* What one load is made of; all of it may be left out. */
struct given {
	const char *ini;
	const char *const *variables;
	const char *const *options;
	const char *mountpoint;
	const struct config_facts *facts; /* NULL: root's */
};

struct loaded {
	int r;
	struct config *config; /* NULL when it failed */
	struct error err;
	struct strbuf shown;   /* `config show --origin` */
	struct strbuf remarks; /* a line each, its log level first */
};

static inline void add_remark(void *data, int log_level, const char *sentence)
{
	strbuf_addf(data, "%d %s\n", log_level, sentence);
}

static inline int ini_file(const char *text, char *ret_path, size_t size)
{
	int fd = memfd_create("ini", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, 0600), 0);
	(void)snprintf(ret_path, size, "/proc/self/fd/%d", fd);
	return fd;
}

static inline struct loaded load(const struct given *given)
{
	struct loaded loaded = {.shown = STRBUF_INIT, .remarks = STRBUF_INIT};
	struct config_sources sources = {.file = "",
		.environ = given->variables,
		.overrides = given->options,
		.mountpoint = given->mountpoint};
	char path[64];
	int fd = -1;

	if (given->ini) {
		fd = ini_file(given->ini, path, sizeof(path));
		sources.file = path;
	}
	loaded.r = config_load_with(
		&sources, given->facts ? given->facts : &root_facts, &loaded.config, &loaded.err);
	if (loaded.config) {
		config_show(loaded.config, true, &loaded.shown);
		config_each_remark(loaded.config, add_remark, &loaded.remarks);
	}
	if (fd >= 0)
		(void)close(fd);
	return loaded;
}

static inline void unload(struct loaded *loaded)
{
	config_free(loaded->config);
	strbuf_fini(&loaded->shown);
	strbuf_fini(&loaded->remarks);
}

static inline void fail_with(const char *what, const char *wanted, const char *got)
{
	print_error("%s\n  wanted: %s\n  got:    %s\n", what, wanted, got);
	fail();
}

/* Fails unless the load succeeds and `config show --origin` has this line, or the start of one. */
static inline void assert_shows(const struct given *given, const char *line)
{
	struct loaded loaded = load(given);
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT, wanted = STRBUF_INIT;

	if (loaded.r < 0)
		fail_with("the load failed", line, loaded.err.text);
	strbuf_addf(&text, "\n%s", loaded.shown.data);
	strbuf_addf(&wanted, "\n%s", line);
	if (!strstr(text.data, wanted.data))
		fail_with("no such line", line, loaded.shown.data);
	unload(&loaded);
}

/* Fails unless the load fails with this code and a sentence that has the text in it. */
static inline void assert_refused(const struct given *given, int code, const char *text)
{
	struct loaded loaded = load(given);

	if (!strstr(loaded.err.text, text))
		fail_with("another sentence", text, loaded.r < 0 ? loaded.err.text : "(success)");
	assert_int_equal(loaded.r, -code);
	assert_int_equal(loaded.err.code, code);
	assert_null(loaded.config);
	unload(&loaded);
}

/* Fails unless the load succeeds with a remark that has the text in it. */
static inline void assert_remarks(const struct given *given, const char *text)
{
	struct loaded loaded = load(given);

	if (loaded.r < 0 || !strstr(loaded.remarks.data, text))
		fail_with("no such remark", text,
			loaded.r < 0 ? loaded.err.text : loaded.remarks.data);
	unload(&loaded);
}

static inline void assert_no_remarks(const struct given *given)
{
	struct loaded loaded = load(given);

	if (loaded.r < 0 || loaded.remarks.size)
		fail_with("something was said", "(nothing)",
			loaded.r < 0 ? loaded.err.text : loaded.remarks.data);
	unload(&loaded);
}

/* The same for one option. */
static inline void assert_option_shows(const char *option, const char *line)
{
	assert_shows(&(struct given){.options = NAMES(option)}, line);
}

static inline void assert_option_refused(const char *option, const char *text)
{
	assert_refused(&(struct given){.options = NAMES(option)}, EINVAL, text);
}

#endif
