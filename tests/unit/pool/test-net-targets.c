/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "config/settings.h"
#include "pool/net-targets.h"

static int parse(const char *const *words, struct net_targets *targets, struct error *err)
{
	struct word_list list = {.words = (char **)words};

	while (words[list.count])
		list.count++;
	return net_targets_parse(&list, targets, err);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* "127.0.0.1:80>0 [::1]:80>0?": what is listened on inside, the target that it leads to, and
 * whether it is optional. */
static void assert_inside(const char *const *words, const char *expected)
{
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;
	struct net_targets targets;
	struct error err = ERROR_NONE;

	if (parse(words, &targets, &err) < 0)
		fail_msg("%s", err.text);
	for (unsigned i = 0; i < targets.inside_count; i++) {
		const struct init_target *at = &targets.inside[i];
		char text[INET6_ADDRSTRLEN];

		assert_non_null(inet_ntop(at->family, at->address, text, sizeof(text)));
		strbuf_addf(
			&out, at->family == AF_INET6 ? "%s[%s]" : "%s%s", i > 0 ? " " : "", text);
		strbuf_addf(
			&out, ":%u>%u%s", at->port, targets.target_of[i], at->optional ? "?" : "");
	}
	assert_string_equal(out.data, expected);
	net_targets_fini(&targets);
}

static void assert_refused(const char *word, const char *why)
{
	struct net_targets targets = {0};
	struct error err = ERROR_NONE;

	assert_int_equal(parse(WORDS(word), &targets, &err), -EINVAL);
	if (!strstr(err.text, why))
		fail_msg("'%s' does not say '%s'", err.text, why);
	net_targets_fini(&targets);
}

static void an_address_is_listened_on_as_it_is(void **state)
{
	assert_inside(WORDS("10.1.2.3:80", "[2001:db8::7]:8080", "127.0.0.1:1"),
		"10.1.2.3:80>0 [2001:db8::7]:8080>1 127.0.0.1:1>2");
	assert_inside(WORDS(NULL), "");
}

static void a_name_has_an_address_of_its_own_whatever_the_port_and_the_case(void **state)
{
	assert_inside(WORDS("a.test:80", "b.test:80", "A.test:443"),
		"198.18.0.1:80>0 198.18.0.2:80>1 198.18.0.1:443>2");
}

static void a_name_never_has_the_address_of_a_listed_machine(void **state)
{
	assert_inside(WORDS("a.test:80", "198.18.0.1:80", "b.test:80", "198.18.0.4:1"),
		"198.18.0.5:80>0 198.18.0.1:80>1 198.18.0.3:80>2 198.18.0.4:1>3");
	assert_inside(WORDS("a.test:80", "198.18.0.1:80", "198.18.0.4:80"),
		"198.18.0.7:80>0 198.18.0.1:80>1 198.18.0.4:80>2");
}

static void localhost_is_the_slots_own_loopback_of_both_kinds(void **state)
{
	assert_inside(WORDS("localhost:80"), "127.0.0.1:80>0 [::1]:80>0?");
}

static void what_is_said_twice_is_listened_on_once(void **state)
{
	assert_inside(WORDS("127.0.0.1:80", "localhost:80", "127.0.0.1:80"),
		"127.0.0.1:80>0 [::1]:80>1?");
}

static void names_stand_in_hosts_once_and_localhost_does_not(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf out = STRBUF_INIT;
	struct net_targets targets;

	assert_int_equal(parse(WORDS("10.0.0.1:1", "a.test:1", "localhost:1", "A.test:2", "b:1"),
				 &targets, NULL),
		0);
	net_targets_add_hosts(&targets, &out);
	assert_string_equal(out.data, "198.18.0.2\ta.test\n198.18.0.5\tb\n");
	net_targets_fini(&targets);
}

static void what_is_no_one_machine_is_refused(void **state)
{
	static const char *const bad[] = {"0.0.0.0:80", "255.255.255.255:80", "224.0.0.1:80",
		"1.2.3:80", "256.1.1.1:80", "[::]:80", "[ff02::1]:80", "[fe80::1]:80",
		"[::ffff:1.2.3.4]:80", "[zz]:80", "-x:80", ".x:80", "a b:80", "a\nb:80", "a#b:80",
		"h\xc3\xa4:80"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_refused(bad[i], "is neither a name nor an address");
}

static void more_than_there_is_room_for_is_refused(void **state)
{
	char *words[INIT_TARGETS_MAX + 2] = {NULL};
	struct net_targets targets = {0};
	struct error err = ERROR_NONE;

	for (int i = 0; i < INIT_TARGETS_MAX; i++)
		assert_true(asprintf(&words[i], "10.0.0.1:%d", i + 1) > 0);
	assert_int_equal(parse((const char *const *)words, &targets, &err), 0);
	net_targets_fini(&targets);
	assert_true(asprintf(&words[INIT_TARGETS_MAX], "10.0.0.2:1") > 0);
	assert_int_equal(parse((const char *const *)words, &targets, &err), -EINVAL);
	assert_non_null(strstr(err.text, "more than 64 targets"));
	for (int i = 0; words[i]; i++)
		free(words[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_is_listened_on_as_it_is),
		cmocka_unit_test(a_name_has_an_address_of_its_own_whatever_the_port_and_the_case),
		cmocka_unit_test(a_name_never_has_the_address_of_a_listed_machine),
		cmocka_unit_test(localhost_is_the_slots_own_loopback_of_both_kinds),
		cmocka_unit_test(what_is_said_twice_is_listened_on_once),
		cmocka_unit_test(names_stand_in_hosts_once_and_localhost_does_not),
		cmocka_unit_test(what_is_no_one_machine_is_refused),
		cmocka_unit_test(more_than_there_is_room_for_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
