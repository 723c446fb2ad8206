/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "config/settings.h"
#include "providers/sandbox.h"

static struct sandbox_spec decode(const char *text)
{
	struct sandbox_spec spec;
	struct error err = ERROR_NONE;

	if (sandbox_spec_decode(text, strlen(text), &spec, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return spec;
}

static void refuse_bytes(const char *text, size_t size, const char *why)
{
	struct sandbox_spec spec = {.service_count = 77};
	struct error err = ERROR_NONE;

	assert_int_equal(sandbox_spec_decode(text, size, &spec, &err), -EINVAL);
	assert_int_equal(err.code, EINVAL);
	if (!strstr(err.text, why))
		fail_msg("%s: '%s' does not say '%s'", text, err.text, why);
	assert_int_equal(spec.service_count, 77); /* untouched on failure */
}

static void refuse(const char *text, const char *why)
{
	refuse_bytes(text, strlen(text), why);
}

static void a_bare_line_is_a_trajectory_id(void **state)
{
	struct sandbox_spec spec = decode("traj 1/x\n");

	assert_string_equal(spec.trajectory_id, "traj 1/x");
	assert_null(spec.env_args);
	assert_int_equal(spec.service_count, 0);
	assert_true(spec.timeout_sec == 0);
	assert_true(spec.wait_sec < 0);
	sandbox_spec_fini(&spec);
	spec = decode("{x}");
	assert_string_equal(spec.trajectory_id, "{x}");
	sandbox_spec_fini(&spec);
}

static void every_field_is_read(void **state)
{
	struct sandbox_spec spec = decode(
		"{\"trajectory_id\": \"t\", \"env_type\": \"swe\", \"env_args\": {\"sandbox_image\": "
		"\"py\", \"n\": [1, {\"a\": null}]}, \"services\": [{\"name\": \"web\", \"port\": 80}, "
		"{\"name\": \"api\", \"port\": 65535, \"health_path\": \"/up\"}], \"timeout_sec\": 1.5, "
		"\"metadata\": {\"a\": \"b\"}, \"env\": {\"A\": \"\"}, \"wait\": 0}");

	assert_string_equal(spec.trajectory_id, "t");
	assert_string_equal(spec.env_type, "swe");
	assert_string_equal(sandbox_spec_image(&spec), "py");
	assert_int_equal(spec.service_count, 2);
	assert_string_equal(spec.services[0].name, "web");
	assert_string_equal(spec.services[0].health_path, "/health");
	assert_int_equal(spec.services[1].port, 65535);
	assert_string_equal(spec.services[1].health_path, "/up");
	assert_true(spec.timeout_sec == 1.5);
	assert_true(spec.wait_sec == 0);
	assert_string_equal(cJSON_GetObjectItem(spec.metadata, "a")->valuestring, "b");
	assert_string_equal(cJSON_GetObjectItem(spec.env, "A")->valuestring, "");
	sandbox_spec_fini(&spec);
}

static void null_and_empty_are_the_same_as_absent(void **state)
{
	struct sandbox_spec spec = decode(
		"{\"trajectory_id\": \"t\", \"env_type\": null, \"env_args\": null, \"services\": [], "
		"\"timeout_sec\": null, \"metadata\": {}, \"env\": null, \"wait\": null}");

	assert_null(spec.env_type);
	assert_null(spec.env_args);
	assert_null(spec.metadata);
	assert_null(spec.env);
	assert_int_equal(spec.service_count, 0);
	assert_true(spec.timeout_sec == 0);
	assert_true(spec.wait_sec < 0);
	sandbox_spec_fini(&spec);
}

static void bad_ids_are_refused(void **state)
{
	char id[302];

	refuse("", "empty");
	refuse(" \n\t\n", "empty");
	refuse("a\nb\n", "one line");
	refuse("a\xff\n", "line 1 column 2: bytes that are not UTF-8");
	refuse_bytes("a\0b\n", 4, "line 1 column 2: a NUL byte");
	refuse("{\"trajectory_id\": \"\"}", "trajectory_id");
	refuse("{\"trajectory_id\": \"a\\u0000b\"}", "column");
	refuse("{\"trajectory_id\": \"a\xff\"}", "column");
	memset(id, 'a', 300);
	id[300] = '\0';
	refuse(id, "trajectory_id");
	memset(id, '/', 100); /* 300 bytes as a name */
	id[100] = '\0';
	refuse(id, "trajectory_id");
}

static void ids_of_any_characters_are_taken(void **state)
{
	struct sandbox_spec spec = decode("{\"trajectory_id\": \"../a\\n%/\\u001b\xc3\xa9\"}");

	assert_string_equal(spec.trajectory_id, "../a\n%/\x1b\xc3\xa9");
	sandbox_spec_fini(&spec);
}

static void a_malformed_object_is_refused_with_its_place(void **state)
{
	refuse("{\"trajectory_id\": \"t\"", "line 1");
	refuse("{\"trajectory_id\": \"t\"} x", "text behind");
	refuse("{\"trajectory_id\": \"t\", \"trajectory_id\": \"u\"}", "trajectory_id");
	refuse("{\"trajectory_id\": \"t\", \"timeout_sec\": 1e999}", "");
}

static void an_unknown_key_is_refused_and_the_known_are_listed(void **state)
{
	refuse("{\"trajectory_id\": \"t\", \"timeout\": 1}", "unknown key 'timeout'");
	refuse("{\"trajectory_id\": \"t\", \"timeout\": 1}", "timeout_sec");
	refuse("{\"trajectory_id\": \"t\", \"Env\": {}}", "unknown key 'Env'");
	refuse("{}", "'trajectory_id' (a string) is missing");
	refuse("{\"trajectory_id\": null}", "'trajectory_id' (a string) is missing");
}

static void wrong_types_and_ranges_are_named(void **state)
{
	refuse("{\"trajectory_id\": 1}", "'trajectory_id' must be a string, not a number");
	refuse("{\"trajectory_id\": \"t\", \"env_type\": []}",
		"'env_type' must be a string, not a list");
	refuse("{\"trajectory_id\": \"t\", \"env_args\": \"x\"}", "'env_args' must be an object");
	refuse("{\"trajectory_id\": \"t\", \"env_args\": {\"sandbox_image\": 3}}", "sandbox_image");
	refuse("{\"trajectory_id\": \"t\", \"metadata\": {\"a\": 1}}",
		"the value of 'a' must be a string");
	refuse("{\"trajectory_id\": \"t\", \"env\": {\"a\": true}}",
		"the value of 'a' must be a string, not true");
	refuse("{\"trajectory_id\": \"t\", \"env\": {\"\": \"x\"}}", "name of a variable is empty");
	refuse("{\"trajectory_id\": \"t\", \"env\": {\"a=b\": \"x\"}}", "cannot hold '='");
	refuse("{\"trajectory_id\": \"t\", \"timeout_sec\": 0}",
		"'timeout_sec' must be a number above 0");
	refuse("{\"trajectory_id\": \"t\", \"timeout_sec\": -1}",
		"'timeout_sec' must be a number above 0");
	refuse("{\"trajectory_id\": \"t\", \"timeout_sec\": 1e10}", "at most 1000000000");
	refuse("{\"trajectory_id\": \"t\", \"timeout_sec\": \"5\"}", "not a string");
	refuse("{\"trajectory_id\": \"t\", \"wait\": -0.1}", "'wait'");
}

#define SERVICES(list) "{\"trajectory_id\": \"t\", \"services\": [" list "]}"

static void bad_services_are_named_by_number(void **state)
{
	refuse("{\"trajectory_id\": \"t\", \"services\": {}}", "'services' must be a list");
	refuse("{\"trajectory_id\": \"t\", \"services\": [{\"name\": \"\", \"port\": 1}]}",
		"number 1: 'name': a name has 1 to 255 bytes, this has 0");
	refuse(SERVICES("3"), "number 1: must be an object, not a number");
	refuse(SERVICES("{\"name\": \"a\"}"), "number 1: 'port' (a whole number) is missing");
	refuse(SERVICES("{\"port\": 1}"), "'name' (a string) is missing");
	refuse(SERVICES("{\"name\": \"\", \"port\": 1}"), "number 1: 'name': ");
	refuse(SERVICES("{\"name\": \"a\", \"port\": 0}"), "between 1 and 65535");
	refuse(SERVICES("{\"name\": \"a\", \"port\": 65536}"), "between 1 and 65535");
	refuse(SERVICES("{\"name\": \"a\", \"port\": 1.5}"), "whole number");
	refuse(SERVICES("{\"name\": \"a\", \"port\": 1, \"health_path\": \"x\"}"),
		"begin with '/'");
	refuse(SERVICES("{\"name\": \"a\", \"port\": 1, \"x\": 1}"), "unknown key 'x'");
	refuse(SERVICES("{\"name\": \"a\", \"port\": 1}, {\"name\": \"a\", \"port\": 2}"),
		"number 2");
}

static void a_service_is_not_called_as_another_port_is(void **state)
{
	struct sandbox_spec spec;

	refuse(SERVICES("{\"name\": \"8080\", \"port\": 80}"),
		"number 1: 'name' is '8080', which is what port 8080 is called among the endpoints");
	spec = decode(
		SERVICES("{\"name\": \"8080\", \"port\": 8080}, {\"name\": \"080\", \"port\": 1}, "
			 "{\"name\": \"65536\", \"port\": 2}, {\"name\": \"80a\", \"port\": 3}"));
	assert_int_equal(spec.service_count, 4);
	sandbox_spec_fini(&spec);
}

static void a_spec_is_rendered_so_that_it_reads_the_same(void **state)
{
	struct sandbox_spec spec = decode(
		"{\"env\": {\"B\": \"2\", \"A\": \"1\"}, \"timeout_sec\": 1e-7, \"trajectory_id\": "
		"\"a\\n\", \"services\": [{\"port\": 8, \"name\": \"n\"}], \"wait\": 3}");
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT, again = STRBUF_INIT;
	struct sandbox_spec second;

	sandbox_spec_render(&spec, &text);
	second = decode(text.data);
	sandbox_spec_render(&second, &again);
	assert_string_equal(text.data, again.data);
	assert_non_null(strstr(text.data,
		"\"services\":[{\"name\":\"n\",\"port\":8,\"health_path\":\"/health\"}]"));
	assert_null(strstr(text.data, "wait"));
	sandbox_spec_fini(&second);
	assert_int_equal(sandbox_spec_copy(&spec, &second, NULL), 0);
	strbuf_clear(&again);
	sandbox_spec_render(&second, &again);
	assert_string_equal(text.data, again.data);
	sandbox_spec_fini(&second);
	sandbox_spec_fini(&spec);
}

static void check_difference(const char *live, const char *asked, const char *field)
{
	struct sandbox_spec a = decode(live), b = decode(asked);
	const char *found = sandbox_spec_difference(&a, &b);

	if (field)
		assert_string_equal(found, field);
	else
		assert_null(found);
	sandbox_spec_fini(&a);
	sandbox_spec_fini(&b);
}

static void only_what_is_asked_for_can_differ(void **state)
{
	const char *live =
		"{\"trajectory_id\": \"t\", \"env\": {\"A\": \"1\", \"B\": \"2\"}, \"env_type\": \"e\", "
		"\"env_args\": {\"sandbox_image\": \"i\"}, \"services\": [{\"name\": \"n\", \"port\": 8}]}";

	check_difference(live, "t", NULL);
	check_difference(live, live, NULL);
	check_difference(
		live, "{\"trajectory_id\": \"t\", \"env\": {\"B\": \"2\", \"A\": \"1\"}}", NULL);
	check_difference(live,
		"{\"trajectory_id\": \"t\", \"timeout_sec\": 4, \"metadata\": {\"a\": \"b\"}}",
		NULL);
	check_difference(live, "{\"trajectory_id\": \"t\", \"env\": {\"A\": \"1\"}}", "env");
	check_difference(live, "{\"trajectory_id\": \"t\", \"env_type\": \"f\"}", "env_type");
	check_difference(live,
		"{\"trajectory_id\": \"t\", \"env_args\": {\"sandbox_image\": \"j\"}}",
		"env_args.sandbox_image");
	check_difference("t",
		"{\"trajectory_id\": \"t\", \"env_args\": {\"sandbox_image\": \"j\"}}",
		"env_args.sandbox_image");
	check_difference("t", "{\"trajectory_id\": \"t\", \"env\": {\"A\": \"1\"}}", "env");
	check_difference(live,
		"{\"trajectory_id\": \"t\", \"services\": [{\"name\": \"n\", \"port\": 9}]}",
		"services");
}

static void check_local(const char *text, const struct config *config, int code, enum reason reason,
	const char *why)
{
	struct sandbox_spec spec = decode(text);
	struct error err = ERROR_NONE;

	assert_int_equal(sandbox_spec_check_local(&spec, config, &err), -code);
	if (code) {
		assert_int_equal(err.reason, reason);
		if (!strstr(err.text, why))
			fail_msg("'%s' does not say '%s'", err.text, why);
	}
	sandbox_spec_fini(&spec);
}

static void a_pool_refuses_what_it_can_never_serve(void **state)
{
	char *images[] = {(char[]){"py=/srv/py"}, (char[]){"go=/srv/go"}, NULL};
	struct config config = {.pool.mode = POOL_COMMAND_ONLY, .images = {images, 2}};
	const char *white =
		"{\"trajectory_id\": \"t\", \"metadata\": {\"paddock_mode\": \"whitebox\"}}";
	const char *black =
		"{\"trajectory_id\": \"t\", \"metadata\": {\"paddock_mode\": \"blackbox\"}}";
	const char *service =
		"{\"trajectory_id\": \"t\", \"services\": [{\"name\": \"web\", \"port\": 8}]}";

	check_local("t", &config, 0, REASON_NONE, NULL);
	check_local(white, &config, 0, REASON_NONE, NULL);
	check_local(black, &config, EPROTOTYPE, REASON_MODE_MISMATCH, "command_only");
	check_local(service, &config, EINVAL, REASON_NONE, "network is none");
	check_local("{\"trajectory_id\": \"t\", \"env_args\": {\"sandbox_image\": \"p\"}}", &config,
		EINVAL, REASON_UNKNOWN_IMAGE, "no image 'p' in [images], which has py, go;");
	check_local("{\"trajectory_id\": \"t\", \"env_args\": {\"sandbox_image\": \"py\"}}",
		&config, 0, REASON_NONE, NULL);
	config.pool.mode = POOL_BLACKBOX;
	config.slot.network = NETWORK_HOST;
	check_local(black, &config, 0, REASON_NONE, NULL);
	check_local(white, &config, EPROTOTYPE, REASON_MODE_MISMATCH, "mode blackbox");
	check_local(service, &config, 0, REASON_NONE, NULL);
}

static void assert_completes(const char *asked_text, const char *former_text, const char *text)
{
	struct sandbox_spec asked = decode(asked_text), former = decode(former_text), spec;
	CLEANUP(strbuf_fini) struct strbuf rendered = STRBUF_INIT;
	struct error err = ERROR_NONE;

	assert_int_equal(sandbox_spec_complete(&asked, &former, &spec, &err), 0);
	sandbox_spec_render(&spec, &rendered);
	assert_string_equal(rendered.data, text);
	sandbox_spec_fini(&spec);
	sandbox_spec_fini(&former);
	sandbox_spec_fini(&asked);
}

static void what_is_taken_again_is_what_it_was_but_for_what_is_asked(void **state)
{
	const char *former =
		"{\"trajectory_id\":\"t\",\"env_type\":\"swe\",\"env_args\":{\"sandbox_image\":\"py\",\"n\":1},"
		"\"services\":[{\"name\":\"web\",\"port\":80,\"health_path\":\"/health\"}],\"timeout_sec\":60,"
		"\"metadata\":{\"a\":\"b\"},\"env\":{\"X\":\"1\"}}";

	assert_completes("t", former, former);
	assert_completes("{\"trajectory_id\":\"t\",\"env_args\":{\"m\":2}}",
		"{\"trajectory_id\":\"t\",\"env_args\":{\"sandbox_image\":\"py\",\"n\":1}}",
		"{\"trajectory_id\":\"t\",\"env_args\":{\"m\":2,\"sandbox_image\":\"py\"}}");
	assert_completes("{\"trajectory_id\":\"t\",\"env_args\":{\"sandbox_image\":\"go\"}}",
		"{\"trajectory_id\":\"t\",\"env_args\":{\"sandbox_image\":\"py\"},\"env\":{\"X\":\"1\"}}",
		"{\"trajectory_id\":\"t\",\"env_args\":{\"sandbox_image\":\"go\"},\"env\":{\"X\":\"1\"}}");
	assert_completes("{\"trajectory_id\":\"t\",\"timeout_sec\":5,\"env\":{\"X\":\"2\"}}",
		"{\"trajectory_id\":\"t\",\"timeout_sec\":60,\"env\":{\"X\":\"1\"}}",
		"{\"trajectory_id\":\"t\",\"timeout_sec\":5,\"env\":{\"X\":\"2\"}}");
	assert_completes("t", "t", "{\"trajectory_id\":\"t\"}");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bare_line_is_a_trajectory_id),
		cmocka_unit_test(every_field_is_read),
		cmocka_unit_test(null_and_empty_are_the_same_as_absent),
		cmocka_unit_test(bad_ids_are_refused),
		cmocka_unit_test(ids_of_any_characters_are_taken),
		cmocka_unit_test(a_malformed_object_is_refused_with_its_place),
		cmocka_unit_test(an_unknown_key_is_refused_and_the_known_are_listed),
		cmocka_unit_test(wrong_types_and_ranges_are_named),
		cmocka_unit_test(bad_services_are_named_by_number),
		cmocka_unit_test(a_service_is_not_called_as_another_port_is),
		cmocka_unit_test(a_spec_is_rendered_so_that_it_reads_the_same),
		cmocka_unit_test(only_what_is_asked_for_can_differ),
		cmocka_unit_test(what_is_taken_again_is_what_it_was_but_for_what_is_asked),
		cmocka_unit_test(a_pool_refuses_what_it_can_never_serve),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
