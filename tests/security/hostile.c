/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * hostile --list: the attempts' names. hostile NAME DECOY=VALUE...: carries one out. Exit 0:
 * refused; 1: got through, and standard output says what; 2: no such attempt, or decoy.
 */
#include "tests/security/hostile.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FORKS_MOST = 1500 };

bool can_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0)
		return false;
	(void)close(fd);
	return true;
}

bool can_rewrite(const char *path)
{
	char bytes[4096];
	int in = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size = in < 0 ? -1 : read(in, bytes, sizeof(bytes));
	int out = open(path, O_WRONLY | O_CLOEXEC);
	bool written = out >= 0 && size > 0 && write(out, bytes, (size_t)size) > 0;

	(void)close(in);
	(void)close(out);
	return written;
}

bool file_has(const char *path, const char *text)
{
	char bytes[65536];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));

	(void)close(fd);
	return size > 0 && memmem(bytes, (size_t)size, text, strlen(text));
}

const char *got(const char *fmt, ...)
{
	static char text[256];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return text;
}

static void wait_for_the_parents_end(void (*first)(int nth), int nth)
{
	if (first)
		first(nth);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user undoes it */
	for (;;)
		(void)pause();
}

const char *fork_to_the_limit(void (*first)(int nth))
{
	struct rlimit limit;
	int made = 0;

	if (getrlimit(RLIMIT_NPROC, &limit) < 0 || limit.rlim_cur > FORKS_MOST)
		limit.rlim_cur = FORKS_MOST;
	for (; made < (int)limit.rlim_cur; made++) {
		pid_t pid = fork();

		if (pid < 0)
			return NULL;
		if (pid == 0)
			wait_for_the_parents_end(first, made);
	}
	return got("%d forks", made);
}

/* The test's own test: this one gets through, and must be seen to. */
static const char *write_own_file(const struct decoys *decoys)
{
	return can_open("/tmp/mine", O_WRONLY | O_CREAT) ? got("wrote a file of its own") : NULL;
}

static const struct attempt control[] = {{"control", write_own_file}, {NULL, NULL}};

static const struct attempt *const themes[] = {control, landlock_control, unending_attempts,
	process_attempts, file_attempts, network_attempts, kernel_attempts, filter_attempts,
	memory_attempts, root_attempts, NULL};

static const struct attempt *find(const char *name)
{
	for (const struct attempt *const *theme = themes; *theme; theme++) {
		for (const struct attempt *attempt = *theme; attempt->name; attempt++) {
			if (strcmp(attempt->name, name) == 0)
				return attempt;
		}
	}
	return NULL;
}

static int list(void)
{
	for (const struct attempt *const *theme = themes + 3; *theme; theme++) {
		for (const struct attempt *attempt = *theme; attempt->name; attempt++)
			(void)puts(attempt->name);
	}
	return 0;
}

struct decoy_key {
	const char *key;
	const char **text; /* one of the two */
	int *number;
};

static bool take_decoy(const struct decoy_key *keys, const char *word)
{
	size_t length = strcspn(word, "=");

	for (; keys->key && word[length] == '='; keys++) {
		if (strlen(keys->key) != length || strncmp(keys->key, word, length) != 0)
			continue;
		if (keys->text)
			*keys->text = word + length + 1;
		else
			*keys->number = (int)strtol(word + length + 1, NULL, 10);
		return true;
	}
	return false;
}

static bool take_decoys(struct decoys *decoys, char **words)
{
	const struct decoy_key keys[] = {
		{"marker", &decoys->marker, NULL},
		{"pid", NULL, &decoys->daemon_pid},
		{"comm", &decoys->daemon_comm, NULL},
		{"other_file", &decoys->other_file, NULL},
		{"other_socket", &decoys->other_socket, NULL},
		{"port", NULL, &decoys->port},
		{"abstract", &decoys->abstract_name, NULL},
		{"shm_key", NULL, &decoys->shm_key},
		{"host_name", &decoys->host_name, NULL},
		{"namespaces", &decoys->namespaces, NULL},
		{"group_file", &decoys->group_file, NULL},
		{"root_file", &decoys->root_file, NULL},
		{0},
	};

	for (const struct decoy_key *key = keys; key->key; key++)
		if (key->text)
			*key->text = "";
	while (*words && take_decoy(keys, *words))
		words++;
	return !*words;
}

int main(int argc, char **argv)
{
	struct decoys decoys = {0};
	const struct attempt *attempt;
	const char *answer;

	if (argc == 2 && strcmp(argv[1], "--list") == 0)
		return list();
	attempt = argc > 2 ? find(argv[1]) : NULL;
	if (!attempt || !take_decoys(&decoys, argv + 2))
		return 2;
	answer = attempt->run(&decoys);
	if (answer)
		(void)puts(answer);
	return answer ? 1 : 0;
}
