/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * reason.h: the words that say why something ended or was refused. Users match on them, so this
 * list is the only one: the words in replies, events, lease.json and docs/control-files.md all come
 * from here. The test `lint` wants a word that no code gives yet under the docs' "Not yet".
 */
#ifndef BASE_REASON_H
#define BASE_REASON_H

#define REASONS(X)                                                                                 \
	X(POOL_EXHAUSTED, "pool_exhausted", "no slot is free")                                     \
	X(ACQUIRE_TIMEOUT, "acquire_timeout", "no slot came free in the time allowed")             \
	X(DRAINING, "draining", "the pool takes no new leases")                                    \
	X(STOPPING, "stopping", "the daemon is stopping")                                          \
	X(MODE_MISMATCH, "mode_mismatch", "paddock mode and pool mode do not fit")                 \
	X(SPEC_DIFFERS, "spec_differs", "the live lease was made from another spec")               \
	X(UNKNOWN_IMAGE, "unknown_image", "no such image is configured")                           \
	X(LEASE_TTL_EXPIRED, "lease_ttl_expired", "the lease's time has passed")                   \
	X(HOLD_RELEASED, "hold_released", "the last holder has gone")                              \
	X(TERMINATED, "terminated", "its user gave it back")                                       \
	X(OPERATOR, "operator", "an operator ended it")                                            \
	X(SLOT_LOST, "slot_lost", "the slot's init died")                                          \
	X(SERVER_UNHEALTHY, "server_unhealthy", "the slot's server does not answer")               \
	X(OOM, "oom", "the slot's memory limit was reached")                                       \
	X(PIDS, "pids", "the slot's process limit was reached")                                    \
	X(DISK_FULL, "disk_full", "no space left for the slot's files")                            \
	X(TIMEOUT, "timeout", "the command ran out of its time")                                   \
	X(IDLE_TIMEOUT, "idle_timeout", "the command was silent for too long")                     \
	X(CANCELLED, "cancelled", "whoever asked for it has gone")                                 \
	X(KILL_INCOMPLETE, "kill_incomplete", "not every process of the command could be killed")  \
	X(BACKEND_UNREACHABLE, "backend_unreachable", "the backend cannot be reached")             \
	X(BACKEND_REFUSED, "backend_refused", "the backend refused the request")                   \
	X(RATE_LIMITED, "rate_limited", "the backend asks for fewer requests")                     \
	X(BAD_ANSWER, "bad_answer", "the backend's answer makes no sense")                         \
	X(DAEMON_LOST, "daemon_lost", "the daemon died while the lease was out")

enum reason {
	REASON_NONE, /* prints as "" and is left out of JSON */
#define REASON_ENUM_(id, word, meaning) REASON_##id,
	REASONS(REASON_ENUM_)
#undef REASON_ENUM_
		REASON_COUNT
};

/* The word as users see it; "" for REASON_NONE. Never NULL. */
const char *reason_word(enum reason reason);

/* What the word means, half a sentence. */
const char *reason_meaning(enum reason reason);

#endif
