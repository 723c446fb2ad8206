/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 4, 0))) static void set_text(
	struct error *err, int code, enum reason reason, const char *fmt, va_list args)
{
	char text[sizeof(err->text)];

	if (!err)
		return;
	/* not straight into the struct: an argument may be its own former text */
	(void)vsnprintf(text, sizeof(text), fmt, args);
	err->code = code;
	err->reason = reason;
	memcpy(err->text, text, strlen(text) + 1);
}

int error_set(struct error *err, int code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	set_text(err, code, REASON_NONE, fmt, args);
	va_end(args);
	return -code;
}

int error_reason(struct error *err, int code, enum reason reason, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	set_text(err, code, reason, fmt, args);
	va_end(args);
	return -code;
}

int error_errno(struct error *err, int code, const char *fmt, ...)
{
	const char *meaning = strerrordesc_np(code);
	va_list args;
	size_t len;

	if (!err)
		return -code;
	va_start(args, fmt);
	set_text(err, code, REASON_NONE, fmt, args);
	va_end(args);
	len = strlen(err->text);
	if (meaning)
		(void)snprintf(err->text + len, sizeof(err->text) - len, ": %s", meaning);
	else
		(void)snprintf(err->text + len, sizeof(err->text) - len, ": error %d", code);
	return -code;
}

int error_wrap(struct error *err, const char *fmt, ...)
{
	char context[sizeof(err->text)], inner[sizeof(err->text)];
	va_list args;

	if (!err)
		return -EIO; /* the code went with the text */
	va_start(args, fmt);
	(void)vsnprintf(context, sizeof(context), fmt, args);
	va_end(args);
	memcpy(inner, err->text, sizeof(inner));
	(void)snprintf(err->text, sizeof(err->text), "%.200s: %.300s", context, inner);
	return -err->code;
}

const char *error_name(int code)
{
	const char *name = strerrorname_np(code);

	return name && code ? name : "EIO";
}
