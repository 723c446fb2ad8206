/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"

int command_pipe_open(uid_t uid, gid_t gid, int ours, int ret_fds[2], struct error *err)
{
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_errno(err, errno, "cannot make a pipe for a command");
	if (fcntl(fds[ours], F_SETFL, O_NONBLOCK) < 0 ||
		(geteuid() == 0 && fchown(fds[0], uid, gid) < 0)) {
		r = error_errno(err, errno, "cannot prepare a pipe for a command");
		closep(&fds[0]);
		closep(&fds[1]);
		return r;
	}
	ret_fds[0] = fds[0];
	ret_fds[1] = fds[1];
	return 0;
}
