/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The session's life, and which thread does what at its end:
 *
 *	loop: who follows is told the end, while there are workers; then fuse_session_exit()
 *	session thread: runs the workers ... they end, by that or since the mount is gone
 *	    -> loop: answers what is held, closes every handle
 *	session thread: joins the notifier, detaches the mount, removes the directory
 *	    -> loop: unmounted()
 *
 * The descriptor of /dev/fuse is closed last: closing it fails whatever the kernel still waits for.
 */
#define FUSE_USE_VERSION 318
#include "fs/filesystem.h"

#include <errno.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/strbuf.h"
#include "base/thread.h"
#include "base/user.h"
#include "config/settings.h"
#include "fs/commands.h"
#include "fs/context.h"
#include "fs/control.h"
#include "fs/files.h"
#include "fs/mountpoint.h"
#include "fs/notifier.h"
#include "fs/ops.h"

enum { WORKERS = 10 };

enum life { LIFE_NEW, LIFE_MOUNTED, LIFE_ENDING, LIFE_OVER };

struct filesystem {
	struct loop *loop;
	const struct config *config;
	bool read_only;
	struct filesystem_hooks hooks;
	enum life life;
	struct fs_context context;
	struct mountpoint mountpoint;
	struct fuse_session *session;
	struct notifier *notifier;
	pthread_t thread;
	bool running; /* the thread is there to be joined */
	struct loop_task ended, gone;
	sem_t settled; /* the loop holds no request any more */
};

int filesystem_create(const struct filesystem_options *options,
	const struct filesystem_hooks *hooks, struct filesystem **ret_fs, struct error *err)
{
	struct filesystem *fs = calloc(1, sizeof(*fs));
	int r;

	if (!fs)
		return error_set(err, ENOMEM, "no memory for the file system");
	fs->loop = options->loop;
	fs->config = options->config;
	fs->read_only = options->read_only;
	fs->hooks = *hooks;
	fs->context.config = options->config;
	(void)sem_init(&fs->settled, 0, 0);
	r = files_create(options->config, &fs->context.files, err);
	if (r == 0)
		r = control_create(
			options->loop, options->config, options->events, &fs->context.control, err);
	if (r == 0)
		r = mountpoint_prepare(options->config->mount.mountpoint,
			options->config->dressage.state_dir, &fs->mountpoint, err);
	if (r < 0) {
		filesystem_destroy(fs);
		return r;
	}
	fs->context.control->files = fs->context.files;
	*ret_fs = fs;
	return 0;
}

static void handle_lease_changed(void *data, struct lease *lease)
{
	enum lease_state state = lease_state(lease);
	struct filesystem *fs = data;

	if (state == LEASE_RELEASING || state == LEASE_RELEASED || state == LEASE_EXPIRED)
		files_end(fs->context.files, lease_root(lease));
	control_lease_changed(fs->context.control, lease);
}

static void handle_exec_changed(void *data, struct lease_exec *exec, unsigned changes)
{
	const struct filesystem *fs = data;

	commands_changed(fs->context.control, exec, changes);
}

struct lease_hooks filesystem_lease_hooks(struct filesystem *fs)
{
	return (struct lease_hooks){
		.changed = handle_lease_changed,
		.exec_changed = handle_exec_changed,
		.data = fs,
	};
}

/* The session's thread */

static int run_workers(struct fuse_session *session)
{
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 12)
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	int r;

	if (!config)
		return -ENOMEM;
	fuse_loop_cfg_set_clone_fd(config, 1);
	fuse_loop_cfg_set_max_threads(config, WORKERS);
	r = fuse_session_loop_mt(session, config);
	fuse_loop_cfg_destroy(config);
	return r;
#else
	struct fuse_loop_config config = {.clone_fd = 1, .max_idle_threads = WORKERS};

	return fuse_session_loop_mt(session, &config);
#endif
}

static void *run_session(void *data)
{
	struct filesystem *fs = data;

	(void)run_workers(fs->session);
	loop_post(fs->loop, &fs->ended);
	while (sem_wait(&fs->settled) < 0)
		;
	notifier_destroy(fs->notifier);
	fs->notifier = NULL;
	files_detach(fs->context.files);
	fuse_session_unmount(fs->session);
	mountpoint_fini(&fs->mountpoint);
	loop_post(fs->loop, &fs->gone);
	return NULL;
}

static void handle_ended(void *data)
{
	struct filesystem *fs = data;

	fs->life = LIFE_ENDING;
	control_end(fs->context.control);
	(void)sem_post(&fs->settled);
}

static void join(struct filesystem *fs)
{
	if (fs->running)
		(void)pthread_join(fs->thread, NULL);
	fs->running = false;
	if (fs->session)
		fuse_session_destroy(fs->session);
	fs->session = NULL;
}

static void handle_gone(void *data)
{
	struct filesystem *fs = data;

	fs->life = LIFE_OVER;
	join(fs);
	if (fs->hooks.unmounted)
		fs->hooks.unmounted(fs->hooks.data);
}

/* Mounting */

__attribute__((format(printf, 2, 0))) static void log_of_libfuse(
	enum fuse_log_level level, const char *fmt, va_list args)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	strbuf_vaddf(&text, fmt, args);
	while (text.size > 0 && text.data[text.size - 1] == '\n')
		text.data[--text.size] = '\0';
	if (level <= FUSE_LOG_WARNING)
		log_warn("%s", text.data);
	else
		log_debug("%s", text.data);
}

static int create_session(struct filesystem *fs, struct error *err)
{
	CLEANUP(strbuf_fini) struct strbuf options = STRBUF_INIT;
	const char *argv[] = {"dressagefs", "-o", NULL, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(3, (char **)argv);

	strbuf_adds(&options, "fsname=dressagefs,subtype=dressage,default_permissions");
	if (fs->config->mount.allow_other)
		strbuf_adds(&options, ",allow_other");
	if (fs->read_only)
		strbuf_adds(&options, ",ro");
	if (strbuf_failed(&options))
		return error_set(err, ENOMEM, "no memory for the mount's options");
	argv[2] = options.data;
	fuse_set_log_func(log_of_libfuse);
	fs->session = fuse_session_new(&args, &fs_ops, sizeof(fs_ops), &fs->context);
	fuse_opt_free_args(&args);
	if (!fs->session)
		return error_set(err, EINVAL, "libfuse refuses the options '%s'", options.data);
	return files_attach(fs->context.files, fs->session, err);
}

/* Why libfuse could not mount, as far as we can tell: it says only that it could not. */
static int mount_failed(const struct filesystem *fs, struct error *err)
{
	const char *hint = "the lines above tell why";

	if (access("/dev/fuse", F_OK) < 0)
		return error_set(err, ENODEV,
			"cannot mount at '%s': there is no /dev/fuse; load the module (modprobe fuse), or give the container that device",
			fs->mountpoint.path);
	if (geteuid() != 0 && !user_has_name(getuid()))
		return error_set(err, EPERM,
			"cannot mount at '%s': fusermount3 refuses users without a name, and %u has none: add a line for it to /etc/passwd",
			fs->mountpoint.path, (unsigned)getuid());
	if (access("/dev/fuse", R_OK | W_OK) < 0)
		return error_set(err, EACCES,
			"cannot mount at '%s': /dev/fuse is closed to this user (chmod 666 /dev/fuse as root)",
			fs->mountpoint.path);
	if (geteuid() != 0 && fs->config->mount.allow_other)
		hint = "allow_other needs 'user_allow_other' in /etc/fuse.conf";
	else if (geteuid() != 0)
		hint = "fusermount3 must be installed (package fuse3), and the directory be this user's";
	return error_set(err, EPERM, "cannot mount at '%s': %s", fs->mountpoint.path, hint);
}

static int start_thread(struct filesystem *fs, struct error *err)
{
	int r = thread_start(&fs->thread, run_session, fs);

	if (r < 0)
		return error_errno(err, -r, "cannot start the session's thread");
	fs->running = true;
	return 0;
}

static int mount_and_run(struct filesystem *fs, struct lease_table *leases, struct error *err)
{
	int r = create_session(fs, err);

	if (r == 0 && fuse_session_mount(fs->session, fs->mountpoint.path) != 0)
		r = mount_failed(fs, err);
	if (r == 0 && fs->config->mount.symlinks == SYMLINKS_RAW)
		r = mountpoint_forbid_links(fs->mountpoint.path, err);
	if (r == 0)
		r = notifier_create(fs->session, &fs->notifier, err);
	if (r < 0)
		return r;
	fs->ended = (struct loop_task){.fn = handle_ended, .data = fs};
	fs->gone = (struct loop_task){.fn = handle_gone, .data = fs};
	control_begin(fs->context.control, leases, fs->notifier);
	return start_thread(fs, err);
}

int filesystem_mount(struct filesystem *fs, struct lease_table *leases, struct error *err)
{
	int r = mountpoint_check(fs->mountpoint.path, err); /* somebody may have been quicker */

	if (r < 0)
		return r;
	r = mount_and_run(fs, leases, err);
	if (r < 0) {
		notifier_destroy(fs->notifier);
		fs->notifier = NULL;
		if (fs->session)
			fuse_session_unmount(fs->session);
		join(fs);
		return r;
	}
	fs->life = LIFE_MOUNTED;
	return 0;
}

#if FUSE_VERSION < FUSE_MAKE_VERSION(3, 18)
/* An older libfuse notices the flag with the next request only: this is one. */
static void *poke(void *path)
{
	struct statvfs space;

	(void)statvfs(path, &space);
	free(path);
	return NULL;
}

static void wake_workers(const struct filesystem *fs)
{
	char *path = strdup(fs->mountpoint.path);
	pthread_t thread;

	if (!path || pthread_create(&thread, NULL, poke, path) != 0)
		free(path);
	else
		(void)pthread_detach(thread);
}
#else
static void wake_workers(const struct filesystem *fs)
{
}
#endif

const char *filesystem_path(const struct filesystem *fs)
{
	return fs->mountpoint.path;
}

static void end_session(void *data)
{
	struct filesystem *fs = data;

	files_detach(fs->context.files);
	fuse_session_exit(fs->session);
	wake_workers(fs);
}

void filesystem_unmount(struct filesystem *fs)
{
	if (fs->life != LIFE_MOUNTED)
		return;
	fs->life = LIFE_ENDING;
	/* who reads on needs workers */
	if (control_finish(fs->context.control, end_session, fs) < 0)
		end_session(fs);
}

void filesystem_destroy(struct filesystem *fs)
{
	if (!fs)
		return;
	join(fs);
	mountpoint_fini(&fs->mountpoint);
	control_destroy(fs->context.control);
	files_destroy(fs->context.files);
	(void)sem_destroy(&fs->settled);
	free(fs);
}
