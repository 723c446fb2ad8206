/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fs/conversation.h: a client that writes, reads, flushes, dies and truncates in any order.
 *
 * A simple model goes along: the bytes accepted since the request began. What is committed is
 * exactly these, once; what was refused or dropped is never committed, in no part.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "check.h"
#include "fs/conversation.h"
#include "input.h"

enum { OPENER = 7, CHILD = 8 };

struct play {
	struct conversation conversation;
	struct error err;
	struct strbuf accepted; /* of the request that is being written */
	bool refused;           /* it was refused, and its end has not been told */
	bool read_waits;
	char reply[32]; /* the answer of this turn; "": an error was rendered, or none yet */
	uint64_t turns;
};

static void forget(struct play *play, bool refused)
{
	strbuf_clear(&play->accepted);
	play->refused = refused;
	play->reply[0] = '\0';
}

static void check_commit(struct play *play)
{
	const struct conversation *conversation = &play->conversation;
	const struct strbuf *request = conversation_request(conversation);
	size_t size = play->accepted.size;

	CHECK(!play->refused && size > 0);
	CHECK(conversation->turn == ++play->turns);
	if (conversation->kind != CONVERSATION_SCRIPT &&
		!conversation_request_is_json(conversation)) {
		size = strcspn(play->accepted.data, "\n");
		size -= size && play->accepted.data[size - 1] == '\r';
	}
	CHECK(request->size == size && !memcmp(request->data, play->accepted.data, size));
	CHECK(utf8_valid(request->data, request->size) &&
		!memchr(request->data, '\0', request->size));
	CHECK(conversation_request_is_json(conversation) ==
		json_looks_like_object(request->data, request->size));
	if (conversation->kind != CONVERSATION_SCRIPT &&
		!conversation_request_is_json(conversation))
		CHECK(!memchr(request->data, '\n', request->size) ||
			memchr(request->data, '\n', request->size) <
				memchr(request->data, '{', size));
	forget(play, false);
}

static void write_some(struct play *play, struct input *input)
{
	size_t size = next_byte(input) % 24;
	int r;

	if (size > input->size)
		size = input->size;
	if (!size)
		return;
	r = conversation_write(&play->conversation, (const char *)input->bytes, size,
		play->read_waits, &play->err);
	if (r == -EBUSY) {
		CHECK(play->read_waits);
	} else if (r < 0) {
		CHECK(r == -EINVAL || r == -ECANCELED);
		CHECK(!play->refused || r == -play->conversation.error.code);
		CHECK(play->conversation.kind == CONVERSATION_VERB ||
			play->conversation.state == CONVERSATION_REFUSED);
		forget(play, play->conversation.state == CONVERSATION_REFUSED);
	} else {
		CHECK(!play->refused);
		strbuf_add(&play->accepted, input->bytes, size);
		play->reply[0] = '\0';
		if (r == CONVERSATION_COMMIT)
			check_commit(play);
		else
			CHECK(r == 0);
	}
	input->bytes += size;
	input->size -= size;
}

static void read_some(struct play *play, struct input *input)
{
	uint64_t offset = next_byte(input);
	size_t size = next_byte(input) % 8, got = SIZE_MAX;
	const char *bytes = NULL;
	int r = conversation_read(&play->conversation, offset, size, &bytes, &got, &play->err);

	switch (r) {
	case CONVERSATION_COMMIT:
		check_commit(play);
		play->read_waits = true;
		break;
	case CONVERSATION_ASK:
		CHECK(play->conversation.turn == ++play->turns && !play->accepted.size);
		play->read_waits = true;
		break;
	case CONVERSATION_WAIT:
		CHECK(play->conversation.state == CONVERSATION_RUNNING && !play->accepted.size);
		play->read_waits = true;
		break;
	case CONVERSATION_REPLY:
		CHECK(got <= size && !play->accepted.size);
		CHECK(got == 0 || !play->reply[0] || strstr(play->reply, "reply"));
		if (play->reply[0] && offset == play->conversation.base)
			CHECK(got == (size < strlen(play->reply) ? size : strlen(play->reply)) &&
				!memcmp(bytes, play->reply, got));
		play->refused = false;
		break;
	default:
		CHECK(r == -EINVAL);
		forget(play, false);
	}
}

static void end_some(struct play *play, int r)
{
	if (r == CONVERSATION_COMMIT) {
		check_commit(play);
		return;
	}
	CHECK(r <= 0);
	if (r < 0)
		forget(play, play->conversation.state == CONVERSATION_REFUSED);
}

static void answer(struct play *play, struct input *input)
{
	struct strbuf text = STRBUF_INIT;
	uint64_t turn =
		next_byte(input) & 1 ? play->conversation.turn : play->conversation.turn - 1;
	bool current =
		turn == play->conversation.turn && play->conversation.state == CONVERSATION_RUNNING;

	strbuf_addf(&text, "reply %u\n", (unsigned)turn);
	if (current)
		(void)snprintf(play->reply, sizeof(play->reply), "%s", text.data);
	CHECK(conversation_answer(&play->conversation, turn, &text) == current);
	CHECK(!text.size);
	play->read_waits = play->read_waits && !current;
}

static void act(struct play *play, struct input *input)
{
	struct conversation *conversation = &play->conversation;

	switch (next_byte(input) % 10) {
	case 0:
	case 1:
	case 2:
		write_some(play, input);
		break;
	case 3:
		read_some(play, input);
		break;
	case 4:
		end_some(play, conversation_fsync(conversation, &play->err));
		break;
	case 5:
		end_some(play, conversation_flush(conversation, OPENER, false, &play->err));
		break;
	case 6:
		CHECK(conversation_flush(conversation, CHILD, false, &play->err) == 0);
		break;
	case 7:
		end_some(play, conversation_flush(conversation, CHILD, true, &play->err));
		CHECK(conversation->state != CONVERSATION_COLLECTING);
		break;
	case 8:
		conversation_truncate(conversation);
		if (conversation->state == CONVERSATION_QUIET)
			forget(play, false);
		break;
	default:
		answer(play, input);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	struct play play = {.accepted = STRBUF_INIT};
	int r;

	conversation_init(
		&play.conversation, (enum conversation_kind)(next_byte(&input) % 3), OPENER);
	while (input.size) {
		act(&play, &input);
		CHECK((play.conversation.state == CONVERSATION_REFUSED) == play.refused);
		CHECK((play.conversation.state == CONVERSATION_COLLECTING) ==
			(play.accepted.size > 0));
	}
	r = conversation_release(&play.conversation, &play.err);
	if (r == CONVERSATION_COMMIT)
		check_commit(&play);
	conversation_fini(&play.conversation);
	strbuf_fini(&play.accepted);
	return 0;
}
