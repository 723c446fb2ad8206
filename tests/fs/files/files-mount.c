/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * files-mount: a mount of nothing but leases' files, so that they can be tried without pool,
 * loop and control files.
 *
 *	files-mount [option...] DIRECTORY MOUNTPOINT
 *
 * MOUNTPOINT/fs is the lease whose sandbox has DIRECTORY as its root; a sleeping child stands
 * for pid 1. Says "ready" when mounted. Then each line on standard input is a command, answered
 * by one line: `count` (nodes), `fds` (open descriptors), `forget` (the kernel is to forget what
 * it can), `end` (the lease ends), `again` (and another takes its place), `kill` (pid 1 dies).
 * End of input unmounts.
 *
 *	--other DIRECTORY	a second lease, MOUNTPOINT/other
 *	--root-of PID		DIRECTORY is looked up in that process's root, and it is pid 1
 *	--ids UID:GID		of the sandbox's user; default: ours
 *	--owner UID:GID		of the mount; default: ours
 *	--walk			as if no file could be opened by its handle
 *	--raw			symlinks = raw
 *	--nodes N		ask the kernel to forget above that many
 *	--no-prune		as if it had no FUSE_NOTIFY_PRUNE
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "config/settings.h"
#include "fs/context.h"
#include "fs/files-private.h"
#include "providers/sandbox.h"

struct options {
	const char *directory, *mountpoint, *other;
	pid_t root_of;
	uid_t uid;
	gid_t gid;
	bool walk, no_prune;
	size_t nodes;
};

struct lease {
	const char *name, *directory;
	struct sandbox_root *root;
	pid_t init;
};

static struct program {
	struct options options;
	struct config config;
	struct fs_context context;
	struct lease leases[2];
	uint64_t serial;
	pthread_mutex_t lock;
	struct fuse_session *session;
	struct evictor *forgetter;
} program = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void die(const char *what)
{
	fprintf(stderr, "files-mount: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- leases ---- */

static pid_t start_sleeper(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

static int open_root(const struct lease *lease)
{
	char path[4200];

	if (!program.options.root_of)
		return open(lease->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/root/%s", (int)program.options.root_of,
		lease->directory);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void lease_begin(struct lease *lease)
{
	struct error err = ERROR_NONE;
	struct sandbox_root *root;
	int fd = open_root(lease), pidfd;

	lease->init = program.options.root_of ? program.options.root_of : start_sleeper();
	pidfd = (int)syscall(SYS_pidfd_open, lease->init, 0);
	if (fd < 0 || pidfd < 0)
		die(lease->directory);
	if (sandbox_root_create(fd, pidfd, program.options.uid, program.options.gid,
		    ++program.serial, &root, &err) < 0)
		die(err.text);
	close(fd);
	close(pidfd);
	pthread_mutex_lock(&program.lock);
	lease->root = root;
	pthread_mutex_unlock(&program.lock);
}

static void lease_kill(struct lease *lease)
{
	if (lease->init <= 0)
		return;
	kill(lease->init, SIGKILL);
	if (!program.options.root_of)
		waitpid(lease->init, NULL, 0);
	lease->init = 0;
}

static void lease_end(struct lease *lease)
{
	if (!lease->root)
		return;
	atomic_store(&lease->root->ended, true);
	files_end(program.context.files, lease->root);
	if (!program.options.root_of)
		lease_kill(lease);
	pthread_mutex_lock(&program.lock);
	sandbox_root_unref(lease->root);
	lease->root = NULL;
	pthread_mutex_unlock(&program.lock);
}

/* ---- the root of the mount: two names and nothing else ---- */

static void root_lookup(fuse_req_t req, const char *name)
{
	struct fuse_entry_param entry;
	struct sandbox_root *root = NULL;
	int i, r = -ENOENT;

	pthread_mutex_lock(&program.lock);
	for (i = 0; i < 2; i++) {
		if (program.leases[i].root && strcmp(program.leases[i].name, name) == 0)
			root = sandbox_root_ref(program.leases[i].root);
	}
	pthread_mutex_unlock(&program.lock);
	if (root)
		r = files_enter(program.context.files, root, &entry);
	sandbox_root_unref(root);
	if (r < 0)
		fuse_reply_err(req, -r);
	else if (fuse_reply_entry(req, &entry) < 0)
		file_node_forget(program.context.files->nodes, entry.ino, 1);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	if (files_owns(parent))
		files_ops.lookup(req, parent, name);
	else
		root_lookup(req, name);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat stat = {.st_ino = 1, .st_mode = S_IFDIR | 0755, .st_nlink = 2};

	if (files_owns(ino))
		files_ops.getattr(req, ino, fi);
	else
		fuse_reply_attr(req, &stat, 0);
}

static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (files_owns(ino))
		files_ops.opendir(req, ino, fi);
	else
		fuse_reply_open(req, fi);
}

static void op_readdir(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	if (files_owns(ino))
		files_ops.readdir(req, ino, size, offset, fi);
	else
		fuse_reply_buf(req, NULL, 0);
}

static void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (files_owns(ino))
		files_ops.releasedir(req, ino, fi);
	else
		fuse_reply_err(req, 0);
}

static void op_init(void *data, struct fuse_conn_info *conn)
{
	if (program.options.no_prune && conn->proto_minor > 44)
		conn->proto_minor = 44;
	files_ops.init(data, conn);
}

/* ---- the program ---- */

static unsigned count_fds(void)
{
	unsigned count = 0;
	int fd;

	for (fd = 0; fd < 20000; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Has the kernel asked to forget everything that it does not use; a caller looks at `count`. */
static void forget(void)
{
	struct error err = ERROR_NONE;

	if (!program.forgetter && evictor_create(program.context.files->nodes, program.session, 0,
					  &program.forgetter, &err) < 0)
		die(err.text);
	evictor_use_prune(program.forgetter);
	evictor_look(program.forgetter);
}

static void obey(const char *command)
{
	if (strcmp(command, "count\n") == 0) {
		printf("%zu\n", files_node_count(program.context.files));
	} else if (strcmp(command, "fds\n") == 0) {
		printf("%u\n", count_fds());
	} else {
		if (strcmp(command, "forget\n") == 0)
			forget();
		else if (strcmp(command, "end\n") == 0)
			lease_end(&program.leases[0]);
		else if (strcmp(command, "again\n") == 0)
			lease_begin(&program.leases[0]);
		else if (strcmp(command, "kill\n") == 0)
			lease_kill(&program.leases[0]);
		printf("done\n");
	}
	fflush(stdout);
}

static void *serve(void *data)
{
	struct fuse_loop_config *config = fuse_loop_cfg_create();

	fuse_loop_cfg_set_max_threads(config, 10);
	fuse_session_loop_mt(program.session, config);
	fuse_loop_cfg_destroy(config);
	return NULL;
}

/* Asks the mount something: a worker that waits for a request does not see that it is to exit. */
static void *poke(void *data)
{
	struct statvfs space;

	(void)statvfs(program.options.mountpoint, &space);
	return NULL;
}

static void stop_serving(pthread_t server)
{
	pthread_t poker;

	evictor_destroy(program.forgetter);
	files_detach(program.context.files);
	fuse_session_exit(program.session);
	if (pthread_create(&poker, NULL, poke, NULL) == 0)
		pthread_detach(poker);
	pthread_join(server, NULL);
	fuse_session_unmount(program.session);
}

static void parse_ids(const char *text, uid_t *ret_uid, gid_t *ret_gid)
{
	char *end;

	*ret_uid = (uid_t)strtoul(text, &end, 10);
	*ret_gid = *end == ':' ? (gid_t)strtoul(end + 1, NULL, 10) : *ret_uid;
}

static void parse(int argc, char **argv)
{
	static const struct option names[] = {{"other", required_argument, NULL, 'o'},
		{"root-of", required_argument, NULL, 'p'}, {"ids", required_argument, NULL, 'i'},
		{"owner", required_argument, NULL, 'u'}, {"walk", no_argument, NULL, 'w'},
		{"raw", no_argument, NULL, 'r'}, {"nodes", required_argument, NULL, 'N'},
		{"no-prune", no_argument, NULL, 'P'}, {0}};
	int option;

	program.options.uid = program.config.mount.owner_uid = getuid();
	program.options.gid = program.config.mount.owner_gid = getgid();
	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (option == 'o')
			program.options.other = optarg;
		else if (option == 'p')
			program.options.root_of = (pid_t)strtol(optarg, NULL, 10);
		else if (option == 'i')
			parse_ids(optarg, &program.options.uid, &program.options.gid);
		else if (option == 'u')
			parse_ids(optarg, &program.config.mount.owner_uid,
				&program.config.mount.owner_gid);
		else if (option == 'w')
			program.options.walk = true;
		else if (option == 'r')
			program.config.mount.symlinks = SYMLINKS_RAW;
		else if (option == 'N')
			program.options.nodes = strtoul(optarg, NULL, 10);
		else if (option == 'P')
			program.options.no_prune = true;
		else
			exit(2);
	}
	if (argc - optind != 2)
		exit(2);
	program.options.directory = argv[optind];
	program.options.mountpoint = argv[optind + 1];
}

static void mount_it(void)
{
	char *root_argv[] = {(char *)"files-mount",
		(char *)"-osubtype=files-mount,default_permissions,allow_other", NULL};
	char *user_argv[] = {
		(char *)"files-mount", (char *)"-osubtype=files-mount,default_permissions", NULL};
	struct fuse_args args = FUSE_ARGS_INIT(2, getuid() == 0 ? root_argv : user_argv);
	struct fuse_lowlevel_ops ops = files_ops;
	struct error err = ERROR_NONE;

	ops.init = op_init;
	ops.lookup = op_lookup;
	ops.getattr = op_getattr;
	ops.opendir = op_opendir;
	ops.readdir = op_readdir;
	ops.releasedir = op_releasedir;
	program.session = fuse_session_new(&args, &ops, sizeof(ops), &program.context);
	if (!program.session || files_attach(program.context.files, program.session, &err) < 0 ||
		fuse_session_mount(program.session, program.options.mountpoint) < 0)
		die("mount");
	fuse_opt_free_args(&args);
}

int main(int argc, char **argv)
{
	struct error err = ERROR_NONE;
	char line[64];
	pthread_t server;

	parse(argc, argv);
	program.context.config = &program.config;
	if (files_create(&program.config, &program.context.files, &err) < 0)
		die(err.text);
	if (program.options.nodes)
		program.context.files->max_nodes = program.options.nodes;
	if (program.options.walk)
		program.context.files->backing.by_handle = false;
	program.leases[0] = (struct lease){.name = "fs", .directory = program.options.directory};
	program.leases[1] = (struct lease){.name = "other", .directory = program.options.other};
	lease_begin(&program.leases[0]);
	if (program.options.other)
		lease_begin(&program.leases[1]);
	mount_it();
	if (pthread_create(&server, NULL, serve, NULL) != 0)
		die("thread");
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	stop_serving(server);
	lease_end(&program.leases[0]);
	lease_end(&program.leases[1]);
	fuse_session_destroy(program.session);
	files_destroy(program.context.files);
	return 0;
}
