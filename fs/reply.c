/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/reply.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "fs/inode.h"
#include "fs/request.h"

int reply_errno(int r)
{
	if (r >= 0)
		return 0;
	if (r == -ENOSYS) /* would switch the operation off for the whole mount */
		return ENOTSUP;
	return r < -511 ? EIO : -r; /* the kernel takes 1 to 511 */
}

void reply_make_readable(struct error *err)
{
	char text[sizeof(err->text)];
	size_t size = strlen(err->text), used = 0;

	for (size_t at = 0; at < size && used < sizeof(text) - 5;) {
		size_t step = utf8_sequence(err->text + at, size - at);
		unsigned char first = (unsigned char)err->text[at];

		if (step == 0 || first < 0x20 || first == 0x7f) {
			used += (size_t)snprintf(
				text + used, sizeof(text) - used, "\\x%02x", first);
			at++;
		} else {
			memcpy(text + used, err->text + at, step);
			used += step;
			at += step;
		}
	}
	text[used] = '\0';
	memcpy(err->text, text, used + 1);
}

void reply_failure(struct request *request, const struct lease *lease, const struct error *err)
{
	inode_note_error(request->control, lease, err);
	request_reply_code(request, reply_errno(-err->code));
}
