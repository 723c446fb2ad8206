/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ops.h: the FUSE operations of the whole tree; the session's userdata is a struct fs_context.
 * Threads: FUSE workers.
 */
#ifndef FS_OPS_H
#define FS_OPS_H

#define FUSE_USE_VERSION 318
#include <fuse_lowlevel.h>

extern const struct fuse_lowlevel_ops fs_ops;

#endif
