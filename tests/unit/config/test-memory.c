/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test-memory.c: a load whose n-th allocation fails, for each n. The linker wraps what allocates
 * (meson.build).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "loading.h"

static long left = -1; /* allocations until one fails; negative: none does */

static bool fails_now(void)
{
	return left >= 0 && left-- == 0;
}

#define WRAP(name, type, params, args)                                                             \
	type __real_##name params;                                                                 \
	type __wrap_##name params;                                                                 \
	type __wrap_##name params                                                                  \
	{                                                                                          \
		return fails_now() ? NULL : __real_##name args;                                    \
	}

WRAP(calloc, void *, (size_t count, size_t size), (count, size))
WRAP(realloc, void *, (void *old, size_t size), (old, size))
WRAP(reallocarray, void *, (void *old, size_t count, size_t size), (old, count, size))
WRAP(strdup, char *, (const char *text), (text))
WRAP(strndup, char *, (const char *text, size_t size), (text, size))

static const char ini[] =
	"[dressage]\nlog_level = debug\n[pool]\nslots = 3\n[slot]\nreadonly_mounts = /usr:/lib\n"
	"bwrap_args = --a 'b c'\n  --d\nenv_pass = A B*\n[exec]\nkeep = 5\n";
static const char *const variables[] = {"DRESSAGE_PADDOCK_MODE=whitebox", "E2B_API_KEY=k",
	"DRESSAGE_E2B_API_KEY=l", "DRESSAGE_LOCAL_BWRAP_TOTAL_SERVERS=2",
	"DRESSAGE_BLACKBOX_DISABLE_PROC=1", "DRESSAGE_BLACKBOX_BIND_HOSTS=x", "HOME=/h", NULL};
static const char *const options[] = {"slot.network=host", "pool.slots=5", NULL};

/* Whether an allocation has failed is told by *ret_failed. */
static int load_with(
	long allocations, const char *const *some_options, bool *ret_failed, struct error *err)
{
	struct config_sources sources = {.environ = variables, .overrides = some_options};
	struct config *config = NULL;
	char path[64];
	int fd = ini_file(ini, path, sizeof(path)), r;

	sources.file = path;
	left = allocations;
	r = config_load_with(&sources, &root_facts, &config, err);
	*ret_failed = left < 0;
	left = -1;
	assert_int_equal(config != NULL, r == 0);
	config_free(config);
	(void)close(fd);
	return r;
}

static void a_load_without_memory_fails_as_that_and_leaks_nothing(void **state)
{
	struct error err = ERROR_NONE;
	bool failed = true;
	long n, refused = 0;
	int r;

	for (n = 0; failed && n < 10000; n++) {
		r = load_with(n, options, &failed, &err);
		if (r < 0 && r != -ENOMEM)
			fail_with("another error", "out of memory", err.text);
		refused += r < 0;
	}
	assert_false(failed);
	assert_true(refused > 100);
}

static void a_refusal_without_memory_is_still_a_refusal(void **state)
{
	static const char *const bad[] = {"slot.runner=direct", NULL};
	struct error err = ERROR_NONE;
	bool failed = true;
	int r = 0;
	long n;

	for (n = 0; failed && n < 10000; n++) {
		r = load_with(n, bad, &failed, &err);
		assert_true(r == -ENOMEM || r == -EOPNOTSUPP);
	}
	assert_int_equal(r, -EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_load_without_memory_fails_as_that_and_leaks_nothing),
		cmocka_unit_test(a_refusal_without_memory_is_still_a_refusal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
