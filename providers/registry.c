/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stddef.h>
#include <string.h>

#include "providers/sandbox-provider.h"

static const struct sandbox_provider_ops *const providers[] = {&local_bwrap_ops, &fake_ops};

const struct sandbox_provider_ops *sandbox_provider_find(const char *name)
{
	for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
		if (!strcmp(providers[i]->name, name))
			return providers[i];
	return NULL;
}
