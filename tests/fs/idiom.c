/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The plain C way: one descriptor, write, read to the end. Prints the reply. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static const char request[] = "echo a\n";
	char reply[65536];
	ssize_t n;
	int fd = argc == 2 ? open(argv[1], O_RDWR) : -1;

	if (fd < 0) {
		perror("open");
		return 1;
	}
	if (write(fd, request, strlen(request)) < 0) {
		perror("write");
		return 1;
	}
	while ((n = read(fd, reply, sizeof(reply))) > 0)
		fwrite(reply, 1, (size_t)n, stdout);
	if (n < 0 || close(fd) < 0) {
		perror("read");
		return 1;
	}
	return 0;
}
