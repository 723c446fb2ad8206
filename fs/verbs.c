/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the request files do with a request: verb_create and its siblings of job.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json-fields.h"
#include "base/json.h"
#include "fs/control.h"
#include "fs/job.h"
#include "providers/lease.h"
#include "providers/request.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void no_memory(struct job *job)
{
	struct error err = ERROR_NONE;

	(void)error_set(&err, ENOMEM, "no memory for the request");
	job_failed(job, &err);
}

/* create */

static void handle_acquired(void *data, int r, struct lease *lease, const struct error *err)
{
	struct job *job = data;

	if (r == 0)
		lease_render(lease, &job->reply);
	job_end(job, r, err);
}

static void begin_create(struct job *job, const char *text, size_t size, bool json)
{
	struct sandbox_spec spec = {0};
	struct error err = ERROR_NONE;
	int r = sandbox_spec_decode(text, size, &spec, &err);

	if (r < 0) {
		job_failed(job, &err);
		return;
	}
	job->operation = lease_create(job->control->leases, &spec, handle_acquired, job);
	sandbox_spec_fini(&spec);
	if (!job->operation)
		no_memory(job);
}

const struct verb verb_create = {
	.name = "create",
	.usage =
		"Write what you need, read the lease on the same descriptor:\n"
		"  exec 3<>create; echo traj-1 >&3; cat <&3\n"
		"  {\"trajectory_id\":\"traj-1\",\"timeout_sec\":600,\"wait\":30} is a request too.\n"
		"Or, without waiting in line: mkdir leases/traj-1\n",
	.begin = begin_create,
};

/* terminate, at the root and in a lease */

/* A whole lease.json may be written to terminate: what it has besides its ids is looked at by
 * nobody. */
struct terminate_values {
	const char *lease_id, *trajectory_id, *sandbox_id, *reason;
	const cJSON *ignored;
};

#define TERMINATE_ID(key_)                                                                         \
	{                                                                                          \
#key_, JSON_STRING, offsetof(struct terminate_values, key_)                        \
	}
#define TERMINATE_IGNORED(key_)                                                                    \
	{                                                                                          \
		key_, JSON_ANY, offsetof(struct terminate_values, ignored)                         \
	}

static const struct json_field terminate_fields[] = {
	TERMINATE_ID(lease_id),
	TERMINATE_ID(trajectory_id),
	TERMINATE_ID(sandbox_id),
	TERMINATE_ID(reason),
	TERMINATE_IGNORED("provider"),
	TERMINATE_IGNORED("endpoints"),
	TERMINATE_IGNORED("capabilities"),
	TERMINATE_IGNORED("metadata"),
	TERMINATE_IGNORED("name"),
	TERMINATE_IGNORED("state"),
	TERMINATE_IGNORED("deadline"),
};

static int terminate_json(struct job *job, const char *text, size_t size, struct error *err)
{
	struct terminate_values values = {0};
	CLEANUP(cjson_deletep) cJSON *object = NULL;
	struct lease *lease;
	const char *id;
	int r = json_parse_object(text, size, &object, err);

	if (r == 0)
		r = json_fields_read(
			object, terminate_fields, COUNT(terminate_fields), &values, err);
	if (r < 0)
		return r;
	/* the most exact one first: a trajectory may have another lease by now */
	id = values.lease_id     ? values.lease_id
	     : values.sandbox_id ? values.sandbox_id
				 : values.trajectory_id;
	if (!id)
		return error_set(err, EINVAL, "'lease_id' or 'trajectory_id' is missing");
	lease = lease_find_id(job->control->leases, id);
	if (lease && values.reason)
		lease_note_why(lease, values.reason);
	return lease_end_by_id(job->control->leases, id, REASON_TERMINATED, &job->reply, err);
}

static void begin_terminate(struct job *job, const char *text, size_t size, bool json)
{
	struct error err = ERROR_NONE;
	int r = json ? 0 : request_check_text(text, size, "the id", &err);

	if (r == 0)
		r = json ? terminate_json(job, text, size, &err)
			 : lease_end_by_id(job->control->leases, text, REASON_TERMINATED,
				   &job->reply, &err);
	job_end(job, r, &err);
}

const struct verb verb_terminate = {
	.name = "terminate",
	.usage = "Write a trajectory or lease id, read what came of it on the same descriptor:\n"
		 "  echo traj-1 > terminate\n"
		 "The same as: rmdir leases/traj-1\n",
	.immediate = true,
	.begin = begin_terminate,
};

static const struct json_field lease_terminate_fields[] = {
	{"reason", JSON_STRING, 0},
};

static void begin_lease_terminate(struct job *job, const char *text, size_t size, bool json)
{
	CLEANUP(cjson_deletep) cJSON *object = NULL;
	const char *reason = json ? NULL : text;
	struct error err = ERROR_NONE;
	int r = json ? json_parse_object(text, size, &object, &err) : 0;

	if (r == 0 && json)
		r = json_fields_read(object, lease_terminate_fields, COUNT(lease_terminate_fields),
			&reason, &err);
	if (r == 0 && reason)
		lease_note_why(job->lease, reason);
	if (r == 0)
		lease_end(job->lease, REASON_TERMINATED, &job->reply);
	job_end(job, r, &err);
}

const struct verb verb_lease_terminate = {
	.name = "terminate",
	.usage =
		"Write anything (say why) to end this lease, read what came of it on the same descriptor:\n"
		"  echo done > terminate\n",
	.immediate = true,
	.begin = begin_lease_terminate,
};

/* ttl */

struct ttl_values {
	double seconds;
};

static const struct json_field ttl_fields[] = {
	{"ttl", JSON_POSITIVE, offsetof(struct ttl_values, seconds), .required = true,
		.max = REQUEST_SECONDS_MAX},
};

static int ttl_from_json(const char *text, size_t size, double *ret_seconds, struct error *err)
{
	CLEANUP(cjson_deletep) cJSON *object = NULL;
	struct ttl_values values = {0};
	int r = json_parse_object(text, size, &object, err);

	if (r == 0)
		r = json_fields_read(object, ttl_fields, COUNT(ttl_fields), &values, err);
	if (r == 0)
		*ret_seconds = values.seconds;
	return r;
}

static int ttl_from_text(const char *text, double *ret_seconds, struct error *err)
{
	size_t first = strspn(text, " \t");
	char *behind = (char *)text + first;
	/* strtod() would also take "inf", "nan" and hexadecimal */
	double seconds = strspn(behind, "0123456789.") > 0 ? strtod(text, &behind) : 0;

	behind += strspn(behind, " \t\r");
	if (*behind || text[first + strspn(text + first, "0123456789.")] == 'x' || !(seconds > 0) ||
		seconds > REQUEST_SECONDS_MAX)
		return error_set(err, EINVAL,
			"'%s' is no number of seconds above 0 and up to 1000000000", text);
	*ret_seconds = seconds;
	return 0;
}

static void begin_ttl(struct job *job, const char *text, size_t size, bool json)
{
	struct error err = ERROR_NONE;
	double seconds = 0;
	int r = json ? ttl_from_json(text, size, &seconds, &err)
		     : ttl_from_text(text, &seconds, &err);

	if (r == 0)
		r = lease_renew(job->lease, seconds, &err);
	if (r == 0 && lease_deadline(job->lease) > 0)
		strbuf_addf(&job->reply, "{\"ttl\":%.3f,\"deadline\":%.3f}\n", seconds,
			lease_deadline(job->lease));
	else if (r == 0) /* somebody holds it */
		strbuf_adds(&job->reply, "{\"ttl\":null,\"deadline\":null}\n");
	job_end(job, r, &err);
}

const struct verb verb_ttl = {
	.name = "ttl",
	.immediate = true,
	.begin = begin_ttl,
};

/* run_command */

static void handle_ended(void *data, int r, struct command_result *result, const struct error *err)
{
	struct job *job = data;

	job->operation = NULL;
	if (r < 0)
		job_failed(job, err);
	else
		lease_render_result_later(job->lease, &job->command, result, job_rendered, job);
}

static void begin_run_command(struct job *job, const char *text, size_t size, bool json)
{
	struct error err = ERROR_NONE;
	int r = command_decode(text, size, job->control->config, &job->command, &err);

	if (r < 0) {
		job_failed(job, &err);
		return;
	}
	job->operation = lease_run(job->lease, &job->command, handle_ended, job);
	if (!job->operation)
		no_memory(job);
}

/* What lease_run() would say, at once: a shell hears of a failed WRITE, never of a failed close. */
static int refuse_run_command(const struct node *node, struct error *err)
{
	return lease_check_active(node->lease, err);
}

const struct verb verb_run_command = {
	.name = "run_command",
	.usage =
		"Write a shell script, read its result on the same descriptor, or later the last one's here:\n"
		"  exec 3<>run_command; echo 'make test' >&3; cat <&3\n"
		"  {\"command\":[\"ls\",\"-l\"],\"cwd\":\"/tmp\",\"timeout\":60} is a request too.\n",
	.script = true,
	.in_background = true,
	.shows_last = true,
	.begin = begin_run_command,
	.refuse = refuse_run_command,
};
