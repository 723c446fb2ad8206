/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * remarks.c: what is worth a sentence at start: settings without effect, or that contradict each
 * other without harm.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "config/setting.h"
#include "config/suggest.h"

enum { LEAST_MEMORY = 1 << 20 };

/* NULL: met. Else why it is not. */
static const char *unmet(const struct config *config, enum setting_need need)
{
	bool e2b = strcmp(config->dressage.provider, "e2b") == 0;

	switch (need) {
	case NEEDS_NOTHING:
		return NULL;
	case NEEDS_LOCAL:
		return e2b ? "the provider is e2b" : NULL;
	case NEEDS_E2B:
		return e2b ? NULL : "the provider is not e2b";
	case NEEDS_BLACKBOX:
		return config->dressage.paddock_mode == PADDOCK_BLACKBOX
			       ? NULL
			       : "there is no server in a command_only pool";
	case NEEDS_ARCHIVE:
		return config->archive.enabled ? NULL : "archive.enabled is off";
	case NEEDS_TMPFS:
		return config->slot.storage == STORAGE_TMPFS ? NULL : "slot.storage is not tmpfs";
	}
	return NULL;
}

static const char *why_unmet(const struct config *config, const struct setting *row)
{
	const struct setting_section *section = setting_section_find(row->section);
	const char *why = unmet(config, row->needs);

	return why ? why : unmet(config, section->needs);
}

static bool is_later(const struct config *config, const struct setting *row)
{
	CLEANUP(strbuf_fini) struct strbuf value = STRBUF_INIT;
	const char *const *at;

	if (row->later != LATER_SAID)
		return false;
	if (!row->later_values)
		return true;
	row->type->print(row, setting_field_of(config, row), &value);
	for (at = row->later_values; *at; at++) {
		if (strcmp(*at, value.data) == 0)
			return true;
	}
	return false;
}

/* "DRESSAGE_X", or "pool.slots (dressage.ini:12)" */
static void add_subject(const struct config *config, const struct setting *row, struct strbuf *out)
{
	if (setting_origin(config, row)->kind == ORIGIN_VARIABLE) {
		strbuf_adds(out, setting_origin(config, row)->variable);
		return;
	}
	strbuf_addf(out, "%s.%s (", row->section, row->key);
	setting_describe_origin(config, row, out);
	strbuf_addc(out, ')');
}

/* One variable may fill several rows; one sentence is enough. */
static bool variable_was_seen(const struct config *config, const struct setting *row)
{
	const char *variable = setting_origin(config, row)->variable;
	const struct setting *at;

	for (at = settings; variable && at < row; at++) {
		if (setting_origin(config, at)->variable &&
			strcmp(setting_origin(config, at)->variable, variable) == 0)
			return true;
	}
	return false;
}

static int remark_row(struct config *config, const struct setting *row, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf subject = STRBUF_INIT;
	const char *why = row->no_effect ? row->no_effect : why_unmet(config, row);
	/*
	 * An environment is shared with other programs; a file and an option were written for us.
	 */
	int level = setting_origin(config, row)->kind == ORIGIN_VARIABLE ? LOG_LEVEL_INFO
									 : LOG_LEVEL_WARN;

	if (!setting_is_set(config, row) || variable_was_seen(config, row))
		return 0;
	if (!why && !is_later(config, row))
		return 0;
	add_subject(config, row, &subject);
	if (why)
		return config_remark(config, level, err, "%s has no effect: %s", subject.data, why);
	return config_remark(config, LOG_LEVEL_WARN, err, "%s has no effect yet%s%s", subject.data,
		row->instead ? ": " : "", row->instead ? row->instead : "");
}

static int remark_memory(struct config *config, struct error *err)
{
	uint64_t max = config->slot.memory_max;
	int r = 0;

	if (!max)
		return 0;
	if (config->slot.memory_high > max)
		r = config_remark(config, LOG_LEVEL_WARN, err,
			"slot.memory_high has no effect: it is above slot.memory_max");
	if (r == 0 && max < LEAST_MEMORY)
		r = config_remark(config, LOG_LEVEL_WARN, err,
			"slot.memory_max is less than a shell needs; a number without K, M or G is bytes");
	if (r == 0 && config->slot.storage == STORAGE_TMPFS && config->slot.size >= max)
		r = config_remark(config, LOG_LEVEL_WARN, err,
			"slot.size is not below slot.memory_max, and files on a tmpfs are memory: a slot is out of memory before its tmpfs is full");
	return r;
}

static int remark_reach(struct config *config, struct error *err)
{
	if (config->slot.reach.count == 0 || config->slot.network == NETWORK_FORWARD ||
		config->slot.network == NETWORK_NAT)
		return 0;
	return config_remark(config, LOG_LEVEL_WARN, err,
		"slot.reach has no effect: slot.network is %s; set it to forward",
		config->slot.network == NETWORK_HOST ? "host, where everything can be reached"
						     : "none");
}

static int remark_network(struct config *config, struct error *err)
{
	if (config->slot.network != NETWORK_HOST)
		return 0;
	return config_remark(config, LOG_LEVEL_WARN, err,
		"slot.network = host: slots can reach whatever this machine can, its loopback too");
}

/* ---- variables that look like ours ---- */

static bool is_ours(const char *name)
{
	static const char *const prefixes[] = {"DRESSAGE_BLACKBOX_", "DRESSAGE_LOCAL_BWRAP_",
		"DRESSAGE_SANDBOX_", "DRESSAGE_E2B_", "DRESSAGE_PADDOCK_"};
	size_t i;

	for (i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	}
	return false;
}

/* Other parts of Dressage have variables too: only what is nearly one of ours is a likely slip. */
static int remark_variable(struct config *config, const char *name, struct error *err)
{
	struct suggestion suggestion = {.typed = name};
	const char *const *variable;
	const struct setting *row;

	for (row = settings; row < settings + settings_count; row++) {
		for (variable = row->env; variable && *variable; variable++)
			suggest_consider(&suggestion, *variable);
	}
	if (!suggestion.best || suggestion.distance > 2)
		return 0;
	return config_remark(config, LOG_LEVEL_WARN, err, "%s is not known; did you mean %s?", name,
		suggestion.best);
}

static int remark_variables(struct config *config, const char *const *variables, struct error *err)
{
	char name[80];
	size_t len;
	int r = 0;

	for (; r == 0 && variables && *variables; variables++) {
		len = strcspn(*variables, "=");
		if (len >= sizeof(name))
			continue;
		memcpy(name, *variables, len);
		name[len] = '\0';
		if (is_ours(name) && !setting_find_variable(name))
			r = remark_variable(config, name, err);
	}
	return r;
}

int config_collect_remarks(
	struct config *config, const struct config_sources *sources, struct error *err)
{
	const struct setting *row;
	int r = 0;

	for (row = settings; r == 0 && row < settings + settings_count; row++)
		r = remark_row(config, row, err);
	if (r == 0)
		r = remark_memory(config, err);
	if (r == 0)
		r = remark_network(config, err);
	if (r == 0)
		r = remark_reach(config, err);
	if (r == 0)
		r = remark_variables(config, sources->environ, err);
	return r;
}
