/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * bubble-private.h: what the files of bubble.h share. bubble-kit.c and bubble-words.c make what
 * bwrap is told, bubble-spawn.c starts it, bubble-channel.c carries messages, bubble-exec.c
 * commands and pings, bubble-net.c sockets, bubble-log.c what is said on the way, bubble-image.c
 * root file systems, bubble.c life and death. Threads: loop.
 */
#ifndef POOL_BUBBLE_PRIVATE_H
#define POOL_BUBBLE_PRIVATE_H

#include <assert.h>
#include <stdio.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <uthash.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "pool/bubble.h"
#include "pool/init/protocol.h"
#include "pool/net-targets.h"

struct loop_timer;
struct loop_watch;
struct outgoing;

#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif

enum { FIRST_HIGH_FD = 16 }; /* above the numbers that a spawn fills */

/* Words of a command line, each a copy. */
struct words {
	char **word; /* count of them, then NULL */
	size_t count, capacity;
	bool failed;
};

/* What a slot can have as its root. */
struct bubble_image {
	const char *name;   /* of [images]; "": what slots have unless asked */
	const char *rootfs; /* NULL: the host's own /usr */
	char *etc_path;
	struct words mounts; /* bwrap's, of rootfs */
};

struct bubble_kit {
	const struct config *config;
	char *bwrap;                 /* absolute */
	struct bubble_image *images; /* the first is the default */
	size_t image_count;
	int image_fd; /* init, sealed; above the numbers that a spawn fills */
	int null_fd;  /* /dev/null */
	struct init_setup setup;
	void *filter;
	size_t filter_size;
	struct net_targets targets; /* of reach */
	uint64_t network_cookie;    /* of the daemon's own network namespace; 0: not known */
};

struct bubble {
	struct loop *loop;
	const struct bubble_kit *kit;
	unsigned slot;
	struct bubble_hooks hooks;
	struct error why; /* what ended it, as far as known; code 0: nothing yet */

	/* What we spawned: bwrap, or the helper that becomes it or, for a cgroup, starts it as our
	 * child. */
	/* its process group, which bwrap's child shares until init; 0: all reaped */
	pid_t runner_pid;
	int runner_fd; /* pidfd of the one that lives */
	/* of the one that the helper has started, until the helper is gone; or -1 */
	int successor_fd;
	int runner_status; /* as waitid() tells: exit code, or 128 + signal */
	int complaints_fd; /* memfd that is bwrap's standard error; -1 after READY */
	int control_fd;
	pid_t pid; /* init */
	int pidfd, root_fd;
	int join_fd; /* bubble_join_commands() */
	struct loop_watch *runner_watch, *control_watch, *pid_watch;
	struct loop_timer *start_timer;
	uint64_t start_timeout_ms;
	int landlock_abi; /* as READY said; 0: none */
	bool ready, kill_asked, init_dead, control_closed, ended;

	struct outgoing *queue, **queue_end; /* messages that init's socket had no room for */

	struct bubble_exec *execs; /* by id */
	uint32_t next_id;

	int listeners[INIT_TARGETS_MAX]; /* by target; -1: none, or taken */
	int namespaces[INIT_NAMESPACE_COUNT];
	struct bubble_socket *sockets; /* asked for, by id */
	uint32_t next_socket_id;

	void (*pong)(void *data, int r);
	void *pong_data;
	uint32_t ping_id, pong_id; /* of the last that was sent, and of the last answer */
	int ping_result;           /* what the timer will say */
	struct loop_timer *ping_timer;
};

void words_fini(struct words *words);
void words_add(struct words *words, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void words_add_all(struct words *words, const char *const *list); /* NULL-terminated */

/* Fills kit::images, and makes their /etc. */
int bubble_images_create(struct bubble_kit *kit, const char *etc_path, struct error *err);
void bubble_images_destroy(struct bubble_kit *kit);

/* Everything of the exec helper (for a root daemon, or to join a cgroup) and bwrap. */
int bubble_words(struct words *words, const struct bubble_kit *kit,
	const struct bubble_options *options, struct error *err);
/* A line for the log. */
void bubble_say(struct bubble *bubble, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Each line that bwrap, or the exec helper, wrote to standard error, for the log. */
void bubble_say_complaints(struct bubble *bubble);
/* The last of them; "" when there is none. */
void bubble_read_complaint(const struct bubble *bubble, char *ret_text, size_t size);

bool bubble_needs_helper(const struct bubble_kit *kit, const struct bubble_options *options);

/* A socket pair and a running bwrap that holds the other end. Fills runner_*, complaints_fd and
 * control_fd. */
int bubble_spawn_runner(
	struct bubble *bubble, const struct bubble_options *options, struct error *err);

struct message {
	const struct iovec *parts;
	size_t part_count;
	const int *fds; /* borrowed */
	size_t fd_count;
};

/* Sends now, or queues a copy when there is no room. -errno: init will never get it. */
int bubble_send(struct bubble *bubble, const struct message *message);
void bubble_send_queued(struct bubble *bubble);
void bubble_drop_queue(struct bubble *bubble);

/* What came along with a report; -1 and 0 where nothing did. */
struct attached {
	int fd, pidfd;
	pid_t pid;
};

/* Handles what init has said already, before it is judged for not having said it. The bubble does
 * not end within. */
void bubble_hear_late(struct bubble *bubble);

/* One report: 1; 0 when there is none now; -ENOTCONN at the end; -EPROTO when it is not what init
 * sends. */
int bubble_receive(
	struct bubble *bubble, struct init_report *ret_report, struct attached *ret_attached);

/* Handles STARTED, START_FAILED, DONE and PONG. -EPROTO: init would not say that. */
int bubble_handle_report(struct bubble *bubble, const struct init_report *report);
/* Ready, and to be talked to. */
bool bubble_is_alive(const struct bubble *bubble);
/* The bubble is dead: every exec is lost, a ping is answered. */
void bubble_lose_execs(struct bubble *bubble);
void bubble_forget_execs(struct bubble *bubble);

/* Handles LISTENER, NAMESPACE and SOCKET_MADE; takes the descriptor over when it is good. -EPROTO:
 * init would not say that. */
int bubble_handle_socket(
	struct bubble *bubble, const struct init_report *report, struct attached *attached);
/* Before READY: every listener and namespace that must be there is. */
bool bubble_has_network(const struct bubble *bubble);
void bubble_init_sockets(struct bubble *bubble);
/* The bubble is dead: nobody gets a socket any more (-ENOTCONN). */
void bubble_lose_sockets(struct bubble *bubble);
void bubble_forget_sockets(struct bubble *bubble);

#endif
