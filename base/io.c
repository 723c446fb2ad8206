/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/io.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/strbuf.h"

enum { CHUNK_MIN = 4096, CHUNK_MAX = 65536 };

int write_all(int fd, const void *bytes, size_t size)
{
	for (const char *at = bytes; size > 0;) {
		ssize_t n = write(fd, at, size);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			at += n;
			size -= (size_t)n;
		}
	}
	return 0;
}

int read_all(int fd, struct strbuf *out)
{
	for (size_t chunk = CHUNK_MIN;; chunk = chunk < CHUNK_MAX ? 2 * chunk : CHUNK_MAX) {
		char *room = strbuf_room(out, chunk);
		ssize_t n;

		if (!room)
			return -ENOMEM;
		n = read(fd, room, chunk);
		if (n == 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			strbuf_grown(out, (size_t)n);
	}
}

int read_text(const char *path, struct strbuf *out)
{
	CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	return fd < 0 ? -errno : read_all(fd, out);
}

void read_tail(int fd, char *ret_text, size_t size)
{
	struct stat st;
	off_t from = 0;
	ssize_t n = -1;

	if (fd >= 0 && fstat(fd, &st) == 0) {
		if (st.st_size > (off_t)size - 1)
			from = st.st_size - ((off_t)size - 1);
		n = pread(fd, ret_text, size - 1, from);
	}
	while (n > 0 && isspace((unsigned char)ret_text[n - 1]))
		n--;
	ret_text[n > 0 ? n : 0] = '\0';
}
