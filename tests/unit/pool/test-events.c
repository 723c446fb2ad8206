/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "pool/events.h"

static void eventsp(struct events **events)
{
	events_destroy(*events);
}

static void jsonp(cJSON **json)
{
	cJSON_Delete(*json);
}

static const struct event lent = {
	.kind = "slot", .id = "0003", .from = "READY", .to = "LEASED", .generation = 7};

static void an_event_is_one_json_line_with_every_field(void **state)
{
	CLEANUP(eventsp) struct events *events = NULL;
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	CLEANUP(jsonp) cJSON *json = NULL;
	struct event lost = lent;

	lost.reason = REASON_SLOT_LOST;
	lost.why = "its \"init\" died";
	assert_int_equal(events_create(4, &events, NULL), 0);
	events_add(events, &lost);
	events_render(events, &text);
	assert_ptr_equal(strchr(text.data, '\n'), text.data + text.size - 1);
	assert_int_equal(json_parse_object(text.data, text.size, &json, NULL), 0);
	assert_int_equal(cJSON_GetObjectItem(json, "seq")->valueint, 1);
	assert_true(cJSON_GetObjectItem(json, "ts")->valuedouble > 1.5e9);
	assert_string_equal(cJSON_GetObjectItem(json, "kind")->valuestring, "slot");
	assert_string_equal(cJSON_GetObjectItem(json, "id")->valuestring, "0003");
	assert_string_equal(cJSON_GetObjectItem(json, "from")->valuestring, "READY");
	assert_string_equal(cJSON_GetObjectItem(json, "to")->valuestring, "LEASED");
	assert_string_equal(cJSON_GetObjectItem(json, "reason")->valuestring, "slot_lost");
	assert_int_equal(cJSON_GetObjectItem(json, "generation")->valueint, 7);
	assert_string_equal(cJSON_GetObjectItem(json, "why")->valuestring, "its \"init\" died");
}

static void the_ring_keeps_the_newest_in_order(void **state)
{
	CLEANUP(eventsp) struct events *events = NULL;
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	const char *at;

	assert_int_equal(events_create(3, &events, NULL), 0);
	for (unsigned i = 0; i < 8; i++)
		events_add(events, &lent);
	events_render(events, &text);
	at = text.data;
	for (unsigned seq = 6; seq <= 8; seq++) {
		char start[32];

		(void)snprintf(start, sizeof(start), "{\"seq\":%u,", seq);
		assert_memory_equal(at, start, strlen(start));
		at = strchr(at, '\n') + 1;
	}
	assert_int_equal(*at, '\0');
}

static void an_id_with_quotes_and_newlines_stays_one_valid_line(void **state)
{
	CLEANUP(eventsp) struct events *events = NULL;
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	CLEANUP(jsonp) cJSON *json = NULL;
	struct event odd = {.kind = "lease", .id = "a\"b\\c\nd\x01", .to = "ACTIVE"};

	assert_int_equal(events_create(1, &events, NULL), 0);
	events_add(events, &odd);
	events_render(events, &text);
	assert_ptr_equal(strchr(text.data, '\n'), text.data + text.size - 1);
	assert_int_equal(json_parse_object(text.data, text.size, &json, NULL), 0);
	assert_string_equal(cJSON_GetObjectItem(json, "id")->valuestring, odd.id);
	assert_string_equal(cJSON_GetObjectItem(json, "from")->valuestring, "");
}

static void many_commands_do_not_push_the_others_out(void **state)
{
	CLEANUP(eventsp) struct events *events = NULL;
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	const struct event command = {
		.kind = "exec", .id = "0003/1", .from = "RUNNING", .to = "EXITED"};
	const unsigned kept[] = {1, 4, 5, 6};
	const char *at;

	assert_int_equal(events_create(2, &events, NULL), 0);
	events_add(events, &lent);
	for (unsigned i = 0; i < 4; i++)
		events_add(events, &command);
	events_add(events, &lent);
	events_render(events, &text);
	at = text.data;
	for (unsigned i = 0; i < 4; i++) {
		char start[32];

		(void)snprintf(start, sizeof(start), "{\"seq\":%u,", kept[i]);
		assert_memory_equal(at, start, strlen(start));
		at = strchr(at, '\n') + 1;
	}
	assert_int_equal(*at, '\0');
}

/* The seqs of the lines, and of a gap minus how many it says were missed: "1 2 -3 6 ". */
static void seqs_of(const char *text, struct strbuf *ret_seqs)
{
	for (const char *at = text; *at; at = strchr(at, '\n') + 1) {
		CLEANUP(jsonp) cJSON *json = NULL;
		const cJSON *missed;

		assert_int_equal(
			json_parse_object(at, (size_t)(strchr(at, '\n') - at), &json, NULL), 0);
		missed = cJSON_GetObjectItem(json, "missed");
		assert_int_equal(missed != NULL,
			!strcmp(cJSON_GetObjectItem(json, "kind")->valuestring, "gap"));
		if (missed)
			strbuf_addf(ret_seqs, "-%d ", missed->valueint);
		else
			strbuf_addf(ret_seqs, "%d ", cJSON_GetObjectItem(json, "seq")->valueint);
	}
}

static void a_follower_gets_each_line_once_and_nothing_when_there_is_nothing_new(void **state)
{
	CLEANUP(eventsp) struct events *events = NULL;
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	CLEANUP(strbuf_fini) struct strbuf seqs = STRBUF_INIT;
	uint64_t next = 0;

	assert_int_equal(events_create(100, &events, NULL), 0);
	events_read(events, &next, 1, &text);
	assert_int_equal(text.size, 0);
	for (unsigned i = 0; i < 3; i++)
		events_add(events, &lent);
	events_read(events, &next, 1, &text); /* one at a time, when little is asked for */
	assert_int_equal(next, 2);
	events_read(events, &next, 65536, &text);
	events_read(events, &next, 65536, &text);
	assert_int_equal(next, 4);
	events_add(events, &lent);
	events_read(events, &next, 65536, &text);
	seqs_of(text.data, &seqs);
	assert_string_equal(seqs.data, "1 2 3 4 ");
}

static void a_follower_that_is_too_slow_is_told_how_many_lines_it_missed(void **state)
{
	CLEANUP(eventsp) struct events *events = NULL;
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	CLEANUP(strbuf_fini) struct strbuf seqs = STRBUF_INIT;
	const struct event command = {
		.kind = "exec", .id = "0003/1", .from = "RUNNING", .to = "EXITED"};
	uint64_t next = 0;

	assert_int_equal(events_create(2, &events, NULL), 0);
	events_add(events, &lent);
	events_read(events, &next, 65536, &text);
	for (unsigned i = 0; i < 4; i++) /* 2 to 5, of which 4 and 5 are kept */
		events_add(events, &command);
	for (unsigned i = 0; i < 3; i++) /* 6 to 8, of which 7 and 8 are kept */
		events_add(events, &lent);
	events_read(events, &next, 65536, &text);
	seqs_of(text.data, &seqs);
	assert_string_equal(seqs.data, "1 -2 4 5 -1 7 8 ");
}

static void who_begins_to_follow_has_missed_nothing(void **state)
{
	CLEANUP(eventsp) struct events *events = NULL;
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	CLEANUP(strbuf_fini) struct strbuf seqs = STRBUF_INIT;
	uint64_t next = 0;

	assert_int_equal(events_create(2, &events, NULL), 0);
	for (unsigned i = 0; i < 5; i++)
		events_add(events, &lent);
	events_read(events, &next, 65536, &text);
	seqs_of(text.data, &seqs);
	assert_string_equal(seqs.data, "4 5 ");
}

static void count(void *data)
{
	++*(unsigned *)data;
}

static void whoever_asked_is_told_of_each_new_line(void **state)
{
	CLEANUP(eventsp) struct events *events = NULL;
	unsigned told = 0;

	assert_int_equal(events_create(2, &events, NULL), 0);
	events_on_add(events, count, &told);
	events_add(events, &lent);
	events_add(events, &lent);
	assert_int_equal(told, 2);
	events_on_add(events, NULL, NULL);
	events_add(events, &lent);
	assert_int_equal(told, 2);
	assert_int_equal(events_count(events), 3);
}

static void no_events_render_as_nothing(void **state)
{
	CLEANUP(eventsp) struct events *events = NULL;
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	assert_int_equal(events_create(0, &events, NULL), 0);
	events_add(events, &lent);
	events_render(events, &text);
	assert_int_equal(text.size, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_is_one_json_line_with_every_field),
		cmocka_unit_test(the_ring_keeps_the_newest_in_order),
		cmocka_unit_test(an_id_with_quotes_and_newlines_stays_one_valid_line),
		cmocka_unit_test(many_commands_do_not_push_the_others_out),
		cmocka_unit_test(
			a_follower_gets_each_line_once_and_nothing_when_there_is_nothing_new),
		cmocka_unit_test(a_follower_that_is_too_slow_is_told_how_many_lines_it_missed),
		cmocka_unit_test(who_begins_to_follow_has_missed_nothing),
		cmocka_unit_test(whoever_asked_is_told_of_each_new_line),
		cmocka_unit_test(no_events_render_as_nothing),
	};

	log_set_level(LOG_LEVEL_WARN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
