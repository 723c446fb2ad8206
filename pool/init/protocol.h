/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * protocol.h: what the daemon and the init of a slot say to each other, over one SOCK_SEQPACKET
 * socket pair.
 *
 *	init                         daemon
 *	SUCCESSOR       ->                      from the exec helper, where there is a cgroup
 *	HELLO           ->                      init's pidfd comes with it
 *	                <-           SETUP      sent before init even runs; it waits in the socket
 *	NAMESPACE + fd  ->                      two, if SETUP asks for them
 *	LISTENER + fd   ->                      one for each target of SETUP
 *	READY + fd of / ->                      or FAILED with the step's name, and init exits
 *	                <-           EXEC + fds any number of commands, side by side
 *	STARTED         ->                      when a command lives for more than an instant
 *	DONE            ->                      its leader was reaped; or START_FAILED, instead
 *	                                        of a killed one: when nothing of its tree is left
 *	                <-           SIGNAL, KILL, PING, SOCKET
 *	PONG            ->
 *	SOCKET_MADE + fd ->                     a socket of the slot's network, or why there is none
 *
 * When the daemon's end is closed, init exits and the slot dies with it. Both sides are built from
 * the same tree and pass structs as they lie in memory; a version that differs ends the start. What
 * init sends is one struct, always whole: the daemon trusts nothing in it.
 */
#ifndef POOL_INIT_PROTOCOL_H
#define POOL_INIT_PROTOCOL_H

#include <stdint.h>

enum { INIT_PROTOCOL_VERSION = 7 };

/* Descriptors that the daemon's spawn leaves open for bwrap, and bwrap for init. */
enum {
	INIT_CONTROL_FD = 3,
	INIT_IMAGE_FD = 4,  /* this program; closed by init's first step */
	INIT_CGROUP_FD = 5, /* directory of the slot's cgroup; closed by the exec helper */
	/* and on: `tasks` files of its cgroups v1, which the helper joins and closes */
	INIT_JOIN_FD = 6,
	INIT_JOINS_MAX = 2,
};

enum {
	/* bytes of cwd, argv and environment in the message; more go in a memfd */
	INIT_INLINE_MAX = 100 * 1024,
	INIT_PAYLOAD_MAX = 8 * 1024 * 1024,
	INIT_FILTER_MAX = 4096, /* instructions: the kernel's BPF_MAXINSNS */
	INIT_RANGE = 65536,     /* ids of a ranged slot, from 0 inside */
	INIT_FDS_MAX = 7,
	INIT_TARGETS_MAX = 64,
};

enum init_request_kind {
	INIT_SETUP = 1,
	INIT_EXEC,
	INIT_SIGNAL, /* to the process group of a command's leader, or to it alone */
	INIT_KILL,   /* SIGKILL to all of a command's tree; of one without a cgroup */
	INIT_PING,
	INIT_SOCKET,
};

enum init_network {
	/* it is not the host's: commands may listen on ports below 1024 */
	INIT_NETWORK_LOW_PORTS = 1u << 0,
	INIT_NETWORK_NAMESPACES = 1u << 1, /* the daemon wants descriptors of them */
};

/* An address and port that init listens on inside; the address is made the slot's own. */
struct init_target {
	uint16_t family;     /* AF_INET, AF_INET6 */
	uint16_t port;       /* host byte order */
	uint16_t optional;   /* the slot starts without it too: no LISTENER comes then */
	uint8_t address[16]; /* network byte order */
};

/* The first message to init. The seccomp program's instructions (8 bytes each) follow it, then the
 * targets. */
struct init_setup {
	uint32_t version;
	uint32_t kind;
	uint32_t uid, gid;     /* inside */
	uint32_t processes;    /* RLIMIT_NPROC; 0: as inherited */
	uint32_t open_files;   /* RLIMIT_NOFILE; 0: as inherited */
	uint64_t file_size;    /* RLIMIT_FSIZE, bytes; 0: none */
	uint32_t filter_count; /* instructions */
	uint32_t target_count;
	uint32_t network;                      /* enum init_network */
	uint32_t ranged;                       /* not 0: all ids of the namespace above, not one */
	uint64_t storage_size, storage_inodes; /* of the tmpfs of its files; 0: they are bound */
};

/* What an EXEC carries beside its descriptors, which come in this order. */
enum init_exec_flags {
	INIT_EXEC_PAYLOAD_FD = 1u << 0, /* first of all: a memfd with the payload */
	INIT_EXEC_EXTRA_FD = 1u << 1,   /* behind the three of stdio: becomes descriptor 3 */
	/* then: directory of the command's cgroup. Either all commands of a slot have one or none:
	 * without it init puts a runner between itself and the command */
	INIT_EXEC_CGROUP_FD = 1u << 2,
	/* last: `tasks` of a cgroup v1, which the command joins before anything else */
	INIT_EXEC_JOIN_FD = 1u << 3,
	/* Made with a copy of init's memory: the OOM killer ends all who share what its victim has,
	 * and a command may be the victim before it executes. */
	INIT_EXEC_OWN_MEMORY = 1u << 4,
	/* Its descriptor 0 becomes the terminal of its session. */
	INIT_EXEC_TTY = 1u << 5,
};

enum init_socket_flags {
	INIT_SOCKET_V6 = 1u << 0, /* else v4 */
};

enum init_signal_flags {
	INIT_SIGNAL_DOOMS = 1u << 0,  /* when the leader is dead, the rest of its tree is killed */
	INIT_SIGNAL_LEADER = 1u << 1, /* to the leader alone */
};

/* Every later message to init. An EXEC is followed by cwd, argv and environment, each string with
 * its NUL. */
struct init_request {
	uint32_t kind;
	uint32_t id; /* of the command, or the ping's or socket's own number */
	uint32_t flags;
	int32_t signal;
	uint32_t argc, envc;
	uint32_t payload_size; /* bytes, wherever they are */
	uint32_t reserved;
};

enum init_report_kind {
	INIT_SUCCESSOR = 1, /* from the exec helper */
	INIT_HELLO,
	INIT_FAILED,
	INIT_READY,
	INIT_STARTED,
	INIT_START_FAILED,
	INIT_DONE,
	INIT_PONG,
	INIT_LISTENER, /* id: of the target, from 0 */
	INIT_SOCKET_MADE,
	INIT_NAMESPACE, /* id: enum init_namespace */
};

/* Of the slot's network, and the user namespace that owns it. */
enum init_namespace { INIT_NAMESPACE_NETWORK, INIT_NAMESPACE_USER, INIT_NAMESPACE_COUNT };

/* Every message from init. Fields that its kind does not use are 0. */
struct init_report {
	uint32_t version;
	uint32_t kind;
	uint32_t id;
	/* SUCCESSOR: of bwrap, on the host. STARTED, DONE: of the leader, inside; also its process
	 * group and session. */
	int32_t pid;
	/* FAILED, START_FAILED, SOCKET_MADE: errno. DONE: ETIMEDOUT when something of a killed
	 * command's tree may live, else 0 */
	int32_t error;
	/* DONE: as wait4() gives it. READY: the ABI of Landlock that scopes the slot, 0: none */
	int32_t status;
	char step[24];              /* FAILED, START_FAILED: what failed; NUL-terminated */
	int64_t user_us, system_us; /* DONE: of the leader and those it waited for */
	int64_t max_rss_kib, minor_faults, major_faults, blocks_in, blocks_out, voluntary_switches,
		involuntary_switches;
};

#endif
