/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/environment.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static size_t find(char *const *words, const char *name, size_t len)
{
	size_t i = 0;

	while (words && words[i] && (strncmp(words[i], name, len) != 0 || words[i][len] != '='))
		i++;
	return i;
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

/* Takes the word over. */
static void put_owned(struct environment *env, char *owned_word)
{
	size_t at;

	if (!owned_word || !make_room(env)) {
		free(owned_word);
		env->failed = true;
		return;
	}
	if (env->count == 0)
		env->words[0] = NULL;
	at = find(env->words, owned_word, name_len(owned_word));
	if (at < env->count) {
		free(env->words[at]);
	} else {
		env->count++;
		env->words[env->count] = NULL;
	}
	env->words[at] = owned_word;
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
	if (!env->words || find(env->words, "PATH", 4) == env->count)
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
	size_t len = strlen(name), at = find(env, name, len);

	return env && env[at] ? env[at] + len + 1 : NULL;
}
