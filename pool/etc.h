/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * etc.h: the directory that slots see as /etc. Made once per daemon: users and names of our own,
 * and copies of what programs of the host's /usr look for there. Nothing that the host keeps from
 * its users is copied. Threads: any; blocks on disk.
 */
#ifndef POOL_ETC_H
#define POOL_ETC_H

struct config;
struct error;

/*
 * Directories of hundreds of links, which are bound over the copy rather than copied: names below
 * /etc, NULL-terminated. The copy has an empty directory for each that the host has.
 */
extern const char *const etc_bound[];

/* Makes path anew; an older one is removed first. Its parent must exist. */
int etc_create(const struct config *config, const char *path, struct error *err);

#endif
