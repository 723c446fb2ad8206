/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * operation.h: something asked for that is not done yet.
 *
 * A call that takes time returns a struct operation * and runs its done() exactly once, later, on
 * the loop, never inside the call itself. From that moment on the pointer is dead. Whoever no
 * longer wants the outcome cancels: done() still runs once, later, normally with -ECANCELED; what
 * was half made is destroyed by whoever was making it. An operation that has already come to its
 * end when it is cancelled may report that end instead.
 *
 * Implementers embed it as first member of their own struct. Threads: loop.
 */
#ifndef BASE_OPERATION_H
#define BASE_OPERATION_H

struct operation {
	void (*cancel)(struct operation *op); /* must not run done() before it returns */
};

/* Accepts NULL. Cancelling twice is harmless. */
static inline void operation_cancel(struct operation *op)
{
	if (op)
		op->cancel(op);
}

#endif
