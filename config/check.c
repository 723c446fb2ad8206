/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * check.c: what does not fit together, or is not there yet. A refusal names the settings, the
 * reason and the way out.
 */
#include <errno.h>
#include <grp.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "config/path-under.h"
#include "config/setting.h"

enum { UIDS_OF_A_SLOT = 65536, LEAST_PROCESSES = 3 };

static void describe(const struct config *config, const struct setting *row, struct strbuf *out)
{
	strbuf_addf(out, "[%s] %s = ", row->section, row->key);
	row->type->print(row, setting_field_of(config, row), out);
	strbuf_adds(out, " (");
	setting_describe_origin(config, row, out);
	strbuf_addc(out, ')');
}

/* ---- what is not there yet ---- */

static bool is_listed(const char *const *values, const char *value)
{
	for (; *values; values++) {
		if (strcmp(*values, value) == 0)
			return true;
	}
	return false;
}

static int check_later(const struct config *config, const struct setting *row, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf value = STRBUF_INIT, text = STRBUF_INIT;

	if (row->later != LATER_REFUSED)
		return 0;
	row->type->print(row, setting_field_of(config, row), &value);
	if (strbuf_failed(&value))
		return error_set(err, ENOMEM, "out of memory");
	if (row->later_values ? !is_listed(row->later_values, value.data) : !value.size)
		return 0;
	describe(config, row, &text);
	return error_set(err, EOPNOTSUPP, "%s is not there yet: %s", text.data, row->instead);
}

static int check_all_later(const struct config *config, struct error *err)
{
	const struct setting *row;
	int r = 0;

	for (row = settings; r == 0 && row < settings + settings_count; row++)
		r = check_later(config, row, err);
	return r;
}

/* ---- what does not fit ---- */

static int check_modes(const struct config *config, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf paddock = STRBUF_INIT, pool = STRBUF_INIT;

	if (strcmp(config->dressage.provider, "e2b") == 0 ||
		(config->dressage.paddock_mode == PADDOCK_BLACKBOX) ==
			(config->pool.mode == POOL_BLACKBOX))
		return 0;
	describe(config, setting_find("dressage", "paddock_mode"), &paddock);
	describe(config, setting_find("pool", "mode"), &pool);
	return error_reason(err, EPROTOTYPE, REASON_MODE_MISMATCH,
		"%s does not fit %s: whitebox goes with command_only, blackbox with blackbox; set one of them and leave the other out",
		paddock.data, pool.data);
}

static int check_ports(const struct config *config, struct error *err)
{
	if (config->pool.base_port + config->pool.slots - 1 <= 65535)
		return 0;
	return error_set(err, EINVAL,
		"[pool] base_port = %u leaves no port for %u slots: %u at most",
		config->pool.base_port, config->pool.slots, 65536 - config->pool.slots);
}

static int check_owner(
	const struct config *config, const struct config_facts *facts, struct error *err)
{
	uid_t owner = config->mount.owner_uid;
	gid_t group = config->mount.owner_gid;

	if (facts->uid == 0)
		return 0;
	if (owner != facts->uid)
		return error_set(err, EPERM,
			"[mount] owner = '%s': only root may make a mount for another user",
			config->mount.owner);
	if (group != facts->gid && !group_member(group))
		return error_set(err, EPERM,
			"[mount] group = '%s': you are not a member of that group",
			config->mount.group);
	return 0;
}

/* Only a root daemon hands out uids. */
static int check_uids(
	const struct config *config, const struct config_facts *facts, struct error *err)
{
	uint64_t first = config->slot.uid_base,
		 end = first + (uint64_t)config->pool.slots * UIDS_OF_A_SLOT;

	if (facts->uid != 0)
		return 0;
	if (end > UINT32_MAX)
		return error_set(err, EINVAL,
			"[slot] uid_base = %u leaves no user ids for %u slots of %u each: %llu at most",
			config->slot.uid_base, config->pool.slots, (unsigned)UIDS_OF_A_SLOT,
			(unsigned long long)UINT32_MAX -
				(unsigned long long)config->pool.slots * UIDS_OF_A_SLOT);
	if (config->mount.owner_uid >= first && config->mount.owner_uid < end)
		return error_set(err, EINVAL,
			"the mount's owner, user %u, is one of the users that slots run as (%llu to %llu): set another [slot] uid_base",
			config->mount.owner_uid, (unsigned long long)first,
			(unsigned long long)end - 1);
	return 0;
}

static int check_overlay(const struct config *config, struct error *err)
{
	if (!config->slot.overlay || config->slot.rootfs[0])
		return 0;
	return error_set(err, EINVAL,
		"[slot] overlay = on needs a [slot] rootfs: the machine's own files cannot be written "
		"over");
}

/* bwrap and init, or init and the one that kills, are of them too. */
static int check_processes(const struct config *config, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	if (!config->slot.pids_max || config->slot.pids_max >= LEAST_PROCESSES)
		return 0;
	describe(config, setting_find("slot", "pids_max"), &text);
	return error_set(err, EINVAL,
		"%s leaves no room for a command beside what keeps a slot up: %d at least, or 0 for no limit",
		text.data, LEAST_PROCESSES);
}

static int check_timeouts(const struct config *config, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf timeout = STRBUF_INIT, most = STRBUF_INIT;

	if (!config->exec.timeout_max_ms || config->exec.timeout_ms <= config->exec.timeout_max_ms)
		return 0;
	describe(config, setting_find("exec", "timeout"), &timeout);
	describe(config, setting_find("exec", "timeout_max"), &most);
	return error_set(err, EINVAL, "%s is above %s: lower the one or raise the other",
		timeout.data, most.data);
}

/* ---- what would lie under the mount ---- */

static int check_path(
	const struct config *config, const char *section, const char *key, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	const struct setting *row = setting_find(section, key);
	const char *path = *(char *const *)setting_field_of(config, row);

	if (!path[0] || !path_is_under(path, config->mount.mountpoint))
		return 0;
	describe(config, row, &text);
	return error_set(err, EINVAL,
		"%s lies under the mountpoint '%s', where the daemon would wait for itself: put it elsewhere",
		text.data, config->mount.mountpoint);
}

static int check_paths(const struct config *config, struct error *err)
{
	int r;

	if (path_is_under("/", config->mount.mountpoint))
		return error_set(err, EINVAL,
			"the mountpoint '%s' is the root directory: name another",
			config->mount.mountpoint);
	r = check_path(config, "dressage", "state_dir", err);
	if (r == 0)
		r = check_path(config, "pool", "slot_dir", err);
	if (r == 0)
		r = check_path(config, "dressage", "log_file", err);
	return r;
}

int config_check(const struct config *config, const struct config_facts *facts, struct error *err)
{
	int r = check_modes(config, err);

	if (r == 0)
		r = check_all_later(config, err);
	if (r == 0)
		r = check_ports(config, err);
	if (r == 0)
		r = check_owner(config, facts, err);
	if (r == 0)
		r = check_uids(config, facts, err);
	if (r == 0)
		r = check_overlay(config, err);
	if (r == 0)
		r = check_processes(config, err);
	if (r == 0)
		r = check_timeouts(config, err);
	if (r == 0)
		r = check_paths(config, err);
	return r;
}
