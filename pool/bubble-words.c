/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/settings.h"
#include "pool/bubble-private.h"
#include "pool/environment.h"
#include "pool/etc.h"
#include "pool/slot-dirs.h"

enum { SHM_SIZE = 64 * 1024 * 1024 };

/* What a slot shows of the host when the configuration does not say: programs and libraries,
 * nothing of anybody's. */
static const char *const usual_mounts[] = {
	"/usr", "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin"};

void words_fini(struct words *words)
{
	for (size_t i = 0; i < words->count; i++)
		free(words->word[i]);
	free(words->word);
	*words = (struct words){0};
}

static bool words_grow(struct words *words)
{
	size_t capacity = words->capacity ? words->capacity * 2 : 128;
	char **word = realloc(words->word, capacity * sizeof(*word));

	if (!word)
		return false;
	words->word = word;
	words->capacity = capacity;
	return true;
}

void words_add(struct words *words, const char *fmt, ...)
{
	char *word;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vasprintf(&word, fmt, args);
	va_end(args);
	if (n < 0) {
		words->failed = true;
		return;
	}
	if (words->count + 1 >= words->capacity && !words_grow(words)) {
		words->failed = true;
		free(word);
		return;
	}
	words->word[words->count++] = word;
	words->word[words->count] = NULL;
}

void words_add_all(struct words *words, const char *const *list)
{
	for (; *list; list++)
		words_add(words, "%s", *list);
}

#define ADD(words, ...) words_add_all(words, (const char *const[]){__VA_ARGS__, NULL})

/* bwrap makes the parents it needs 0700, which nobody but its own uid 0 may enter: make them first,
 * as they should be. */
static void add_parents(struct words *words, const char *path)
{
	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		ADD(words, "--perms", "0755", "--dir");
		words_add(words, "%.*s", (int)(slash - path), path);
	}
}

/* Bound as the host has it: a link stays a link. */
static int add_readonly(struct words *words, const char *path, bool wanted, struct error *err)
{
	char target[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (path[0] != '/')
		return error_set(
			err, EINVAL, "slot.readonly_mounts: '%s' is not an absolute path", path);
	if (lstat(path, &st) < 0) {
		if (!wanted)
			return 0;
		return error_errno(err, errno, "slot.readonly_mounts: '%s'", path);
	}
	add_parents(words, path);
	if (!S_ISLNK(st.st_mode)) {
		ADD(words, "--ro-bind", path, path);
		return 0;
	}
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return error_errno(err, errno, "cannot read the link '%s'", path);
	target[n] = '\0';
	ADD(words, "--symlink", target, path);
	return 0;
}

/* What the helper has mounted there. */
static void add_merged(struct words *words, const struct bubble_options *options)
{
	ADD(words, "--bind");
	words_add(words, "%s/" SLOT_DIRS_OVERLAY "/merged", options->dir);
	ADD(words, "/");
}

static int add_readonly_mounts(struct words *words, const struct bubble_kit *kit,
	const struct bubble_options *options, struct error *err)
{
	const struct bubble_image *image = &kit->images[options->image];
	const struct word_list *wanted = &kit->config->slot.readonly_mounts;
	bool usual = !image->rootfs && wanted->count == 0;
	int r = 0;

	if (kit->config->slot.overlay)
		add_merged(words, options);
	else if (image->rootfs)
		words_add_all(words, (const char *const *)image->mounts.word);
	for (size_t i = 0; i < wanted->count && r == 0; i++)
		r = add_readonly(words, wanted->words[i], true, err);
	for (size_t i = 0; i < sizeof(usual_mounts) / sizeof(*usual_mounts) && r == 0 && usual; i++)
		r = add_readonly(words, usual_mounts[i], false, err);
	return r;
}

/* With an overlay the helper has made the user namespace: it was needed for the mount. */
static void add_namespaces(struct words *words, const struct config *config)
{
	if (!config->slot.overlay)
		ADD(words, "--unshare-user", "--uid", "0", "--gid", "0");
	ADD(words, "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup");
	if (config->slot.network != NETWORK_HOST)
		ADD(words, "--unshare-net");
	ADD(words, "--hostname", "slot", "--cap-add", "ALL");
}

static void add_etc(struct words *words, const struct bubble_image *image)
{
	char path[PATH_MAX];
	struct stat st;

	ADD(words, "--ro-bind", image->etc_path, "/etc");
	for (const char *const *name = etc_bound; *name && !image->rootfs; name++) {
		(void)snprintf(path, sizeof(path), "%s/%s", image->etc_path, *name);
		if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
			continue;
		(void)snprintf(path, sizeof(path), "/etc/%s", *name);
		ADD(words, "--ro-bind-try", path, path);
	}
}

/* What an overlay has of its own. */
static void add_skeleton(struct words *words, const struct bubble_image *image)
{
	add_etc(words, image);
	ADD(words, "--perms", "0755", "--dir", "/var", "--symlink", "../tmp", "/var/tmp",
		"--symlink", "../run", "/var/run");
	ADD(words, "--perms", "0755", "--dir", "/run", "--perms", "0755", "--dir", "/sys");
}

static void add_system(struct words *words)
{
	ADD(words, "--proc", "/proc", "--dev", "/dev");
	ADD(words, "--perms", "1777", "--size");
	words_add(words, "%d", SHM_SIZE);
	ADD(words, "--tmpfs", "/dev/shm");
}

static void add_bind(struct words *words, const char *dir, const char *name, const char *inside)
{
	add_parents(words, inside);
	ADD(words, "--bind");
	words_add(words, "%s/%s", dir, name);
	ADD(words, inside);
}

static void add_place(struct words *words, const char *inside)
{
	add_parents(words, inside);
	ADD(words, "--perms", "0755", "--dir", inside);
}

/* What init mounts its tmpfs on. */
static void add_places(struct words *words)
{
	add_place(words, INSIDE_WORK);
	add_place(words, INSIDE_HOME);
	add_place(words, INSIDE_TMP);
	add_place(words, INSIDE_RUNTIME);
}

static void add_directories(struct words *words, const char *dir)
{
	add_bind(words, dir, "work", INSIDE_WORK);
	add_bind(words, dir, "home", INSIDE_HOME);
	add_bind(words, dir, "tmp", INSIDE_TMP);
	add_bind(words, dir, "runtime", INSIDE_RUNTIME);
}

/* With an overlay its layer is on the tmpfs too, which the helper has mounted for that. */
static void add_storage(struct words *words, const struct bubble_kit *kit, const char *dir)
{
	CLEANUP(freep) char *overlay = NULL;

	if (kit->config->slot.storage != STORAGE_TMPFS)
		add_directories(words, dir);
	else if (!kit->config->slot.overlay)
		add_places(words);
	else if (asprintf(&overlay, "%s/" SLOT_DIRS_OVERLAY, dir) >= 0)
		add_directories(words, overlay);
	else
		words->failed = true;
}

bool bubble_is_ranged(const struct config *config)
{
	return config->slot.overlay && geteuid() == 0;
}

bool bubble_needs_helper(const struct bubble_kit *kit, const struct bubble_options *options)
{
	return geteuid() == 0 || kit->config->slot.overlay || options->cgroup_fd >= 0 ||
	       options->join_count > 0;
}

/* As overlay_parse() reads them. */
static void add_overlay(
	struct words *words, const struct bubble_kit *kit, const struct bubble_options *options)
{
	const struct bubble_image *image = &kit->images[options->image];
	const struct config *config = kit->config;
	bool ranged = bubble_is_ranged(config), tmpfs = config->slot.storage == STORAGE_TMPFS;

	ADD(words, "overlay", image->rootfs);
	words_add(words, "%s/" SLOT_DIRS_OVERLAY, options->dir);
	ADD(words, image->etc_path);
	words_add(words, "%u", ranged ? config->slot.uid : 0);
	words_add(words, "%u", ranged ? config->slot.gid : 0);
	words_add(words, "%llu", tmpfs ? (unsigned long long)config->slot.size : 0);
	words_add(words, "%llu", tmpfs ? (unsigned long long)config->slot.inodes : 0);
}

static void add_helper(
	struct words *words, const struct bubble_kit *kit, const struct bubble_options *options)
{
	ADD(words, "dressage-init", "enter");
	words_add(words, "%u", (unsigned)options->host_uid);
	words_add(words, "%u", (unsigned)options->host_gid);
	ADD(words, options->cgroup_fd >= 0 ? "cgroup" : "-");
	words_add(words, "%u", options->join_count);
	if (kit->config->slot.overlay)
		add_overlay(words, kit, options);
}

int bubble_words(struct words *words, const struct bubble_kit *kit,
	const struct bubble_options *options, struct error *err)
{
	int r;

	if (bubble_needs_helper(kit, options))
		add_helper(words, kit, options);
	ADD(words, kit->bwrap);
	add_namespaces(words, kit->config);
	r = add_readonly_mounts(words, kit, options, err);
	if (r < 0)
		return r;
	if (!kit->config->slot.overlay)
		add_skeleton(words, &kit->images[options->image]);
	add_system(words);
	add_storage(words, kit, options->dir);
	if (kit->config->slot.bwrap_args.count > 0)
		words_add_all(words, (const char *const *)kit->config->slot.bwrap_args.words);
	/* `/` and /dev are tmpfs of no set size: read-only, they cannot be filled */
	if (!kit->config->slot.overlay)
		ADD(words, "--remount-ro", "/");
	ADD(words, "--remount-ro", "/dev", "--chdir", INSIDE_WORK, "--clearenv", "--as-pid-1");
	words_add(words, "--");
	words_add(words, "/proc/self/fd/%d", INIT_IMAGE_FD);
	ADD(words, "init");
	return words->failed ? error_set(err, ENOMEM, "no memory for bwrap's words") : 0;
}
