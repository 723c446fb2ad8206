/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * settings.c: THE table of settings. Rows stand in the order of the sample file; variables without
 * a key come last.
 */
#include "config/settings.h"

#include "base/log.h"
#include "config/setting.h"

#define ENV(...)  ((const char *const[]){__VA_ARGS__, NULL})
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

#define KILO ((uint64_t)1024)
#define MEGA (KILO * KILO)
#define GIGA (KILO * MEGA)
#define TERA (KILO * GIGA)

#define SECONDS ((uint64_t)1000)
#define HOURS   (3600 * SECONDS)
#define YEAR    (8760 * HOURS)

/* Offset of a field; a compile error when it is not of this C type. */
#define FIELD(member, ctype)                                                                       \
	(offsetof(struct config, member) + 0 * sizeof(_Generic(((struct config *)0)->member,       \
						       ctype : 0))) // NOLINT(*-macro-parentheses)

/* A row's type together with the field it fills, so that the two cannot disagree. */
#define COUNT(member)         .type = &setting_count, .offset = FIELD(member, uint32_t)
#define NUMBER(member)        .type = &setting_number, .offset = FIELD(member, uint64_t)
#define DURATION(member)      .type = &setting_duration, .offset = FIELD(member, uint64_t)
#define SIZE(member)          .type = &setting_size, .offset = FIELD(member, uint64_t)
#define MODE(member)          .type = &setting_mode, .offset = FIELD(member, uint32_t)
#define FLAG(member)          .type = &setting_flag, .offset = FIELD(member, bool)
#define CHOICE(member, ctype) .type = &setting_choice, .offset = FIELD(member, ctype)
#define WORD(member)          .type = &setting_word, .offset = FIELD(member, char *)
#define TEXT(member)          .type = &setting_text, .offset = FIELD(member, char *)
#define SECRET(member)        .type = &setting_secret, .offset = FIELD(member, char *)
#define COMMAND(member)       .type = &setting_command, .offset = FIELD(member, char *)
#define PATH(member)          .type = &setting_path, .offset = FIELD(member, char *)
#define INNER_PATH(member)    .type = &setting_inner_path, .offset = FIELD(member, char *)
#define WORDS(member)         .type = &setting_words, .offset = FIELD(member, struct word_list)
#define COMMAS(member)        .type = &setting_commas, .offset = FIELD(member, struct word_list)
#define PATHS(member)         .type = &setting_paths, .offset = FIELD(member, struct word_list)
#define SHELL(member)         .type = &setting_shell, .offset = FIELD(member, struct word_list)
#define REACH(member)         .type = &setting_reach, .offset = FIELD(member, struct word_list)
#define IMAGES(member)        .type = &setting_image, .offset = FIELD(member, struct word_list)
/* A row that is checked and goes nowhere. */
#define NOWHERE(kind) .type = &setting_##kind, .offset = NO_FIELD

#define ENV_PASS                                                                                   \
	"PATH LANG LC_* TZ TERM PYTHONPATH BBS_* OPENCODE_BIN OPENCLAW_BIN CLAUDE_CODE_BIN "       \
	"CODEX_BIN DRESSAGE_PROXY_URL"

enum provider_word { PROVIDER_LOCAL_BWRAP, PROVIDER_E2B, PROVIDER_FAKE };

static const struct setting_choice_word provider_words[] = {
	{"local_bwrap", PROVIDER_LOCAL_BWRAP, false},
	{"e2b", PROVIDER_E2B, false},
	{"fake", PROVIDER_FAKE, true}, /* scripted, for tests */
	{0},
};

static const struct setting_choice_word paddock_words[] = {
	{"whitebox", PADDOCK_WHITEBOX, false},
	{"blackbox", PADDOCK_BLACKBOX, false},
	{0},
};

static const struct setting_choice_word pool_words[] = {
	{"command_only", POOL_COMMAND_ONLY, false},
	{"blackbox", POOL_BLACKBOX, false},
	{"command-only", POOL_COMMAND_ONLY, true},
	{"commandonly", POOL_COMMAND_ONLY, true},
	{"command", POOL_COMMAND_ONLY, true},
	{"commands", POOL_COMMAND_ONLY, true},
	{0},
};

static const struct setting_choice_word log_level_words[] = {
	{"error", LOG_LEVEL_ERROR, false},
	{"warn", LOG_LEVEL_WARN, false},
	{"info", LOG_LEVEL_INFO, false},
	{"debug", LOG_LEVEL_DEBUG, false},
	{"warning", LOG_LEVEL_WARN, true},
	{0},
};

static const struct setting_choice_word symlink_words[] = {
	{"contain", SYMLINKS_CONTAIN, false},
	{"raw", SYMLINKS_RAW, false},
	{0},
};

static const struct setting_choice_word coherence_words[] = {
	{"jiffy", COHERENCE_JIFFY, false},
	{"strict", COHERENCE_STRICT, false},
	{0},
};

static const struct setting_choice_word tristate_words[] = {
	{"off", SETTING_OFF, false},
	{"on", SETTING_ON, false},
	{"auto", SETTING_AUTO, false},
	{"false", SETTING_OFF, true},
	{"no", SETTING_OFF, true},
	{"0", SETTING_OFF, true},
	{"true", SETTING_ON, true},
	{"yes", SETTING_ON, true},
	{"1", SETTING_ON, true},
	{0},
};

static const struct setting_choice_word reset_words[] = {
	{"hard", RESET_HARD, false},
	{"soft", RESET_SOFT, false},
	{0},
};

static const struct setting_choice_word network_words[] = {
	{"none", NETWORK_NONE, false},
	{"forward", NETWORK_FORWARD, false},
	{"nat", NETWORK_NAT, false},
	{"host", NETWORK_HOST, false},
	{0},
};

/* DRESSAGE_BLACKBOX_BWRAP_UNSHARE_NET asks only whether the network is the host's. */
static const struct setting_choice_word unshare_net_words[] = {
	{"0", NETWORK_HOST, false},
	{"1", NETWORK_FORWARD, false},
	{"off", NETWORK_HOST, true},
	{"false", NETWORK_HOST, true},
	{"no", NETWORK_HOST, true},
	{"on", NETWORK_FORWARD, true},
	{"true", NETWORK_FORWARD, true},
	{"yes", NETWORK_FORWARD, true},
	{0},
};

static const struct setting_choice_word storage_words[] = {
	{"directories", STORAGE_DIRECTORIES, false},
	{"tmpfs", STORAGE_TMPFS, false},
	{0},
};

static const struct setting_choice_word runner_words[] = {
	{"bwrap", RUNNER_BWRAP, false},
	{"direct", RUNNER_DIRECT, false},
	{"bubblewrap", RUNNER_BWRAP, true},
	{0},
};

static const struct setting_choice_word server_type_words[] = {
	{"opencode", 0, false},
	{"openclaw", 1, false},
	{"claude_code", 2, false},
	{"codex", 3, false},
	{0},
};

static const struct setting_choice_word dir_words[] = {
	{"home", 0, false},
	{"work", 1, false},
	{"runtime", 2, false},
	{"tmp", 3, false},
	{0},
};

static const struct setting_choice_word backend_words[] = {
	{"ray_pool", 0, false},
	{0},
};

const struct setting_section setting_sections[] = {
	{"dressage", "The daemon.", NEEDS_NOTHING},
	{"mount", "The file system.", NEEDS_NOTHING},
	{"pool", "The slots and how they are lent.", NEEDS_NOTHING},
	{"slot", "Limits and isolation of every slot.", NEEDS_LOCAL},
	{"exec", "Commands.", NEEDS_NOTHING},
	{"blackbox", "The server in every slot of a blackbox pool.", NEEDS_BLACKBOX},
	{"archive", "What is kept of ended leases.", NEEDS_NOTHING},
	{"images", "Root file systems by name, picked by a spec's env_args.sandbox_image.",
		NEEDS_LOCAL},
	{"e2b", "Cloud sandboxes.", NEEDS_E2B},
	{0},
};

const struct setting settings[] = {
	/* [dressage] */
	{
		.section = "dressage",
		.key = "provider",
		.env = ENV("DRESSAGE_SANDBOX_PROVIDER"),
		WORD(dressage.provider),
		.initial = "local_bwrap",
		.words = provider_words,
		.help = "Where sandboxes come from: bubblewrap slots of this machine, or E2B's cloud.",
		.later = LATER_REFUSED,
		.later_values = LIST("e2b"),
		.instead = "use local_bwrap",
	},
	{
		.section = "dressage",
		.key = "paddock_mode",
		.env = ENV("DRESSAGE_PADDOCK_MODE"),
		CHOICE(dressage.paddock_mode, enum paddock_mode),
		.initial = "whitebox",
		.initial_help = "from pool.mode, else whitebox",
		.words = paddock_words,
		.help = "Whether callers run commands themselves (whitebox) or talk to a server in the sandbox (blackbox).",
	},
	{
		.section = "dressage",
		.key = "state_dir",
		PATH(dressage.state_dir),
		.initial = "",
		.initial_help = "/var/lib/dressage for root, else $XDG_STATE_HOME/dressage",
		.help = "Directory of everything that survives the daemon: journal, slots, archives.",
	},
	{
		.section = "dressage",
		.key = "log_level",
		CHOICE(dressage.log_level, int),
		.initial = "info",
		.words = log_level_words,
		.help = "The least important messages that are logged.",
	},
	{
		.section = "dressage",
		.key = "log_file",
		PATH(dressage.log_file),
		.initial = "",
		.initial_help = "standard error, or the journal under systemd",
		.help = "File that messages are appended to.",
	},
	/* [mount] */
	{
		.section = "mount",
		.key = "mountpoint",
		PATH(mount.mountpoint),
		.initial = "",
		.initial_help = "/mnt/dressage for root, else $XDG_RUNTIME_DIR/dressage",
		.help = "Where the tree is mounted; MOUNTPOINT on the command line wins.",
	},
	{
		.section = "mount",
		.key = "owner",
		TEXT(mount.owner),
		.initial = "",
		.initial_help = "who starts the daemon",
		.max = 64,
		.help = "User (name or number) whose mount it is; only root may name another than himself.",
	},
	{
		.section = "mount",
		.key = "group",
		TEXT(mount.group),
		.initial = "",
		.initial_help = "the owner's",
		.max = 64,
		.help = "Group (name or number) that may read the tree, as far as mode lets it.",
	},
	{
		.section = "mount",
		.key = "mode",
		MODE(mount.mode),
		.initial = "0750",
		.min = 0700,
		.max = 0755,
		.help = "Permissions of the tree: a group may read but not write.",
	},
	{
		.section = "mount",
		.key = "allow_other",
		FLAG(mount.allow_other),
		.initial = "",
		.initial_help = "on for root, else off",
		.help = "Lets users other than the one who mounts pass the kernel's own check (then owner, group and mode decide).",
	},
	{
		.section = "mount",
		.key = "symlinks",
		CHOICE(mount.symlinks, enum symlink_mode),
		.initial = "contain",
		.words = symlink_words,
		.help = "contain shows only links that stay in their sandbox; raw shows every text and follows none.",
	},
	{
		.section = "mount",
		.key = "coherence",
		CHOICE(mount.coherence, enum coherence_mode),
		.initial = "jiffy",
		.words = coherence_words,
		.help = "How long attributes may be remembered while a command runs: a few milliseconds (jiffy) or not at all (strict).",
		.later = LATER_SAID,
		.later_values = LIST("jiffy"),
		.instead = "nothing is remembered, as strict says",
	},
	{
		.section = "mount",
		.key = "xattr",
		FLAG(mount.xattr),
		.initial = "off",
		.help = "Extended attributes in fs/; they cost a round trip with every write.",
		.later = LATER_SAID,
	},
	{
		.section = "mount",
		.key = "passthrough",
		CHOICE(mount.passthrough, enum tristate),
		.initial = "auto",
		.words = tristate_words,
		.help = "Reading and writing of fs/ files by the kernel itself, where it can (Linux 6.9, CAP_SYS_ADMIN).",
		.later = LATER_SAID,
		.later_values = LIST("on"),
	},
	/* [pool] */
	{
		.section = "pool",
		.key = "mode",
		.env = ENV("DRESSAGE_LOCAL_BWRAP_POOL_MODE"),
		CHOICE(pool.mode, enum pool_mode),
		.initial = "command_only",
		.initial_help = "from dressage.paddock_mode",
		.words = pool_words,
		.help = "What a slot runs: nothing but commands, or a server.",
		.later = LATER_REFUSED,
		.later_values = LIST("blackbox"),
		.instead = "use command_only, with paddock_mode = whitebox",
	},
	{
		.section = "pool",
		.key = "slots",
		.env = ENV("DRESSAGE_BLACKBOX_SLOTS_PER_NODE"),
		COUNT(pool.slots),
		.initial = "",
		.initial_help = "2 x CPUs",
		.min = 1,
		.max = 9999,
		.help = "Sandboxes kept ready on this machine; never more than DRESSAGE_LOCAL_BWRAP_TOTAL_SERVERS, where that is set too.",
	},
	{
		.section = "pool",
		.key = "base_port",
		.env = ENV("DRESSAGE_LOCAL_BWRAP_BASE_PORT"),
		COUNT(pool.base_port),
		.initial = "31000",
		.min = 1,
		.max = 65535,
		.help = "Port of slot 0; slot n has base_port + n.",
	},
	{
		.section = "pool",
		.key = "bind_host",
		.env = ENV("DRESSAGE_BLACKBOX_BIND_HOST"),
		TEXT(pool.bind_host),
		.initial = "127.0.0.1",
		.min = 1,
		.max = 255,
		.help = "Address that the ports of slots listen on.",
	},
	{
		.section = "pool",
		.key = "advertise_ip",
		.env = ENV("DRESSAGE_BLACKBOX_ADVERTISE_IP"),
		TEXT(pool.advertise_ip),
		.initial = "",
		.initial_help = "bind_host, or this machine's address when that is 0.0.0.0",
		.max = 255,
		.help = "Address that endpoints name.",
	},
	{
		.section = "pool",
		.key = "acquire_timeout",
		.env = ENV("DRESSAGE_BLACKBOX_ACQUIRE_TIMEOUT_SEC"),
		DURATION(pool.acquire_timeout_ms),
		.initial = "30m",
		.max = YEAR,
		.help = "How long a create waits for a slot when it does not say.",
	},
	{
		.section = "pool",
		.key = "lease_ttl",
		.env = ENV("DRESSAGE_BLACKBOX_LEASE_TTL_SEC"),
		DURATION(pool.lease_ttl_ms),
		.initial = "35m",
		.max = YEAR,
		.negative_is_zero = true,
		.help = "Lifetime of a lease when its spec gives none; 0 is unlimited.",
	},
	{
		.section = "pool",
		.key = "hold_grace",
		DURATION(pool.hold_grace_ms),
		.initial = "5s",
		.max = HOURS,
		.help = "How long a lease outlives the last holder of its hold file.",
	},
	{
		.section = "pool",
		.key = "orphan_grace",
		DURATION(pool.orphan_grace_ms),
		.initial = "10m",
		.max = 24 * HOURS,
		.help = "How long a slot waits for a new daemon after the old one's death.",
		.later = LATER_SAID,
	},
	{
		.section = "pool",
		.key = "reset",
		.env = ENV("DRESSAGE_BLACKBOX_RESET_STRATEGY"),
		CHOICE(pool.reset, enum reset_mode),
		.initial = "hard",
		.words = reset_words,
		.help = "Between leases: a new sandbox with clean directories (hard), or clean directories only (soft).",
		.later = LATER_SAID,
		.later_values = LIST("soft"),
		.instead = "slots are reset the hard way",
	},
	{
		.section = "pool",
		.key = "wait_ready_timeout",
		.env = ENV("DRESSAGE_LOCAL_BWRAP_WAIT_READY_TIMEOUT_SEC"),
		DURATION(pool.wait_ready_timeout_ms),
		.initial = "10m",
		.min = 100,
		.max = YEAR,
		.help = "How long a start waits for every slot to be READY.",
	},
	{
		.section = "pool",
		.key = "slot_dir",
		.env = ENV("DRESSAGE_LOCAL_BWRAP_SLOT_BASE_DIR", "DRESSAGE_BLACKBOX_SLOT_BASE_DIR"),
		PATH(pool.slot_dir),
		.initial = "",
		.initial_help = "dressage.state_dir",
		.help = "Directory under which slots/NNNN/ hold the slots' files.",
	},
	/* [slot] */
	{
		.section = "slot",
		.key = "network",
		CHOICE(slot.network, enum network_mode),
		.initial = "none",
		.words = network_words,
		.help = "A slot's network: none, its own with listed ways out (forward), its own with all of it (nat), or the machine's (host).",
	},
	{
		.section = "slot",
		.key = "reach",
		REACH(slot.reach),
		.initial = "",
		.help = "host:port pairs, parted by blanks, that a slot with network = forward (or nat) may connect to.",
	},
	{
		.section = "slot",
		.key = "storage",
		CHOICE(slot.storage, enum storage_mode),
		.initial = "directories",
		.words = storage_words,
		.help = "Where a slot's files live: directories of the state directory, or a tmpfs of bounded size.",
	},
	{
		.section = "slot",
		.key = "size",
		SIZE(slot.size),
		.initial = "1G",
		.min = MEGA,
		.max = 16 * TERA,
		.help = "Size of a slot's tmpfs.",
		.needs = NEEDS_TMPFS,
	},
	{
		.section = "slot",
		.key = "inodes",
		NUMBER(slot.inodes),
		.initial = "100000",
		.min = 1000,
		.max = 1000000000,
		.help = "Files and directories that a slot's tmpfs can hold.",
		.needs = NEEDS_TMPFS,
	},
	{
		.section = "slot",
		.key = "rootfs",
		.env = ENV("DRESSAGE_BLACKBOX_ROOTFS"),
		PATH(slot.rootfs),
		.initial = "",
		.initial_help = "the machine's own /usr",
		.help = "Directory that is the slots' read-only root.",
	},
	{
		.section = "slot",
		.key = "overlay",
		FLAG(slot.overlay),
		.initial = "off",
		.help = "Lets the sandbox write anywhere in its rootfs, into a layer of its own.",
	},
	{
		.section = "slot",
		.key = "memory_high",
		.env = ENV("DRESSAGE_BLACKBOX_MEMORY_HIGH_BYTES"),
		SIZE(slot.memory_high),
		.initial = "1536M",
		.max = 16 * TERA,
		.help = "Memory of a slot beyond which it is slowed down, where cgroup v2 does that; 0 is no limit.",
	},
	{
		.section = "slot",
		.key = "memory_max",
		.env = ENV("DRESSAGE_BLACKBOX_MEMORY_MAX_BYTES"),
		SIZE(slot.memory_max),
		.initial = "2G",
		.max = 16 * TERA,
		.help = "Memory that a slot can have; 0 is no limit.",
	},
	{
		.section = "slot",
		.key = "pids_max",
		.env = ENV("DRESSAGE_BLACKBOX_PIDS_MAX"),
		COUNT(slot.pids_max),
		.initial = "1024",
		.max = 4194304,
		.help = "Processes and threads of a slot; 0 is no limit.",
	},
	{
		.section = "slot",
		.key = "nofile",
		.env = ENV("DRESSAGE_BLACKBOX_NOFILE"),
		COUNT(slot.nofile),
		.initial = "",
		.initial_help =
			"65536 (512 for a daemon of another user than root), or the hard limit where that is lower",
		.min = 16,
		.max = 1048576,
		.help = "Open files of each process in a slot.",
	},
	{
		.section = "slot",
		.key = "cpu_weight",
		COUNT(slot.cpu_weight),
		.initial = "",
		.initial_help = "100, as the kernel has it",
		.min = 1,
		.max = 10000,
		.help = "A slot's share of the processors when they are short.",
	},
	{
		.section = "slot",
		.key = "file_size",
		SIZE(slot.file_size),
		.initial = "0",
		.max = 16 * TERA,
		.help = "Size of the largest file that a slot's processes can write; 0 is no limit.",
	},
	{
		.section = "slot",
		.key = "uid_base",
		COUNT(slot.uid_base),
		.initial = "2000000",
		.min = 65536,
		.max = UINT32_MAX - 2 * 65536,
		.help = "Slot n of a root daemon owns the host's user ids from uid_base + n x 65536 on.",
	},
	{
		.section = "slot",
		.key = "uid",
		.env = ENV("DRESSAGE_BLACKBOX_SLOT_UID"),
		COUNT(slot.uid),
		.initial = "1000",
		.max = 65534,
		.help = "User id of commands, as they see it inside; with overlay = on it is 0 unless set.",
	},
	{
		.section = "slot",
		.key = "gid",
		.env = ENV("DRESSAGE_BLACKBOX_SLOT_GID"),
		COUNT(slot.gid),
		.initial = "1000",
		.max = 65534,
		.help = "Group id of commands, as they see it inside; with overlay = on it is 0 unless set.",
	},
	{
		.section = "slot",
		.key = "readonly_mounts",
		.env = ENV("DRESSAGE_BLACKBOX_READONLY_MOUNTS"),
		PATHS(slot.readonly_mounts),
		.initial = "",
		.initial_help = "/usr, /bin, /sbin, /lib, /lib64 and what a server needs",
		.help = "Paths of this machine, parted by colons, that slots see read-only; setting it replaces the default.",
	},
	{
		.section = "slot",
		.key = "runner",
		.env = ENV("DRESSAGE_BLACKBOX_RUNNER_MODE"),
		CHOICE(slot.runner, enum runner_mode),
		.initial = "bwrap",
		.words = runner_words,
		.help = "How a slot is made: by bubblewrap, or without any isolation (direct, for debugging).",
		.later = LATER_REFUSED,
		.later_values = LIST("direct"),
		.instead = "use bwrap",
	},
	{
		.section = "slot",
		.key = "bwrap",
		.env = ENV("DRESSAGE_BLACKBOX_BWRAP_BIN", "DRESSAGE_BLACKBOX_BUBBLEWRAP_BIN"),
		TEXT(slot.bwrap),
		.initial = "bwrap",
		.min = 1,
		.max = 4095,
		.help = "The bubblewrap program, a name in PATH or a path.",
	},
	{
		.section = "slot",
		.key = "bwrap_args",
		.env = ENV("DRESSAGE_BLACKBOX_BWRAP_EXTRA_ARGS"),
		SHELL(slot.bwrap_args),
		.initial = "",
		.initial_help = "none",
		.help = "More words for bubblewrap, quoted as for a shell.",
	},
	{
		.section = "slot",
		.key = "env_pass",
		WORDS(slot.env_pass),
		.initial = ENV_PASS,
		.help = "Variables of the daemon that slots get, by name or pattern (LC_*), parted by blanks; no other leaks in.",
	},
	/* [exec] */
	{
		.section = "exec",
		.key = "timeout",
		DURATION(exec.timeout_ms),
		.initial = "0",
		.max = YEAR,
		.help = "Time allowed to a command that does not say; 0 is none, the lease's lifetime bounds it.",
	},
	{
		.section = "exec",
		.key = "timeout_max",
		DURATION(exec.timeout_max_ms),
		.initial = "0",
		.max = YEAR,
		.help = "The longest timeout that a command may ask for; 0 is no bound.",
	},
	{
		.section = "exec",
		.key = "idle_timeout",
		DURATION(exec.idle_timeout_ms),
		.initial = "0",
		.max = YEAR,
		.help = "A command that writes nothing for so long is ended; 0 is never.",
	},
	{
		.section = "exec",
		.key = "kill_grace",
		DURATION(exec.kill_grace_ms),
		.initial = "0",
		.max = HOURS,
		.help = "Time between TERM and KILL when a command is ended; 0 kills at once.",
	},
	{
		.section = "exec",
		.key = "max_output",
		SIZE(exec.max_output),
		.initial = "16M",
		.min = KILO,
		.max = 64 * MEGA,
		.help = "Bytes of each output stream in a command's reply, which is held in memory.",
	},
	{
		.section = "exec",
		.key = "max_spool",
		SIZE(exec.max_spool),
		.initial = "256M",
		.min = 64 * KILO,
		.max = TERA,
		.help = "Bytes of each output stream that are kept in exec/.",
		.later = LATER_SAID,
	},
	{
		.section = "exec",
		.key = "spool_budget",
		SIZE(exec.spool_budget),
		.initial = "1G",
		.min = MEGA,
		.max = 16 * TERA,
		.help = "Bytes that all kept output of one lease can have together.",
	},
	{
		.section = "exec",
		.key = "keep",
		COUNT(exec.keep),
		.initial = "64",
		.max = 100000,
		.help = "Finished commands of a lease that stay in exec/.",
		.later = LATER_SAID,
	},
	{
		.section = "exec",
		.key = "shell",
		SHELL(exec.shell),
		.initial = "/bin/sh -lc",
		.min = 1,
		.help = "Words before the text of a command, quoted as for a shell.",
	},
	/* [blackbox] */
	{
		.section = "blackbox",
		.key = "server_command",
		.env = ENV("DRESSAGE_BLACKBOX_SERVER_COMMAND"),
		COMMAND(blackbox.server_command),
		.initial = "",
		.initial_help = "{python} -m {server_module}",
		.help = "Command line of the server; {port} {bind_host} {advertise_host} {slot_id} {blackbox_type} {home_dir} {work_dir} {runtime_dir} {tmp_dir} {runtime_prefix} are filled in.",
	},
	{
		.section = "blackbox",
		.key = "type",
		.env = ENV("DRESSAGE_BLACKBOX_TYPE"),
		WORD(blackbox.type),
		.initial = "opencode",
		.words = server_type_words,
		.help = "The agent that the server runs.",
	},
	{
		.section = "blackbox",
		.key = "health_path",
		INNER_PATH(blackbox.health_path),
		.initial = "/health",
		.help = "Path that a healthy server answers with a status below 500.",
	},
	{
		.section = "blackbox",
		.key = "startup_timeout",
		.env = ENV("DRESSAGE_BLACKBOX_STARTUP_TIMEOUT_SEC"),
		DURATION(blackbox.startup_timeout_ms),
		.initial = "60s",
		.min = 100,
		.max = 24 * HOURS,
		.help = "Time in which a started server must become healthy.",
	},
	{
		.section = "blackbox",
		.key = "health_interval",
		.env = ENV("DRESSAGE_BLACKBOX_HEALTH_INTERVAL_SEC"),
		DURATION(blackbox.health_interval_ms),
		.initial = "10s",
		.min = 100,
		.max = 24 * HOURS,
		.help = "Time between two health checks of a server.",
	},
	{
		.section = "blackbox",
		.key = "health_timeout",
		.env = ENV("DRESSAGE_BLACKBOX_HEALTH_TIMEOUT_SEC"),
		DURATION(blackbox.health_timeout_ms),
		.initial = "2s",
		.min = 1,
		.max = HOURS,
		.help = "Time in which a server must answer a health check.",
	},
	{
		.section = "blackbox",
		.key = "stop_timeout",
		.env = ENV("DRESSAGE_BLACKBOX_STOP_TIMEOUT_SEC"),
		DURATION(blackbox.stop_timeout_ms),
		.initial = "10s",
		.min = 100,
		.max = HOURS,
		.help = "Time between TERM and KILL when a server is stopped.",
	},
	{
		.section = "blackbox",
		.key = "skip_healthcheck",
		.env = ENV("DRESSAGE_BLACKBOX_SKIP_HEALTHCHECK"),
		FLAG(blackbox.skip_healthcheck),
		.initial = "off",
		.help = "Takes a running server for a healthy one.",
	},
	{
		.section = "blackbox",
		.key = "server_module",
		.env = ENV("DRESSAGE_BLACKBOX_SERVER_MODULE"),
		TEXT(blackbox.server_module),
		.initial = "blackbox_server.main",
		.min = 1,
		.max = 255,
		.help = "Python module of the default server command.",
	},
	{
		.section = "blackbox",
		.key = "python",
		.env = ENV("DRESSAGE_BLACKBOX_PYTHON_BIN"),
		TEXT(blackbox.python),
		.initial = "python3",
		.min = 1,
		.max = 4095,
		.help = "Python of the default server command.",
	},
	{
		.section = "blackbox",
		.key = "runtime_prefix",
		.env = ENV("DRESSAGE_BLACKBOX_RUNTIME_PREFIX"),
		PATH(blackbox.runtime_prefix),
		.initial = "/opt/dressage-blackbox",
		.help = "Fills {runtime_prefix} in the server command.",
	},
	/* [archive] */
	{
		.section = "archive",
		.key = "enabled",
		.env = ENV("DRESSAGE_BLACKBOX_PRESERVE_SESSION_ARTIFACTS"),
		FLAG(archive.enabled),
		.initial = "off",
		.help = "Keeps the files of ended leases.",
		.later = LATER_REFUSED,
		.later_values = LIST("on"),
		.instead = "leave it off, and copy what you need out of fs/ before the lease ends",
	},
	{
		.section = "archive",
		.key = "dirs",
		.env = ENV("DRESSAGE_BLACKBOX_SESSION_ARCHIVE_DIRS"),
		COMMAS(archive.dirs),
		.initial = "home,work,runtime,tmp",
		.words = dir_words,
		.help = "Which directories of a slot are kept.",
		.needs = NEEDS_ARCHIVE,
	},
	{
		.section = "archive",
		.key = "max_per_slot",
		.env = ENV("DRESSAGE_BLACKBOX_SESSION_ARCHIVE_MAX_PER_SLOT"),
		COUNT(archive.max_per_slot),
		.initial = "20",
		.max = 1000000,
		.help = "Archives kept of each slot; 0 keeps none.",
		.needs = NEEDS_ARCHIVE,
	},
	{
		.section = "archive",
		.key = "ttl",
		.env = ENV("DRESSAGE_BLACKBOX_SESSION_ARCHIVE_TTL_SEC"),
		DURATION(archive.ttl_ms),
		.initial = "24h",
		.max = 10 * YEAR,
		.help = "Age at which an archive is deleted; 0 is never.",
		.needs = NEEDS_ARCHIVE,
	},
	{
		.section = "archive",
		.key = "min_free",
		SIZE(archive.min_free),
		.initial = "1G",
		.max = 16 * TERA,
		.help = "Free space of the disk below which the oldest archives are deleted.",
		.needs = NEEDS_ARCHIVE,
	},
	/* [images] */
	{
		.section = "images",
		.key = "*",
		IMAGES(images),
		.initial = "",
		.initial_help = "none",
		.help = "name = directory of a root file system.",
	},
	/* [e2b] */
	{
		.section = "e2b",
		.key = "api_key",
		.env = ENV("DRESSAGE_E2B_API_KEY", "E2B_API_KEY"),
		SECRET(e2b.api_key),
		.initial = "",
		.initial_help = "none; required",
		.help = "Key for E2B's API; never printed.",
	},
	{
		.section = "e2b",
		.key = "template",
		.env = ENV("DRESSAGE_SANDBOX_DEFAULT_IMAGE"),
		TEXT(e2b.template_),
		.initial = "",
		.initial_help = "none",
		.max = 255,
		.help = "Template of a sandbox whose spec names none in env_args.sandbox_image.",
	},
	{
		.section = "e2b",
		.key = "timeout",
		.env = ENV("DRESSAGE_E2B_TIMEOUT_SEC"),
		DURATION(e2b.timeout_ms),
		.initial = "1h",
		.min = 1000,
		.max = YEAR,
		.help = "Lifetime of a sandbox when its spec gives none.",
	},
	{
		.section = "e2b",
		.key = "domain",
		.env = ENV("E2B_DOMAIN"),
		TEXT(e2b.domain),
		.initial = "e2b.app",
		.min = 1,
		.max = 255,
		.help = "Domain of E2B's API and sandboxes.",
	},
	{
		.section = "e2b",
		.key = "api_url",
		.env = ENV("E2B_API_URL"),
		TEXT(e2b.api_url),
		.initial = "",
		.initial_help = "https://api.DOMAIN",
		.max = 1023,
		.help = "URL of the API.",
	},
	{
		.section = "e2b",
		.key = "sandbox_url",
		.env = ENV("E2B_SANDBOX_URL"),
		TEXT(e2b.sandbox_url),
		.initial = "",
		.initial_help = "https://PORT-ID.DOMAIN",
		.max = 1023,
		.help = "URL under which every sandbox is reached.",
	},
	{
		.section = "e2b",
		.key = "blackbox_port",
		.env = ENV("DRESSAGE_E2B_BLACKBOX_PORT", "DRESSAGE_BLACKBOX_PORT"),
		COUNT(e2b.blackbox_port),
		.initial = "31000",
		.min = 1,
		.max = 65535,
		.help = "Port of the server in a template.",
	},
	{
		.section = "e2b",
		.key = "workdir",
		INNER_PATH(e2b.workdir),
		.initial = "",
		.initial_help = "the template's own",
		.help = "Directory that commands start in.",
	},
	{
		.section = "e2b",
		.key = "attr_ttl",
		DURATION(e2b.attr_ttl_ms),
		.initial = "1s",
		.max = HOURS,
		.help = "How long attributes of remote files are remembered.",
	},
	{
		.section = "e2b",
		.key = "max_connections",
		COUNT(e2b.max_connections),
		.initial = "64",
		.min = 1,
		.max = 10000,
		.help = "Connections to E2B at a time.",
	},
	/* Variables without a key: values that others are made of, */
	{
		.section = "pool",
		.env = ENV("DRESSAGE_LOCAL_BWRAP_TOTAL_SERVERS"),
		COUNT(pool.total_servers),
		.initial = "512",
		.min = 1,
		.max = 1000000,
		.help = "Cap on the slots of all nodes; alone it is the number of slots here.",
	},
	{
		.section = "slot",
		.env = ENV("DRESSAGE_BLACKBOX_BWRAP_UNSHARE_NET"),
		CHOICE(slot.network, enum network_mode),
		.words = unshare_net_words,
		.help = "0 is slot.network = host, 1 is forward.",
	},
	{
		.section = "blackbox",
		.env = ENV("DRESSAGE_LOCAL_BWRAP_BLACKBOX_PORT", "DRESSAGE_BLACKBOX_PORT"),
		COUNT(blackbox.port),
		.initial = "31000",
		.min = 1,
		.max = 65535,
		.help = "Port of the service blackbox in a spec that the daemon makes itself.",
	},
	{
		.section = "dressage",
		.env = ENV("DRESSAGE_LOCAL_BWRAP_BACKEND"),
		NOWHERE(word),
		.words = backend_words,
		.help = "Only ray_pool, or unset.",
		.hint = "this variable no longer selects a backend; unset it",
	},
	{
		.section = "slot",
		.env = ENV("DRESSAGE_PROXY_URL"),
		NOWHERE(text),
		.help = "URL of the LLM proxy; slots get the variable as env_pass says.",
	},
	/* and those without effect here. */
	{
		.section = "dressage",
		.env = ENV("DRESSAGE_LOCAL_BWRAP_MANAGER_NAME"),
		NOWHERE(text),
		.help = "Name of the pool manager's Ray actor.",
		.no_effect = "this daemon is the manager, clients find it by its mount",
	},
	{
		.section = "dressage",
		.env = ENV("DRESSAGE_LOCAL_BWRAP_RAY_NAMESPACE"),
		NOWHERE(text),
		.help = "Ray namespace of the pool manager.",
		.no_effect = "this daemon is the manager, clients find it by its mount",
	},
	{
		.section = "dressage",
		.env = ENV("DRESSAGE_LOCAL_BWRAP_RAY_ADDRESS", "DRESSAGE_RAY_ADDRESS"),
		NOWHERE(text),
		.help = "Address of the Ray cluster.",
		.no_effect = "the pool does not run on Ray",
	},
	{
		.section = "dressage",
		.env = ENV("DRESSAGE_LOCAL_BWRAP_DESTROY_ACTORS_ON_STOP"),
		NOWHERE(flag),
		.help = "Whether a stop ends the Ray actors.",
		.no_effect = "there are no actors, a stop always ends everything",
	},
	{
		.section = "slot",
		.env = ENV("DRESSAGE_BLACKBOX_BWRAP_UNSHARE_PID"),
		NOWHERE(flag),
		.help = "Own process ids in a slot.",
		.no_effect = "slots always have process ids of their own",
	},
	{
		.section = "slot",
		.env = ENV("DRESSAGE_BLACKBOX_BWRAP_DISABLE_USERNS"),
		NOWHERE(flag),
		.help = "No user namespaces inside a slot.",
		.no_effect = "user namespaces are always off inside slots",
	},
	{
		.section = "slot",
		.env = ENV("DRESSAGE_BLACKBOX_DISABLE_PROC"),
		NOWHERE(flag),
		.help = "No /proc inside a slot.",
		.no_effect = "slots always have a /proc of their own",
	},
	{
		.section = "slot",
		.env = ENV("DRESSAGE_BLACKBOX_USE_SYSTEMD_SCOPE"),
		NOWHERE(flag),
		.help = "Limits through a systemd scope.",
		.no_effect = "limits are set through cgroups without systemd",
	},
	{
		.section = "slot",
		.env = ENV("DRESSAGE_BLACKBOX_SYSTEMD_RUN_BIN"),
		NOWHERE(text),
		.help = "The systemd-run program.",
		.no_effect = "limits are set through cgroups without systemd",
	},
	{
		.section = "pool",
		.env = ENV("DRESSAGE_BLACKBOX_ACQUIRE_POLL_SEC"),
		NOWHERE(duration),
		.help = "How often a waiting create looks for a slot.",
		.no_effect = "waiting creates are served in order, nothing polls",
	},
	{
		.section = "pool",
		.env = ENV("DRESSAGE_BLACKBOX_STATUS_REFRESH_SEC"),
		NOWHERE(duration),
		.help = "How often the status is refreshed.",
		.no_effect = "the status is always current",
	},
	{
		.section = "pool",
		.env = ENV("DRESSAGE_BLACKBOX_NODE_ACQUIRE_TIMEOUT_SEC"),
		NOWHERE(duration),
		.help = "How long a node looks for a slot.",
		.no_effect = "a daemon has one node, acquire_timeout stands",
	},
	{
		.section = "pool",
		.env = ENV("DRESSAGE_BLACKBOX_NODE_ACQUIRE_POLL_SEC"),
		NOWHERE(duration),
		.help = "How often a node looks for a slot.",
		.no_effect = "waiting creates are served in order, nothing polls",
	},
	{
		.section = "pool",
		.env = ENV("DRESSAGE_BLACKBOX_BACKGROUND_RELEASE_TIMEOUT_SEC"),
		NOWHERE(duration),
		.help = "How long a release may take behind the caller's back.",
		.no_effect = "a slot is reset as soon as its last process is dead",
	},
	{
		.section = "pool",
		.env = ENV("DRESSAGE_BLACKBOX_CLEANUP_RESIDUAL_PROCESSES"),
		NOWHERE(flag),
		.help = "Searches for processes that outlived a lease.",
		.no_effect = "no process outlives its slot's process namespace",
	},
	{
		.section = "pool",
		.env = ENV("DRESSAGE_BLACKBOX_RESIDUAL_CLEANUP_TIMEOUT_SEC"),
		NOWHERE(duration),
		.help = "Time for that search.",
		.no_effect = "no process outlives its slot's process namespace",
	},
};
const size_t settings_count = sizeof(settings) / sizeof(settings[0]);
