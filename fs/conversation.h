/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * conversation.h: what is said on one open descriptor of a control file.
 *
 * What is written is a request, what is read back is its reply. This is the part that only thinks:
 * it collects, refuses what is malformed, decides when a request is carried out, and places the
 * reply. It does no I/O, knows no FUSE and no lease; whoever owns the handle carries out what it
 * says.
 *
 *	QUIET      -- WRITE -->                                  COLLECTING
 *	           -- READ -->                                   RUNNING (asked without a request)
 *	COLLECTING -- READ, fsync, RELEASE, opener's FLUSH -->   RUNNING (a VERB: by its newline)
 *	           -- malformed, too large, a writer killed -->  REFUSED
 *	RUNNING    -- answer -->                                 ANSWERED
 *	           -- WRITE -->                                  COLLECTING
 *	REFUSED    -- READ, fsync, opener's FLUSH -->            ANSWERED (with the error)
 *	ANSWERED   -- WRITE -->                                  COLLECTING
 *
 * A refused request stays refused, whatever is written behind it, until its end (what would have
 * committed it) has been told of the failure: the rest of half a script is never taken for a
 * script of its own.
 *
 * Threads: loop.
 */
#ifndef FS_CONVERSATION_H
#define FS_CONVERSATION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"

enum { CONVERSATION_INPUT_MAX = 4 * 1024 * 1024 };

enum conversation_kind {
	CONVERSATION_SCRIPT, /* text has any number of lines: run_command */
	CONVERSATION_LINE,   /* text is one line: create, and what needs to wait */
	CONVERSATION_VERB,   /* the same, carried out by the WRITE that brings the newline */
};

enum conversation_state {
	CONVERSATION_QUIET,      /* nothing was written, nothing asked */
	CONVERSATION_COLLECTING, /* input is pending */
	CONVERSATION_REFUSED,    /* its input was dropped; error says why */
	CONVERSATION_RUNNING,    /* committed, or asked for without a request; no reply yet */
	CONVERSATION_ANSWERED,
};

/* What the owner of the handle has to do; failures are negative, 0 is "nothing, it succeeds". */
enum conversation_todo {
	/* carry out conversation_request(), then conversation_answer() with conversation->turn */
	CONVERSATION_COMMIT = 1,
	/* READ without a request: choose what it shows, then conversation_answer() */
	CONVERSATION_ASK,
	/* hold the READ; call conversation_read() again after conversation_answer() */
	CONVERSATION_WAIT,
	/* give these bytes to the READ */
	CONVERSATION_REPLY,
};

struct conversation {
	/* to be looked at, not to be changed */
	enum conversation_kind kind;
	enum conversation_state state;
	uint64_t turn; /* counts requests (and asks) of this handle, from 1 */
	pid_t opener;  /* thread-group id; 0: in a pid namespace that we cannot see */

	/* private */
	struct strbuf input;
	enum { INPUT_UNDECIDED, INPUT_TEXT, INPUT_JSON } form;
	bool brace_seen, newline_seen;
	char partial[4]; /* of a character that is split over two WRITEs */
	unsigned partial_size;
	struct json_scanner scanner;
	struct error error;
	struct strbuf reply;
	const struct strbuf *lent; /* what is shown instead of reply; NULL: reply is */
	uint64_t base;             /* the offset that the reply's first byte has for its reader */
	bool base_known, reply_was_read;
};

void conversation_init(
	struct conversation *conversation, enum conversation_kind kind, pid_t opener);
/* Accepts NULL and a zeroed one. */
void conversation_fini(struct conversation *conversation);

/*
 * WRITE; its offset means nothing. read_waits: a READ of this handle is being held. Never waits.
 * 0, CONVERSATION_COMMIT (a VERB), -EINVAL, -EFBIG, -ENOMEM, -ECANCELED (see conversation_flush()):
 * none of it will be carried out; -EBUSY with read_waits, which leaves everything as it is.
 */
int conversation_write(struct conversation *conversation, const char *bytes, size_t size,
	bool read_waits, struct error *err);

/*
 * READ. CONVERSATION_REPLY: *ret_bytes and *ret_size (0: the end), valid until the next call.
 * Negative: the request is incomplete; the READ fails with that, the next one shows the error as
 * JSON. After CONVERSATION_COMMIT, _ASK and _WAIT the READ is held; call this again for it when
 * there is an answer. A READ that was interrupted and comes again is one like any other: the turn
 * is still the same.
 */
int conversation_read(struct conversation *conversation, uint64_t offset, size_t size,
	const char **ret_bytes, size_t *ret_size, struct error *err);

/* fsync. 0, CONVERSATION_COMMIT, or the errno that the request was refused with. */
int conversation_fsync(struct conversation *conversation, struct error *err);

/* True when a FLUSH or RELEASE may matter: only then is it worth while to find out who flushes. */
bool conversation_pending(const struct conversation *conversation);

/*
 * FLUSH: a descriptor was closed by the process of this thread-group id (0: cannot be seen). 0,
 * CONVERSATION_COMMIT, or an errno. dying: the process is being ended by a signal (interrupt.h):
 * what is pending is dropped, -ECANCELED.
 */
int conversation_flush(
	struct conversation *conversation, pid_t process, bool dying, struct error *err);

/* RELEASE: the last descriptor is gone. As conversation_fsync(), but what was already refused is
 * not told again. */
int conversation_release(struct conversation *conversation, struct error *err);

/* O_TRUNC or ftruncate() on this handle: forgets pending input and a refusal. */
void conversation_truncate(struct conversation *conversation);

/*
 * The committed request, until it is answered or the next WRITE: JSON and scripts as they came, a
 * line without its newline. NUL-terminated.
 */
const struct strbuf *conversation_request(const struct conversation *conversation);
bool conversation_request_is_json(const struct conversation *conversation);

/*
 * The reply of a turn: moves the text out of reply, which is empty afterwards. False, and the text
 * is dropped, when the conversation has gone on since. For a failure, conversation_render_error()
 * makes the text.
 */
bool conversation_answer(struct conversation *conversation, uint64_t turn, struct strbuf *reply);
/* The same without a copy: the reply must stay as it is while the state is ANSWERED and this
 * turn. */
bool conversation_lend(
	struct conversation *conversation, uint64_t turn, const struct strbuf *reply);
/* Appends {"error":{"code":…,"reason":…,"message":…}} and a newline; reason only if there is
 * one. */
void conversation_render_error(const struct error *error, struct strbuf *out);

/* Input is pending or a reply has not been read to its end: st_size must not be what the last reply
 * had. */
bool conversation_unsettled(const struct conversation *conversation);

#endif
