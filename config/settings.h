/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * settings.h: every setting, in one table (settings.c), and the configuration that comes of it.
 *
 * A row is the whole truth of a setting: where it stands in the file, which variables override it,
 * its type, bounds, default and one sentence of help. Reading, error texts, --help, the sample
 * file, dressage.ini(5) and `config show` walk the table; nothing else knows a key.
 * Precedence: -o section.key=value, environment, file, default.
 * Threads: any; a loaded configuration is immutable, but for the live settings once config_adopt()
 * may be called: those are the loop's.
 */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;
struct strbuf;
struct setting_type;

enum paddock_mode { PADDOCK_WHITEBOX, PADDOCK_BLACKBOX };
enum pool_mode { POOL_COMMAND_ONLY, POOL_BLACKBOX };
enum network_mode { NETWORK_NONE, NETWORK_FORWARD, NETWORK_NAT, NETWORK_HOST };
enum symlink_mode { SYMLINKS_CONTAIN, SYMLINKS_RAW };
enum coherence_mode { COHERENCE_JIFFY, COHERENCE_STRICT };
enum storage_mode { STORAGE_DIRECTORIES, STORAGE_TMPFS };
enum reset_mode { RESET_HARD, RESET_SOFT };
enum runner_mode { RUNNER_BWRAP, RUNNER_DIRECT };
enum tristate { SETTING_OFF, SETTING_ON, SETTING_AUTO };

/* Words of a list-valued setting. */
struct word_list {
	char **words; /* count of them, then NULL; NULL when empty */
	size_t count;
};

/*
 * Derived defaults (state_dir, mountpoint, slots, pool mode, owner, ...) are filled in: nothing
 * here is "unset" unless the remark says so. Text is never NULL; "" is unset. Durations are
 * milliseconds, sizes bytes; 0 is "none" or "no limit".
 */
struct config {
	struct {
		char *provider; /* "local_bwrap", "e2b" (or "fake", in tests) */
		enum paddock_mode paddock_mode;
		char *state_dir;
		int log_level; /* enum log_level */
		char *log_file;
	} dressage;
	struct {
		char *mountpoint;
		char *owner, *group; /* names or numbers as written */
		uid_t owner_uid;     /* derived: whose mount it is */
		gid_t owner_gid;
		uint32_t mode;
		bool allow_other;
		enum symlink_mode symlinks;
		enum coherence_mode coherence;
		bool xattr;
		enum tristate passthrough;
	} mount;
	struct {
		enum pool_mode mode;
		uint32_t slots; /* what this daemon starts, its share of total_servers */
		uint32_t total_servers;
		uint32_t base_port;
		char *bind_host, *advertise_ip;
		uint64_t acquire_timeout_ms, lease_ttl_ms, hold_grace_ms, orphan_grace_ms;
		enum reset_mode reset;
		uint64_t wait_ready_timeout_ms;
		char *slot_dir;
	} pool;
	struct {
		enum network_mode network;
		struct word_list reach; /* host:port */
		enum storage_mode storage;
		uint64_t size, inodes; /* of tmpfs storage */
		char *rootfs;
		bool overlay;
		uint64_t memory_high, memory_max;
		uint32_t pids_max, nofile; /* nofile 0: as in the settings table's help */
		uint32_t cpu_weight;
		uint64_t file_size;
		uint32_t uid_base, uid, gid;
		struct word_list readonly_mounts; /* empty: the built-in list */
		enum runner_mode runner;
		char *bwrap;
		struct word_list bwrap_args;
		struct word_list env_pass; /* patterns */
	} slot;
	struct {
		uint64_t timeout_ms, timeout_max_ms, idle_timeout_ms, kill_grace_ms;
		uint64_t max_output, max_spool, spool_budget;
		uint32_t keep;
		struct word_list shell;
	} exec;
	struct {
		char *server_command, *type, *health_path;
		uint64_t startup_timeout_ms, health_interval_ms, health_timeout_ms, stop_timeout_ms;
		bool skip_healthcheck;
		char *server_module, *python, *runtime_prefix;
		uint32_t port; /* of the service blackbox in a spec that the daemon makes itself */
	} blackbox;
	struct {
		bool enabled;
		struct word_list dirs;
		uint32_t max_per_slot;
		uint64_t ttl_ms, min_free;
	} archive;
	struct {
		char *api_key, *template_, *domain, *api_url, *sandbox_url, *workdir;
		uint64_t timeout_ms, attr_ttl_ms;
		uint32_t blackbox_port, max_connections;
	} e2b;
	struct word_list images; /* "name=rootfs", from [images] */
	/* Private: where each setting came from, and what to say of it at start. */
	struct config_origins *origins;
};

struct config_sources {
	/*
	 * --config. NULL: $DRESSAGE_CONFIG, the user's own, the system's; no file at all is fine
	 * then. "": none is read.
	 */
	const char *file;
	const char *const *overrides; /* "section.key=value", NULL-terminated; NULL: none */
	const char *const *environ;   /* the process environment; NULL: none is read (tests) */
	const char *mountpoint;       /* from the command line; NULL: none */
	const char *directory;        /* where relative paths begin; NULL: the current one */
};

/*
 * Reads, checks and derives. -EINVAL with file, line, key and the allowed range, or variable and
 * range; -ENOENT for a --config that is not there; -EPROTOTYPE (mode_mismatch) when paddock and
 * pool mode do not fit; -EOPNOTSUPP for what this version does not have and must not ignore;
 * -EPERM for an owner that only root may name.
 */
int config_load(
	const struct config_sources *sources, struct config **ret_config, struct error *err);
void config_free(struct config *config); /* accepts NULL */

/*
 * Where a daemon of these settings mounts, for its clients: like config_load(), but what only the
 * daemon must not do (another's mount, a feature that is not there) is no matter. free() it.
 */
int config_find_mountpoint(
	const struct config_sources *sources, char **ret_mountpoint, struct error *err);

/*
 * Sentences worth saying at start: variables without effect, settings whose feature is not there
 * yet, contradictions that are harmless.
 */
typedef void config_remark_fn(void *data, int log_level, const char *sentence);
void config_each_remark(const struct config *config, config_remark_fn *say, void *data);

/* key: "pool.lease_ttl"; the values as `config show` prints them; live: `to` stands from now on. */
typedef void config_change_fn(
	void *data, const char *key, const char *from, const char *to, bool live);

/*
 * Gives `config`, which is in use, what the sources say now: live settings take the value in
 * `fresh`, the others stay. changed() hears of each that differs, remark() of what was not worth
 * saying before. `fresh` is still to be freed, and nothing else can be done with it. Loop.
 */
void config_adopt(struct config *config, struct config *fresh, config_change_fn *changed,
	config_remark_fn *remark, void *data);

/* Appends every setting as "section.key = value", one a line, with "  ; origin" behind it when
 * asked; secrets as ***. */
void config_show(const struct config *config, bool with_origin, struct strbuf *out);
/* Appends a sample dressage.ini: each key commented out with its default, range and help. */
void config_sample(struct strbuf *out);
/* Appends the table of keys as help text. */
void config_help(struct strbuf *out);
/* Appends dressage.ini(5), for man(1). */
void config_manual(struct strbuf *out);

#endif
