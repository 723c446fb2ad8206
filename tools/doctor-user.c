/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* As whom the daemon runs, and whose its slots' processes are. */
#include <errno.h>
#include <fts.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/settings.h"
#include "pool/uid-map.h"
#include "tools/doctor.h"

enum { IDS_PER_SLOT = 65536 };

/* /etc/subuid: NAME:FIRST:COUNT. The name of one that overlaps. */
static bool overlapping(
	const char *text, unsigned long long first, unsigned long long end, char ret_name[64])
{
	for (const char *line = text; *line;) {
		unsigned long long from, count;

		if (sscanf(line, "%63[^:]:%llu:%llu", ret_name, &from, &count) == 3 && from < end &&
			first < from + count)
			return true;
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return false;
}

/* /etc/passwd: name:x:UID:... */
static bool taken(
	const char *text, unsigned long long first, unsigned long long end, char ret_name[64])
{
	for (const char *line = text; *line;) {
		unsigned long long uid;

		if (sscanf(line, "%63[^:]:%*[^:]:%llu:", ret_name, &uid) == 2 && uid >= first &&
			uid < end)
			return true;
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return false;
}

static void check_range(struct doctor *doctor, unsigned long long first, unsigned long long count)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	char name[64];

	if (doctor_read(doctor, "/etc/subuid", &text) &&
		overlapping(text.data, first, first + count, name))
		doctor_warn(doctor, "set slot.uid_base to ids that are nobody's",
			"the slots' host uids %llu to %llu overlap those of '%s' in /etc/subuid",
			first, first + count - 1, name);
	else if (doctor_read(doctor, "/etc/passwd", &text) &&
		 taken(text.data, first, first + count, name))
		doctor_warn(doctor, "set slot.uid_base to ids that are nobody's",
			"the slots' host uids %llu to %llu have the user '%s' among them", first,
			first + count - 1, name);
	else
		doctor_ok(
			doctor, "slots have the host uids %llu to %llu", first, first + count - 1);
}

void check_uids(struct doctor *doctor)
{
	unsigned first = doctor->config->slot.uid_base;
	unsigned long long count = (unsigned long long)doctor->config->pool.slots * IDS_PER_SLOT;
	static const char *const maps[] = {"/proc/self/uid_map", "/proc/self/gid_map"};

	if (!doctor->privileged) {
		doctor_ok(doctor, "slots run as this user, %u", (unsigned)geteuid());
		return;
	}
	for (unsigned i = 0; i < 2; i++) {
		CLEANUP(strbuf_fini) struct strbuf map = STRBUF_INIT;

		if (!doctor_read(doctor, maps[i], &map) || uid_map_has(map.data, first, count))
			continue;
		doctor_fail(doctor,
			"give the container a larger range of ids, set slot.uid_base to ids that it has, or run the daemon as a plain user",
			"%llu ids from %u on are not all there in this user namespace (%s)", count,
			first, maps[i]);
		return;
	}
	check_range(doctor, first, count);
}

/* Groups of a plain daemon: it cannot drop them, and its slots have them too */

enum { LOOKED_AT_MOST = 300000 };

/* The group of those that lets us read what others may not. 0: none does. */
static gid_t opened_by(const struct stat *st, const gid_t *groups, int count)
{
	if (!(st->st_mode & S_IRGRP) || st->st_mode & S_IROTH || st->st_uid == geteuid())
		return 0;
	for (int i = 0; i < count; i++)
		if (groups[i] == st->st_gid && groups[i] != getegid())
			return groups[i];
	return 0;
}

/* The first thing below the bound paths that one of the groups opens; "" when there is none. */
static gid_t find_opened(
	const struct config *config, const gid_t *groups, int count, struct strbuf *ret_path)
{
	static char usr[] = "/usr";
	char *builtin[] = {usr, NULL};
	bool own_list = config->slot.readonly_mounts.count > 0;
	FTS *tree = fts_open(own_list ? config->slot.readonly_mounts.words : builtin,
		FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
	unsigned looked = 0;
	gid_t found = 0;
	FTSENT *entry;

	while (tree && !found && looked++ < LOOKED_AT_MOST && (entry = fts_read(tree))) {
		if (entry->fts_info == FTS_F || entry->fts_info == FTS_D ||
			entry->fts_info == FTS_DNR)
			found = opened_by(entry->fts_statp, groups, count);
		if (found)
			strbuf_adds(ret_path, entry->fts_path);
	}
	if (tree)
		(void)fts_close(tree);
	return found;
}

static const char *group_name(gid_t gid)
{
	const struct group *group = getgrgid(gid); // NOLINT(concurrency-mt-unsafe)

	return group ? group->gr_name : "";
}

void check_groups(struct doctor *doctor)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;
	gid_t groups[256], found;
	int count = getgroups(256, groups);

	if (doctor->privileged) {
		doctor_ok(doctor, "root drops its groups for each slot");
		return;
	}
	if (count < 0) {
		doctor_warn(doctor, "run the daemon as a user with fewer groups",
			"this user's groups cannot be told: %s", strerrordesc_np(errno));
		return;
	}
	for (int i = 0; i <= count; i++) {
		if ((i < count ? groups[i] : getegid()) != 0)
			continue;
		doctor_fail(doctor,
			"take this user out of the group root, or start the daemon as another one",
			"this user is in group 0, and so are its slots: they read what is root's group's");
		return;
	}
	found = find_opened(doctor->config, groups, count, &path);
	if (found)
		doctor_warn(doctor, "start the daemon as a user without that group",
			"slots keep this user's group %u (%s), which opens '%s' to them",
			(unsigned)found, group_name(found), path.data);
	else
		doctor_ok(doctor, "%d groups, none of which opens more to a slot", count);
}

/* Slots of a plain daemon share its quotas */

void check_user_quotas(struct doctor *doctor)
{
	long long watches, keys;

	if (doctor->privileged) {
		doctor_ok(doctor, "each slot has quotas of its own");
		return;
	}
	watches = doctor_number(doctor, "/proc/sys/fs/inotify/max_user_instances", 1 << 20);
	keys = doctor_number(doctor, "/proc/sys/kernel/keys/maxkeys", 1 << 20);
	if (watches < 128 + 8LL * doctor->config->pool.slots)
		doctor_warn(doctor,
			"raise fs.inotify.max_user_instances, or run the daemon as root",
			"%lld inotify instances for all %u slots together: one slot can take them all",
			watches, doctor->config->pool.slots);
	else if (keys < 64 + (long long)doctor->config->pool.slots)
		doctor_warn(doctor, "raise kernel.keys.maxkeys, or run the daemon as root",
			"%lld kernel keys for this user and all %u slots together", keys,
			doctor->config->pool.slots);
	else
		doctor_ok(doctor, "this user's quotas are shared by its slots, and large enough");
}
