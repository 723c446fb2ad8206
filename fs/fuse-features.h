/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fuse-features.h: how INIT asks for what the kernel can do, with every libfuse. Threads: any.
 */
#ifndef FS_FUSE_FEATURES_H
#define FS_FUSE_FEATURES_H

#define FUSE_USE_VERSION 318
#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdint.h>

#if FUSE_VERSION < FUSE_MAKE_VERSION(3, 17)
static inline bool fuse_set_feature_flag(struct fuse_conn_info *conn, uint64_t flag)
{
	if (conn->capable & flag)
		conn->want |= (unsigned)flag;
	return (conn->capable & flag) != 0;
}

static inline void fuse_unset_feature_flag(struct fuse_conn_info *conn, uint64_t flag)
{
	conn->want &= ~(unsigned)flag;
}
#endif

#endif
