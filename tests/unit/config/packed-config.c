/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * packed-config.c: the size of struct config when nothing stands between its fields, which is the
 * sum of their sizes.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#pragma pack(push, 1)
#include "config/settings.h"
#pragma pack(pop)

size_t packed_config_size(void);

size_t packed_config_size(void)
{
	return sizeof(struct config);
}
