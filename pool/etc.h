/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * etc.h: the directory that slots see as /etc. Made once per daemon and root file system: users and
 * names of our own, and copies of what programs look for there. Nothing that the host, or the root
 * file system, keeps from its users is copied. Threads: any; blocks on disk.
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

/*
 * Makes path anew; an older one is removed first. Its parent must exist. rootfs: whose /etc it
 * shows, but for hosts, resolv.conf and hostname, with the commands' user added; NULL: the host's.
 */
int etc_create(
	const struct config *config, const char *rootfs, const char *path, struct error *err);

#endif
