/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * symlink.h: which text of a sandbox's symbolic link may be shown to a client, whose kernel
 * will resolve it.
 *
 * The sandbox chooses the text; the client follows it on the host. Sound by induction over the
 * parts of a path:
 *
 *	R1 relative, `..` only at its front and no more of them than the link is deep: shown as
 *	   it is;
 *	R2 absolute, without `..`: shown relative to the root of the lease, which is the
 *	   sandbox's `/`;
 *	R3 anything else is not shown.
 *
 * Depth is the number of directories between the lease's root and the link, so a link in the
 * root has depth 0. Pure. Threads: any.
 */
#ifndef FS_SYMLINK_H
#define FS_SYMLINK_H

#include <stddef.h>

enum { SYMLINK_TEXT_SIZE = 4096 }; /* Linux's limit of a link's text, with the NUL */

enum symlink_kind {
	SYMLINK_RELATIVE, /* R1 when it climbs no more than its depth */
	SYMLINK_ABSOLUTE, /* R2 */
	SYMLINK_REFUSED,  /* R3: empty, or a `..` after a name */
};

/* *ret_climbs: how many `..` a relative text begins with; 0 for the other kinds. */
enum symlink_kind symlink_classify(const char *text, unsigned *ret_climbs);

/*
 * Writes what a link of that depth shows. -EPERM by R3, or when R1 is not met; -ENAMETOOLONG when
 * R2's text is too long. ret_shown has SYMLINK_TEXT_SIZE bytes and is written on success only.
 */
int symlink_show(const char *text, unsigned depth, char *ret_shown);

/*
 * How much of an absolute text stands behind its slashes, and how long that is shown at a depth.
 */
size_t symlink_rest(const char *text);
size_t symlink_shown_size(size_t rest, unsigned depth);

#endif
