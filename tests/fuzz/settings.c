/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* config/settings.h: whatever stands in a file loads, or is refused with a sentence; what loads can
 * be shown. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "check.h"
#include "config/settings.h"

static void check_loaded(const struct config *config)
{
	struct strbuf shown = STRBUF_INIT;

	config_show(config, true, &shown);
	CHECK(!strbuf_failed(&shown) && shown.size);
	CHECK(config->pool.slots >= 1 && config->pool.slots <= 9999);
	CHECK(config->dressage.state_dir[0] == '/' && config->mount.mountpoint[0] == '/');
	CHECK(config->exec.shell.count);
	strbuf_fini(&shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const environ_of_nobody[] = {"HOME=/nonexistent", NULL};
	struct config_sources sources = {.environ = environ_of_nobody};
	struct error err = ERROR_NONE;
	struct config *config = NULL;
	char path[64];
	int fd = memfd_create("fuzz", MFD_CLOEXEC), r;

	CHECK(fd >= 0);
	CHECK(write(fd, data, size) == (ssize_t)size);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	sources.file = path;
	r = config_load(&sources, &config, &err);
	CHECK((r == 0) == (config != NULL));
	CHECK(r == 0 || (r == -err.code && err.text[0]));
	if (config)
		check_loaded(config);
	config_free(config);
	(void)close(fd);
	return 0;
}
