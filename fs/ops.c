/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The operations in the order of libfuse's header. Each does nothing but choose the half of the
 * tree: a lease's files are served here on the worker (files.h), control files on the loop.
 */
#include "fs/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/settings.h"
#include "fs/context.h"
#include "fs/control.h"
#include "fs/directory.h"
#include "fs/files.h"
#include "fs/fuse-features.h"
#include "fs/growing.h"
#include "fs/handle.h"
#include "fs/interrupt.h"
#include "fs/notifier.h"
#include "fs/output.h"
#include "fs/request.h"
#include "fs/tree.h"

/* Of an operation that the other half may lack: EOPNOTSUPP, since one ENOSYS would end it for the
 * whole mount. */
#define FILES(op, req, ...)                                                                        \
	(files_ops.op ? files_ops.op(req, __VA_ARGS__) : (void)fuse_reply_err(req, EOPNOTSUPP))

/* Hands the request to the loop. */
static void ask(fuse_req_t req, fuse_ino_t ino, const char *name, request_fn *run)
{
	struct request *request = request_create(req, ino, name, name ? strlen(name) : 0, NULL);

	if (request)
		request_post(request, run);
}

/* What an operation on an open file knows beyond the file. */
struct about {
	size_t size;
	off_t offset;
	bool cached;
	int to_set;
	pid_t process;
	bool dying, exiting;
};

static void ask_about_file(fuse_req_t req, fuse_ino_t ino, const struct fuse_file_info *fi,
	request_fn *run, struct about about)
{
	struct request *request = request_create(req, ino, NULL, 0, fi);

	if (!request)
		return;
	request->size = about.size;
	request->offset = (uint64_t)about.offset;
	request->cached = about.cached;
	request->to_set = about.to_set;
	request->process = about.process;
	request->dying = about.dying;
	request->exiting = about.exiting;
	request_post(request, run);
}

/* Not among control files, nor between them and a lease's. */
static void refuse(fuse_req_t req)
{
	(void)fuse_reply_err(req, EPERM);
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	(void)fuse_set_feature_flag(conn, FUSE_CAP_PARALLEL_DIROPS);
	if (files_ops.init)
		files_ops.init(userdata, conn);
	/* libfuse 3.18 makes a pipe for each request, finds it too small for the largest one
	 * (which is a page over the most that a pipe may have) and reads into memory after all */
	fuse_unset_feature_flag(conn, FUSE_CAP_SPLICE_READ);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	if (files_owns(parent))
		FILES(lookup, req, parent, name);
	else
		ask(req, parent, name, directory_lookup);
}

/* Control nodes are computed from their numbers: there is nothing to forget. */
static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
	if (files_owns(ino) && files_ops.forget)
		files_ops.forget(req, ino, count);
	else
		fuse_reply_none(req);
}

/* Who asks, where that matters: it costs a look into /proc. */
static pid_t asker(fuse_req_t req, fuse_ino_t ino)
{
	return growing_asks_who(ino) ? process_of_thread(fuse_req_ctx(req)->pid) : 0;
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (files_owns(ino))
		FILES(getattr, req, ino, fi);
	else
		ask_about_file(req, ino, fi, directory_getattr,
			(struct about){.process = asker(req, ino)});
}

static void op_setattr(
	fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
	if (files_owns(ino))
		FILES(setattr, req, ino, attr, to_set, fi);
	else
		ask_about_file(req, ino, fi, directory_setattr, (struct about){.to_set = to_set});
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	if (files_owns(ino))
		FILES(readlink, req, ino);
	else
		(void)fuse_reply_err(req, EINVAL);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	if (files_owns(parent))
		FILES(mknod, req, parent, name, mode, rdev);
	else
		refuse(req);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	if (files_owns(parent))
		FILES(mkdir, req, parent, name, mode);
	else
		ask(req, parent, name, directory_mkdir);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	if (files_owns(parent))
		FILES(unlink, req, parent, name);
	else
		ask(req, parent, name, directory_unlink);
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	if (files_owns(parent))
		FILES(rmdir, req, parent, name);
	else
		ask(req, parent, name, directory_rmdir);
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	if (files_owns(parent))
		FILES(symlink, req, target, parent, name);
	else
		refuse(req);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
	const char *new_name, unsigned flags)
{
	if (files_owns(parent) && files_owns(new_parent))
		FILES(rename, req, parent, name, new_parent, new_name, flags);
	else
		refuse(req);
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name)
{
	if (files_owns(ino) && files_owns(new_parent))
		FILES(link, req, ino, new_parent, new_name);
	else
		refuse(req);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct about about = {0};

	if (files_owns(ino)) {
		FILES(open, req, ino, fi);
		return;
	}
	if ((fi->flags & O_ACCMODE) != O_RDONLY || growing_asks_who(ino))
		about.process = process_of_thread(fuse_req_ctx(req)->pid);
	ask_about_file(req, ino, fi, handle_open, about);
}

static void op_read(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	if (files_owns(ino))
		FILES(read, req, ino, size, offset, fi);
	else if (!output_read_at_once(req, ino, size, offset, fi))
		ask_about_file(req, ino, fi, handle_read,
			(struct about){
				.size = size,
				.offset = offset,
				.cached = fi->lock_owner == 0, /* a read(2) always has an owner */
			});
}

/* Who closes is found out here, where /proc may be read, and before the answer lets him go. */
static void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	pid_t caller = fuse_req_ctx(req)->pid;

	if (files_owns(ino))
		FILES(flush, req, ino, fi);
	else if (!handle_flush_matters(fi))
		(void)fuse_reply_err(req, 0);
	else
		ask_about_file(req, ino, fi, handle_flush,
			(struct about){
				.process = process_of_thread(caller),
				.dying = process_is_dying(caller),
				.exiting = process_is_exiting(caller),
			});
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (files_owns(ino))
		FILES(release, req, ino, fi);
	else
		ask_about_file(req, ino, fi, handle_release, (struct about){0});
}

static void op_fsync(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi)
{
	if (files_owns(ino))
		FILES(fsync, req, ino, data_only, fi);
	else
		ask_about_file(req, ino, fi, handle_fsync, (struct about){0});
}

static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (files_owns(ino))
		FILES(opendir, req, ino, fi);
	else
		ask_about_file(req, ino, fi, directory_opendir, (struct about){0});
}

static void op_readdir(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	if (files_owns(ino))
		FILES(readdir, req, ino, size, offset, fi);
	else
		ask_about_file(req, ino, fi, directory_readdir,
			(struct about){.size = size, .offset = offset});
}

static void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (files_owns(ino))
		FILES(releasedir, req, ino, fi);
	else
		ask_about_file(req, ino, fi, directory_releasedir, (struct about){0});
}

static void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi)
{
	if (files_owns(ino))
		FILES(fsyncdir, req, ino, data_only, fi);
	else
		(void)fuse_reply_err(req, 0);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	if (files_owns(ino))
		FILES(statfs, req, ino);
	else
		ask(req, ino, NULL, directory_statfs);
}

/* With [mount] xattr = off one ENOSYS ends each of these for the whole mount, which is what is
 * wanted. */
static int xattr_code(fuse_req_t req, int otherwise)
{
	const struct fs_context *context = fuse_req_userdata(req);

	return context->config->mount.xattr ? otherwise : ENOSYS;
}

static bool xattr_is_of_files(fuse_req_t req, fuse_ino_t ino)
{
	return files_owns(ino) && xattr_code(req, 0) == 0;
}

static void op_setxattr(
	fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
	if (xattr_is_of_files(req, ino))
		FILES(setxattr, req, ino, name, value, size, flags);
	else
		(void)fuse_reply_err(req, xattr_code(req, ENOTSUP));
}

static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	if (xattr_is_of_files(req, ino))
		FILES(getxattr, req, ino, name, size);
	else
		(void)fuse_reply_err(req, xattr_code(req, ENODATA));
}

static void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	if (xattr_is_of_files(req, ino))
		FILES(listxattr, req, ino, size);
	else
		(void)fuse_reply_err(req, xattr_code(req, ENOTSUP));
}

static void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	if (xattr_is_of_files(req, ino))
		FILES(removexattr, req, ino, name);
	else
		(void)fuse_reply_err(req, xattr_code(req, ENOTSUP));
}

static void op_create(
	fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	if (files_owns(parent))
		FILES(create, req, parent, name, mode, fi);
	else
		refuse(req);
}

static void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg,
	struct fuse_file_info *fi, unsigned flags, const void *in, size_t in_size, size_t out_size)
{
	if (files_owns(ino))
		FILES(ioctl, req, ino, cmd, arg, fi, flags, in, in_size, out_size);
	else
		(void)fuse_reply_err(req, ENOTTY);
}

static void op_poll(
	fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct fuse_pollhandle *handle)
{
	struct request *request;

	if (files_owns(ino)) {
		FILES(poll, req, ino, fi, handle);
		return;
	}
	request = request_create(req, ino, NULL, 0, fi);
	if (!request) {
		fuse_pollhandle_destroy(handle);
		return;
	}
	if (handle)
		request->poller = poll_wait_create(handle);
	request_post(request, handle_poll);
}

static void op_write_buf(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *bytes, off_t offset,
	struct fuse_file_info *fi)
{
	struct fuse_bufvec memory = FUSE_BUFVEC_INIT(fuse_buf_size(bytes));
	struct request *request;
	ssize_t copied;

	if (files_owns(ino)) {
		FILES(write_buf, req, ino, bytes, offset, fi);
		return;
	}
	request = request_create(req, ino, NULL, memory.buf[0].size, fi);
	if (!request)
		return;
	memory.buf[0].mem = request->bytes;
	copied = fuse_buf_copy(&memory, bytes, 0);
	if (copied < 0) {
		free(request);
		(void)fuse_reply_err(req, (int)-copied);
		return;
	}
	request->size = (size_t)copied;
	request->offset = (uint64_t)offset;
	request_post(request, handle_write);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	size_t theirs = 0;

	for (size_t i = 0; i < count; i++)
		if (files_owns(forgets[i].ino))
			forgets[theirs++] = forgets[i];
	if (theirs > 0 && files_ops.forget_multi)
		files_ops.forget_multi(req, theirs, forgets);
	else
		fuse_reply_none(req);
}

static void op_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int operation)
{
	if (files_owns(ino))
		FILES(flock, req, ino, fi, operation);
	else
		(void)fuse_reply_err(req, EOPNOTSUPP);
}

static void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
	struct fuse_file_info *fi)
{
	if (files_owns(ino))
		FILES(fallocate, req, ino, mode, offset, length, fi);
	else
		(void)fuse_reply_err(req, EOPNOTSUPP);
}

static void op_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t offset_in,
	struct fuse_file_info *fi_in, fuse_ino_t ino_out, off_t offset_out,
	struct fuse_file_info *fi_out, size_t length, int flags)
{
	if (files_owns(ino_in) && files_owns(ino_out))
		FILES(copy_file_range, req, ino_in, offset_in, fi_in, ino_out, offset_out, fi_out,
			length, flags);
	else
		(void)fuse_reply_err(
			req, EXDEV); /* the caller copies by reading and writing then */
}

static void op_lseek(
	fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi)
{
	if (files_owns(ino))
		FILES(lseek, req, ino, offset, whence, fi);
	else
		(void)fuse_reply_err(req, EINVAL); /* no holes to look for */
}

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
static void op_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *fi)
{
	if (files_owns(parent))
		FILES(tmpfile, req, parent, mode, fi);
	else
		refuse(req);
}
#endif

const struct fuse_lowlevel_ops fs_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.readlink = op_readlink,
	.mknod = op_mknod,
	.mkdir = op_mkdir,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.symlink = op_symlink,
	.rename = op_rename,
	.link = op_link,
	.open = op_open,
	.read = op_read,
	.flush = op_flush,
	.release = op_release,
	.fsync = op_fsync,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.releasedir = op_releasedir,
	.fsyncdir = op_fsyncdir,
	.statfs = op_statfs,
	.setxattr = op_setxattr,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.removexattr = op_removexattr,
	.create = op_create,
	.ioctl = op_ioctl,
	.poll = op_poll,
	.write_buf = op_write_buf,
	.forget_multi = op_forget_multi,
	.flock = op_flock,
	.fallocate = op_fallocate,
	.copy_file_range = op_copy_file_range,
	.lseek = op_lseek,
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
	.tmpfile = op_tmpfile,
#endif
};
