/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "providers/lease-table.h"

/* machine-id(5) asks that the id itself is never shown; a hash with a word of our own is. */
static uint64_t hash(const char *text)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (const char *words[] = {"dressage", text}, **word = words; word < words + 2; word++)
		for (const char *c = *word; *c; c++)
			sum = (sum ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
	return sum;
}

static bool read_machine_id(char *ret_text, size_t size)
{
	CLEANUP(closep) int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return false;
	got = read(fd, ret_text, size - 1);
	if (got < 32) /* empty or "uninitialized" in images */
		return false;
	ret_text[got] = '\0';
	return true;
}

void node_id(char ret_id[17])
{
	char text[256] = "";

	if (!read_machine_id(text, sizeof(text)) && gethostname(text, sizeof(text) - 1) < 0)
		(void)snprintf(text, sizeof(text), "localhost");
	(void)snprintf(ret_id, 17, "%016" PRIx64, hash(text));
}
