/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void set_text(struct error *err, int code, enum reason reason, const char *fmt, va_list args)
{
	if (!err)
		return;
	err->code = code;
	err->reason = reason;
	(void)vsnprintf(err->text, sizeof(err->text), fmt, args);
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
	va_list args;
	size_t len;

	if (!err)
		return -code;
	va_start(args, fmt);
	set_text(err, code, REASON_NONE, fmt, args);
	va_end(args);
	len = strlen(err->text);
	(void)snprintf(err->text + len, sizeof(err->text) - len, ": %s", strerrordesc_np(code));
	return -code;
}

int error_wrap(struct error *err, const char *fmt, ...)
{
	char context[sizeof(err->text)], inner[sizeof(err->text)];
	va_list args;

	if (!err)
		return -1;
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
