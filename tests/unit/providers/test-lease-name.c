/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "providers/lease-name.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

static const struct {
	const char *id, *name;
} pairs[] = {
	{"traj-1", "traj-1"},
	{"a.b", "a.b"},
	{".", "%2E"},
	{"..", "%2E."},
	{".hidden", "%2Ehidden"},
	{"../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd"},
	{"a/b", "a%2Fb"},
	{"100%", "100%25"},
	{"%41", "%2541"},
	{"a\nb", "a%0Ab"},
	{"\x01\x1f\x7f", "%01%1F%7F"},
	{" a b ", " a b "},
	{"caf\xc3\xa9 \xf0\x9f\x90\x8e", "caf\xc3\xa9 \xf0\x9f\x90\x8e"},
	{"\xc2\x80", "\xc2\x80"},
	{"a\\b:*?\"<>|", "a\\b:*?\"<>|"},
	{"leases", "leases"},
};

static void an_id_and_its_name_go_both_ways(void **state)
{
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		char name[LEASE_NAME_MAX + 1], id[LEASE_NAME_MAX + 1];
		struct error err = ERROR_NONE;

		assert_int_equal(
			lease_name_encode(pairs[i].id, strlen(pairs[i].id), name, &err), 0);
		assert_string_equal(name, pairs[i].name);
		assert_int_equal(lease_name_decode(name, id, &err), 0);
		assert_string_equal(id, pairs[i].id);
	}
}

static void every_single_byte_id_has_a_name_without_slash_or_dot(void **state)
{
	for (unsigned c = 1; c < 0x80; c++) {
		char in = (char)c, name[LEASE_NAME_MAX + 1], id[LEASE_NAME_MAX + 1];
		struct error err = ERROR_NONE;

		assert_int_equal(lease_name_encode(&in, 1, name, &err), 0);
		assert_null(strchr(name, '/'));
		assert_int_not_equal(name[0], '.');
		assert_int_equal(lease_name_decode(name, id, &err), 0);
		assert_int_equal(id[0], in);
		assert_int_equal(id[1], '\0');
	}
}

static void a_name_that_is_not_exactly_an_encoding_is_refused(void **state)
{
	static const char *const names[] = {"", ".", "..", ".a", "a%zz", "%", "a%", "a%4", "%41",
		"%2f", "a%2e", "a%2E", "%00", "a%00b", "a\nb", "a\x7f", "a/b", "\xff", "%FF",
		"%C3%A9", "\xed\xa0\x80", "%G0", "%0g"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char id[LEASE_NAME_MAX + 1] = "untouched";
		struct error err = ERROR_NONE;

		assert_int_equal(lease_name_decode(names[i], id, &err), -EINVAL);
		assert_string_equal(id, "untouched");
		assert_int_not_equal(err.text[0], '\0');
	}
}

static void an_id_that_can_have_no_name_is_refused(void **state)
{
	char name[LEASE_NAME_MAX + 1] = "untouched", id[400];
	struct error err = ERROR_NONE;

	memset(id, 'a', sizeof(id));
	assert_int_equal(lease_name_encode("", 0, name, &err), -EINVAL);
	assert_int_equal(lease_name_encode(id, 300, name, &err), -EINVAL);
	assert_int_equal(lease_name_encode(id, 256, name, &err), -EINVAL);
	assert_int_equal(lease_name_encode("a\0b", 3, name, &err), -EINVAL);
	assert_int_equal(lease_name_encode("\xff", 1, name, &err), -EINVAL);
	assert_int_equal(lease_name_encode("\xc3", 1, name, &err), -EINVAL);
	assert_string_equal(name, "untouched");
}

static void the_longest_names_fit_and_no_longer_ones(void **state)
{
	char name[LEASE_NAME_MAX + 1], id[LEASE_NAME_MAX + 1], back[LEASE_NAME_MAX + 1];
	struct error err = ERROR_NONE;

	memset(id, 'a', sizeof(id));
	assert_int_equal(lease_name_encode(id, 255, name, &err), 0);
	assert_int_equal(strlen(name), 255);
	assert_int_equal(lease_name_decode(name, back, &err), 0);
	assert_int_equal(strlen(back), 255);
	memset(id, '/', sizeof(id));
	assert_int_equal(lease_name_encode(id, 85, name, &err), 0);
	assert_int_equal(strlen(name), 255);
	assert_int_equal(lease_name_decode(name, back, &err), 0);
	assert_int_equal(strlen(back), 85);
	assert_int_equal(lease_name_encode(id, 86, name, &err), -EINVAL);
	id[0] = 'a';
	id[1] = 'a';
	assert_int_equal(lease_name_encode(id, 87, name, &err), -EINVAL);
}

static void a_name_of_any_length_is_decoded_without_overrun(void **state)
{
	char name[1024], id[LEASE_NAME_MAX + 1];
	struct error err = ERROR_NONE;

	memset(name, 'a', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(lease_name_decode(name, id, &err), -EINVAL);
	for (size_t i = 0; i + 3 < sizeof(name); i += 3)
		memcpy(name + i, "%2F", 4);
	assert_int_equal(lease_name_decode(name, id, &err), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_id_and_its_name_go_both_ways),
		cmocka_unit_test(every_single_byte_id_has_a_name_without_slash_or_dot),
		cmocka_unit_test(a_name_that_is_not_exactly_an_encoding_is_refused),
		cmocka_unit_test(an_id_that_can_have_no_name_is_refused),
		cmocka_unit_test(the_longest_names_fit_and_no_longer_ones),
		cmocka_unit_test(a_name_of_any_length_is_decoded_without_overrun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
