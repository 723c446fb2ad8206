/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a bubble has to say of itself, and what bwrap complained about, for the slot's log. */
#include <stdarg.h>
#include <string.h>

#include "base/io.h"
#include "pool/bubble-private.h"

enum { COMPLAINTS_MOST = 2048 };

__attribute__((format(printf, 2, 0))) static void say(
	struct bubble *bubble, const char *fmt, va_list args)
{
	char text[400];

	(void)vsnprintf(text, sizeof(text), fmt, args);
	bubble->hooks.said(bubble->hooks.data, BUBBLE_INIT, text);
}

void bubble_say(struct bubble *bubble, const char *fmt, ...)
{
	va_list args;

	if (!bubble->hooks.said)
		return;
	va_start(args, fmt);
	say(bubble, fmt, args);
	va_end(args);
}

void bubble_read_complaint(const struct bubble *bubble, char *ret_text, size_t size)
{
	char tail[400];
	const char *line;

	read_tail(bubble->complaints_fd, tail, sizeof(tail));
	line = strrchr(tail, '\n');
	(void)snprintf(ret_text, size, "%s", line ? line + 1 : tail);
}

void bubble_say_complaints(struct bubble *bubble)
{
	char text[COMPLAINTS_MOST], *rest = text, *line;

	if (!bubble->hooks.said)
		return;
	read_tail(bubble->complaints_fd, text, sizeof(text));
	while ((line = strsep(&rest, "\n")))
		if (*line)
			bubble->hooks.said(bubble->hooks.data, BUBBLE_BWRAP, line);
}
