/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/security/leak.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/bubble-private.h"
#include "pool/syscall-filter.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#else
#define NATIVE AUDIT_ARCH_AARCH64
#endif

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static const struct leak nothing;
static const struct leak *current = &nothing;
static bool edits_done = true;

void leak_set(const struct leak *leak)
{
	current = leak ? leak : &nothing;
	edits_done = true;
}

bool leak_done(void)
{
	return edits_done;
}

/* ---- Words ---- */

static size_t length_of(const char *const *list, size_t most)
{
	size_t length = 0;

	while (length < most && list[length])
		length++;
	return length;
}

static bool matches(const struct words *words, size_t at, const struct word_edit *edit)
{
	size_t length = length_of(edit->match, MATCH_MAX);

	if (at + length > words->count)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (strcmp(edit->match[i], "*") != 0 &&
			strcmp(edit->match[i], words->word[at + i]) != 0)
			return false;
	}
	return true;
}

/* A copy of the words with the edit made at one place. */
static void replace(
	struct words *words, size_t at, const struct word_edit *edit, const char *slot_dir)
{
	struct words edited = {0};
	size_t dropped = length_of(edit->match, MATCH_MAX);

	for (size_t i = 0; i < at; i++)
		words_add(&edited, "%s", words->word[i]);
	for (size_t i = 0; i < length_of(edit->add, ADD_MAX); i++) {
		const char *word = edit->add[i];

		if (strcmp(word, "$D") == 0)
			words_add(&edited, "%.*s", (int)(strrchr(slot_dir, '/') - slot_dir),
				slot_dir);
		else
			words_add(&edited, "%s",
				word[0] == '$' ? words->word[at + (size_t)(word[1] - '0')] : word);
	}
	for (size_t i = at + dropped; i < words->count; i++)
		words_add(&edited, "%s", words->word[i]);
	words_fini(words);
	*words = edited;
}

static bool make_edit(struct words *words, const struct word_edit *edit, const char *slot_dir)
{
	for (size_t at = 0; at < words->count; at++) {
		if (!matches(words, at, edit))
			continue;
		replace(words, at, edit, slot_dir);
		return true;
	}
	return false;
}

int __real_bubble_words(struct words *words, const struct bubble_kit *kit,
	const struct bubble_options *options, struct error *err);
int __wrap_bubble_words(struct words *words, const struct bubble_kit *kit,
	const struct bubble_options *options, struct error *err);

int __wrap_bubble_words(struct words *words, const struct bubble_kit *kit,
	const struct bubble_options *options, struct error *err)
{
	int r = __real_bubble_words(words, kit, options, err);

	for (size_t i = 0; i < COUNT(current->words) && current->words[i].match[0] && r == 0; i++)
		edits_done = make_edit(words, &current->words[i], options->dir) && edits_done;
	if (current->init)
		words_add(words, "leave-out=%s", current->init);
	return r;
}

/* ---- The filter ---- */

static size_t write_hole(struct sock_filter *code)
{
	size_t count = 0;

	if (current->filter == FILTER_ALLOWS_CALL) {
		code[count++] = (struct sock_filter)BPF_STMT(
			BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
		code[count++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)current->call, 0, 1);
		code[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	if (current->filter == FILTER_ALLOWS_OTHER_ABIS) {
		code[count++] = (struct sock_filter)BPF_STMT(
			BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
		code[count++] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0);
		code[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	return count * sizeof(*code);
}

int __real_syscall_filter_create(void **ret_program, size_t *ret_size, struct error *err);
int __wrap_syscall_filter_create(void **ret_program, size_t *ret_size, struct error *err);

/* Jumps are relative: the hole stands before the whole. */
int __wrap_syscall_filter_create(void **ret_program, size_t *ret_size, struct error *err)
{
	struct sock_filter hole[4];
	size_t hole_size = write_hole(hole), size;
	void *program;
	char *both;
	int r = __real_syscall_filter_create(&program, &size, err);

	if (r < 0)
		return r;
	both = malloc(hole_size + size);
	if (!both)
		abort();
	memcpy(both, hole, hole_size);
	memcpy(both + hole_size, program, size);
	free(program);
	*ret_program = both;
	*ret_size = hole_size + size;
	return 0;
}

void leak_refilter(struct bubble_kit *kit)
{
	free(kit->filter);
	if (__wrap_syscall_filter_create(&kit->filter, &kit->filter_size, NULL) < 0)
		abort();
	kit->setup.filter_count = (uint32_t)(kit->filter_size / sizeof(struct sock_filter));
}

/* ---- The spawn ---- */

int __real_posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *files, int from);
int __wrap_posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *files, int from);

int __wrap_posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *files, int from)
{
	return current->spawn_keeps_fds
		       ? 0
		       : __real_posix_spawn_file_actions_addclosefrom_np(files, from);
}

int __real_posix_spawnattr_setflags(posix_spawnattr_t *attributes, short flags);
int __wrap_posix_spawnattr_setflags(posix_spawnattr_t *attributes, short flags);

/* bubble.c kills by process group what has not said a word, so it has one even then. */
int __wrap_posix_spawnattr_setflags(posix_spawnattr_t *attributes, short flags)
{
	if (current->spawn_no_session)
		flags = (short)((flags & ~POSIX_SPAWN_SETSID) | POSIX_SPAWN_SETPGROUP);
	return __real_posix_spawnattr_setflags(attributes, flags);
}

int __real_posix_spawnp(pid_t *ret_pid, const char *path, const posix_spawn_file_actions_t *files,
	const posix_spawnattr_t *attributes, char *const argv[], char *const environment[]);
int __wrap_posix_spawnp(pid_t *ret_pid, const char *path, const posix_spawn_file_actions_t *files,
	const posix_spawnattr_t *attributes, char *const argv[], char *const environment[]);

int __wrap_posix_spawnp(pid_t *ret_pid, const char *path, const posix_spawn_file_actions_t *files,
	const posix_spawnattr_t *attributes, char *const argv[], char *const environment[])
{
	return __real_posix_spawnp(ret_pid, path, files, attributes, argv,
		current->spawn_keeps_environment ? environ : environment);
}
