/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * directory.h: the operations on control directories, their names and attributes. Each answers its
 * request. Threads: loop.
 */
#ifndef FS_DIRECTORY_H
#define FS_DIRECTORY_H

#include "fs/request.h"

request_fn directory_lookup, directory_mkdir, directory_rmdir, directory_unlink;
request_fn directory_getattr, directory_setattr, directory_statfs;
request_fn directory_opendir, directory_readdir, directory_releasedir;

/* Frees every open listing: the session is over. */
void directory_close_all(struct control *control);

#endif
