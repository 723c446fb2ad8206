/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* base/json.h: what the scanner lets through, cJSON reads; the first byte says into what pieces the
 * text is cut. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "check.h"

static bool scan(const char *text, size_t size, size_t piece, struct error *err)
{
	struct json_scanner scanner;

	json_scanner_init(&scanner);
	for (size_t at = 0; at < size; at += piece)
		if (json_scanner_feed(
			    &scanner, text + at, size - at < piece ? size - at : piece, err) < 0)
			return false;
	CHECK(scanner.offset == size);
	return json_scanner_complete(&scanner);
}

/* What was read is the same when it is written and read again. */
static void check_round_trip(const cJSON *object)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	struct error err = ERROR_NONE;
	cJSON *again = NULL;

	json_add_value(&text, object);
	CHECK(json_parse_object(text.data, text.size, &again, &err) == 0);
	CHECK(cJSON_Compare(object, again, true));
	cJSON_Delete(again);
}

static void check_parse(const char *text, size_t size, size_t piece)
{
	struct error err = ERROR_NONE, piecewise = ERROR_NONE;
	bool complete = scan(text, size, size ? size : 1, &err);
	cJSON *object = NULL;
	int r;

	CHECK(scan(text, size, piece, &piecewise) == complete);
	CHECK(!strcmp(err.text, piecewise.text));
	r = json_parse_object(text, size, &object, &err);
	CHECK(r == 0 || r == -EINVAL);
	CHECK(r == -EINVAL || complete);
	if (r < 0) {
		CHECK(err.text[0] && err.code == EINVAL && !object);
		return;
	}
	CHECK(utf8_valid(text, size) && !memchr(text, '\0', size) &&
		json_looks_like_object(text, size));
	check_round_trip(object);
	cJSON_Delete(object);
}

static void check_string(const char *bytes, size_t size)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	struct error err = ERROR_NONE;
	cJSON *object = NULL;

	strbuf_adds(&text, "{\"s\":");
	json_add_string(&text, bytes, size);
	strbuf_adds(&text, "}");
	CHECK(utf8_valid(text.data, text.size));
	if (memchr(bytes, '\0', size))
		return; /* written as an escape that is not read again */
	CHECK(json_parse_object(text.data, text.size, &object, &err) == 0);
	if (utf8_valid(bytes, size)) {
		CHECK(strlen(object->child->valuestring) == size);
		CHECK(!memcmp(object->child->valuestring, bytes, size));
	}
	cJSON_Delete(object);
}

static void check_base64(const char *bytes, size_t size)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT, again = STRBUF_INIT;
	struct error err = ERROR_NONE;

	json_add_base64(&text, bytes, size);
	CHECK(base64_decode(text.data + 1, text.size - 2, &again, &err) == 0);
	CHECK(again.size == size && !memcmp(again.data, bytes, size));
	strbuf_clear(&again);
	strbuf_clear(&text);
	if (base64_decode(bytes, size, &again, &err) < 0)
		return;
	json_add_base64(&text, again.data, again.size);
	CHECK(text.size == size + 2 && !memcmp(text.data + 1, bytes, size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;

	if (!size)
		return 0;
	check_parse(text, size - 1, (size_t)data[0] % 16 + 1);
	check_string(text, size - 1);
	check_base64(text, size - 1);
	CHECK(!json_looks_like_object(text, size - 1) || !json_undecided(text, size - 1));
	return 0;
}
