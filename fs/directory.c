/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/directory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/operation.h"
#include "base/strbuf.h"
#include "fs/commands.h"
#include "fs/control.h"
#include "fs/files.h"
#include "fs/growing.h"
#include "fs/handle.h"
#include "fs/reply.h"
#include "fs/tree.h"
#include "providers/lease-name.h"
#include "providers/lease.h"

/*
 * Leases come and go without the kernel's doing. When one has gone it is made to ask for the
 * attributes of the directory, which every path through it needs: ESTALE, and it looks the name up
 * again. A second, and not longer, in case of a kernel that does otherwise. Commands come and go
 * too, and their names are looked up each time. Every other name stands for the same node as long
 * as its directory is there.
 */
enum { FIXED_NAME_SEC = 3600, LEASE_NAME_SEC = 1, FIXED_ATTR_SEC = 1 };

/*
 * Each component of a path costs one GETATTR more where its attributes are not remembered. Those of
 * the root and of a lease's directory as good as never change, and of a change of `leases` the
 * kernel is told; a second, since a dead mount has to look dead. Of the others the owner and mode
 * never do, and times and links may lag by the kernel's smallest unit, a jiffy or two. A file's
 * size has to be exact.
 */
static double attr_timeout(struct control *control, enum node_kind kind)
{
	if (kind == NODE_LEASES)
		control->leases_known = true;
	if (kind == NODE_ROOT || kind == NODE_LEASES || kind == NODE_LEASE)
		return FIXED_ATTR_SEC;
	return node_is_directory(kind) ? 1e-9 : 0;
}

static bool comes_and_goes(enum node_kind kind)
{
	return kind == NODE_LEASE || kind == NODE_EXEC;
}

static double name_timeout(enum node_kind kind)
{
	if (kind == NODE_LEASE)
		return LEASE_NAME_SEC;
	return comes_and_goes(kind) ? 0 : FIXED_NAME_SEC;
}

static struct fuse_entry_param entry_of(struct control *control, const struct node *node)
{
	struct fuse_entry_param entry = {
		.ino = node_ino(node->kind, node->object),
		.generation = 1,
		.entry_timeout = name_timeout(node->kind),
		.attr_timeout = attr_timeout(control, node->kind),
	};

	tree_stat(control, node, &entry.attr);
	return entry;
}

/* The way into the other half of the tree. */
static void enter_files(struct request *request, const struct node *node)
{
	struct control *control = request->control;
	struct sandbox_root *root = lease_root(node->lease);
	struct fuse_entry_param entry = {0};
	int r;

	if (root && control->files)
		r = files_enter(control->files, root, &entry);
	else if (lease_state(node->lease) == LEASE_LOST)
		r = -ENOTCONN;
	else
		r = lease_state(node->lease) == LEASE_ACTIVE ? -ENOENT : -ESTALE;
	if (r < 0)
		request_reply_code(request, reply_errno(r));
	else
		request_reply_entry(request, &entry);
}

void directory_lookup(struct request *request)
{
	struct fuse_entry_param entry;
	struct node parent, node;
	int r = tree_node(request->control, request->ino, &parent);

	if (r == 0)
		r = tree_child(request->control, &parent, request->bytes, &node);
	if (r < 0) {
		request_reply_code(request, -r);
		return;
	}
	if (node.kind == NODE_FS) {
		enter_files(request, &node);
		return;
	}
	entry = entry_of(request->control, &node);
	request_reply_entry(request, &entry);
}

/* mkdir leases/T */

/* A mkdir on its way: its request may be answered (its caller was killed) before the lease is
 * there. */
struct making {
	struct request *request; /* NULL: answered */
	struct operation *operation;
};

static void handle_made(void *data, int r, struct lease *lease, const struct error *err)
{
	struct making *making = data;
	struct request *request = making->request;
	struct fuse_entry_param entry;
	struct node node;

	free(making);
	if (!request)
		return;
	if (r < 0) {
		struct error named = *err;

		(void)error_wrap(&named, "mkdir leases/%.100s", request->bytes);
		reply_failure(request, NULL, &named);
		return;
	}
	node = (struct node){.kind = NODE_LEASE, .object = lease_serial(lease), .lease = lease};
	entry = entry_of(request->control, &node);
	request_reply_entry(request, &entry);
}

static void cancel_making(struct request *request)
{
	struct making *making =
		(struct making *)(uintptr_t)request->file.fh; // NOLINT(performance-no-int-to-ptr)

	making->request = NULL;
	request_reply_code(request, EINTR);
	operation_cancel(making->operation);
}

static int begin_making(struct request *request, struct error *err)
{
	char id[LEASE_NAME_MAX + 1];
	struct sandbox_spec spec = {0};
	struct making *making;
	int r = lease_name_decode(request->bytes, id, err);

	if (r == 0)
		r = sandbox_spec_from_id(id, &spec, err);
	if (r < 0)
		return r;
	making = calloc(1, sizeof(*making));
	if (making) {
		making->request = request;
		making->operation =
			lease_create_now(request->control->leases, &spec, handle_made, making);
	}
	sandbox_spec_fini(&spec);
	if (!making || !making->operation) {
		free(making);
		return error_set(err, ENOMEM, "no memory for the lease");
	}
	request->file.fh = (uintptr_t)making;
	request_hold(request, cancel_making);
	return 0;
}

void directory_mkdir(struct request *request)
{
	struct error err = ERROR_NONE;
	struct node parent;
	int r = tree_node(request->control, request->ino, &parent);

	if (r < 0) {
		request_reply_code(request, -r);
		return;
	}
	if (parent.kind != NODE_LEASES) {
		request_reply_code(request, EPERM);
		return;
	}
	r = begin_making(request, &err);
	if (r < 0) {
		(void)error_wrap(&err, "mkdir leases/%.100s", request->bytes);
		reply_failure(request, NULL, &err);
	}
}

static void remove_command(struct request *request, const struct node *node)
{
	struct error err = ERROR_NONE;

	if (commands_remove(node, &err) == 0) {
		request_reply_code(request, 0);
		return;
	}
	(void)error_wrap(&err, "rmdir exec/%.16s", request->bytes);
	reply_failure(request, node->lease, &err);
}

void directory_rmdir(struct request *request)
{
	struct node parent, node;
	int r = tree_node(request->control, request->ino, &parent);

	if (r == 0)
		r = tree_child(request->control, &parent, request->bytes, &node);
	if (r == 0 && !node_is_directory(node.kind))
		r = -ENOTDIR;
	if (r == 0 && !comes_and_goes(node.kind))
		r = -EPERM;
	if (r == 0 && node.kind == NODE_EXEC) {
		remove_command(request, &node);
		return;
	}
	if (r == 0)
		lease_end(node.lease, REASON_TERMINATED, NULL);
	request_reply_code(request, -r);
}

void directory_unlink(struct request *request)
{
	struct node parent, node;
	int r = tree_node(request->control, request->ino, &parent);

	if (r == 0)
		r = tree_child(request->control, &parent, request->bytes, &node);
	if (r == 0)
		r = node_is_directory(node.kind) ? -EISDIR : -EPERM;
	request_reply_code(request, -r);
}

/* Attributes */

static void reply_attr(struct request *request)
{
	struct node node;
	struct stat st;
	int r = tree_node(request->control, request->ino, &node);

	if (r < 0) {
		request_reply_code(request, -r);
		return;
	}
	tree_stat(request->control, &node, &st);
	if (node_type(node.kind)->grows)
		st.st_size = growing_size(request->control, &node, request->process, st.st_size);
	request_reply_attr(request, &st, attr_timeout(request->control, node.kind));
}

void directory_getattr(struct request *request)
{
	reply_attr(request);
}

/* Programs that copy a file to a request file (cp -p, libuv) set mode and times as well and fail
 * when they cannot: there it succeeds and changes nothing, like truncation. */
static bool may_pretend(const struct request *request)
{
	enum node_kind kind = (enum node_kind)(request->ino & 0xff);

	if (request->to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
		return false;
	return kind < NODE_KIND_COUNT && S_ISREG(node_type(kind)->mode) &&
	       node_type(kind)->mode & 0222;
}

/* A control file's size, owner, mode and times are not its user's to choose. */
void directory_setattr(struct request *request)
{
	if (!may_pretend(request)) {
		request_reply_code(request, EPERM);
		return;
	}
	if (request->has_file && request->to_set & FUSE_SET_ATTR_SIZE)
		handle_truncate((struct handle *)(uintptr_t)
					request->file.fh); // NOLINT(performance-no-int-to-ptr)
	reply_attr(request);
}

void directory_statfs(struct request *request)
{
	struct statvfs space;

	control_space(request->control, &space);
	request_reply_statfs(request, &space);
}

/* Listing: the names are taken down when somebody starts to read, so that he misses none and sees
 * none twice. */

struct listed {
	fuse_ino_t ino;
	mode_t mode;
	size_t name; /* offset in names */
};

struct listing {
	struct listing *prev, *next; /* the control's */
	struct control *control;
	struct strbuf names, entries; /* names with their NULs; an array of struct listed */
};

static void add_listed(struct listing *listing, const char *name, fuse_ino_t ino, mode_t mode)
{
	struct listed listed = {.ino = ino, .mode = mode & S_IFMT, .name = listing->names.size};

	strbuf_add(&listing->names, name, strlen(name) + 1);
	strbuf_add(&listing->entries, &listed, sizeof(listed));
}

static void add_child(void *data, const char *name, const struct node *node)
{
	add_listed(data, name, node_ino(node->kind, node->object), node_type(node->kind)->mode);
}

/* A directory within a lease or a slot is below one with the same object. */
static fuse_ino_t parent_ino(const struct node *node)
{
	enum node_kind parent = node_type(node->kind)->parent;

	if (parent == NODE_EXECS)
		return node_ino(parent, lease_serial(node->lease));
	return node_ino(parent, parent == NODE_LEASE || parent == NODE_SLOT ? node->object : 0);
}

static int fill(struct listing *listing, fuse_ino_t ino)
{
	struct node node;
	int r = tree_node(listing->control, ino, &node);

	if (r < 0)
		return r;
	strbuf_clear(&listing->names);
	strbuf_clear(&listing->entries);
	add_listed(listing, ".", ino, S_IFDIR);
	add_listed(listing, "..", parent_ino(&node), S_IFDIR);
	tree_each_child(listing->control, &node, add_child, listing);
	return strbuf_failed(&listing->names) || strbuf_failed(&listing->entries) ? -ENOMEM : 0;
}

static struct listing *listing_of(const struct request *request)
{
	return (struct listing *)(uintptr_t)request->file.fh; // NOLINT(performance-no-int-to-ptr)
}

static void destroy_listing(struct listing *listing)
{
	DL_DELETE(listing->control->listings, listing);
	strbuf_fini(&listing->names);
	strbuf_fini(&listing->entries);
	free(listing);
}

void directory_opendir(struct request *request)
{
	struct listing *listing = calloc(1, sizeof(*listing));
	struct node node;
	int r = tree_node(request->control, request->ino, &node);

	if (r < 0 || !listing) {
		free(listing);
		request_reply_code(request, r < 0 ? -r : ENOMEM);
		return;
	}
	listing->control = request->control;
	strbuf_init(&listing->names);
	strbuf_init(&listing->entries);
	DL_APPEND(request->control->listings, listing);
	request->file.fh = (uintptr_t)listing;
	if (!request_reply_open(request, &request->file))
		destroy_listing(listing);
}

void directory_releasedir(struct request *request)
{
	destroy_listing(listing_of(request));
	request_reply_code(request, 0);
}

void directory_close_all(struct control *control)
{
	while (control->listings)
		destroy_listing(control->listings);
}

static size_t pack(const struct listing *listing, struct request *request, char *buffer)
{
	const struct listed *entries = (const void *)listing->entries.data;
	size_t count = listing->entries.size / sizeof(*entries), used = 0;

	for (size_t i = request->offset; i < count; i++) {
		struct stat st = {.st_ino = entries[i].ino, .st_mode = entries[i].mode};
		size_t size = fuse_add_direntry(request->fuse, buffer + used, request->size - used,
			listing->names.data + entries[i].name, &st, (off_t)i + 1);

		if (size > request->size - used)
			break;
		used += size;
	}
	return used;
}

void directory_readdir(struct request *request)
{
	struct listing *listing = listing_of(request);
	CLEANUP(freep) char *buffer = malloc(request->size);
	int r = request->offset == 0 ? fill(listing, request->ino) : 0;

	if (r < 0 || !buffer)
		request_reply_code(request, r < 0 ? -r : ENOMEM);
	else
		request_reply_bytes(request, buffer, pack(listing, request, buffer));
}
