/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Times one thing that is done with files in several directories, in turns:
 *
 *	files OPERATION ROUNDS DIR ...
 *
 * and prints "DIR P50 P99", in microseconds, a line a directory. In each there are `small` (64
 * bytes), `big` and `tree/`; `git-status` needs a repository instead.
 */
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/times.h"

enum { BLOCK = 1 << 17, PAGE = 4096, BLOCKS = 64 };

static char buffer[BLOCK];

static void to(const char *dir)
{
	if (chdir(dir) < 0)
		err(1, "%s", dir);
}

static int open_file(const char *name, int flags)
{
	int fd = open(name, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		err(1, "%s", name);
	return fd;
}

static double time_stat(void)
{
	double start = now_us();
	struct stat st;

	if (lstat("small", &st) < 0)
		err(1, "small");
	return now_us() - start;
}

static double time_open_read_close(void)
{
	double start = now_us();
	int fd = open_file("small", O_RDONLY);

	if (read(fd, buffer, 64) != 64 || close(fd) < 0)
		err(1, "small");
	return now_us() - start;
}

static double time_read(void)
{
	int fd = open_file("big", O_RDONLY);
	double start = now_us();
	ssize_t n;

	while ((n = read(fd, buffer, sizeof(buffer))) > 0)
		;
	if (n < 0)
		err(1, "big");
	start = now_us() - start;
	(void)close(fd);
	return start;
}

static double time_write(void)
{
	int fd;
	struct stat st;
	double start;

	if (stat("big", &st) < 0)
		err(1, "big");
	fd = open_file("out", O_WRONLY | O_CREAT | O_TRUNC);
	start = now_us();
	for (off_t at = 0; at < st.st_size; at += BLOCK)
		if (write(fd, buffer, BLOCK) != BLOCK)
			err(1, "out");
	if (close(fd) < 0)
		err(1, "out");
	start = now_us() - start;
	(void)unlink("out");
	return start;
}

/* Of so many reads or writes on one descriptor. */
static double time_random(int flags)
{
	int fd = open_file("big", flags);
	double start;
	struct stat st;

	if (fstat(fd, &st) < 0)
		err(1, "big");
	start = now_us();
	for (unsigned i = 0; i < BLOCKS; i++) {
		off_t at = random() % (st.st_size / PAGE) * PAGE;

		if ((flags == O_RDONLY ? pread(fd, buffer, PAGE, at)
				       : pwrite(fd, buffer, PAGE, at)) != PAGE)
			err(1, "big");
	}
	start = now_us() - start;
	(void)close(fd);
	return start;
}

static double time_pread(void)
{
	return time_random(O_RDONLY);
}

static double time_pwrite(void)
{
	return time_random(O_WRONLY);
}

static void walk(int dir_fd)
{
	DIR *dir = fdopendir(dir_fd);
	struct dirent *entry;

	if (!dir)
		err(1, "fdopendir");
	while ((entry = readdir(dir))) {
		struct stat st;

		if (entry->d_name[0] == '.')
			continue;
		if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			err(1, "%s", entry->d_name);
		if (S_ISDIR(st.st_mode))
			walk(openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	}
	(void)closedir(dir);
}

static double time_ls(void)
{
	double start = now_us();

	walk(open_file("tree", O_RDONLY | O_DIRECTORY));
	return now_us() - start;
}

/* The repository is the directory; the index is left as it is. */
static double time_git_status(void)
{
	static char git[] = "git", dash_c[] = "-c", trust[] = "safe.directory=*",
		    no_locks[] = "--no-optional-locks", status_[] = "status",
		    porcelain[] = "--porcelain";
	char *const words[] = {git, dash_c, trust, no_locks, status_, porcelain, NULL};
	double start = now_us();
	pid_t pid;
	int status;

	if (posix_spawnp(&pid, git, NULL, NULL, words, environ) != 0 ||
		waitpid(pid, &status, 0) < 0 || status != 0)
		errx(1, "git status failed");
	return now_us() - start;
}

static const struct {
	const char *name;
	double (*time)(void);
} operations[] = {
	{"stat", time_stat},
	{"open-read-close", time_open_read_close},
	{"read", time_read},
	{"write", time_write},
	{"pread", time_pread},
	{"pwrite", time_pwrite},
	{"ls-lR", time_ls},
	{"git-status", time_git_status},
};

static void measure(double (*time)(void), size_t rounds, char **dirs, size_t count)
{
	double *times = calloc(count * rounds, sizeof(*times));

	if (!times)
		err(1, "no memory");
	for (size_t i = 0; i < rounds * count; i++) {
		to(dirs[i % count]);
		times[i % count * rounds + i / count] = time();
	}
	for (size_t i = 0; i < count; i++) {
		print_times(dirs[i], times + i * rounds, rounds);
		printf("\n");
	}
	free(times);
}

int main(int argc, char **argv)
{
	size_t rounds = argc > 3 ? strtoul(argv[2], NULL, 10) : 0;

	for (size_t i = 0; rounds > 0 && i < sizeof(operations) / sizeof(*operations); i++) {
		if (strcmp(operations[i].name, argv[1]) != 0)
			continue;
		measure(operations[i].time, rounds, argv + 3, (size_t)argc - 3);
		return 0;
	}
	errx(2, "usage: files OPERATION ROUNDS DIR ...");
}
