/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tools/reload.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "config/settings.h"
#include "tools/options.h"

struct reload {
	struct loop *loop;
	struct config *config;
	struct config_sources sources;
	char *directory, *log_path; /* NULL: unknown; not a file */
	bool at_work, again;
	unsigned change_count;
	/* the worker's */
	struct config *fresh;
	int r;
	struct error err;
};

int reload_create(struct loop *loop, const struct daemon_options *options, struct config *config,
	struct reload **ret_reload, struct error *err)
{
	const char *log_file = config->dressage.log_file;
	struct reload *reload = calloc(1, sizeof(*reload));

	if (!reload)
		return error_set(err, ENOMEM, "no memory to read the settings again");
	reload->loop = loop;
	reload->config = config;
	reload->directory = getcwd(NULL, 0);
	options_sources(options, &reload->sources);
	reload->sources.directory = reload->directory;
	if (*log_file)
		reload_follow_log(reload, log_file);
	*ret_reload = reload;
	return 0;
}

void reload_destroy(struct reload *reload)
{
	if (!reload)
		return;
	config_free(reload->fresh);
	free(reload->directory);
	free(reload->log_path);
	free(reload);
}

void reload_follow_log(struct reload *reload, const char *path)
{
	free(reload->log_path);
	reload->log_path = strdup(path);
}

void reload_log_remark(void *data, int log_level, const char *sentence)
{
	(void)data;
	if (log_level <= LOG_LEVEL_WARN)
		log_warn("%s", sentence);
	else
		log_info("%s", sentence);
}

static void log_change(void *data, const char *key, const char *from, const char *to, bool live)
{
	struct reload *reload = data;

	reload->change_count++;
	if (live)
		log_info("SIGHUP: %s is '%s' from now on, it was '%s'", key, to, from);
	else
		log_warn("SIGHUP: %s changed to '%s': needs a restart, it stays '%s'", key, to,
			from);
}

static void adopt(struct reload *reload)
{
	reload->change_count = 0;
	config_adopt(reload->config, reload->fresh, log_change, reload_log_remark, reload);
	/* last, so that a lower level does not swallow what was just said */
	log_set_level((enum log_level)reload->config->dressage.log_level);
	if (!reload->change_count)
		log_info("SIGHUP: the settings are what they were");
}

static void read_again(void *data)
{
	struct reload *reload = data;

	reload->r = config_load(&reload->sources, &reload->fresh, &reload->err);
}

static void handle_read(void *data)
{
	struct reload *reload = data;

	reload->at_work = false;
	if (reload->again) { /* it may have changed behind the worker's back */
		config_free(take_ptr(&reload->fresh));
		reload_begin(reload);
		return;
	}
	if (reload->r < 0)
		log_warn("SIGHUP: the settings stay as they are: %s", reload->err.text);
	else
		adopt(reload);
	config_free(take_ptr(&reload->fresh));
}

static void reopen_log(const struct reload *reload)
{
	struct error err = ERROR_NONE;

	if (reload->log_path && log_reopen(reload->log_path, &err) < 0)
		log_warn("SIGHUP: %s", err.text);
}

void reload_begin(struct reload *reload)
{
	struct error err = ERROR_NONE;

	reload->again = reload->at_work;
	if (reload->at_work)
		return;
	reopen_log(reload);
	if (loop_work(reload->loop, read_again, handle_read, reload, &err) < 0)
		log_warn("SIGHUP: the settings stay as they are: %s", err.text);
	else
		reload->at_work = true;
}
