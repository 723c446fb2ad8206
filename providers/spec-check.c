/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "config/settings.h"
#include "providers/sandbox.h"

static int check_mode(
	const struct sandbox_spec *spec, const struct config *config, struct error *err)
{
	const char *asked = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(spec->metadata, "paddock_mode"));
	bool blackbox_pool = config->pool.mode == POOL_BLACKBOX;
	bool blackbox;

	if (!asked)
		return 0;
	blackbox = !strcmp(asked, "blackbox");
	if (!blackbox && strcmp(asked, "whitebox") != 0)
		return error_set(err, EINVAL,
			"'metadata.paddock_mode' must be blackbox or whitebox, not '%.40s'", asked);
	if (blackbox == blackbox_pool)
		return 0;
	return error_reason(err, EPROTOTYPE, REASON_MODE_MISMATCH,
		"paddock mode %s does not fit a pool of mode %s: start the daemon with "
		"DRESSAGE_PADDOCK_MODE=%s, or leave out metadata.paddock_mode",
		asked, blackbox_pool ? "blackbox" : "command_only", asked);
}

static bool image_is_configured(const char *image, const struct config *config)
{
	size_t len = strlen(image);

	for (size_t i = 0; i < config->images.count; i++)
		if (!strncmp(config->images.words[i], image, len) &&
			config->images.words[i][len] == '=')
			return true;
	return false;
}

/* "which has python, node" */
static void name_images(const struct config *config, struct strbuf *out)
{
	for (size_t i = 0; i < config->images.count; i++) {
		const char *word = config->images.words[i];

		strbuf_addf(out, "%s%.*s", i ? ", " : "which has ", (int)strcspn(word, "="), word);
	}
}

static int check_image(
	const struct sandbox_spec *spec, const struct config *config, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf known = STRBUF_INIT;
	const char *image = sandbox_spec_image(spec);

	if (!image || image_is_configured(image, config))
		return 0;
	name_images(config, &known);
	return error_reason(err, EINVAL, REASON_UNKNOWN_IMAGE,
		"no image '%.100s' in [images], %s; leave out env_args.sandbox_image for the "
		"default root file system",
		image, known.size ? known.data : "which has none");
}

static int check_services(
	const struct sandbox_spec *spec, const struct config *config, struct error *err)
{
	if (spec->service_count && config->slot.network == NETWORK_NONE)
		return error_set(err, EINVAL,
			"service '%.100s' needs a network, and [slot] network is none; leave out services",
			spec->services[0].name);
	return 0;
}

int sandbox_spec_check_local(
	const struct sandbox_spec *spec, const struct config *config, struct error *err)
{
	int r = check_mode(spec, config, err);

	if (r == 0)
		r = check_image(spec, config, err);
	if (r == 0)
		r = check_services(spec, config, err);
	return r;
}
