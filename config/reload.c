/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * reload.c: a configuration in use takes over what was read anew.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "config/setting.h"

/* Enough for any type: union setting_value of setting.c, whose members are these. */
union field {
	void *pointer;
	uint64_t number;
	struct word_list list;
};

static void swap_fields(struct config *config, struct config *fresh, const struct setting *row)
{
	void *ours = setting_field(config, row), *theirs = setting_field(fresh, row);
	union field kept;

	memcpy(&kept, ours, row->type->size);
	memcpy(ours, theirs, row->type->size);
	memcpy(theirs, &kept, row->type->size);
}

/* A secret is printed as ***, whatever it is; all secrets are texts. */
static bool is_same(const struct setting *row, const void *ours, const void *theirs,
	const struct strbuf *from, const struct strbuf *to)
{
	if (row->type->secret)
		return strcmp(*(char *const *)ours, *(char *const *)theirs) == 0;
	return from->size == to->size && memcmp(from->data, to->data, from->size) == 0;
}

static void tell(const struct setting *row, const struct strbuf *from, const struct strbuf *to,
	config_change_fn *changed, void *data)
{
	CLEANUP(strbuf_fini) struct strbuf key = STRBUF_INIT;

	/* of [images] the list is told as a whole */
	strbuf_addf(&key, "%s%s%s", row->section, strcmp(row->key, "*") == 0 ? "" : ".",
		strcmp(row->key, "*") == 0 ? "" : row->key);
	changed(data, key.data, from->data, to->data, row->live);
}

/* The value stays, and where it came from says something else now. */
static void keep_origin(struct config *config, const struct setting *row)
{
	struct origin *origin = setting_origin(config, row);
	CLEANUP(strbuf_fini) struct strbuf name = STRBUF_INIT;

	if (origin->earlier)
		return;
	setting_describe_origin(config, row, &name);
	(void)snprintf(origin->from, sizeof(origin->from), "%s", name.data);
	origin->earlier = true;
}

static void adopt_row(struct config *config, struct config *fresh, const struct setting *row,
	config_change_fn *changed, void *data)
{
	const void *ours = setting_field_of(config, row), *theirs = setting_field_of(fresh, row);
	CLEANUP(strbuf_fini) struct strbuf from = STRBUF_INIT, to = STRBUF_INIT;
	bool same;

	row->type->print(row, ours, &from);
	row->type->print(row, theirs, &to);
	same = is_same(row, ours, theirs, &from, &to);
	if (!same)
		tell(row, &from, &to, changed, data);
	if (!same && !row->live) {
		keep_origin(config, row);
		return;
	}
	if (!same) /* what is not live may be read by another thread just now */
		swap_fields(config, fresh, row);
	*setting_origin(config, row) = *setting_origin(fresh, row);
}

static bool was_said(const struct config *config, const char *sentence)
{
	for (size_t i = 0; i < config->origins->remark_count; i++)
		if (strcmp(config->origins->remarks[i].sentence, sentence) == 0)
			return true;
	return false;
}

static void adopt_remarks(
	struct config *config, struct config *fresh, config_remark_fn *remark, void *data)
{
	struct config_origins *ours = config->origins, *theirs = fresh->origins;
	struct remark *remarks = ours->remarks;
	size_t count = ours->remark_count;

	for (size_t i = 0; i < theirs->remark_count; i++)
		if (!was_said(config, theirs->remarks[i].sentence))
			remark(data, theirs->remarks[i].log_level, theirs->remarks[i].sentence);
	ours->remarks = theirs->remarks;
	ours->remark_count = theirs->remark_count;
	theirs->remarks = remarks;
	theirs->remark_count = count;
}

void config_adopt(struct config *config, struct config *fresh, config_change_fn *changed,
	config_remark_fn *remark, void *data)
{
	char *file = config->origins->file;

	for (const struct setting *row = settings; row < settings + settings_count; row++)
		if (row->key)
			adopt_row(config, fresh, row, changed, data);
	config->origins->file = fresh->origins->file;
	fresh->origins->file = file;
	adopt_remarks(config, fresh, remark, data);
}
