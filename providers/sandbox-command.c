/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json-fields.h"
#include "base/json.h"
#include "config/settings.h"
#include "providers/request.h"
#include "providers/sandbox.h"

static const double OUTPUT_MAX = 64 << 20; /* of one stream in a reply, which is held in memory */

struct command_values {
	const cJSON *command, *env, *tty;
	bool stdin_pipe;
	const char *cwd, *stdin_text, *stdin_base64;
	double timeout, idle_timeout, max_output_bytes;
};

#define AT(member) offsetof(struct command_values, member)
static const struct json_field command_fields[] = {
	{"command", JSON_ANY, AT(command), .required = true},
	{"cwd", JSON_STRING, AT(cwd)},
	{"env", JSON_STRING_MAP, AT(env)},
	{"timeout", JSON_POSITIVE, AT(timeout), .max = REQUEST_SECONDS_MAX},
	{"stdin", JSON_STRING, AT(stdin_text)},
	{"stdin_base64", JSON_STRING, AT(stdin_base64)},
	{"max_output_bytes", JSON_INTEGER, AT(max_output_bytes), .min = 0, .max = OUTPUT_MAX},
	{"stdin_pipe", JSON_BOOL, AT(stdin_pipe)},
	{"tty", JSON_OBJECT, AT(tty)},
	{"idle_timeout", JSON_POSITIVE, AT(idle_timeout), .max = REQUEST_SECONDS_MAX},
};
#undef AT

static int no_memory(struct error *err)
{
	return error_set(err, ENOMEM, "no memory for the command");
}

static int decode_script(const char *script, struct command *command, struct error *err)
{
	if (!script[strspn(script, " \t\r\n")])
		return error_set(err, EINVAL, "'command' is empty");
	command->script = strdup(script);
	return command->script ? 0 : no_memory(err);
}

static int decode_argv(const cJSON *list, struct command *command, struct error *err)
{
	size_t count = 0;
	const cJSON *item;

	if (!list->child)
		return error_set(err, EINVAL, "'command' is an empty list");
	command->argv = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(command->argv[0]));
	if (!command->argv)
		return no_memory(err);
	cJSON_ArrayForEach (item, list) {
		if (!cJSON_IsString(item))
			return error_set(err, EINVAL,
				"'command': word %zu must be a string, not %s", count + 1,
				json_type_name(item));
		command->argv[count] = strdup(item->valuestring);
		if (!command->argv[count++])
			return no_memory(err);
	}
	if (!command->argv[0][0])
		return error_set(err, EINVAL, "'command': the program's name is empty");
	return 0;
}

static int decode_program(const cJSON *value, struct command *command, struct error *err)
{
	if (cJSON_IsString(value))
		return decode_script(value->valuestring, command, err);
	if (cJSON_IsArray(value))
		return decode_argv(value, command, err);
	return error_set(err, EINVAL, "'command' must be a string or a list of strings, not %s",
		json_type_name(value));
}

static int decode_env(const cJSON *map, struct command *command, struct error *err)
{
	size_t count = 0;
	const cJSON *item;
	int r;

	r = request_check_env(map, err);
	if (r < 0 || !map || !map->child)
		return r;
	command->env = calloc((size_t)cJSON_GetArraySize(map) + 1, sizeof(command->env[0]));
	if (!command->env)
		return no_memory(err);
	cJSON_ArrayForEach (item, map) {
		if (asprintf(&command->env[count], "%s=%s", item->string, item->valuestring) < 0) {
			command->env[count] = NULL;
			return no_memory(err);
		}
		count++;
	}
	return 0;
}

static int decode_stdin(
	const struct command_values *values, struct command *command, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf bytes = STRBUF_INIT;
	int r;

	if (values->stdin_text && values->stdin_base64)
		return error_set(err, EINVAL, "give 'stdin' or 'stdin_base64', not both");
	if (values->stdin_text)
		strbuf_adds(&bytes, values->stdin_text);
	if (values->stdin_base64) {
		r = base64_decode(values->stdin_base64, strlen(values->stdin_base64), &bytes, err);
		if (r < 0)
			return error_wrap(err, "'stdin_base64'");
	}
	if (strbuf_failed(&bytes))
		return no_memory(err);
	if (bytes.size == 0)
		return 0;
	command->stdin_data = strbuf_take(&bytes, &command->stdin_size);
	return command->stdin_data ? 0 : no_memory(err);
}

static uint64_t to_ms(double seconds)
{
	return (uint64_t)ceil(seconds * 1000);
}

static void set_defaults(struct command *command, const struct config *config)
{
	command->timeout_ms = config->exec.timeout_ms;
	if (config->exec.timeout_max_ms && !command->timeout_ms)
		command->timeout_ms = config->exec.timeout_max_ms;
	command->idle_timeout_ms = config->exec.idle_timeout_ms;
	command->max_output = config->exec.max_output;
}

static int decode_limits(const struct command_values *values, const struct config *config,
	struct command *command, struct error *err)
{
	if (values->timeout > 0)
		command->timeout_ms = to_ms(values->timeout);
	if (config->exec.timeout_max_ms && command->timeout_ms > config->exec.timeout_max_ms)
		return error_set(err, EINVAL,
			"'timeout' must be at most %g s ([exec] timeout_max), not %g",
			(double)config->exec.timeout_max_ms / 1000,
			(double)command->timeout_ms / 1000);
	if (values->idle_timeout > 0)
		command->idle_timeout_ms = to_ms(values->idle_timeout);
	if (values->max_output_bytes >= 0)
		command->max_output = (uint64_t)values->max_output_bytes;
	if (values->cwd && !values->cwd[0])
		return error_set(err, EINVAL, "'cwd' is empty");
	if (!values->cwd)
		return 0;
	command->cwd = strdup(values->cwd);
	return command->cwd ? 0 : no_memory(err);
}

struct tty_values {
	double rows, cols;
};

static const struct json_field tty_fields[] = {
	{"rows", JSON_INTEGER, offsetof(struct tty_values, rows), .required = true, .min = 1,
		.max = UINT16_MAX},
	{"cols", JSON_INTEGER, offsetof(struct tty_values, cols), .required = true, .min = 1,
		.max = UINT16_MAX},
};

static int decode_tty(const cJSON *object, struct command *command, struct error *err)
{
	struct tty_values values = {0};
	int r = json_fields_read(
		object, tty_fields, sizeof(tty_fields) / sizeof(tty_fields[0]), &values, err);

	if (r < 0)
		return error_wrap(err, "'tty'");
	if (command->stdin_data)
		return error_set(err, EINVAL,
			"give 'tty' or 'stdin', not both: a terminal is fed through exec/N/stdin");
	command->tty_rows = (uint16_t)values.rows;
	command->tty_cols = (uint16_t)values.cols;
	command->stdin_pipe = true;
	return 0;
}

static int decode_json(const char *text, size_t size, const struct config *config,
	struct command *command, struct error *err)
{
	struct command_values values = {.max_output_bytes = -1};
	cJSON *object;
	int r;

	r = json_parse_object(text, size, &object, err);
	if (r < 0)
		return r;
	r = json_fields_read(object, command_fields,
		sizeof(command_fields) / sizeof(command_fields[0]), &values, err);
	if (r == 0)
		r = decode_program(values.command, command, err);
	if (r == 0)
		r = decode_env(values.env, command, err);
	if (r == 0)
		r = decode_stdin(&values, command, err);
	command->stdin_pipe = values.stdin_pipe;
	if (r == 0 && values.tty)
		r = decode_tty(values.tty, command, err);
	if (r == 0)
		r = decode_limits(&values, config, command, err);
	cJSON_Delete(object);
	return r;
}

static int decode_text(const char *text, size_t size, struct command *command, struct error *err)
{
	int r = request_check_text(text, size, "the script", err);

	if (r < 0)
		return r;
	command->script = strndup(text, size);
	return command->script ? 0 : no_memory(err);
}

int command_decode(const char *text, size_t size, const struct config *config,
	struct command *ret_command, struct error *err)
{
	struct command command = COMMAND_INIT;
	int r;

	set_defaults(&command, config);
	if (json_looks_like_object(text, size))
		r = decode_json(text, size, config, &command, err);
	else
		r = decode_text(text, size, &command, err);
	if (r < 0) {
		command_fini(&command);
		return r;
	}
	*ret_command = command;
	return 0;
}
