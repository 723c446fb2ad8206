/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * etc-private.h: what the files of etc.h share. etc-copy.c copies, etc.c knows what. Each gives
 * -errno. A link is copied as a link; what "others" may not read is passed over.
 */
#ifndef POOL_ETC_PRIVATE_H
#define POOL_ETC_PRIVATE_H

/* A whole tree; nothing there is no error. */
int etc_remove(const char *path);
/* Readable by everybody; -EEXIST. The descriptor. */
int etc_create_file(int dir, const char *name);
/* Or opens the one that is there. */
int etc_create_directory(int parent, const char *name);
int etc_copy_link(int from_dir, int to_dir, const char *name);
/* Whatever it is; directories as deep as /etc is. */
int etc_copy_entry(int from_dir, int to_dir, const char *name, int depth);

#endif
