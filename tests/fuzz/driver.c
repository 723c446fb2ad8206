/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gives every file of a folder to a fuzz target, as a TAP test: what libFuzzer once found stays
 * found, with any compiler. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 1024 * 1024 };

static int is_input(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* A copy of exactly the file's size, so that a sanitizer sees each byte read behind it. */
static int run_file(const char *folder, const char *name)
{
	char path[4096];
	uint8_t *bytes = malloc(INPUT_MAX), *exact = NULL;
	FILE *file;
	size_t size;
	int r = -1;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "rb");
	if (!file || !bytes)
		goto out;
	size = fread(bytes, 1, INPUT_MAX, file);
	exact = malloc(size ? size : 1);
	if (!exact)
		goto out;
	memcpy(exact, bytes, size);
	r = LLVMFuzzerTestOneInput(exact, size);
out:
	if (file)
		(void)fclose(file);
	free(bytes);
	free(exact);
	return r;
}

int main(int argc, char **argv)
{
	struct dirent **inputs = NULL;
	int count = argc == 2 ? scandir(argv[1], &inputs, is_input, alphasort) : -1, bad = 0;

	if (count <= 0) {
		printf("1..1\nnot ok 1 - there is no corpus to replay\n");
		return 1;
	}
	printf("1..%d\n", count);
	for (int i = 0; i < count; i++) {
		int r = run_file(argv[1], inputs[i]->d_name);

		printf("%sok %d - %s\n", r == 0 ? "" : "not ", i + 1, inputs[i]->d_name);
		(void)fflush(stdout);
		bad |= r != 0;
		free(inputs[i]);
	}
	free(inputs);
	return bad;
}
