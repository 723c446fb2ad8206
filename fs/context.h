/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * context.h: what every FUSE operation is given as its userdata: the two halves of the tree.
 *
 * Inode numbers tell the halves apart: files (a lease's own root and all below it) have the top bit
 * set, everything else is control. Operations on files are done at once on the FUSE worker; those
 * on control are queued to the loop.
 */
#ifndef FS_CONTEXT_H
#define FS_CONTEXT_H

struct config;
struct control;
struct files;

struct fs_context {
	const struct config *config;
	struct files *files;
	struct control *control;
};

#endif
