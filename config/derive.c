/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * derive.c: the values of what nobody set, from other settings and from the machine.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "config/setting.h"

/*
 * The kernel counts descriptors in flight by user: where slots share the daemon's own uid, one of
 * them could keep it from sending a command its stdio, unless a slot's processes have few.
 */
enum { NOFILE_WANTED = 65536, NOFILE_OF_A_USER = 512 };

enum { PASSWD_ROOM = 16384 };

static bool is_set(const struct config *config, const char *section, const char *key)
{
	return setting_is_set(config, setting_find(section, key));
}

/* "section.key, which DRESSAGE_X sets" */
static void describe(
	const struct config *config, const char *section, const char *key, struct strbuf *out)
{
	strbuf_addf(out, "%s.%s (", section, key);
	setting_describe_origin(config, setting_find(section, key), out);
	strbuf_addc(out, ')');
}

/* Derives a value that is made of several words. */
__attribute__((format(printf, 6, 7))) static int derive_text(struct config *config,
	const char *section, const char *key, const char *from, struct error *err, const char *fmt,
	...)
{
	CLEANUP(strbuf_fini) struct strbuf value = STRBUF_INIT;
	va_list args;

	va_start(args, fmt);
	strbuf_vaddf(&value, fmt, args);
	va_end(args);
	if (strbuf_failed(&value))
		return error_set(err, ENOMEM, "out of memory");
	return setting_derive(config, section, key, value.data, from, err);
}

/* ---- modes ---- */

static int derive_modes(struct config *config, struct error *err)
{
	bool paddock_set = is_set(config, "dressage", "paddock_mode"),
	     pool_set = is_set(config, "pool", "mode");
	CLEANUP(strbuf_fini) struct strbuf from = STRBUF_INIT;

	if (paddock_set && !pool_set) {
		describe(config, "dressage", "paddock_mode", &from);
		return setting_derive(config, "pool", "mode",
			config->dressage.paddock_mode == PADDOCK_BLACKBOX ? "blackbox"
									  : "command_only",
			from.data, err);
	}
	if (pool_set && !paddock_set) {
		describe(config, "pool", "mode", &from);
		return setting_derive(config, "dressage", "paddock_mode",
			config->pool.mode == POOL_BLACKBOX ? "blackbox" : "whitebox", from.data,
			err);
	}
	return 0;
}

/* ---- directories ---- */

static const char *home_of(uid_t uid, const char *const *variables, char *room, size_t size)
{
	struct passwd entry, *found = NULL;
	const char *home = environ_get(variables, "HOME");

	if (home)
		return home;
	if (getpwuid_r(uid, &entry, room, size, &found) != 0 || !found)
		return NULL;
	return found->pw_dir;
}

static int derive_state_dir(
	struct config *config, const char *const *variables, uid_t uid, struct error *err)
{
	const char *base = environ_get(variables, "XDG_STATE_HOME"), *home;
	char room[PASSWD_ROOM];

	if (is_set(config, "dressage", "state_dir"))
		return 0;
	if (uid == 0)
		return setting_derive(config, "dressage", "state_dir", "/var/lib/dressage",
			"the user, root", err);
	if (base)
		return derive_text(config, "dressage", "state_dir", "XDG_STATE_HOME", err,
			"%s/dressage", base);
	home = home_of(uid, variables, room, sizeof(room));
	if (!home)
		return error_set(err, EINVAL,
			"no place for the state: set [dressage] state_dir, XDG_STATE_HOME or HOME");
	return derive_text(config, "dressage", "state_dir", "the home directory", err,
		"%s/.local/state/dressage", home);
}

static int derive_mountpoint(
	struct config *config, const char *const *variables, uid_t uid, struct error *err)
{
	const char *base = environ_get(variables, "XDG_RUNTIME_DIR");

	if (is_set(config, "mount", "mountpoint"))
		return 0;
	if (uid == 0)
		return setting_derive(
			config, "mount", "mountpoint", "/mnt/dressage", "the user, root", err);
	if (base)
		return derive_text(
			config, "mount", "mountpoint", "XDG_RUNTIME_DIR", err, "%s/dressage", base);
	return derive_text(config, "mount", "mountpoint",
		"dressage.state_dir, as XDG_RUNTIME_DIR is not set", err, "%s/mnt",
		config->dressage.state_dir);
}

static int derive_slot_dir(struct config *config, struct error *err)
{
	if (is_set(config, "pool", "slot_dir"))
		return 0;
	return setting_derive(
		config, "pool", "slot_dir", config->dressage.state_dir, "dressage.state_dir", err);
}

/* ---- how many ---- */

static int derive_slots(struct config *config, const struct config_facts *facts, struct error *err)
{
	static const char total_name[] = "DRESSAGE_LOCAL_BWRAP_TOTAL_SERVERS";
	const struct setting *total = setting_find_variable(total_name),
			     *slots = setting_find("pool", "slots");
	bool slots_set = setting_is_set(config, slots), total_set = setting_is_set(config, total);
	uint32_t cap = config->pool.total_servers;
	int r;

	if (!slots_set && !total_set)
		return derive_text(config, "pool", "slots", "2 x CPUs", err, "%u",
			facts->cpus > 4999 ? 9999 : 2 * facts->cpus);
	if (!total_set || (slots_set && config->pool.slots <= cap))
		return 0;
	if (slots_set) {
		CLEANUP(strbuf_fini) struct strbuf origin = STRBUF_INIT;

		setting_describe_origin(config, slots, &origin);
		r = config_remark(config, LOG_LEVEL_INFO, err,
			"pool.slots = %u (%s) is cut to %u by %s", config->pool.slots, origin.data,
			cap, total_name);
		if (r < 0)
			return r;
	}
	if (cap > slots->max)
		return error_set(err, EINVAL,
			"%s = %u, alone, would be the slots of this machine: set [pool] slots, 1 to %u",
			total_name, cap, (unsigned)slots->max);
	return derive_text(config, "pool", "slots", total_name, err, "%u", cap);
}

static int derive_nofile(struct config *config, const struct config_facts *facts, struct error *err)
{
	uint64_t hard = facts->nofile_hard,
		 wanted = facts->uid == 0 ? NOFILE_WANTED : NOFILE_OF_A_USER;
	uint32_t set = config->slot.nofile;
	int r;

	if (!is_set(config, "slot", "nofile"))
		return derive_text(config, "slot", "nofile",
			facts->uid == 0 ? "the hard limit, at most 65536" : "the user, not root",
			err, "%llu", (unsigned long long)(hard < wanted ? hard : wanted));
	if (set <= hard)
		return 0;
	r = config_remark(config, LOG_LEVEL_WARN, err,
		"slot.nofile = %u is cut to the daemon's own hard limit, %llu", set,
		(unsigned long long)hard);
	if (r < 0)
		return r;
	return derive_text(
		config, "slot", "nofile", "the hard limit", err, "%llu", (unsigned long long)hard);
}

/* Who may write anywhere is root there: nobody else may in a root file system. */
static int derive_slot_ids(struct config *config, struct error *err)
{
	int r = 0;

	if (!config->slot.overlay)
		return 0;
	if (!is_set(config, "slot", "uid"))
		r = setting_derive(config, "slot", "uid", "0", "slot.overlay", err);
	if (r == 0 && !is_set(config, "slot", "gid"))
		r = setting_derive(config, "slot", "gid", "0", "slot.overlay", err);
	return r;
}

/* ---- owner ---- */

/* True when all of the text is a number that a uid can be. */
static bool parse_id(const char *text, uint32_t *ret_id)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (!isdigit((unsigned char)text[0]) || *end || value >= UINT32_MAX)
		return false;
	*ret_id = (uint32_t)value;
	return true;
}

static int find_user(
	const char *name, uid_t *ret_uid, gid_t *ret_gid, bool *ret_has_group, struct error *err)
{
	struct passwd entry, *found = NULL;
	char room[PASSWD_ROOM];
	uint32_t id;
	int r;

	if (parse_id(name, &id))
		r = getpwuid_r(id, &entry, room, sizeof(room), &found);
	else
		r = getpwnam_r(name, &entry, room, sizeof(room), &found);
	if (!found && !parse_id(name, &id))
		return r ? error_errno(err, r, "[mount] owner = '%s'", name)
			 : error_set(err, EINVAL, "[mount] owner = '%s': there is no such user",
				   name);
	*ret_has_group = found != NULL;
	*ret_uid = found ? found->pw_uid : id;
	if (found)
		*ret_gid = found->pw_gid;
	return 0;
}

static int find_group(const char *name, gid_t *ret_gid, struct error *err)
{
	struct group entry, *found = NULL;
	char room[PASSWD_ROOM];
	uint32_t id;
	int r;

	if (parse_id(name, &id)) {
		*ret_gid = id;
		return 0;
	}
	r = getgrnam_r(name, &entry, room, sizeof(room), &found);
	if (!found)
		return r ? error_errno(err, r, "[mount] group = '%s'", name)
			 : error_set(err, EINVAL, "[mount] group = '%s': there is no such group",
				   name);
	*ret_gid = found->gr_gid;
	return 0;
}

static int derive_group(struct config *config, bool has_group, struct error *err)
{
	if (config->mount.group[0])
		return find_group(config->mount.group, &config->mount.owner_gid, err);
	if (!has_group)
		return error_set(err, EINVAL,
			"[mount] owner = '%s' is no user of this machine: set [mount] group too",
			config->mount.owner);
	return 0;
}

static int derive_owner(struct config *config, const struct config_facts *facts, struct error *err)
{
	bool has_group = true;
	int r = 0;

	config->mount.owner_uid = facts->uid;
	config->mount.owner_gid = facts->gid;
	if (config->mount.owner[0])
		r = find_user(config->mount.owner, &config->mount.owner_uid,
			&config->mount.owner_gid, &has_group, err);
	if (r == 0)
		r = derive_group(config, has_group, err);
	return r;
}

static int derive_allow_other(struct config *config, uid_t uid, struct error *err)
{
	if (is_set(config, "mount", "allow_other"))
		return 0;
	return setting_derive(config, "mount", "allow_other", uid == 0 ? "on" : "off",
		uid == 0 ? "the user, root" : "the user, not root", err);
}

/* ---- addresses ---- */

static bool is_any_address(const char *host)
{
	return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 || strcmp(host, "*") == 0;
}

/*
 * The first IPv4 address of this machine that others may reach; the loopback one when there is
 * none.
 */
static void machine_address(char *room, socklen_t size)
{
	struct ifaddrs *all = NULL, *at;

	(void)snprintf(room, size, "127.0.0.1");
	if (getifaddrs(&all) < 0)
		return;
	for (at = all; at; at = at->ifa_next) {
		if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET ||
			at->ifa_flags & IFF_LOOPBACK || !(at->ifa_flags & IFF_UP))
			continue;
		if (inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)at->ifa_addr)->sin_addr,
			    room, size))
			break;
	}
	freeifaddrs(all);
}

static int derive_advertise_ip(struct config *config, struct error *err)
{
	char room[INET6_ADDRSTRLEN];

	if (is_set(config, "pool", "advertise_ip"))
		return 0;
	if (!is_any_address(config->pool.bind_host))
		return setting_derive(config, "pool", "advertise_ip", config->pool.bind_host,
			"pool.bind_host", err);
	machine_address(room, sizeof(room));
	return setting_derive(config, "pool", "advertise_ip", room, "this machine's address", err);
}

static int derive_api_url(struct config *config, struct error *err)
{
	if (is_set(config, "e2b", "api_url"))
		return 0;
	return derive_text(
		config, "e2b", "api_url", "e2b.domain", err, "https://api.%s", config->e2b.domain);
}

static int derive_server_command(struct config *config, struct error *err)
{
	if (is_set(config, "blackbox", "server_command"))
		return 0;
	return derive_text(config, "blackbox", "server_command",
		"blackbox.python and server_module", err, "%s -m %s", config->blackbox.python,
		config->blackbox.server_module);
}

int config_derive(struct config *config, const struct config_sources *sources,
	const struct config_facts *facts, struct error *err)
{
	int r = derive_modes(config, err);

	if (r == 0)
		r = derive_state_dir(config, sources->environ, facts->uid, err);
	if (r == 0)
		r = derive_mountpoint(config, sources->environ, facts->uid, err);
	if (r == 0)
		r = derive_slot_dir(config, err);
	if (r == 0)
		r = derive_slots(config, facts, err);
	if (r == 0)
		r = derive_nofile(config, facts, err);
	if (r == 0)
		r = derive_slot_ids(config, err);
	if (r == 0)
		r = derive_owner(config, facts, err);
	if (r == 0)
		r = derive_allow_other(config, facts->uid, err);
	if (r == 0)
		r = derive_advertise_ip(config, err);
	if (r == 0)
		r = derive_api_url(config, err);
	if (r == 0)
		r = derive_server_command(config, err);
	return r;
}
