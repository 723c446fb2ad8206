/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/reply.h"

#include <errno.h>

#include "base/error.h"
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

void reply_failure(struct request *request, const struct lease *lease, const struct error *err)
{
	inode_note_error(request->control, lease, err);
	request_reply_code(request, reply_errno(-err->code));
}
