/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/settings.h"
#include "pool/bubble-private.h"
#include "pool/etc-private.h"
#include "pool/etc.h"
#include "pool/rootfs.h"

/* A plain user's slots have one id: what others own nobody inside could change. */
static int check_owner(const char *rootfs, struct error *err)
{
	struct stat st;

	if (geteuid() == 0)
		return 0;
	if (stat(rootfs, &st) < 0)
		return error_errno(err, errno, "'%s'", rootfs);
	if (st.st_uid == geteuid())
		return 0;
	return error_set(err, EPERM,
		"'%s' belongs to uid %u: overlay = on needs one that the daemon's own user (uid %u) "
		"has made, or a daemon of root",
		rootfs, (unsigned)st.st_uid, (unsigned)geteuid());
}

/* With a range of ids root's files are those of whoever is root inside: also the machine's
 * /etc/shadow. */
static int check_not_the_machines(const char *rootfs, struct error *err)
{
	struct stat st, machine;

	if (stat(rootfs, &st) < 0 || stat("/", &machine) < 0)
		return error_errno(err, errno, "'%s'", rootfs);
	if (st.st_dev != machine.st_dev || st.st_ino != machine.st_ino)
		return 0;
	return error_set(err, EPERM,
		"'%s' is this machine's own root: with overlay = on its slots could read what is for "
		"root alone; give them a root file system of their own (debootstrap), or leave "
		"overlay off",
		rootfs);
}

static int check_for_overlay(const char *rootfs, struct error *err)
{
	int r = check_not_the_machines(rootfs, err);

	return r < 0 ? r : check_owner(rootfs, err);
}

static int fill_rootfs(const struct bubble_kit *kit, struct bubble_image *image, struct error *err)
{
	int r = rootfs_check(image->rootfs, err);

	if (r == 0 && kit->config->slot.overlay)
		r = check_for_overlay(image->rootfs, err);
	else if (r == 0)
		r = rootfs_add_words(
			&image->mounts, image->rootfs, &kit->config->slot.readonly_mounts, err);
	if (r == 0 && image->mounts.failed)
		r = error_set(err, ENOMEM, "no memory for the slots' kit");
	if (r == 0)
		return 0;
	if (image->name[0])
		return error_wrap(err, "[images] %s", image->name);
	return error_wrap(err, "[slot] rootfs");
}

static int fill_image(
	struct bubble_kit *kit, struct bubble_image *image, const char *etc_path, struct error *err)
{
	size_t number = (size_t)(image - kit->images);
	int r = 0;

	if (asprintf(&image->etc_path, number ? "%s-%zu" : "%s", etc_path, number) < 0) {
		image->etc_path = NULL;
		return error_set(err, ENOMEM, "no memory for the slots' kit");
	}
	if (image->rootfs)
		r = fill_rootfs(kit, image, err);
	return r < 0 ? r : etc_create(kit->config, image->rootfs, image->etc_path, err);
}

/* "name=rootfs" of the configuration, as two words. */
static int name_image(struct bubble_image *image, const char *word)
{
	char *name = strdup(word), *equals = name ? strchr(name, '=') : NULL;

	if (!equals) {
		free(name);
		return -ENOMEM;
	}
	*equals = '\0';
	image->name = name;
	image->rootfs = equals + 1;
	return 0;
}

/* Of images that an earlier daemon had beyond ours. */
static int remove_former(size_t count, const char *etc_path, struct error *err)
{
	for (size_t number = count;; number++) {
		CLEANUP(freep) char *path = NULL;
		int r;

		if (asprintf(&path, "%s-%zu", etc_path, number) < 0)
			return error_set(err, ENOMEM, "no memory for the slots' kit");
		if (access(path, F_OK) < 0)
			return 0;
		r = etc_remove(path);
		if (r < 0)
			return error_errno(err, -r, "cannot remove the old '%s'", path);
	}
}

int bubble_images_create(struct bubble_kit *kit, const char *etc_path, struct error *err)
{
	const struct word_list *named = &kit->config->images;
	const char *rootfs = kit->config->slot.rootfs;
	int r = 0;

	kit->images = calloc(1 + named->count, sizeof(*kit->images));
	if (!kit->images)
		return error_set(err, ENOMEM, "no memory for the slots' kit");
	kit->image_count = 1 + named->count;
	kit->images[0].name = "";
	kit->images[0].rootfs = rootfs && rootfs[0] ? rootfs : NULL;
	for (size_t i = 0; i < kit->image_count && r == 0; i++) {
		if (i > 0 && name_image(&kit->images[i], named->words[i - 1]) < 0)
			return error_set(err, ENOMEM, "no memory for the slots' kit");
		r = fill_image(kit, &kit->images[i], etc_path, err);
	}
	return r < 0 ? r : remove_former(kit->image_count, etc_path, err);
}

void bubble_images_destroy(struct bubble_kit *kit)
{
	for (size_t i = 0; i < kit->image_count; i++) {
		struct bubble_image *image = &kit->images[i];

		if (i > 0)
			free((char *)image->name);
		free(image->etc_path);
		words_fini(&image->mounts);
	}
	free(kit->images);
}
