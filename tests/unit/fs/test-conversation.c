/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/cleanup.h"
#include "fs/conversation.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OPENER = 100, CHILD = 101 };

struct talk {
	struct conversation conversation;
	struct error err;
	const char *bytes;
	size_t size;
};

static void begin(struct talk *talk, enum conversation_kind kind)
{
	*talk = (struct talk){.err = ERROR_NONE};
	conversation_init(&talk->conversation, kind, OPENER);
}

static void end(struct talk *talk)
{
	conversation_fini(&talk->conversation);
}

static int say(struct talk *talk, const char *text)
{
	return conversation_write(&talk->conversation, text, strlen(text), false, &talk->err);
}

static int say_bytes(struct talk *talk, const char *bytes, size_t size)
{
	return conversation_write(&talk->conversation, bytes, size, false, &talk->err);
}

static int hear(struct talk *talk, uint64_t offset, size_t size)
{
	return conversation_read(
		&talk->conversation, offset, size, &talk->bytes, &talk->size, &talk->err);
}

static int flush_by(struct talk *talk, pid_t process)
{
	return conversation_flush(&talk->conversation, process, false, &talk->err);
}

static int flush_dying(struct talk *talk, pid_t process)
{
	return conversation_flush(&talk->conversation, process, true, &talk->err);
}

static void answer(struct talk *talk, const char *text)
{
	struct strbuf reply = STRBUF_INIT;

	strbuf_adds(&reply, text);
	assert_true(conversation_answer(&talk->conversation, talk->conversation.turn, &reply));
}

static void assert_request(struct talk *talk, const char *text)
{
	const struct strbuf *request = conversation_request(&talk->conversation);

	assert_int_equal(request->size, strlen(text));
	assert_string_equal(request->data, text);
}

static void assert_heard(struct talk *talk, uint64_t offset, size_t size, const char *text)
{
	assert_int_equal(hear(talk, offset, size), CONVERSATION_REPLY);
	assert_int_equal(talk->size, strlen(text));
	assert_memory_equal(talk->bytes, text, talk->size);
}

static void a_lent_reply_is_shown_until_the_next_request(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf reply = STRBUF_INIT;
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	strbuf_adds(&reply, "lent\n");
	assert_int_equal(say(&talk, "a"), 0);
	assert_int_equal(hear(&talk, 1, 4096), CONVERSATION_COMMIT);
	assert_false(conversation_lend(&talk.conversation, talk.conversation.turn + 1, &reply));
	assert_true(conversation_lend(&talk.conversation, talk.conversation.turn, &reply));
	assert_heard(&talk, 1, 2, "le");
	assert_ptr_equal(talk.bytes, reply.data);
	assert_heard(&talk, 3, 4096, "nt\n");
	assert_int_equal(say(&talk, "b"), 0);
	assert_int_equal(hear(&talk, 0, 4096), CONVERSATION_COMMIT);
	answer(&talk, "own\n");
	assert_heard(&talk, 0, 4096, "own\n");
	end(&talk);
}

/* commit */

static void a_script_runs_once_when_the_reply_is_read(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "echo a\n"), 0);
	assert_int_equal(say(&talk, "echo b\n"), 0);
	assert_int_equal(hear(&talk, 0, 4096), CONVERSATION_COMMIT);
	assert_request(&talk, "echo a\necho b\n");
	assert_int_equal(hear(&talk, 0, 4096), CONVERSATION_WAIT);
	answer(&talk, "{}\n");
	assert_heard(&talk, 0, 4096, "{}\n");
	assert_int_equal(conversation_release(&talk.conversation, &talk.err), 0);
	end(&talk);
}

static void fsync_commits_once(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(conversation_fsync(&talk.conversation, &talk.err), 0);
	assert_int_equal(say(&talk, "make"), 0);
	assert_int_equal(conversation_fsync(&talk.conversation, &talk.err), CONVERSATION_COMMIT);
	assert_request(&talk, "make");
	assert_int_equal(conversation_fsync(&talk.conversation, &talk.err), 0);
	assert_int_equal(flush_by(&talk, OPENER), 0);
	end(&talk);
}

static void a_shell_flushes_before_it_writes_and_that_commits_nothing(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_false(conversation_pending(&talk.conversation));
	assert_int_equal(flush_by(&talk, OPENER), 0);
	assert_int_equal(say(&talk, "a\n"), 0);
	assert_true(conversation_pending(&talk.conversation));
	assert_int_equal(flush_by(&talk, OPENER), CONVERSATION_COMMIT);
	assert_int_equal(conversation_release(&talk.conversation, &talk.err), 0);
	end(&talk);
}

static void each_child_of_a_group_flushes_and_only_the_opener_commits(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "a\n"), 0);
	assert_int_equal(flush_by(&talk, CHILD), 0);
	assert_int_equal(say(&talk, "b\n"), 0);
	assert_int_equal(flush_by(&talk, CHILD + 1), 0);
	assert_int_equal(flush_by(&talk, OPENER), CONVERSATION_COMMIT);
	assert_request(&talk, "a\nb\n");
	end(&talk);
}

static void release_commits_what_no_opener_flushed(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "a\n"), 0);
	assert_int_equal(flush_by(&talk, CHILD), 0);
	assert_int_equal(conversation_release(&talk.conversation, &talk.err), CONVERSATION_COMMIT);
	assert_request(&talk, "a\n");
	end(&talk);
}

static void a_flush_from_a_pid_namespace_we_cannot_see_leaves_it_to_release(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	talk.conversation.opener = 0;
	assert_int_equal(say(&talk, "a\n"), 0);
	assert_int_equal(flush_by(&talk, 0), 0);
	assert_int_equal(conversation_release(&talk.conversation, &talk.err), CONVERSATION_COMMIT);
	end(&talk);
}

static void each_echo_to_a_kept_descriptor_is_a_request_of_its_own(void **state)
{
	struct talk talk;
	struct strbuf late = STRBUF_INIT;
	uint64_t first;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "a\n"), 0);
	assert_int_equal(flush_by(&talk, OPENER), CONVERSATION_COMMIT);
	first = talk.conversation.turn;
	assert_int_equal(say(&talk, "b\n"), 0);
	assert_int_equal(flush_by(&talk, OPENER), CONVERSATION_COMMIT);
	assert_request(&talk, "b\n");
	assert_int_equal(hear(&talk, 4, 100), CONVERSATION_WAIT);
	strbuf_adds(&late, "A\n");
	assert_false(conversation_answer(&talk.conversation, first, &late));
	assert_int_equal(late.size, 0);
	assert_int_equal(hear(&talk, 4, 100), CONVERSATION_WAIT);
	answer(&talk, "B\n");
	assert_heard(&talk, 4, 100, "B\n");
	end(&talk);
}

/* what the bytes are */

static const struct {
	const char *text;
	bool json;
} forms[] = {
	{"{}", true},
	{"{ \"command\": \"x\" }", true},
	{" \n{\n\"command\":\"x\"}", true},
	{"{ echo a; }", false},
	{"[ -f x ]", false},
	{"true", false},
	{"123", false},
	{"{", false},
	{"{ \n", false},
	{"\n\n", false},
	{"{(echo)}", false},
};

static void json_is_told_from_text_however_it_is_cut(void **state)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		for (size_t piece = 1; piece <= strlen(forms[i].text); piece++) {
			size_t size = strlen(forms[i].text);
			struct talk talk;

			begin(&talk, CONVERSATION_SCRIPT);
			for (size_t at = 0; at < size; at += piece)
				assert_int_equal(say_bytes(&talk, forms[i].text + at,
							 size - at < piece ? size - at : piece),
					0);
			assert_int_equal(hear(&talk, 0, 10), CONVERSATION_COMMIT);
			assert_int_equal(
				conversation_request_is_json(&talk.conversation), forms[i].json);
			assert_request(&talk, forms[i].text);
			end(&talk);
		}
}

static void a_character_may_be_split_over_writes(void **state)
{
	static const char text[] = "echo \xf0\x9f\x90\x8e\xc3\xa9";
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	for (size_t i = 0; i < sizeof(text) - 1; i++)
		assert_int_equal(say_bytes(&talk, text + i, 1), 0);
	assert_int_equal(hear(&talk, 0, 10), CONVERSATION_COMMIT);
	assert_request(&talk, text);
	end(&talk);
}

static void what_is_malformed_is_refused_by_its_write(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
		const char *why;
	} cases[] = {
		{"ab\0c", 4, "byte 3 of the request is a NUL"},
		{"ab\xff", 3, "byte 3 of the request is not UTF-8"},
		{"ab\xc3(", 4, "byte 3 of the request is not UTF-8"},
		{"\xed\xa0\x80", 3, "byte 1 of the request is not UTF-8"},
		{"{\"a\":1} x", 9, "line 1 column 9: text behind the JSON object"},
		{"{\"a\":\"\\u0000\"}", 14, "line 1 column 12: \\u0000 is not allowed"},
		{"{\"a\":\0", 6, "line 1 column 6: a NUL byte"},
		{"{\"\xff", 3, "line 1 column 3: not UTF-8"},
		{"\n{\n\"a\" 1", 8, "line 3 column 5: ':' is expected here"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct talk talk;

		begin(&talk, CONVERSATION_SCRIPT);
		assert_int_equal(say_bytes(&talk, cases[i].bytes, cases[i].size), -EINVAL);
		assert_string_equal(talk.err.text, cases[i].why);
		assert_int_equal(conversation_release(&talk.conversation, &talk.err), 0);
		end(&talk);
	}
}

static void the_place_counts_from_the_first_write(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "abc\xc3"), 0);
	assert_int_equal(say(&talk, "x"), -EINVAL);
	assert_string_equal(talk.err.text, "byte 4 of the request is not UTF-8");
	end(&talk);
	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "abc"), 0);
	assert_int_equal(say_bytes(&talk, "d\0", 2), -EINVAL);
	assert_string_equal(talk.err.text, "byte 5 of the request is a NUL");
	end(&talk);
}

static void an_incomplete_request_fails_where_it_would_have_been_committed(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "{\"command\":"), 0);
	assert_int_equal(hear(&talk, 11, 100), -EINVAL);
	assert_string_equal(talk.err.text, "the JSON object ends too early");
	assert_heard(&talk, 11, 100,
		"{\"error\":{\"code\":\"EINVAL\",\"message\":\"the JSON object ends too early\"}}\n");
	end(&talk);

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "echo \xc3"), 0);
	assert_int_equal(flush_by(&talk, OPENER), -EINVAL);
	assert_string_equal(talk.err.text, "the request ends within a character");
	assert_int_equal(conversation_release(&talk.conversation, &talk.err), 0);
	end(&talk);

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "{\""), 0);
	assert_int_equal(conversation_release(&talk.conversation, &talk.err), -EINVAL);
	end(&talk);
}

/* refusal */

static void the_rest_of_a_refused_request_is_refused_as_well(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "rm -rf build\n"), 0);
	assert_int_equal(say(&talk, "\xff\n"), -EINVAL);
	assert_int_equal(say(&talk, "make\n"), -EINVAL);
	assert_int_equal(flush_by(&talk, CHILD), 0);
	assert_int_equal(say(&talk, "make\n"), -EINVAL);
	assert_int_equal(flush_by(&talk, OPENER), -EINVAL);
	assert_int_equal(conversation_release(&talk.conversation, &talk.err), 0);
	end(&talk);
}

static void a_refusal_is_over_when_its_end_was_told(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "\xff"), -EINVAL);
	assert_heard(&talk, 1, 4096,
		"{\"error\":{\"code\":\"EINVAL\",\"message\":\"byte 1 of the request is not UTF-8\"}}\n");
	assert_int_equal(say(&talk, "a"), 0);
	assert_int_equal(conversation_fsync(&talk.conversation, &talk.err), CONVERSATION_COMMIT);
	assert_int_equal(say(&talk, "\xff"), -EINVAL);
	assert_int_equal(conversation_fsync(&talk.conversation, &talk.err), -EINVAL);
	assert_int_equal(say(&talk, "b"), 0);
	assert_int_equal(flush_by(&talk, OPENER), CONVERSATION_COMMIT);
	assert_request(&talk, "b");
	end(&talk);
}

static void more_than_four_mebibytes_are_refused_to_the_last_byte(void **state)
{
	struct talk talk;
	size_t size = 1024 * 1024;
	char *text = malloc(size);

	assert_non_null(text);
	memset(text, '#', size);
	begin(&talk, CONVERSATION_SCRIPT);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(say_bytes(&talk, text, size), 0);
	assert_int_equal(say_bytes(&talk, text, 1), -EFBIG);
	assert_int_equal(say_bytes(&talk, text, size), -EFBIG);
	assert_int_equal(flush_by(&talk, OPENER), -EFBIG);
	end(&talk);

	begin(&talk, CONVERSATION_SCRIPT);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(say_bytes(&talk, text, size), 0);
	assert_int_equal(flush_by(&talk, OPENER), CONVERSATION_COMMIT);
	assert_int_equal(conversation_request(&talk.conversation)->size, 4 * size);
	end(&talk);
	free(text);
}

/* half a script */

static void a_writer_killed_in_mid_script_runs_nothing(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "rm -rf /tmp/x"), 0);
	assert_int_equal(flush_dying(&talk, OPENER), -ECANCELED);
	assert_non_null(strstr(talk.err.text, "was killed"));
	assert_int_equal(talk.err.reason, REASON_CANCELLED);
	assert_int_equal(conversation_release(&talk.conversation, &talk.err), 0);
	end(&talk);
}

static void what_follows_a_killed_writer_in_its_group_is_not_a_script_of_its_own(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "cd build\n"), 0);
	assert_int_equal(flush_dying(&talk, CHILD), -ECANCELED);
	assert_int_equal(say(&talk, "rm -rf *\n"), -ECANCELED);
	assert_int_equal(flush_by(&talk, OPENER), -ECANCELED);
	/* told: from here on it is another request */
	assert_int_equal(say(&talk, "ls\n"), 0);
	assert_int_equal(flush_by(&talk, OPENER), CONVERSATION_COMMIT);
	assert_request(&talk, "ls\n");
	end(&talk);
}

static void a_process_that_dies_with_nothing_pending_drops_nothing(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(flush_dying(&talk, CHILD), 0);
	assert_int_equal(say(&talk, "make\n"), 0);
	assert_int_equal(hear(&talk, 5, 100), CONVERSATION_COMMIT);
	assert_int_equal(flush_dying(&talk, CHILD), 0);
	answer(&talk, "{}\n");
	assert_int_equal(flush_dying(&talk, CHILD), 0);
	assert_heard(&talk, 5, 100, "{}\n");
	end(&talk);
}

/* truncation */

static void truncation_drops_only_pending_input(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	conversation_truncate(&talk.conversation);
	assert_int_equal(say(&talk, "a"), 0);
	conversation_truncate(&talk.conversation);
	assert_int_equal(conversation_release(&talk.conversation, &talk.err), 0);
	assert_int_equal(say(&talk, "\xff"), -EINVAL);
	conversation_truncate(&talk.conversation);
	assert_int_equal(say(&talk, "b"), 0);
	assert_int_equal(hear(&talk, 0, 1), CONVERSATION_COMMIT);
	conversation_truncate(&talk.conversation);
	answer(&talk, "B\n");
	conversation_truncate(&talk.conversation);
	assert_heard(&talk, 0, 10, "B\n");
	end(&talk);
}

/* lines and verbs */

static void a_verb_is_done_by_the_write_that_brings_its_newline(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_VERB);
	assert_int_equal(flush_by(&talk, OPENER), 0);
	assert_int_equal(say(&talk, "6"), 0);
	assert_int_equal(say(&talk, "0"), 0);
	assert_int_equal(say(&talk, "\n"), CONVERSATION_COMMIT);
	assert_request(&talk, "60");
	answer(&talk, "{}\n");
	assert_int_equal(flush_by(&talk, OPENER), 0);
	assert_int_equal(conversation_release(&talk.conversation, &talk.err), 0);
	end(&talk);
}

static void a_verb_without_a_newline_is_committed_like_the_rest(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_VERB);
	assert_int_equal(say(&talk, "drain"), 0);
	assert_int_equal(flush_by(&talk, OPENER), CONVERSATION_COMMIT);
	assert_request(&talk, "drain");
	end(&talk);
}

static void an_empty_line_is_a_request_of_a_verb(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_VERB);
	assert_int_equal(say(&talk, "\n"), CONVERSATION_COMMIT);
	assert_request(&talk, "");
	end(&talk);
}

static void a_newline_inside_an_object_does_not_end_a_verb(void **state)
{
	static const char *const lines[] = {"{\n", "\"verb\":\n", "\"drain\"\n", "}"};
	struct talk talk;

	begin(&talk, CONVERSATION_VERB);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(say(&talk, lines[i]), 0);
	assert_int_equal(say(&talk, "\n"), CONVERSATION_COMMIT);
	assert_true(conversation_request_is_json(&talk.conversation));
	assert_request(&talk, "{\n\"verb\":\n\"drain\"\n}\n");
	end(&talk);

	begin(&talk, CONVERSATION_VERB);
	assert_int_equal(say(&talk, "{\"verb\":{\n}}"), 0);
	assert_int_equal(flush_by(&talk, OPENER), CONVERSATION_COMMIT);
	end(&talk);

	begin(&talk, CONVERSATION_VERB);
	assert_int_equal(say(&talk, "{\"verb\":\"drain\"}\n"), CONVERSATION_COMMIT);
	end(&talk);
}

static void a_brace_and_a_newline_wait_for_what_follows(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_VERB);
	assert_int_equal(say(&talk, "{\n"), 0);
	assert_int_equal(say(&talk, "x"), -EINVAL);
	assert_string_equal(talk.err.text, "the request has more than one line");
	end(&talk);

	begin(&talk, CONVERSATION_LINE);
	assert_int_equal(say(&talk, "\n"), 0);
	assert_int_equal(say(&talk, "{"), 0);
	assert_int_equal(say(&talk, "}"), 0);
	assert_int_equal(flush_by(&talk, OPENER), CONVERSATION_COMMIT);
	assert_true(conversation_request_is_json(&talk.conversation));
	end(&talk);
}

static void two_lines_are_not_one_request_of_a_line_file(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_LINE);
	assert_int_equal(say(&talk, "traj-1\n"), 0);
	assert_int_equal(say(&talk, "\n \n"), 0);
	assert_int_equal(say(&talk, "traj-2\n"), -EINVAL);
	assert_int_equal(flush_by(&talk, OPENER), -EINVAL);
	end(&talk);

	begin(&talk, CONVERSATION_VERB);
	assert_int_equal(say(&talk, "drain\nundrain\n"), -EINVAL);
	end(&talk);
}

static void a_line_waits_for_its_end_and_loses_its_newline(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_LINE);
	assert_int_equal(say(&talk, " traj 1 \r\n"), 0);
	assert_int_equal(hear(&talk, 10, 100), CONVERSATION_COMMIT);
	assert_request(&talk, " traj 1 ");
	end(&talk);
}

/* replies */

static void every_way_of_reading_back_starts_at_the_reply_s_first_byte(void **state)
{
	struct talk talk;

	/* bash 3<>: goes on where the write ended */
	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "make\n"), 0);
	assert_int_equal(hear(&talk, 5, 4), CONVERSATION_COMMIT);
	answer(&talk, "0123456789");
	assert_heard(&talk, 5, 4, "0123");
	assert_heard(&talk, 9, 4, "4567");
	assert_heard(&talk, 13, 4, "89");
	assert_heard(&talk, 15, 4, "");
	assert_heard(&talk, 4000, 4, "");
	/* seek(0) afterwards */
	assert_heard(&talk, 0, 6, "012345");
	assert_heard(&talk, 6, 6, "6789");
	end(&talk);

	/* seek(0) or pread(0) at first */
	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "make\n"), 0);
	assert_int_equal(flush_by(&talk, OPENER), CONVERSATION_COMMIT);
	answer(&talk, "0123456789");
	assert_heard(&talk, 0, 6, "012345");
	assert_heard(&talk, 6, 6, "6789");
	end(&talk);
}

static void a_reader_who_wrote_nothing_reads_at_the_offset_he_says(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(hear(&talk, 4, 3), CONVERSATION_ASK);
	answer(&talk, "0123456789");
	assert_heard(&talk, 4, 3, "456");
	assert_heard(&talk, 0, 3, "012");
	end(&talk);
}

static void a_write_after_the_reply_begins_anew(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "a"), 0);
	assert_int_equal(hear(&talk, 1, 2), CONVERSATION_COMMIT);
	answer(&talk, "AAAA");
	assert_heard(&talk, 1, 2, "AA");
	assert_int_equal(say(&talk, "b"), 0);
	assert_int_equal(hear(&talk, 4, 10), CONVERSATION_COMMIT);
	assert_request(&talk, "b");
	answer(&talk, "BB");
	assert_heard(&talk, 4, 10, "BB");
	assert_heard(&talk, 6, 10, "");
	end(&talk);
}

static void a_write_while_a_read_waits_is_refused_and_changes_nothing(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "a"), 0);
	assert_int_equal(hear(&talk, 1, 10), CONVERSATION_COMMIT);
	assert_int_equal(conversation_write(&talk.conversation, "b", 1, true, &talk.err), -EBUSY);
	assert_int_equal(hear(&talk, 1, 10), CONVERSATION_WAIT);
	answer(&talk, "A");
	assert_heard(&talk, 1, 10, "A");
	end(&talk);
}

static void a_restarted_read_gets_its_own_command_s_result(void **state)
{
	struct talk talk;
	uint64_t turn;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "sleep 100"), 0);
	assert_int_equal(hear(&talk, 9, 100), CONVERSATION_COMMIT);
	turn = talk.conversation.turn;
	/* interrupted, and the kernel asks again */
	assert_int_equal(hear(&talk, 9, 100), CONVERSATION_WAIT);
	assert_int_equal(talk.conversation.turn, turn);
	answer(&talk, "cancelled\n");
	assert_heard(&talk, 9, 100, "cancelled\n");
	end(&talk);
}

static void a_read_without_a_request_asks_once(void **state)
{
	struct talk talk;
	uint64_t turn;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(hear(&talk, 0, 100), CONVERSATION_ASK);
	turn = talk.conversation.turn;
	assert_int_equal(hear(&talk, 0, 100), CONVERSATION_WAIT);
	answer(&talk, "last\n");
	assert_heard(&talk, 0, 100, "last\n");
	assert_heard(&talk, 5, 100, "");
	assert_int_equal(talk.conversation.turn, turn);
	assert_int_equal(conversation_release(&talk.conversation, &talk.err), 0);
	end(&talk);
}

static void an_unread_reply_or_pending_input_is_unsettled(void **state)
{
	struct talk talk;

	begin(&talk, CONVERSATION_SCRIPT);
	assert_false(conversation_unsettled(&talk.conversation));
	assert_int_equal(say(&talk, "a"), 0);
	assert_true(conversation_unsettled(&talk.conversation));
	assert_int_equal(flush_by(&talk, OPENER), CONVERSATION_COMMIT);
	assert_true(conversation_unsettled(&talk.conversation));
	answer(&talk, "AB");
	assert_true(conversation_unsettled(&talk.conversation));
	assert_heard(&talk, 1, 1, "A");
	assert_true(conversation_unsettled(&talk.conversation));
	assert_heard(&talk, 2, 1, "B");
	assert_false(conversation_unsettled(&talk.conversation));
	assert_int_equal(say(&talk, "\xff"), -EINVAL);
	assert_true(conversation_unsettled(&talk.conversation));
	conversation_truncate(&talk.conversation);
	assert_false(conversation_unsettled(&talk.conversation));
	end(&talk);
}

static void an_error_reply_names_code_reason_and_message(void **state)
{
	struct strbuf out = STRBUF_INIT;
	struct error err;

	(void)error_reason(&err, EAGAIN, REASON_POOL_EXHAUSTED, "no \"slot\" is free");
	conversation_render_error(&err, &out);
	assert_string_equal(out.data,
		"{\"error\":{\"code\":\"EAGAIN\",\"reason\":\"pool_exhausted\",\"message\":\"no \\\"slot\\\" is free\"}}\n");
	strbuf_fini(&out);
}

static void an_ended_or_zeroed_conversation_can_be_ended_again(void **state)
{
	struct conversation zeroed = {0};
	struct talk talk;

	conversation_fini(NULL);
	conversation_fini(&zeroed);
	begin(&talk, CONVERSATION_SCRIPT);
	assert_int_equal(say(&talk, "a"), 0);
	end(&talk);
	end(&talk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lent_reply_is_shown_until_the_next_request),
		cmocka_unit_test(a_script_runs_once_when_the_reply_is_read),
		cmocka_unit_test(fsync_commits_once),
		cmocka_unit_test(a_shell_flushes_before_it_writes_and_that_commits_nothing),
		cmocka_unit_test(each_child_of_a_group_flushes_and_only_the_opener_commits),
		cmocka_unit_test(release_commits_what_no_opener_flushed),
		cmocka_unit_test(a_flush_from_a_pid_namespace_we_cannot_see_leaves_it_to_release),
		cmocka_unit_test(each_echo_to_a_kept_descriptor_is_a_request_of_its_own),
		cmocka_unit_test(json_is_told_from_text_however_it_is_cut),
		cmocka_unit_test(a_character_may_be_split_over_writes),
		cmocka_unit_test(what_is_malformed_is_refused_by_its_write),
		cmocka_unit_test(the_place_counts_from_the_first_write),
		cmocka_unit_test(an_incomplete_request_fails_where_it_would_have_been_committed),
		cmocka_unit_test(the_rest_of_a_refused_request_is_refused_as_well),
		cmocka_unit_test(a_refusal_is_over_when_its_end_was_told),
		cmocka_unit_test(more_than_four_mebibytes_are_refused_to_the_last_byte),
		cmocka_unit_test(a_writer_killed_in_mid_script_runs_nothing),
		cmocka_unit_test(
			what_follows_a_killed_writer_in_its_group_is_not_a_script_of_its_own),
		cmocka_unit_test(a_process_that_dies_with_nothing_pending_drops_nothing),
		cmocka_unit_test(truncation_drops_only_pending_input),
		cmocka_unit_test(a_verb_is_done_by_the_write_that_brings_its_newline),
		cmocka_unit_test(a_verb_without_a_newline_is_committed_like_the_rest),
		cmocka_unit_test(an_empty_line_is_a_request_of_a_verb),
		cmocka_unit_test(a_newline_inside_an_object_does_not_end_a_verb),
		cmocka_unit_test(a_brace_and_a_newline_wait_for_what_follows),
		cmocka_unit_test(two_lines_are_not_one_request_of_a_line_file),
		cmocka_unit_test(a_line_waits_for_its_end_and_loses_its_newline),
		cmocka_unit_test(every_way_of_reading_back_starts_at_the_reply_s_first_byte),
		cmocka_unit_test(a_reader_who_wrote_nothing_reads_at_the_offset_he_says),
		cmocka_unit_test(a_write_after_the_reply_begins_anew),
		cmocka_unit_test(a_write_while_a_read_waits_is_refused_and_changes_nothing),
		cmocka_unit_test(a_restarted_read_gets_its_own_command_s_result),
		cmocka_unit_test(a_read_without_a_request_asks_once),
		cmocka_unit_test(an_unread_reply_or_pending_input_is_unsettled),
		cmocka_unit_test(an_error_reply_names_code_reason_and_message),
		cmocka_unit_test(an_ended_or_zeroed_conversation_can_be_ended_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
