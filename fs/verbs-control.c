/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What an operator may do to the pool, at the file `control` of the root. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json-fields.h"
#include "base/json.h"
#include "fs/control.h"
#include "fs/job.h"
#include "pool/pool.h"
#include "providers/lease.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { SLOT_NONE = -1 };

struct order {
	const char *verb;
	const char *lease; /* NULL: none was named */
	const char *reason;
	double slot; /* SLOT_NONE: none was named */
};

/* What an order needs besides its name, and what does it: appends the reply. */
struct order_type {
	const char *name;
	const char *form; /* the line that gives it */
	bool needs_slot, needs_lease;
	int (*run)(struct control *control, const struct order *order, struct strbuf *reply,
		struct error *err);
};

/* drain, undrain */

static void tell_draining(struct control *control, struct strbuf *reply)
{
	strbuf_addc(reply, '{');
	json_add_bool_key(reply, "draining", lease_table_is_draining(control->leases));
	json_add_count_key(reply, "active", lease_count(control->leases, LEASE_ACTIVE));
	strbuf_adds(reply, "}\n");
}

static int run_drain(
	struct control *control, const struct order *order, struct strbuf *reply, struct error *err)
{
	lease_table_drain(control->leases, true);
	tell_draining(control, reply);
	return 0;
}

static int run_undrain(
	struct control *control, const struct order *order, struct strbuf *reply, struct error *err)
{
	lease_table_drain(control->leases, false);
	tell_draining(control, reply);
	return 0;
}

/* restart-slot */

static int run_restart_slot(
	struct control *control, const struct order *order, struct strbuf *reply, struct error *err)
{
	struct pool *pool = lease_table_pool(control->leases);
	unsigned number = (unsigned)order->slot;
	struct slot_view view;
	int r;

	if (!pool)
		return error_set(err, EOPNOTSUPP, "this provider has no slots of its own");
	r = pool_restart_slot(pool, number, err);
	if (r < 0)
		return r;
	view = slot_view(pool_slot(pool, number));
	strbuf_addc(reply, '{');
	json_add_count_key(reply, "slot", number);
	json_add_text_key(reply, "state", slot_state_name(view.state));
	json_add_count_key(reply, "generation", view.generation);
	strbuf_adds(reply, "}\n");
	return 0;
}

/* release */

static int run_release(
	struct control *control, const struct order *order, struct strbuf *reply, struct error *err)
{
	struct lease *lease = lease_find_id(control->leases, order->lease);

	if (lease && order->reason)
		lease_note_why(lease, order->reason);
	return lease_end_by_id(control->leases, order->lease, REASON_OPERATOR, reply, err);
}

/* prune-archives */

static int run_prune_archives(
	struct control *control, const struct order *order, struct strbuf *reply, struct error *err)
{
	return error_set(err, EOPNOTSUPP,
		"there is nothing to prune: this version keeps no archives of ended leases");
}

static const struct order_type orders[] = {
	{"drain", "drain", .run = run_drain},
	{"undrain", "undrain", .run = run_undrain},
	{"restart-slot", "restart-slot N", .needs_slot = true, .run = run_restart_slot},
	{"release", "release LEASE [reason]", .needs_lease = true, .run = run_release},
	{"prune-archives", "prune-archives", .run = run_prune_archives},
};

static const struct order_type *find_type(const char *name)
{
	for (size_t i = 0; i < COUNT(orders); i++)
		if (!strcmp(orders[i].name, name))
			return &orders[i];
	return NULL;
}

/* Reading them */

static int unknown_order(const char *name, struct error *err)
{
	return error_set(err, EINVAL,
		"'%.100s' is none of drain, undrain, restart-slot N, release LEASE [reason], prune-archives",
		name);
}

static int misformed(const struct order_type *type, struct error *err)
{
	return error_set(err, EINVAL, "the request is '%s'", type->form);
}

/* Cuts the first word off the line. "" when there is none. */
static char *take_word(char **line)
{
	char *word = *line + strspn(*line, " \t\r");
	char *end = word + strcspn(word, " \t\r");

	*line = end + strspn(end, " \t\r");
	*end = '\0';
	return word;
}

static int slot_from_text(const char *word, double *ret_slot)
{
	unsigned number;
	int used = 0;

	if (sscanf(word, "%9u%n", &number, &used) != 1 || word[used] || *word == '+' ||
		*word == '-')
		return -EINVAL;
	*ret_slot = number;
	return 0;
}

/* The words stay the line's. */
static int order_from_line(char *line, struct order *order, struct error *err)
{
	const struct order_type *type;

	order->verb = take_word(&line);
	type = find_type(order->verb);
	if (!type)
		return unknown_order(order->verb, err);
	if (type->needs_slot && slot_from_text(take_word(&line), &order->slot) < 0)
		return misformed(type, err);
	if (!type->needs_lease)
		return *line ? misformed(type, err) : 0;
	order->lease = take_word(&line);
	if (!*order->lease)
		return misformed(type, err);
	if (*line)
		order->reason = line;
	return 0;
}

static const struct json_field order_fields[] = {
	{"verb", JSON_STRING, offsetof(struct order, verb), .required = true},
	{"slot", JSON_INTEGER, offsetof(struct order, slot), .min = 0, .max = INT_MAX},
	{"lease", JSON_STRING, offsetof(struct order, lease)},
	{"reason", JSON_STRING, offsetof(struct order, reason)},
};

/* The words stay the object's. */
static int order_from_object(const cJSON *object, struct order *order, struct error *err)
{
	const struct order_type *type;
	int r = json_fields_read(object, order_fields, COUNT(order_fields), order, err);

	if (r < 0)
		return r;
	type = find_type(order->verb);
	if (!type)
		return unknown_order(order->verb, err);
	if (type->needs_slot != (order->slot != SLOT_NONE))
		return error_set(err, EINVAL, "'%s' %s 'slot'", type->name,
			type->needs_slot ? "needs a" : "takes no");
	if (type->needs_lease != (order->lease != NULL))
		return error_set(err, EINVAL, "'%s' %s 'lease'", type->name,
			type->needs_lease ? "needs a" : "takes no");
	return 0;
}

static int carry_out(struct job *job, const struct order *order, struct error *err)
{
	return find_type(order->verb)->run(job->control, order, &job->reply, err);
}

static int control_json(struct job *job, const char *text, size_t size, struct error *err)
{
	CLEANUP(cjson_deletep) cJSON *object = NULL;
	struct order order = {.slot = SLOT_NONE};
	int r = json_parse_object(text, size, &object, err);

	if (r == 0)
		r = order_from_object(object, &order, err);
	return r < 0 ? r : carry_out(job, &order, err);
}

static int control_line(struct job *job, const char *text, struct error *err)
{
	CLEANUP(freep) char *line = strdup(text);
	struct order order = {.slot = SLOT_NONE};
	int r;

	if (!line)
		return error_set(err, ENOMEM, "no memory for the request");
	r = order_from_line(line, &order, err);
	return r < 0 ? r : carry_out(job, &order, err);
}

static void begin_control(struct job *job, const char *text, size_t size, bool json)
{
	struct error err = ERROR_NONE;

	job_end(job, json ? control_json(job, text, size, &err) : control_line(job, text, &err),
		&err);
}

const struct verb verb_control = {
	.name = "control",
	.usage =
		"Write one line, read what came of it on the same descriptor:\n"
		"  drain                    no new leases; those that are there go on\n"
		"  undrain\n"
		"  restart-slot N           of a slot that is not lent\n"
		"  release LEASE [reason]   end somebody's lease, by lease or trajectory id\n"
		"  prune-archives           not in this version\n"
		"For example:  echo drain > control   or  {\"verb\":\"release\",\"lease\":\"traj-1\",\"reason\":\"stuck\"}\n",
	.immediate = true,
	.begin = begin_control,
};
