/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/environment.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "config/settings.h"

static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct environment {
	char **words; /* NULL-terminated */
	size_t count, capacity;
	bool failed;
};

static size_t name_len(const char *word)
{
	return strcspn(word, "=");
}

static bool make_room(struct environment *env)
{
	size_t capacity = env->capacity ? env->capacity * 2 : 32;
	char **grown;

	if (env->count + 1 < env->capacity)
		return true;
	grown = realloc(env->words, capacity * sizeof(*grown));
	if (!grown)
		return false;
	env->words = grown;
	env->capacity = capacity;
	return true;
}

/* Takes the word over. Names may stand twice until keep_last(). */
static void put_owned(struct environment *env, char *owned_word)
{
	if (!owned_word || !make_room(env)) {
		free(owned_word);
		env->failed = true;
		return;
	}
	env->words[env->count++] = owned_word;
	env->words[env->count] = NULL;
}

/* By name, and of one name in the order in which they were put. */
static int compare_places(const void *a, const void *b)
{
	char *const *x = *(char *const *const *)a, *const *y = *(char *const *const *)b;
	size_t x_len = name_len(*x), y_len = name_len(*y);
	int order = memcmp(*x, *y, x_len < y_len ? x_len : y_len);

	if (order == 0)
		order = (x_len > y_len) - (x_len < y_len);
	return order ? order : (x > y) - (x < y);
}

static void close_gaps(struct environment *env)
{
	size_t kept = 0;

	for (size_t i = 0; i < env->count; i++)
		if (env->words[i])
			env->words[kept++] = env->words[i];
	env->words[kept] = NULL;
	env->count = kept;
}

/* Of each name only the last word stays. Sorts: a request may bring a hundred thousand names. */
static void keep_last(struct environment *env)
{
	char ***places = calloc(env->count, sizeof(*places));

	if (!places) {
		env->failed = true;
		return;
	}
	for (size_t i = 0; i < env->count; i++)
		places[i] = &env->words[i];
	qsort(places, env->count, sizeof(*places), compare_places);
	for (size_t i = 0; i + 1 < env->count; i++) {
		size_t len = name_len(*places[i]);

		if (!strncmp(*places[i], *places[i + 1], len) && (*places[i + 1])[len] == '=')
			free(take_ptr(places[i]));
	}
	close_gaps(env);
	free(places);
}

static void put(struct environment *env, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void put(struct environment *env, const char *fmt, ...)
{
	char *word = NULL;
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&word, fmt, args) < 0)
		word = NULL;
	va_end(args);
	put_owned(env, word);
}

static bool passes(const char *word, const struct word_list *patterns)
{
	char name[256];
	size_t len = name_len(word);

	if (len == 0 || len >= sizeof(name) || word[len] != '=')
		return false;
	memcpy(name, word, len);
	name[len] = '\0';
	for (size_t i = 0; i < patterns->count; i++)
		if (fnmatch(patterns->words[i], name, 0) == 0)
			return true;
	return false;
}

static void put_inherited(struct environment *env, const struct environment_options *options)
{
	for (const char *const *word = options->inherited; word && *word; word++)
		if (passes(*word, options->pass))
			put_owned(env, strdup(*word));
}

static void put_places(struct environment *env, const struct environment_options *options)
{
	if (!environment_get(env->words, "PATH"))
		put(env, "PATH=%s", default_path);
	put(env, "HOME=" INSIDE_HOME);
	put(env, "XDG_CONFIG_HOME=" INSIDE_HOME "/.config");
	put(env, "XDG_CACHE_HOME=" INSIDE_HOME "/.cache");
	put(env, "TMPDIR=" INSIDE_TMP);
	put(env, "CUDA_VISIBLE_DEVICES=");
	put(env, "NVIDIA_VISIBLE_DEVICES=void");
	put(env, "BBS_HOST=%s", options->bind_host);
	put(env, "BBS_PORT=%u", options->port);
	put(env, "BBS_RUNTIME_ROOT=" INSIDE_RUNTIME);
}

static int put_extra(struct environment *env, const char *const *extra, struct error *err)
{
	for (; extra && *extra; extra++) {
		size_t len = name_len(*extra);

		if (len == 0 || (*extra)[len] != '=')
			return error_set(err, EINVAL,
				"'%.100s' is no NAME=value for the environment", *extra);
		put_owned(env, strdup(*extra));
	}
	return 0;
}

static void put_markers(struct environment *env, const struct environment_options *options)
{
	put(env, "DRESSAGE_BLACKBOX_SLOT_ID=%u", options->slot);
	put(env, "DRESSAGE_BLACKBOX_SLOT_DIR=%s", options->slot_dir);
	put(env, "DRESSAGE_BLACKBOX_SLOT_GENERATION=%u", options->generation);
	put(env, "DRESSAGE_BLACKBOX_SLOT_PORT=%u", options->port);
	put(env, "DRESSAGE_BLACKBOX_SLOT_TOKEN=%s", options->slot_token);
	put(env, "DRESSAGE_BLACKBOX_SUPERVISOR_RUN_ID=%s", options->run_id);
	put(env, "DRESSAGE_BLACKBOX_RUNTIME_ROOT=" INSIDE_RUNTIME);
}

int environment_build(const struct environment_options *options, char ***ret_env, struct error *err)
{
	struct environment env = {0};
	int r;

	put_inherited(&env, options);
	put_places(&env, options);
	r = put_extra(&env, options->extra, err);
	put_markers(&env, options);
	if (r == 0 && !env.failed)
		keep_last(&env);
	if (r == 0 && env.failed)
		r = error_set(err, ENOMEM, "no memory for an environment");
	if (r < 0) {
		environment_free(env.words);
		return r;
	}
	*ret_env = env.words;
	return 0;
}

void environment_free(char **env)
{
	if (!env)
		return;
	for (char **word = env; *word; word++)
		free(*word);
	free(env);
}

const char *environment_get(char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; env && *env; env++)
		if (!strncmp(*env, name, len) && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}
