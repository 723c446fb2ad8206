/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * error.h: a failure is a value with a sentence in it.
 *
 * A function that can fail returns an int: 0 is success; negative is a failure, -errno, which the
 * caller passes on, adding context at most once; positive is an outcome that its header lists and
 * the caller must handle. The struct is a value on the caller's stack: nothing is allocated on the
 * failure path. Who passes a failure on does not log it, so each is reported once: by whoever
 * answers the request, or by whoever goes on in spite of it.
 *
 *	if (fd < 0)
 *		return error_set(err, errno, "cannot open '%s'", path);
 *	r = slot_start(slot, err);
 *	if (r < 0)
 *		return error_wrap(err, "slot %u", n);
 *
 * Threads: any; a struct error belongs to one thread at a time. err may be NULL where only the code
 * matters.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/reason.h"

struct error {
	int code;           /* errno value, 0 when nothing failed */
	enum reason reason; /* REASON_NONE where errno says enough */
	char text[512];     /* no full stop: "starting slot 3: no such template 'py'" */
};

#define ERROR_NONE ((struct error){0})

/* Records a failure, without a reason. The text is cut, never overrun. Returns -code. */
int error_set(struct error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Records a failure with a reason word. Returns -code. */
int error_reason(struct error *err, int code, enum reason reason, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* error_set() with ": " and strerror(code) behind the text. */
int error_errno(struct error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Puts "context: " before the text. Returns -code, which only err knows: -EIO when that is NULL. */
int error_wrap(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The errno's symbolic name ("EAGAIN"); "E<number>" never: unknown numbers give "EIO". */
const char *error_name(int code);

#endif
