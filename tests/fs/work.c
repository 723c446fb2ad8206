/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What an agent's harness does, in C, with plain file calls: arguments = mount, trajectory. */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char reply[1 << 20];

static void ask(const char *path, const char *request)
{
	size_t size = 0;
	ssize_t n;
	int fd = open(path, O_RDWR);

	if (fd < 0 || write(fd, request, strlen(request)) < 0)
		err(1, "%s", path);
	while ((n = read(fd, reply + size, sizeof(reply) - 1 - size)) > 0)
		size += (size_t)n;
	if (n < 0 || close(fd) < 0)
		err(1, "%s", path);
	reply[size] = '\0';
}

static void expect(const char *part)
{
	if (!strstr(reply, part))
		errx(1, "no %s in %s", part, reply);
}

int main(int argc, char **argv)
{
	char path[4096], text[64] = "";
	FILE *file;
	int n = argc == 3 ? snprintf(path, sizeof(path), "%s/leases/%s", argv[1], argv[2]) : -1;

	if (n < 0 || mkdir(path, 0755) < 0)
		err(1, "mkdir");
	strcpy(path + n, "/fs/workspace/words.txt");
	file = fopen(path, "w");
	if (!file || fputs("pear\napple\nfig\n", file) < 0 || fclose(file) != 0)
		err(1, "%s", path);
	strcpy(path + n, "/run_command");
	ask(path, "LC_ALL=C sort words.txt > sorted.txt\nwc -l < sorted.txt");
	expect("\"stdout\":\"3\\n\"");
	ask(path, "{\"command\": [\"printf\", \"%s\", \"$(id)\"]}");
	expect("\"stdout\":\"$(id)\"");
	ask(path, "false");
	expect("\"returncode\":1");
	strcpy(path + n, "/fs/workspace/sorted.txt");
	file = fopen(path, "r");
	if (!file || fread(text, 1, sizeof(text) - 1, file) != 15 ||
		strcmp(text, "apple\nfig\npear\n") != 0)
		errx(1, "sorted.txt holds %s", text);
	(void)fclose(file);
	path[n] = '\0';
	if (rmdir(path) < 0)
		err(1, "rmdir");
	puts("done");
	return 0;
}
