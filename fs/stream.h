/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stream.h: a file whose reader may have to wait for what it says, like `wait`.
 *
 * Its row in tree.c names a struct stream. A READ at the end of what there is is held until
 * stream_wake() says that there may be more, and cancelled by the rules of interrupt.h; who has
 * O_NONBLOCK gets EAGAIN instead, and poll(2) tells when a READ would not wait. Two kinds:
 *
 *	with an end  the text is kept while it is open and read at any offset, as a file's
 *	endless      ends with the daemon. It is read once and in order, as a pipe's: offsets mean
 *	             nothing, lseek(2) is ESPIPE. What was read is forgotten, and more is asked
 *	             for only then, so that a reader who sleeps costs no more than what one call
 *	             of more() appended
 *
 * Threads: loop.
 */
#ifndef FS_STREAM_H
#define FS_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "fs/tree.h"

struct control;
struct strbuf;

struct stream {
	bool endless;
	/*
	 * Appends what comes next for a reader at *position, which is the stream's own to count
	 * with and 0 at open. Nothing appended and false: there is nothing yet. True: the end.
	 */
	bool (*more)(struct control *control, const struct node *node, uint64_t *position,
		struct strbuf *out);
};

/* There may be more to read of that file now: readers that wait are served, pollers told. Cheap
 * when nobody has it open. */
void stream_wake(struct control *control, enum node_kind kind, uint64_t object);

/* What stat(2) shows: the text's size once it has its end. Else one that nothing is, since whoever
 * uses sendfile(2) would take what stands behind a smaller one for an end, and not even ask. */
enum { STREAM_OPEN_SIZE = 4096 };
off_t stream_size(struct control *control, const struct node *node);

/* `wait` of a lease: ends, with its state and reason, when the lease is no longer ACTIVE. */
extern const struct stream stream_wait;

#endif
