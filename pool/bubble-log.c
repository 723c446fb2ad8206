/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a bubble has to say of itself, and what bwrap complained about, for the slot's log. */
#include <ctype.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* The last bytes of it, without the blanks at its end. */
static void read_tail(const struct bubble *bubble, char *ret_text, size_t size)
{
	struct stat st;
	off_t from = 0;
	ssize_t n = -1;

	ret_text[0] = '\0';
	if (bubble->complaints_fd >= 0 && fstat(bubble->complaints_fd, &st) == 0) {
		if (st.st_size > (off_t)size - 1)
			from = st.st_size - ((off_t)size - 1);
		n = pread(bubble->complaints_fd, ret_text, size - 1, from);
	}
	while (n > 0 && isspace((unsigned char)ret_text[n - 1]))
		n--;
	if (n >= 0)
		ret_text[n] = '\0';
}

void bubble_read_complaint(const struct bubble *bubble, char *ret_text, size_t size)
{
	char tail[400];
	const char *line;

	read_tail(bubble, tail, sizeof(tail));
	line = strrchr(tail, '\n');
	(void)snprintf(ret_text, size, "%s", line ? line + 1 : tail);
}

void bubble_say_complaints(struct bubble *bubble)
{
	char text[COMPLAINTS_MOST], *rest = text, *line;

	if (!bubble->hooks.said)
		return;
	read_tail(bubble, text, sizeof(text));
	while ((line = strsep(&rest, "\n")))
		if (*line)
			bubble->hooks.said(bubble->hooks.data, BUBBLE_BWRAP, line);
}
