/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Root of a slot with a range of ids, which its commands may be with an overlay; in every other
 * slot the same attempts end at the first step. */
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/security/hostile.h"

/* chown, dac_override, fowner, fsetid, setgid, setuid */
enum { PACKAGES_NEED = 0xdb };

static const char *count_capabilities(const struct decoys *decoys)
{
	FILE *status = fopen("/proc/self/status", "re");
	const char *answer = NULL;
	char line[256];
	unsigned long long caps;

	while (status && !answer && fgets(line, sizeof(line), status)) {
		if (sscanf(line, "Cap%*3s: %llx", &caps) == 1 &&
			(caps & ~(unsigned long long)PACKAGES_NEED))
			answer = got("%.40s", line);
	}
	if (status)
		(void)fclose(status);
	return answer;
}

/* Of host root's, which is nobody in here: no capability of the slot's opens it. */
static const char *read_host_roots(const struct decoys *decoys)
{
	return can_open(decoys->root_file, O_RDONLY) || can_open(decoys->root_file, O_WRONLY)
		       ? got("%s opens", decoys->root_file)
		       : NULL;
}

static void become(int nth)
{
	uid_t uid = (uid_t)nth + 1;

	(void)setresuid(uid, uid, uid);
}

/* A limit per user is none for who can be any user. */
static const char *fork_as_many_users(const struct decoys *decoys)
{
	return fork_to_the_limit(become);
}

/* Inside the range are the slot's own; beyond it there is nobody to become. */
static const char *become_somebody_else(const struct decoys *decoys)
{
	static const uid_t beyond[] = {65536, 100000, 2000000, 0xfffffffe};

	for (size_t i = 0; i < sizeof(beyond) / sizeof(*beyond); i++) {
		if (setresuid(beyond[i], beyond[i], beyond[i]) == 0 ||
			setresgid(beyond[i], beyond[i], beyond[i]) == 0)
			return got("id %u", (unsigned)beyond[i]);
		if (chown("/tmp", beyond[i], beyond[i]) == 0)
			return got("a directory of id %u", (unsigned)beyond[i]);
	}
	return NULL;
}

const struct attempt root_attempts[] = {
	{"root_of_a_slot_has_only_what_packages_need", count_capabilities},
	{"root_of_a_slot_is_nobody_to_the_hosts_files", read_host_roots},
	{"a_fork_bomb_of_many_users_ends_too", fork_as_many_users},
	{"there_is_nobody_to_become_beyond_the_slots_ids", become_somebody_else},
	{NULL, NULL},
};
