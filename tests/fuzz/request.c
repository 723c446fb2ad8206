/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* providers/sandbox.h: a spec is the same when it is written and read again; a command keeps what
 * its header promises. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "check.h"
#include "config/settings.h"
#include "providers/sandbox.h"

static void check_spec(const char *text, size_t size)
{
	CLEANUP(strbuf_fini) struct strbuf once = STRBUF_INIT, twice = STRBUF_INIT;
	struct sandbox_spec spec, again;
	struct error err = ERROR_NONE;
	int r = sandbox_spec_decode(text, size, &spec, &err);

	if (r < 0) {
		CHECK(r == -EINVAL && err.text[0]);
		return;
	}
	CHECK(spec.trajectory_id && *spec.trajectory_id);
	sandbox_spec_render(&spec, &once);
	CHECK(sandbox_spec_decode(once.data, once.size, &again, &err) == 0);
	sandbox_spec_render(&again, &twice);
	CHECK(once.size == twice.size && !memcmp(once.data, twice.data, once.size));
	sandbox_spec_fini(&spec);
	sandbox_spec_fini(&again);
}

static void check_command(const char *text, size_t size)
{
	static struct config config;
	struct command command;
	struct error err = ERROR_NONE;
	int r;

	config.exec.max_output = 1024 * 1024;
	r = command_decode(text, size, &config, &command, &err);
	if (r < 0) {
		CHECK(r == -EINVAL && err.text[0]);
		return;
	}
	CHECK(!command.script != !command.argv);
	CHECK(!command.argv || command.argv[0]);
	for (char **pair = command.env; pair && *pair; pair++)
		CHECK(strchr(*pair, '=') > *pair);
	command_fini(&command);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] & 1)
		check_spec((const char *)data + 1, size - 1);
	else
		check_command((const char *)data + 1, size - 1);
	return 0;
}
