/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files of the host and of other slots, mounts, devices. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tests/security/hostile.h"

static const char *first_that_opens(const char *const *paths, int flags)
{
	for (; *paths; paths++) {
		if (can_open(*paths, flags))
			return got("%s opens", *paths);
	}
	return NULL;
}

static const char *read_secrets(const struct decoys *decoys)
{
	static const char *const paths[] = {"/etc/shadow", "/etc/gshadow", "/etc/shadow-",
		"/etc/sudoers", "/etc/ssh", "/root", "/home/blackbox/../root", "/var/lib",
		"/var/log", "/boot", "/proc/kcore", "/proc/kmsg", "/sys/kernel", "/sys/fs",
		"/run/dbus", "/run/systemd", "/dev/kmsg", NULL};

	return first_that_opens(paths, O_RDONLY);
}

static const char *read_other_slot(const struct decoys *decoys)
{
	char path[600];
	struct stat st;

	if (can_open(decoys->other_file, O_RDONLY) || stat(decoys->other_file, &st) == 0)
		return got("%s is there", decoys->other_file);
	for (int depth = 1; depth < 12; depth++) {
		int length = 0;

		for (int i = 0; i < depth; i++)
			length += snprintf(path + length, sizeof(path) - (size_t)length, "../");
		(void)snprintf(
			path + length, sizeof(path) - (size_t)length, "%s", decoys->other_file + 1);
		if (can_open(path, O_RDONLY))
			return got("%s opens", path);
		/* the slots' directories are side by side on the host */
		(void)snprintf(path + length, sizeof(path) - (size_t)length, "1/work/secret");
		if (can_open(path, O_RDONLY))
			return got("%s opens", path);
	}
	return NULL;
}

/* A file handle names an inode of a whole file system, above every mount point. */
static const char *open_by_handle(const struct decoys *decoys)
{
	struct {
		struct file_handle head;
		unsigned char bytes[128];
	} handle = {.head.handle_bytes = sizeof(handle.bytes)};
	int mount_id, fd = open("/workspace", O_RDONLY | O_DIRECTORY);

	if (name_to_handle_at(AT_FDCWD, "/workspace", &handle.head, &mount_id, 0) == 0)
		return got("name_to_handle_at");
	if (open_by_handle_at(fd, &handle.head, O_RDONLY) >= 0 || errno != EPERM)
		return got("open_by_handle_at: %s", strerror(errno));
	return NULL;
}

static const char *write_system(const struct decoys *decoys)
{
	static const char *const paths[] = {"/new", "/usr/new", "/etc/new", "/dev/new", "/home/new",
		"/run/new", "/var/new", "/usr/bin/new", "/workspace_sandbox/new", "/proc/new",
		"/etc/ssl/certs/new", NULL};
	static const char *const files[] = {
		"/etc/passwd", "/usr/bin/env", "/etc/ld.so.cache", NULL};
	const char *answer = first_that_opens(paths, O_WRONLY | O_CREAT);

	return answer ? answer : first_that_opens(files, O_WRONLY);
}

static const char *mount_something(const struct decoys *decoys)
{
	if (mount("tmpfs", "/tmp", "tmpfs", 0, NULL) == 0 ||
		mount("proc", "/tmp", "proc", 0, NULL) == 0)
		return got("mount of a file system");
	if (mount("/etc", "/tmp", NULL, MS_BIND, NULL) == 0)
		return got("bind mount");
	if (mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL) == 0 ||
		mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL) == 0 ||
		mount(NULL, "/proc/sys", NULL, MS_REMOUNT | MS_BIND, NULL) == 0)
		return got("remount");
	if (mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL) == 0)
		return got("change of propagation");
	return NULL;
}

static const char *unmount_something(const struct decoys *decoys)
{
	static const char *const targets[] = {
		"/proc/sys", "/proc", "/etc", "/usr", "/dev/shm", "/workspace", "/", NULL};

	for (const char *const *target = targets; *target; target++) {
		if (umount2(*target, MNT_DETACH) == 0)
			return got("umount of %s", *target);
	}
	return NULL;
}

static const char *use_new_mount_calls(const struct decoys *decoys)
{
	struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};

	if (syscall(SYS_fsopen, "tmpfs", 0) >= 0 || syscall(SYS_fspick, AT_FDCWD, "/", 0) >= 0)
		return got("fsopen or fspick");
	if (syscall(SYS_open_tree, AT_FDCWD, "/usr", OPEN_TREE_CLONE) >= 0)
		return got("open_tree");
	if (syscall(SYS_mount_setattr, AT_FDCWD, "/usr", 0, &attr, sizeof(attr)) == 0)
		return got("mount_setattr");
	if (syscall(SYS_move_mount, AT_FDCWD, "/tmp", AT_FDCWD, "/workspace", 0) == 0)
		return got("move_mount");
	return NULL;
}

static const char *change_root(const struct decoys *decoys)
{
	if (chroot("/tmp") == 0)
		return got("chroot");
	if (syscall(SYS_pivot_root, "/tmp", "/tmp") == 0)
		return got("pivot_root");
	return NULL;
}

static const char *make_devices(const struct decoys *decoys)
{
	(void)unlink("/tmp/device");
	if (mknod("/tmp/device", S_IFBLK | 0666, makedev(8, 0)) == 0 ||
		mknod("/tmp/device", S_IFCHR | 0666, makedev(1, 1)) == 0)
		return got("mknod");
	return NULL;
}

static const char *open_devices(const struct decoys *decoys)
{
	static const char *const paths[] = {"/dev/mem", "/dev/kmem", "/dev/port", "/dev/sda",
		"/dev/vda", "/dev/nvme0n1", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/vsock",
		"/dev/vhost-vsock", "/dev/loop-control", "/dev/tty0", "/dev/console",
		"/dev/userfaultfd", "/dev/bsg", "/dev/input", "/dev/dri", NULL};

	return first_that_opens(paths, O_RDONLY);
}

static const char *become_root(const struct decoys *decoys)
{
	const gid_t groups[] = {0, 42};

	if (setuid(0) == 0 || setresuid(0, 0, 0) == 0 || setreuid(0, 0) == 0 ||
		syscall(SYS_setfsuid, 0) == 0)
		return got("uid 0");
	if (setgid(0) == 0 || setgroups(2, groups) == 0)
		return got("gid 0");
	if (!file_has("/proc/self/status", "CapEff:\t0000000000000000") ||
		!file_has("/proc/self/status", "CapPrm:\t0000000000000000") ||
		!file_has("/proc/self/status", "CapBnd:\t0000000000000000") ||
		!file_has("/proc/self/status", "CapInh:\t0000000000000000"))
		return got("capabilities");
	if (!file_has("/proc/self/status", "NoNewPrivs:\t1") ||
		!file_has("/proc/self/status", "Seccomp:\t2"))
		return got("no no_new_privs, or no seccomp");
	return NULL;
}

const struct attempt file_attempts[] = {
	{"the_hosts_secrets_cannot_be_read", read_secrets},
	{"another_slots_files_are_not_there", read_other_slot},
	{"file_handles_cannot_be_used", open_by_handle},
	{"the_system_cannot_be_written", write_system},
	{"nothing_can_be_mounted", mount_something},
	{"nothing_can_be_unmounted", unmount_something},
	{"the_newer_mount_calls_are_refused_too", use_new_mount_calls},
	{"the_root_cannot_be_changed", change_root},
	{"devices_cannot_be_made", make_devices},
	{"the_hosts_devices_are_not_there", open_devices},
	{"there_is_no_way_to_root_or_capabilities", become_root},
	{NULL, NULL},
};
