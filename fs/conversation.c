/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/conversation.h"

#include <errno.h>
#include <string.h>

#include "base/utf8.h"

void conversation_init(struct conversation *conversation, enum conversation_kind kind, pid_t opener)
{
	*conversation = (struct conversation){.kind = kind, .opener = opener};
	strbuf_init(&conversation->input);
	strbuf_init(&conversation->reply);
}

void conversation_fini(struct conversation *conversation)
{
	if (!conversation)
		return;
	strbuf_fini(&conversation->input);
	strbuf_fini(&conversation->reply);
}

/* Begins with empty hands: neither input nor reply. */
static void reset(struct conversation *conversation, enum conversation_state state)
{
	strbuf_fini(&conversation->input);
	strbuf_fini(&conversation->reply);
	conversation->lent = NULL;
	conversation->state = state;
	conversation->form = INPUT_UNDECIDED;
	conversation->brace_seen = conversation->newline_seen = false;
	conversation->partial_size = 0;
	conversation->base_known = conversation->reply_was_read = false;
}

void conversation_render_error(const struct error *error, struct strbuf *out)
{
	strbuf_adds(out, "{\"error\":{\"code\":");
	json_add_cstring(out, error_name(error->code));
	if (error->reason != REASON_NONE) {
		strbuf_adds(out, ",\"reason\":");
		json_add_cstring(out, reason_word(error->reason));
	}
	strbuf_adds(out, ",\"message\":");
	json_add_cstring(out, error->text);
	strbuf_adds(out, "}}\n");
}

/* Drops what was written and remembers why. */
static int refuse(
	struct conversation *conversation, const struct error *why, enum conversation_state state)
{
	reset(conversation, state);
	conversation->error = *why;
	conversation_render_error(why, &conversation->reply);
	return -why->code;
}

/* The failure as the caller's error; err may be NULL. */
static int report(struct conversation *conversation, struct error *err)
{
	if (err)
		*err = conversation->error;
	return -conversation->error.code;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/*
 * Decides what the input is, from the bytes that follow what was looked at before. An object begins
 * with '{' and then '"' or '}'; everything else is text.
 */
static void classify(struct conversation *conversation, const char *bytes, size_t size)
{
	for (size_t i = 0; i < size && conversation->form == INPUT_UNDECIDED; i++) {
		if (is_blank(bytes[i]))
			continue;
		if (!conversation->brace_seen && bytes[i] == '{')
			conversation->brace_seen = true;
		else if (conversation->brace_seen && (bytes[i] == '"' || bytes[i] == '}'))
			conversation->form = INPUT_JSON;
		else
			conversation->form = INPUT_TEXT;
	}
}

/* UTF-8 in pieces: a character may lack its end until the next piece comes. */
static bool utf8_goes_on(struct conversation *conversation, const char *bytes, size_t size)
{
	char *partial = conversation->partial;
	size_t good;

	while (conversation->partial_size && size) {
		partial[conversation->partial_size++] = *bytes++;
		size--;
		if (!utf8_valid_so_far(partial, conversation->partial_size))
			return false;
		if (utf8_valid(partial, conversation->partial_size))
			conversation->partial_size = 0;
	}
	good = utf8_valid_prefix(bytes, size);
	if (!utf8_valid_so_far(bytes + good, size - good))
		return false;
	memcpy(partial + conversation->partial_size, bytes + good, size - good);
	conversation->partial_size += (unsigned)(size - good);
	return true;
}

/* One line is one request: only blanks may follow its newline. */
static bool line_goes_on(struct conversation *conversation, const char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (conversation->newline_seen && !is_blank(bytes[i]))
			return false;
		conversation->newline_seen |= bytes[i] == '\n';
	}
	return true;
}

static int check_text(
	struct conversation *conversation, const char *bytes, size_t size, struct error *err)
{
	const struct strbuf *input = &conversation->input;
	const char *nul = memchr(bytes, '\0', size);

	if (nul)
		return error_set(err, EINVAL, "byte %zu of the request is a NUL",
			(size_t)(nul - input->data) + 1);
	if (!utf8_goes_on(conversation, bytes, size))
		return error_set(err, EINVAL, "byte %zu of the request is not UTF-8",
			utf8_valid_prefix(input->data, input->size) + 1);
	if (conversation->kind != CONVERSATION_SCRIPT && !line_goes_on(conversation, bytes, size))
		return error_set(err, EINVAL, "the request has more than one line");
	return 0;
}

static int check_json(
	struct conversation *conversation, const char *bytes, size_t size, struct error *err)
{
	bool was_complete = json_scanner_complete(&conversation->scanner);
	int r = json_scanner_feed(&conversation->scanner, bytes, size, err);
	const char *last;

	if (r < 0 || !json_scanner_complete(&conversation->scanner))
		return r;
	/* the newline that counts stands behind the object's last brace */
	last = was_complete ? bytes : memrchr(bytes, '}', size);
	conversation->newline_seen |= memchr(last, '\n', size - (size_t)(last - bytes)) != NULL;
	return 0;
}

/* Looks at the `size` bytes at the input's end that nobody has looked at. */
static int check_new(struct conversation *conversation, size_t size, struct error *err)
{
	const struct strbuf *input = &conversation->input;
	const char *bytes = input->data + input->size - size;
	bool decided = conversation->form != INPUT_UNDECIDED;

	classify(conversation, bytes, size);
	if (conversation->form == INPUT_UNDECIDED) {
		/* an empty line is a request too, but "{" and a newline may become an object */
		conversation->newline_seen |= memchr(bytes, '\n', size) != NULL;
		conversation->newline_seen &= !conversation->brace_seen;
		return 0;
	}
	if (!decided) {
		conversation->newline_seen = false;
		json_scanner_init(&conversation->scanner);
		bytes = input->data;
		size = input->size;
	}
	if (conversation->form == INPUT_JSON)
		return check_json(conversation, bytes, size, err);
	return check_text(conversation, bytes, size, err);
}

static int collect(
	struct conversation *conversation, const char *bytes, size_t size, struct error *err)
{
	if (size > CONVERSATION_INPUT_MAX - conversation->input.size)
		return error_set(
			err, EFBIG, "a request has at most %d bytes", (int)CONVERSATION_INPUT_MAX);
	strbuf_add(&conversation->input, bytes, size);
	if (strbuf_failed(&conversation->input))
		return error_set(err, ENOMEM, "no memory for the request");
	return check_new(conversation, size, err);
}

static int begin_turn(struct conversation *conversation, enum conversation_todo todo)
{
	conversation->turn++;
	conversation->state = CONVERSATION_RUNNING;
	return todo;
}

static const char *what_is_missing(const struct conversation *conversation)
{
	if (conversation->form == INPUT_JSON && !json_scanner_complete(&conversation->scanner))
		return "the JSON object ends too early";
	if (conversation->partial_size)
		return "the request ends within a character";
	return NULL;
}

/* A line loses its newline, and nothing else: an id may end in a blank. */
static void trim_line(struct conversation *conversation)
{
	struct strbuf *input = &conversation->input;
	const char *newline;

	if (conversation->kind == CONVERSATION_SCRIPT || conversation->form == INPUT_JSON)
		return;
	newline = memchr(input->data, '\n', input->size);
	if (newline)
		strbuf_cut(input, (size_t)(newline - input->data));
	if (input->size && input->data[input->size - 1] == '\r')
		strbuf_cut(input, input->size - 1);
}

/* Whoever ended the input is waiting: its request begins, or what is wrong with it is said. */
static int commit(struct conversation *conversation, struct error *err)
{
	const char *missing = what_is_missing(conversation);

	if (missing) {
		struct error why = ERROR_NONE;

		(void)error_set(&why, EINVAL, "%s", missing);
		(void)refuse(conversation, &why, CONVERSATION_ANSWERED);
		return report(conversation, err);
	}
	if (conversation->form == INPUT_UNDECIDED)
		conversation->form = INPUT_TEXT;
	trim_line(conversation);
	return begin_turn(conversation, CONVERSATION_COMMIT);
}

int conversation_write(struct conversation *conversation, const char *bytes, size_t size,
	bool read_waits, struct error *err)
{
	struct error why = ERROR_NONE;

	if (read_waits)
		return error_set(err, EBUSY,
			"a read on this descriptor still waits for the reply of its last request");
	if (conversation->state == CONVERSATION_REFUSED)
		return report(conversation, err);
	if (!size)
		return 0;
	if (conversation->state != CONVERSATION_COLLECTING)
		reset(conversation, CONVERSATION_COLLECTING);
	if (collect(conversation, bytes, size, &why) < 0) {
		(void)refuse(conversation, &why, CONVERSATION_REFUSED);
		return report(conversation, err);
	}
	if (conversation->kind == CONVERSATION_VERB && conversation->newline_seen)
		return commit(conversation, err);
	return 0;
}

/* The place of a READ in the reply. The first one says where the reply begins; one before that has
 * gone back to the start. */
static uint64_t reply_offset(struct conversation *conversation, uint64_t offset)
{
	if (!conversation->base_known || offset < conversation->base)
		conversation->base = offset;
	conversation->base_known = true;
	return offset - conversation->base;
}

static int serve(struct conversation *conversation, uint64_t offset, size_t size,
	const char **ret_bytes, size_t *ret_size)
{
	const struct strbuf *reply = conversation->lent ? conversation->lent : &conversation->reply;
	uint64_t at = reply_offset(conversation, offset);
	size_t left = at < reply->size ? reply->size - (size_t)at : 0;

	*ret_bytes = reply->data + (left ? at : 0);
	*ret_size = size < left ? size : left;
	if (*ret_size == left)
		conversation->reply_was_read = true;
	return CONVERSATION_REPLY;
}

int conversation_read(struct conversation *conversation, uint64_t offset, size_t size,
	const char **ret_bytes, size_t *ret_size, struct error *err)
{
	int r;

	switch (conversation->state) {
	case CONVERSATION_QUIET: /* nothing was written: the text is a file's like any other */
		(void)reply_offset(conversation, 0);
		return begin_turn(conversation, CONVERSATION_ASK);
	case CONVERSATION_COLLECTING:
		r = commit(conversation, err);
		(void)reply_offset(conversation, offset);
		return r;
	case CONVERSATION_RUNNING:
		(void)reply_offset(conversation, offset);
		return CONVERSATION_WAIT;
	case CONVERSATION_REFUSED:
		conversation->state = CONVERSATION_ANSWERED;
		break;
	case CONVERSATION_ANSWERED:
		break;
	}
	return serve(conversation, offset, size, ret_bytes, ret_size);
}

/* The end of a request, told to somebody who can still be told of its failure. */
static int end_of_request(struct conversation *conversation, struct error *err)
{
	if (conversation->state == CONVERSATION_COLLECTING)
		return commit(conversation, err);
	if (conversation->state != CONVERSATION_REFUSED)
		return 0;
	conversation->state = CONVERSATION_ANSWERED;
	return report(conversation, err);
}

int conversation_fsync(struct conversation *conversation, struct error *err)
{
	return end_of_request(conversation, err);
}

bool conversation_pending(const struct conversation *conversation)
{
	return conversation->state == CONVERSATION_COLLECTING ||
	       conversation->state == CONVERSATION_REFUSED;
}

int conversation_flush(
	struct conversation *conversation, pid_t process, bool dying, struct error *err)
{
	struct error why = ERROR_NONE;

	if (dying && conversation->state == CONVERSATION_COLLECTING) {
		(void)error_reason(&why, ECANCELED, REASON_CANCELLED,
			"process %d was killed while the request was being written; nothing of it was done",
			(int)process);
		(void)refuse(conversation, &why, CONVERSATION_REFUSED);
		return report(conversation, err);
	}
	/* a shell flushes once before it writes, and each child of a group flushes too */
	if (dying || !process || process != conversation->opener)
		return 0;
	return end_of_request(conversation, err);
}

int conversation_release(struct conversation *conversation, struct error *err)
{
	return conversation->state == CONVERSATION_COLLECTING ? commit(conversation, err) : 0;
}

void conversation_truncate(struct conversation *conversation)
{
	if (conversation_pending(conversation))
		reset(conversation, CONVERSATION_QUIET);
}

const struct strbuf *conversation_request(const struct conversation *conversation)
{
	return &conversation->input;
}

bool conversation_request_is_json(const struct conversation *conversation)
{
	return conversation->form == INPUT_JSON;
}

static bool settle(struct conversation *conversation, uint64_t turn)
{
	if (conversation->state != CONVERSATION_RUNNING || conversation->turn != turn)
		return false;
	strbuf_fini(&conversation->input);
	conversation->state = CONVERSATION_ANSWERED;
	return true;
}

bool conversation_answer(struct conversation *conversation, uint64_t turn, struct strbuf *reply)
{
	if (!settle(conversation, turn)) {
		strbuf_fini(reply);
		return false;
	}
	conversation->reply = *reply;
	strbuf_init(reply);
	return true;
}

bool conversation_lend(struct conversation *conversation, uint64_t turn, const struct strbuf *reply)
{
	if (!settle(conversation, turn))
		return false;
	conversation->lent = reply;
	return true;
}

bool conversation_unsettled(const struct conversation *conversation)
{
	return conversation->state != CONVERSATION_QUIET && !conversation->reply_was_read;
}
