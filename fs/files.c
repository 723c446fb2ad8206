/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/files.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "config/settings.h"
#include "fs/context.h"
#include "fs/fd-cache.h"
#include "fs/files-private.h"
#include "fs/fuse-features.h"
#include "providers/sandbox.h"

/* Some 25 MiB. */
enum { NODES_WELCOME = 100000, MINOR_WITH_PRUNE = 45 };

_Static_assert(FILES_INO_BIT == FILE_NODE_ID_BIT, "a node's number says whose it is");

/* ---- the whole ---- */

static void handle_node_gone(struct file_node *node)
{
	fd_cache_drop(node->loan->backing->cache, node);
	loan_unref(node->loan);
}

int files_create(const struct config *config, struct files **ret_files, struct error *err)
{
	struct files *files = calloc(1, sizeof(*files));
	int r;

	if (!files)
		return error_set(err, ENOMEM, "no memory for the leases' files");
	files->config = config;
	files->max_nodes = NODES_WELCOME;
	files->keeps_names = true;
	pthread_mutex_init(&files->lock, NULL);
	r = backing_init(&files->backing);
	if (r < 0) {
		free(files);
		return error_errno(
			err, -r, "cannot open /proc/self/fd, which the leases' files need");
	}
	r = file_node_table_create(FILE_NODE_TABLE_MAX, handle_node_gone, &files->nodes);
	if (r < 0) {
		files_destroy(files);
		return error_set(err, -r, "no memory for the leases' files");
	}
	*ret_files = files;
	return 0;
}

void files_destroy(struct files *files)
{
	struct loan *loan;

	if (!files)
		return;
	evictor_destroy(files->evictor);
	lock_waiters_destroy(files->lock_waiters);
	sweeper_destroy(files->sweeper);
	file_node_table_destroy(files->nodes);
	while ((loan = files->loans)) {
		files->loans = loan->next;
		loan_unref(loan);
	}
	backing_fini(&files->backing);
	pthread_mutex_destroy(&files->lock);
	free(files);
}

int files_attach(struct files *files, struct fuse_session *session, struct error *err)
{
	int r = lock_waiters_create(&files->lock_waiters);

	if (r < 0)
		return error_errno(err, -r, "cannot start the thread that waits for locks");
	r = sweeper_create(files, &files->sweeper);
	if (r < 0)
		return error_errno(err, -r, "cannot start the thread that clears up after leases");
	return evictor_create(files->nodes, session, files->max_nodes, &files->evictor, err);
}

void files_detach(struct files *files)
{
	if (files->evictor)
		evictor_stop(files->evictor);
	if (files->lock_waiters)
		lock_waiters_stop(files->lock_waiters);
	if (files->sweeper)
		sweeper_stop(files->sweeper);
}

size_t files_node_count(struct files *files)
{
	return file_node_table_count(files->nodes);
}

/* ---- nodes ---- */

struct files *files_of(fuse_req_t req)
{
	const struct fs_context *context = fuse_req_userdata(req);

	return context->files;
}

int files_node(fuse_req_t req, fuse_ino_t ino, struct file_node **ret_node)
{
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	int r;

	if (!files_owns(ino))
		return -EXDEV;
	node = file_node_get(files_of(req)->nodes, ino);
	if (!node)
		return -ESTALE;
	r = loan_check(node->loan);
	if (r == 0)
		*ret_node = take_ptr(&node);
	return r;
}

int files_parent(fuse_req_t req, fuse_ino_t ino, struct file_node **ret_node)
{
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	int r = files_node(req, ino, &node);

	if (r < 0)
		return r;
	if (!S_ISDIR(node->type))
		return -ENOTDIR;
	if (node->hollow)
		return -EROFS;
	*ret_node = take_ptr(&node);
	return 0;
}

void files_fail(fuse_req_t req, struct file_node *node, int r)
{
	(void)fuse_reply_err(req, node ? -loan_explain(node->loan, r) : -r);
}

void files_done(fuse_req_t req, struct file_node *node, int r)
{
	if (r < 0)
		files_fail(req, node, r);
	else
		(void)fuse_reply_err(req, 0);
}

static bool names_the_kernels(const struct file_node *parent, const char *name)
{
	return parent && parent->is_root &&
	       (strcmp(name, "proc") == 0 || strcmp(name, "sys") == 0 || strcmp(name, "dev") == 0);
}

/* Only what cannot be written through: a file that is open for writing somewhere cannot be
 * executed. */
static void keep_path(struct loan *loan, struct file_node *node, int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && (flags & O_PATH))
		fd_cache_put(loan->backing->cache, node, loan, fd);
}

/*
 * In the mount that all others are mounted in, a dead sandbox shows the bare directories below
 * them.
 */
static bool may_hide_mounts(const struct file_node *parent)
{
	return parent && parent->branch == parent->loan->root_branch;
}

static int check_found(
	struct loan *loan, const struct file_node *parent, const struct branch *found)
{
	if (may_hide_mounts(parent) && found == parent->branch)
		return loan_check_mounts(loan);
	return loan_check(loan);
}

static int tell(struct files *files, struct loan *loan, struct file_node *parent, const char *name,
	int fd, struct fuse_entry_param *ret_entry)
{
	struct file_identity identity;
	struct file_node_told told = {
		.parent = parent,
		.name = name,
		.serial = loan->serial,
		.loan = loan,
		.identity = &identity,
	};
	CLEANUP(file_node_putp) struct file_node *node = NULL;
	bool is_new = false;
	struct statx stat;
	int r;

	r = backing_identify(
		loan, parent ? parent->branch : NULL, fd, &stat, &told.branch, &identity);
	if (r == 0)
		r = check_found(loan, parent, told.branch);
	if (r < 0)
		return r;
	told.hollow =
		S_ISDIR(identity.type) && (told.branch->hollow || names_the_kernels(parent, name));
	told.keep_name = files->keeps_names || !told.branch->opens_handles ||
			 identity.handle_type == FILE_NODE_BY_INODE;
	if (!parent)
		loan->root_branch = told.branch;
	r = file_node_tell(files->nodes, &told, &node, &is_new);
	if (r < 0)
		return r;
	if (is_new)
		(void)loan_ref(loan);
	evictor_look(files->evictor);
	if (!backing_opens_by_handle(node))
		keep_path(loan, node, fd);
	memset(ret_entry, 0, sizeof(*ret_entry));
	ret_entry->ino = node->id;
	files_fill_stat(files, node, &stat, &ret_entry->attr);
	files_fit_link(files, node, fd, &ret_entry->attr);
	return 0;
}

int files_tell(struct files *files, struct file_node *parent, const char *name, int fd,
	struct fuse_entry_param *ret_entry)
{
	return tell(files, parent->loan, parent, name, fd, ret_entry);
}

int files_enter(struct files *files, struct sandbox_root *root, struct fuse_entry_param *ret_entry)
{
	CLEANUP(loan_unrefp) struct loan *loan = NULL;
	int r, why;

	if (!sandbox_root_alive(root, &why))
		return -why;
	r = files_loan(files, root, &loan);
	return r < 0 ? r : tell(files, loan, NULL, "", root->fd, ret_entry);
}

void files_reply_entry(fuse_req_t req, struct file_node *parent, const char *name, int fd)
{
	struct files *files = files_of(req);
	struct fuse_entry_param entry;
	int r = files_tell(files, parent, name, fd, &entry);

	if (r < 0)
		files_fail(req, parent, r);
	else if (fuse_reply_entry(req, &entry) < 0)
		file_node_forget(files->nodes, entry.ino, 1);
}

int files_find(struct file_node *parent, const char *name, int *ret_fd)
{
	CLEANUP(closep) int dir = -1;
	int r, fd;

	if (parent->hollow || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return -ENOENT;
	r = backing_path(parent, &dir);
	if (r < 0)
		return r;
	fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

static void files_init(void *userdata, struct fuse_conn_info *conn)
{
	static const uint64_t wanted = FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ATOMIC_O_TRUNC |
				       FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_FLOCK_LOCKS |
				       FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE;
	/* the client's kernel must not think that it alone changes the files; names are looked up
	 * one by one anyway when nothing of them may be kept */
	static const uint64_t unwanted = FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_READDIRPLUS |
					 FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_CACHE_SYMLINKS |
					 FUSE_CAP_DONT_MASK | FUSE_CAP_NO_OPEN_SUPPORT |
					 FUSE_CAP_NO_OPENDIR_SUPPORT | FUSE_CAP_POSIX_ACL;
	struct files *files = ((const struct fs_context *)userdata)->files;
	uint64_t flag;

	if (conn->proto_minor >= MINOR_WITH_PRUNE) {
		files->keeps_names = false;
		evictor_use_prune(files->evictor);
	}
	for (flag = 1; flag <= wanted; flag <<= 1) {
		if (wanted & flag)
			(void)fuse_set_feature_flag(conn, flag);
	}
	for (flag = 1; flag <= unwanted; flag <<= 1) {
		if (unwanted & flag)
			fuse_unset_feature_flag(conn, flag);
	}
}

static void files_lookup(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	CLEANUP(file_node_putp) struct file_node *parent = NULL;
	CLEANUP(closep) int fd = -1;
	int r = files_node(req, ino, &parent);

	if (r == 0)
		r = files_find(parent, name, &fd);
	if (r == -ENOENT && may_hide_mounts(parent) && loan_check_mounts(parent->loan) < 0)
		r = -ENOTCONN;
	if (r < 0)
		files_fail(req, parent, r);
	else
		files_reply_entry(req, parent, name, fd);
}

static void files_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
	file_node_forget(files_of(req)->nodes, ino, count);
	fuse_reply_none(req);
}

static void files_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	size_t i;

	for (i = 0; i < count; i++)
		file_node_forget(files_of(req)->nodes, forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

static void files_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned int command, void *arg,
	struct fuse_file_info *fi, unsigned flags, const void *in, size_t in_size, size_t out_size)
{
	(void)fuse_reply_err(req, ENOTTY);
}

/* Files never make anybody wait. */
static void files_poll(
	fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct fuse_pollhandle *handle)
{
	fuse_pollhandle_destroy(handle);
	(void)fuse_reply_poll(req, POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM);
}

const struct fuse_lowlevel_ops files_ops = {
	.init = files_init,
	.lookup = files_lookup,
	.forget = files_forget,
	.getattr = files_getattr,
	.setattr = files_setattr,
	.readlink = files_readlink,
	.mknod = files_mknod,
	.mkdir = files_mkdir,
	.unlink = files_unlink,
	.rmdir = files_rmdir,
	.symlink = files_symlink,
	.rename = files_rename,
	.link = files_link,
	.open = files_open,
	.read = files_read,
	.flush = files_flush,
	.release = files_release,
	.fsync = files_fsync,
	.opendir = files_opendir,
	.readdir = files_readdir,
	.releasedir = files_release,
	.fsyncdir = files_fsyncdir,
	.statfs = files_statfs,
	.create = files_create_file,
	.ioctl = files_ioctl,
	.poll = files_poll,
	.write_buf = files_write_buf,
	.forget_multi = files_forget_multi,
	.flock = files_flock,
	.fallocate = files_fallocate,
	.copy_file_range = files_copy_file_range,
	.lseek = files_lseek,
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
	.tmpfile = files_tmpfile,
#endif
};
