/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "providers/sandbox.h"

int sandbox_root_create(int fd, int pidfd, uid_t uid, gid_t gid, uint64_t serial,
	struct sandbox_root **ret_root, struct error *err)
{
	CLEANUP(closep) int own_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	CLEANUP(closep) int own_pidfd = fcntl(pidfd, F_DUPFD_CLOEXEC, 0);
	struct sandbox_root *root;

	if (own_fd < 0 || own_pidfd < 0)
		return error_errno(err, errno, "cannot keep the sandbox's root open");
	root = calloc(1, sizeof(*root));
	if (!root)
		return error_set(err, ENOMEM, "no memory for the sandbox's root");
	atomic_init(&root->refs, 1);
	atomic_init(&root->ended, false);
	root->fd = take_fd(&own_fd);
	root->pidfd = take_fd(&own_pidfd);
	root->uid = uid;
	root->gid = gid;
	root->serial = serial;
	*ret_root = root;
	return 0;
}

struct sandbox_root *sandbox_root_ref(struct sandbox_root *root)
{
	if (root)
		atomic_fetch_add(&root->refs, 1);
	return root;
}

void sandbox_root_unref(struct sandbox_root *root)
{
	if (!root || atomic_fetch_sub(&root->refs, 1) != 1)
		return;
	(void)close(root->fd);
	(void)close(root->pidfd);
	free(root);
}

bool sandbox_root_alive(struct sandbox_root *root, int *ret_errno)
{
	struct pollfd dead = {.fd = root->pidfd, .events = POLLIN};
	int r;

	if (atomic_load(&root->ended)) {
		*ret_errno = ESTALE;
		return false;
	}
	do {
		r = poll(&dead, 1, 0);
	} while (r < 0 && errno == EINTR);
	if (r == 0)
		return true;
	/* the lease's end kills pid 1 after it has set `ended`: look again, so that an ordinary end
	 * is never called a loss */
	*ret_errno = atomic_load(&root->ended) ? ESTALE : ENOTCONN;
	return false;
}
