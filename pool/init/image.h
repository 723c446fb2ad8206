/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* image.h: the bytes of the static program of this folder, as linked into the daemon. */
#ifndef POOL_INIT_IMAGE_H
#define POOL_INIT_IMAGE_H

extern const char init_image_begin[], init_image_end[];

#endif
