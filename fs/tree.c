/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/tree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "config/settings.h"
#include "fs/commands.h"
#include "fs/control.h"
#include "fs/endpoints.h"
#include "fs/growing.h"
#include "fs/handle.h"
#include "fs/inode.h"
#include "fs/job.h"
#include "fs/output.h"
#include "fs/render.h"
#include "fs/stream.h"
#include "pool/pool.h"
#include "pool/spool.h"
#include "providers/lease-exec.h"
#include "providers/lease.h"

/* What [mount] mode may leave of a mode: a directory, one that never changes, a file to read, a
 * file to read and write. */
enum {
	DIRECTORY = S_IFDIR | 0777,
	LISTING = S_IFDIR | 0555,
	READ_ONLY = S_IFREG | 0444,
	REQUEST = S_IFREG | 0666
};

/* clang-format off */
static const struct node_type types[NODE_KIND_COUNT] = {
	[NODE_ROOT]             = { .mode = DIRECTORY, .parent = NODE_ROOT },
	[NODE_CREATE]           = { "create", NODE_ROOT, REQUEST, .verb = &verb_create },
	[NODE_TERMINATE]        = { "terminate", NODE_ROOT, REQUEST, .verb = &verb_terminate },
	[NODE_CONTROL]          = { "control", NODE_ROOT, REQUEST, .verb = &verb_control },
	[NODE_STATUS]           = { "status", NODE_ROOT, READ_ONLY, .render = render_status },
	[NODE_STATUS_JSON]      = { "status.json", NODE_ROOT, READ_ONLY, .render = render_status_json },
	[NODE_METRICS]          = { "metrics", NODE_ROOT, READ_ONLY, .render = render_metrics },
	[NODE_CONFIG]           = { "config", NODE_ROOT, READ_ONLY, .render = render_config },
	[NODE_EVENTS]           = { "events", NODE_ROOT, READ_ONLY, .render = render_events, .grows = true },
	[NODE_EVENTS_FOLLOW]    = { "events.follow", NODE_ROOT, READ_ONLY, .stream = &stream_events },
	[NODE_LAST_ERROR]       = { "last_error", NODE_ROOT, READ_ONLY, .render = render_last_error },
	[NODE_LEASES]           = { "leases", NODE_ROOT, DIRECTORY },
	[NODE_SLOTS]            = { "slots", NODE_ROOT, LISTING },

	[NODE_LEASE]            = { .parent = NODE_LEASES, .mode = DIRECTORY },
	[NODE_LEASE_JSON]       = { "lease.json", NODE_LEASE, READ_ONLY, .render = render_lease_json },
	[NODE_LEASE_STATE]      = { "state", NODE_LEASE, READ_ONLY, .render = render_lease_state },
	[NODE_RUN_COMMAND]      = { "run_command", NODE_LEASE, REQUEST, .verb = &verb_run_command },
	[NODE_LEASE_TERMINATE]  = { "terminate", NODE_LEASE, REQUEST, .verb = &verb_lease_terminate },
	[NODE_TTL]              = { "ttl", NODE_LEASE, REQUEST, .render = render_ttl, .verb = &verb_ttl },
	[NODE_HOLD]             = { "hold", NODE_LEASE, REQUEST, .render = render_hold, .holds = true },
	[NODE_WAIT]             = { "wait", NODE_LEASE, READ_ONLY, .stream = &stream_wait },
	[NODE_ENDPOINTS]        = { "endpoints", NODE_LEASE, LISTING },
	[NODE_ENDPOINT]         = { .parent = NODE_ENDPOINTS, .mode = READ_ONLY, .render = render_endpoint },
	[NODE_EXECS]            = { "exec", NODE_LEASE, DIRECTORY },
	[NODE_EXEC_NEW]         = { "new", NODE_EXECS, REQUEST, .verb = &verb_exec_new },
	[NODE_EXEC]             = { .parent = NODE_EXECS, .mode = LISTING },
	[NODE_EXEC_ARGV]        = { "argv", NODE_EXEC, READ_ONLY, .render = render_exec_argv },
	[NODE_EXEC_STDIN]       = { "stdin", NODE_EXEC, REQUEST, .fed = true },
	[NODE_EXEC_STDOUT]      = { "stdout", NODE_EXEC, READ_ONLY },
	[NODE_EXEC_STDERR]      = { "stderr", NODE_EXEC, READ_ONLY },
	[NODE_EXEC_STATUS]      = { "status", NODE_EXEC, READ_ONLY, .render = render_exec_status },
	[NODE_EXEC_WAIT]        = { "wait", NODE_EXEC, READ_ONLY, .verb = &verb_exec_wait },
	[NODE_EXEC_SIGNAL]      = { "signal", NODE_EXEC, REQUEST, .verb = &verb_exec_signal },
	[NODE_LEASE_LAST_ERROR] = { "last_error", NODE_LEASE, READ_ONLY, .render = render_last_error },
	[NODE_LEASE_LOG]        = { "log", NODE_LEASE, LISTING },
	[NODE_LEASE_LOG_INIT]   = { "init", NODE_LEASE_LOG, READ_ONLY, .render = render_log },
	[NODE_LEASE_LOG_BWRAP]  = { "bwrap", NODE_LEASE_LOG, READ_ONLY, .render = render_log },
	[NODE_FS]               = { "fs", NODE_LEASE, DIRECTORY },

	[NODE_SLOT]             = { .parent = NODE_SLOTS, .mode = LISTING },
	[NODE_SLOT_STATE]       = { "state", NODE_SLOT, READ_ONLY, .render = render_slot_state },
	[NODE_SLOT_GENERATION]  = { "generation", NODE_SLOT, READ_ONLY, .render = render_slot_generation },
	[NODE_SLOT_LEASE]       = { "lease", NODE_SLOT, READ_ONLY, .render = render_slot_lease },
	[NODE_SLOT_PID]         = { "pid", NODE_SLOT, READ_ONLY, .render = render_slot_pid },
	[NODE_SLOT_LIMITS]      = { "limits", NODE_SLOT, READ_ONLY, .render = render_slot_limits },
	[NODE_SLOT_HEALTH]      = { "health", NODE_SLOT, READ_ONLY, .render = render_slot_health },
	[NODE_SLOT_LOG]         = { "log", NODE_SLOT, LISTING },
	[NODE_SLOT_LOG_INIT]    = { "init", NODE_SLOT_LOG, READ_ONLY, .render = render_log },
	[NODE_SLOT_LOG_BWRAP]   = { "bwrap", NODE_SLOT_LOG, READ_ONLY, .render = render_log },
	[NODE_SLOT_LAST_ERROR]  = { "last_error", NODE_SLOT, READ_ONLY, .render = render_slot_last_error },
};
/* clang-format on */

const struct node_type *node_type(enum node_kind kind)
{
	return &types[kind];
}

static struct pool *pool_of(const struct control *control)
{
	return lease_table_pool(control->leases);
}

/* A lease that has left the tree is still known to those who have a file of it open. */
static struct lease *find_lease(const struct control *control, fuse_ino_t ino, uint64_t serial)
{
	struct lease *lease = lease_find_serial(control->leases, serial);
	struct inode *inode = lease ? NULL : inode_find(control, ino);

	return inode && inode->handles ? inode->handles->node.lease : lease;
}

/* The same of a command that was removed, or whose lease has left the tree. */
static int find_exec(const struct control *control, fuse_ino_t ino, struct node *node)
{
	const struct inode *inode;

	node->exec = lease_exec_find_serial(control->leases, node->object);
	if (!node->exec) {
		inode = inode_find(control, ino);
		if (!inode || !inode->handles)
			return -ESTALE;
		node->exec = inode->handles->node.exec;
	}
	node->lease = lease_exec_lease(node->exec);
	return 0;
}

int tree_node(const struct control *control, fuse_ino_t ino, struct node *ret_node)
{
	struct node node = {.kind = (enum node_kind)(ino & 0xff), .object = ino >> 8};

	if (node.kind == NODE_NONE || node.kind >= NODE_KIND_COUNT)
		return -ESTALE;
	if (node_of_exec(node.kind)) {
		int r = find_exec(control, ino, &node);

		if (r < 0)
			return r;
	} else if (node_of_lease(node.kind)) {
		uint64_t serial =
			node.kind == NODE_ENDPOINT ? endpoint_serial(node.object) : node.object;

		node.lease = find_lease(control, ino, serial);
		if (!node.lease)
			return -ESTALE;
	}
	if (node_of_slot(node.kind)) {
		node.slot = pool_of(control) ? pool_slot(pool_of(control), (unsigned)node.object)
					     : NULL;
		if (!node.slot)
			return -ESTALE;
	}
	*ret_node = node;
	return 0;
}

static int find_slot(const struct control *control, const char *name, struct node *ret_node)
{
	struct node node = {.kind = NODE_SLOT};
	char expected[16];
	unsigned number;
	int used = 0;

	if (sscanf(name, "%9u%n", &number, &used) != 1 || name[used] != '\0' || !pool_of(control))
		return -ENOENT;
	(void)snprintf(expected, sizeof(expected), "%04u", number);
	node.object = number;
	node.slot = pool_slot(pool_of(control), number);
	if (!node.slot || strcmp(name, expected) != 0)
		return -ENOENT;
	*ret_node = node;
	return 0;
}

static int find_named_lease(const struct control *control, const char *name, struct node *ret_node)
{
	struct lease *lease = lease_find_name(control->leases, name);

	if (!lease)
		return -ENOENT;
	*ret_node =
		(struct node){.kind = NODE_LEASE, .object = lease_serial(lease), .lease = lease};
	return 0;
}

int tree_child(const struct control *control, const struct node *parent, const char *name,
	struct node *ret_node)
{
	if (!node_is_directory(parent->kind))
		return -ENOTDIR;
	if (parent->kind == NODE_LEASES)
		return find_named_lease(control, name, ret_node);
	if (parent->kind == NODE_SLOTS)
		return find_slot(control, name, ret_node);
	if (parent->kind == NODE_ENDPOINTS)
		return endpoints_find(parent, name, ret_node);
	if (parent->kind == NODE_EXECS && commands_find(parent, name, ret_node) == 0)
		return 0;
	for (enum node_kind kind = NODE_ROOT; kind < NODE_KIND_COUNT; kind++) {
		if (types[kind].parent == parent->kind && types[kind].name &&
			!strcmp(types[kind].name, name)) {
			*ret_node = *parent;
			ret_node->kind = kind;
			return 0;
		}
	}
	return -ENOENT;
}

/* A lease that is over has no files any more; what would act on it is there and says why it
 * cannot. */
static bool is_shown(const struct node *node)
{
	bool live = !node->lease || lease_state(node->lease) == LEASE_ACTIVE ||
		    lease_state(node->lease) == LEASE_STARTING;

	return node->kind != NODE_FS || (live && lease_root(node->lease));
}

static void each_lease(const struct control *control, tree_visit_fn *visit, void *data)
{
	for (struct lease *lease = lease_next(control->leases, NULL); lease;
		lease = lease_next(control->leases, lease)) {
		struct node node = {
			.kind = NODE_LEASE, .object = lease_serial(lease), .lease = lease};

		visit(data, lease_name(lease), &node);
	}
}

static unsigned count_slots(const struct control *control)
{
	return pool_of(control) ? pool_slot_count(pool_of(control)) : 0;
}

static void each_slot(const struct control *control, tree_visit_fn *visit, void *data)
{
	for (unsigned number = 0; number < count_slots(control); number++) {
		struct node node = {.kind = NODE_SLOT,
			.object = number,
			.slot = pool_slot(pool_of(control), number)};
		char name[16];

		(void)snprintf(name, sizeof(name), "%04u", number);
		visit(data, name, &node);
	}
}

void tree_each_child(
	const struct control *control, const struct node *parent, tree_visit_fn *visit, void *data)
{
	if (parent->kind == NODE_LEASES)
		each_lease(control, visit, data);
	if (parent->kind == NODE_SLOTS)
		each_slot(control, visit, data);
	if (parent->kind == NODE_ENDPOINTS)
		endpoints_each(parent, visit, data);
	if (parent->kind == NODE_EXECS)
		commands_each(parent, visit, data);
	for (enum node_kind kind = NODE_ROOT; kind < NODE_KIND_COUNT; kind++) {
		struct node node = *parent;

		node.kind = kind;
		if (types[kind].parent == parent->kind && types[kind].name && is_shown(&node))
			visit(data, types[kind].name, &node);
	}
}

static bool is_unsettled(const struct node *node, const struct inode *inode)
{
	const struct handle *handle;

	if (!inode)
		return false;
	if (types[node->kind].verb->shows_last && inode->last && !inode->last->done)
		return true;
	DL_FOREACH (inode->handles, handle) {
		if (conversation_unsettled(&handle->talk))
			return true;
	}
	return false;
}

static off_t request_size(const struct node *node, const struct inode *inode)
{
	const struct verb *verb = types[node->kind].verb;

	if (verb->shows_last && inode && inode->last)
		return (off_t)inode->last->reply.size;
	if (verb->abandon) /* nobody has asked yet */
		return UNSETTLED_SIZE;
	return verb->usage ? (off_t)strlen(verb->usage) : 0;
}

/* Nobody says whether he asks for the text that he has open or for the one that he will open: the
 * longer one, since less would cut it. */
static off_t text_size(struct control *control, const struct node *node, const struct inode *inode)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	size_t open_size = inode && inode->handles ? inode->handles->text.size : 0;

	if (types[node->kind].grows) /* growing_size() knows better */
		open_size = 0;
	types[node->kind].render(control, node, &text);
	return (off_t)(text.size > open_size ? text.size : open_size);
}

static off_t node_size(struct control *control, const struct node *node, const struct inode *inode)
{
	const struct node_type *type = &types[node->kind];

	if (S_ISDIR(type->mode))
		return 0;
	if (type->stream)
		return stream_size(control, node);
	if (node_is_output(node->kind))
		return output_size(node);
	if (type->verb && is_unsettled(node, inode))
		return UNSETTLED_SIZE;
	if (type->render)
		return text_size(control, node, inode);
	return type->verb ? request_size(node, inode) : 0;
}

off_t tree_size(struct control *control, const struct node *node)
{
	return node_size(control, node, inode_find(control, node_ino(node->kind, node->object)));
}

static double node_time(
	const struct control *control, const struct node *node, const struct inode *inode)
{
	if (node->exec)
		return commands_time(node);
	if (inode && inode->changed_at > 0)
		return inode->changed_at;
	if (node->kind == NODE_LEASE_STATE || node->kind == NODE_LEASE_JSON ||
		node->kind == NODE_WAIT)
		return lease_changed_at(node->lease);
	if (node->lease)
		return lease_created_at(node->lease);
	if (node->slot)
		return slot_view(node->slot).since;
	if (node->kind == NODE_STATUS || node->kind == NODE_STATUS_JSON ||
		node->kind == NODE_METRICS || node->kind == NODE_EVENTS ||
		node->kind == NODE_LEASES || node->kind == NODE_SLOTS)
		return control->changed_at;
	return control->started_at;
}

struct counting {
	nlink_t directories;
};

static void count_directory(void *data, const char *name, const struct node *node)
{
	struct counting *counting = data;

	if (node_is_directory(node->kind))
		counting->directories++;
}

static nlink_t node_links(const struct control *control, const struct node *node)
{
	struct counting counting = {0};

	if (!node_is_directory(node->kind))
		return 1;
	if (node->kind == NODE_LEASES)
		return 2 + lease_count_shown(control->leases);
	if (node->kind == NODE_SLOTS)
		return 2 + count_slots(control);
	tree_each_child(control, node, count_directory, &counting);
	return 2 + counting.directories;
}

void tree_stat(struct control *control, const struct node *node, struct stat *ret_st)
{
	fuse_ino_t ino = node_ino(node->kind, node->object);
	struct inode *inode = inode_find(control, ino);
	double when = node_time(control, node, inode);
	struct stat st = {.st_ino = ino};

	st.st_mode = types[node->kind].mode & (S_IFMT | control->config->mount.mode);
	st.st_nlink = node_links(control, node);
	st.st_uid = control->config->mount.owner_uid;
	st.st_gid = control->config->mount.owner_gid;
	st.st_size = node_size(control, node, inode);
	st.st_blksize = 4096;
	st.st_blocks = (st.st_size + 511) / 512;
	st.st_mtim.tv_sec = (time_t)when;
	st.st_mtim.tv_nsec = (long)((when - (double)(time_t)when) * 1e9);
	st.st_ctim = st.st_mtim;
	st.st_atim = st.st_mtim;
	if (inode)
		inode->told_size = st.st_size;
	*ret_st = st;
}
