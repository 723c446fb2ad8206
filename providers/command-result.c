/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <limits.h>
#include <string.h>

#include "base/json-fields.h"
#include "base/json.h"
#include "base/utf8.h"
#include "providers/sandbox.h"

enum { TEXT_ALWAYS = 64 * 1024 }; /* bytes of a stream that are shown as text whatever they are */

/*
 * How much of a stream the reply shows as text. A stream that was cut may end within a character:
 * that piece is left out of the text, or one unlucky cut would give the whole again as base64.
 */
static size_t text_size(const struct strbuf *kept, bool truncated)
{
	if (truncated && utf8_valid_so_far(kept->data, kept->size))
		return utf8_valid_prefix(kept->data, kept->size);
	return kept->size;
}

/*
 * Text is never more than twice as long in JSON; what is longer is control bytes and bytes that are
 * not UTF-8, up to six times as long. Much of that comes as base64 only.
 */
static bool is_worth_as_text(const struct strbuf *kept, size_t size)
{
	return size <= TEXT_ALWAYS ||
	       json_string_size(kept->data, size) - strlen("\"\"") <= 2 * size;
}

static void add_stream(
	struct strbuf *out, const char *key, const struct strbuf *kept, uint64_t written)
{
	size_t size = text_size(kept, written > kept->size);

	json_add_key(out, key);
	json_add_string(out, kept->data, is_worth_as_text(kept, size) ? size : 0);
}

/* The bytes themselves, where the text does not tell them: not UTF-8, or with a NUL, where many a
 * parser ends a text, or not there at all. */
static void add_raw(
	struct strbuf *out, const char *key, const struct strbuf *kept, uint64_t written)
{
	size_t size = text_size(kept, written > kept->size);

	if (utf8_valid(kept->data, size) && !memchr(kept->data, '\0', size) &&
		is_worth_as_text(kept, size))
		return;
	json_add_key(out, key);
	json_add_base64(out, kept->data, kept->size);
}

static void add_cmd(struct strbuf *out, const struct command *command)
{
	json_add_key(out, "cmd");
	if (command->script) {
		json_add_cstring(out, command->script);
		return;
	}
	strbuf_addc(out, '[');
	for (char **word = command->argv; word && *word; word++) {
		if (word != command->argv)
			strbuf_addc(out, ',');
		json_add_cstring(out, *word);
	}
	strbuf_addc(out, ']');
}

void command_result_add_signal(const struct command_result *result, struct strbuf *out)
{
	int number = result->signal;
	const char *name = number ? sigabbrev_np(number) : NULL;

	json_add_key(out, "signal");
	if (number && name)
		strbuf_addf(out, "\"SIG%s\"", name);
	else if (number)
		strbuf_addf(out, "\"%d\"", number); /* a real-time signal has no name */
	else
		strbuf_adds(out, "null");
}

static void add_place(struct strbuf *out, const struct sandbox_place *place)
{
	json_add_text_key(out, "lease_id", place->lease_id);
	json_add_text_key(out, "trajectory_id", place->trajectory_id);
	if (place->slot != UINT_MAX) {
		json_add_count_key(out, "slot_id", place->slot);
		json_add_count_key(out, "generation", place->generation);
	}
	json_add_text_key(out, "node_id", place->node_id);
	json_add_text_key(out, "node_ip", place->node_ip);
}

static void add_metadata(
	struct strbuf *out, const struct sandbox_place *place, const struct command_result *result)
{
	strbuf_addc(out, '{');
	json_add_count_key(out, "exec_id", result->exec_id);
	add_place(out, place);
	json_add_seconds_key(out, "started_at", result->started_at);
	json_add_seconds_key(out, "duration_sec", result->duration_sec);
	json_add_count_key(out, "stdout_bytes", result->out_bytes);
	json_add_count_key(out, "stderr_bytes", result->err_bytes);
	json_add_bool_key(out, "stdout_truncated", result->out_bytes > result->out.size);
	json_add_bool_key(out, "stderr_truncated", result->err_bytes > result->err.size);
	add_raw(out, "stdout_base64", &result->out, result->out_bytes);
	add_raw(out, "stderr_base64", &result->err, result->err_bytes);
	json_add_bool_key(out, "infra_failure", result->infra_failure);
	json_add_text_key(out, "reason", result->reason ? reason_word(result->reason) : NULL);
	json_add_text_key(out, "detail", result->detail[0] ? result->detail : NULL);
	command_result_add_signal(result, out);
	json_add_text_key(out, "start_error", result->start_error[0] ? result->start_error : NULL);
	strbuf_addc(out, '}');
}

void command_result_render(const struct sandbox_place *place, const struct command *command,
	const struct command_result *result, struct strbuf *out)
{
	strbuf_addc(out, '{');
	add_cmd(out, command);
	add_stream(out, "stdout", &result->out, result->out_bytes);
	if (result->start_error[0] && !result->err.size)
		json_add_text_key(out, "stderr", result->start_error);
	else
		add_stream(out, "stderr", &result->err, result->err_bytes);
	json_add_key(out, "returncode");
	if (result->has_returncode)
		strbuf_addf(out, "%d", result->returncode);
	else
		strbuf_adds(out, "null");
	json_add_bool_key(out, "timed_out", result->timed_out);
	json_add_key(out, "metadata");
	add_metadata(out, place, result);
	strbuf_adds(out, "}\n");
}
