/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The part of the security suite's own init that lets it go without a step: which ones stands
 * behind `init` in its words, and so in the exec helper's too: leave-out=NAME,NAME... */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/init/init.h"

#define KEY "leave-out="

/* Read once, and before any child that shares our memory: by init's first step. */
static const char *names(void)
{
	static char words[65536];
	static const char *found;
	int fd;
	ssize_t size;

	if (found)
		return found;
	found = "";
	fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	size = fd < 0 ? -1 : read(fd, words, sizeof(words) - 1);
	(void)close(fd);
	for (const char *word = words; word < words + size; word += strlen(word) + 1) {
		if (strncmp(word, KEY, strlen(KEY)) == 0)
			found = word + strlen(KEY);
	}
	return found;
}

bool left_out(const char *step)
{
	size_t length = strlen(step);

	for (const char *name = names(); *name; name += strcspn(name, ",")) {
		name += *name == ',';
		if (strncmp(name, step, length) == 0 && (name[length] == ',' || !name[length]))
			return true;
	}
	return false;
}
