/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/settings.h"
#include "pool/bubble-private.h"

struct given {
	struct config config;
	struct bubble_image images[2];
	struct bubble_kit kit;
	struct bubble_options options;
	char *text; /* the words, parted by blanks */
};

static int set_up(void **state)
{
	struct given *given = calloc(1, sizeof(*given));

	given->config.slot.network = NETWORK_NONE;
	given->config.slot.size = 1 << 20;
	given->config.slot.inodes = 1000;
	given->images[0] = (struct bubble_image){.name = "", .etc_path = (char *)"/st/etc"};
	given->images[1] = (struct bubble_image){
		.name = "py", .rootfs = "/srv/py", .etc_path = (char *)"/st/etc-1"};
	words_add(&given->images[1].mounts, "--ro-bind-of-py");
	given->kit = (struct bubble_kit){.config = &given->config,
		.bwrap = (char *)"/usr/bin/bwrap",
		.images = given->images,
		.image_count = 2};
	given->options = (struct bubble_options){.slot = 3,
		.dir = "/st/slots/0003",
		.host_uid = 2000000,
		.host_gid = 2000000,
		.cgroup_fd = -1};
	*state = given;
	return 0;
}

static int tear_down(void **state)
{
	struct given *given = *state;

	words_fini(&given->images[1].mounts);
	free(given->text);
	free(given);
	return 0;
}

static const char *words_of(struct given *given)
{
	struct words words = {0};
	struct error err = ERROR_NONE;
	FILE *out;
	size_t size;

	free(given->text);
	assert_int_equal(bubble_words(&words, &given->kit, &given->options, &err), 0);
	out = open_memstream(&given->text, &size);
	for (size_t i = 0; i < words.count; i++)
		(void)fprintf(out, "%s ", words.word[i]);
	(void)fclose(out);
	words_fini(&words);
	return given->text;
}

static void shows(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no '%s' in '%s'", part, text);
}

static void hides(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("'%s' in '%s'", part, text);
}

static void plain_directories_are_bound(void **state)
{
	const char *text = words_of(*state);

	shows(text, "--unshare-user ");
	shows(text, "--bind /st/slots/0003/work /workspace ");
	shows(text, "--bind /st/slots/0003/tmp /tmp ");
	shows(text, "--ro-bind /st/etc /etc ");
	shows(text, "--remount-ro / ");
}

static void init_finds_empty_places_for_its_tmpfs(void **state)
{
	struct given *given = *state;
	const char *text;

	given->config.slot.storage = STORAGE_TMPFS;
	text = words_of(given);
	shows(text, "--dir /workspace ");
	shows(text, "--dir /tmp ");
	hides(text, "--bind /st");
	shows(text, "--remount-ro / ");
}

static void an_image_brings_its_own_mounts_and_etc(void **state)
{
	struct given *given = *state;
	const char *text;

	hides(words_of(given), "of-py");
	given->options.image = 1;
	text = words_of(given);
	shows(text, "--ro-bind-of-py ");
	shows(text, "--ro-bind /st/etc-1 /etc ");
	hides(text, "--ro-bind /usr ");
	hides(text, "/etc/ssl");
}

/* As overlay_parse() takes them: rootfs, layers, etc, uid, gid, size, inodes. */
static void with_an_overlay_the_helper_mounts_the_root(void **state)
{
	struct given *given = *state;
	const char *text;

	given->config.slot.overlay = true;
	given->options.image = 1;
	text = words_of(given);
	shows(text, "dressage-init enter 2000000 2000000 - 0 overlay /srv/py "
		    "/st/slots/0003/overlay /st/etc-1 0 0 0 0 /usr/bin/bwrap ");
	shows(text, "--bind /st/slots/0003/overlay/merged / ");
	shows(text, "--bind /st/slots/0003/work /workspace ");
	hides(text, "--unshare-user");
	hides(text, "of-py");
	hides(text, "--ro-bind /st/etc-1");
	hides(text, "--remount-ro / ");
	shows(text, "--remount-ro /dev ");
}

static void its_layer_and_the_slots_files_share_a_tmpfs(void **state)
{
	struct given *given = *state;
	const char *text;

	given->config.slot.overlay = true;
	given->config.slot.storage = STORAGE_TMPFS;
	given->options.image = 1;
	text = words_of(given);
	shows(text, "/st/etc-1 0 0 1048576 1000 /usr/bin/bwrap ");
	shows(text, "--bind /st/slots/0003/overlay/work /workspace ");
	hides(text, "--bind /st/slots/0003/work");
}

static void a_user_inside_is_named_where_there_is_a_range(void **state)
{
	struct given *given = *state;

	given->config.slot.overlay = true;
	given->config.slot.uid = given->config.slot.gid = 33;
	given->options.image = 1;
	shows(words_of(given), geteuid() == 0 ? "/st/etc-1 33 33 0 0 " : "/st/etc-1 0 0 0 0 ");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(plain_directories_are_bound),
		CASE(init_finds_empty_places_for_its_tmpfs),
		CASE(an_image_brings_its_own_mounts_and_etc),
		CASE(with_an_overlay_the_helper_mounts_the_root),
		CASE(its_layer_and_the_slots_files_share_a_tmpfs),
		CASE(a_user_inside_is_named_where_there_is_a_range),
	};

	return cmocka_run_group_tests_name("bubble-words", tests, NULL, NULL);
}
