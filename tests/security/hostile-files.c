/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files of the host and of other slots, mounts, devices. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/mount.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
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
		"/var/log", "/boot", "/etc/machine-id", "/etc/fstab", "/etc/default", "/etc/cron.d",
		"/proc/kcore", "/proc/kmsg", "/sys/kernel", "/sys/fs", "/run/dbus", "/run/systemd",
		"/dev/kmsg", NULL};

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

static const char *connect_to_other_slot(const struct decoys *decoys)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", decoys->other_socket);
	return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0
		       ? got("%s takes connections", decoys->other_socket)
		       : NULL;
}

/* The groups that a daemon has beside its own, as root's, must not come along. */
static const char *read_by_group(const struct decoys *decoys)
{
	return can_open(decoys->group_file, O_RDONLY) ? got("%s opens", decoys->group_file) : NULL;
}

/* The same file by a link, made here. */
static const char *follow_links(const struct decoys *decoys)
{
	static const char *const targets[] = {
		"/proc/1/root", "/proc/1/cwd", "/proc/1/fd/3", "/proc/1/exe", NULL};

	(void)unlink("/tmp/link");
	if (symlink(decoys->other_file, "/tmp/link") == 0 && can_open("/tmp/link", O_RDONLY))
		return got("a link to %s opens", decoys->other_file);
	for (const char *const *target = targets; *target; target++) {
		(void)unlink("/tmp/link");
		if (symlink(*target, "/tmp/link") == 0 && can_open("/tmp/link", O_RDONLY))
			return got("a link to %s opens", *target);
	}
	if (link("/usr/bin/env", "/tmp/hard") == 0 || link("/proc/self/exe", "/tmp/hard") == 0)
		return got("a hard link to the host's file");
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
		"/shared/new", "/etc/ssl/certs/new", NULL};
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

/* Whatever their modes are on this host. */
static const char *find_devices(const struct decoys *decoys)
{
	static const char harmless[] =
		" . .. null zero full random urandom tty console pts shm ptmx "
		"core fd stdin stdout stderr ";
	DIR *devices = opendir("/dev");
	const char *answer = devices ? NULL : got("no /dev");
	struct dirent *entry;
	char word[300];

	while (devices && !answer && (entry = readdir(devices))) {
		(void)snprintf(word, sizeof(word), " %s ", entry->d_name);
		if (!strstr(harmless, word))
			answer = got("/dev/%s", entry->d_name);
	}
	if (devices)
		(void)closedir(devices);
	return answer;
}

/* Made by root's helper of a package, say, and run by the agent. */
static const char *mark_files(const struct decoys *decoys)
{
	static const unsigned char net_admin[20] = {0x01, 0, 0, 0x02, 0, 0x10};

	(void)close(open("/tmp/marked", O_WRONLY | O_CREAT | O_CLOEXEC, 0755));
	if (setxattr("/tmp/marked", "security.capability", net_admin, sizeof(net_admin), 0) == 0)
		return got("capabilities of a file");
	if (setxattr("/tmp/marked", "trusted.x", "y", 1, 0) == 0)
		return got("a trusted attribute");
	if (chown("/tmp/marked", 0, 0) == 0)
		return got("a file of root's");
	return NULL;
}

static const char *become_root(const struct decoys *decoys)
{
	const gid_t groups[] = {0, 42};

	if (setuid(0) == 0 || setresuid(0, 0, 0) == 0 || setreuid(0, 0) == 0 ||
		syscall(SYS_setfsuid, 0) == 0)
		return got("uid 0");
	if (setgid(0) == 0 || setgroups(2, groups) == 0)
		return got("gid 0");
	if (file_has("/proc/1/status", "CapEff:") &&
		!file_has("/proc/1/status", "CapEff:\t0000000000000000"))
		return got("init keeps capabilities");
	if (!file_has("/proc/self/status", "CapEff:\t0000000000000000") ||
		!file_has("/proc/self/status", "CapPrm:\t0000000000000000") ||
		!file_has("/proc/self/status", "CapBnd:\t0000000000000000") ||
		!file_has("/proc/self/status", "CapInh:\t0000000000000000"))
		return got("capabilities");
	/* exec takes KEEP_CAPS away, but not its lock */
	if ((prctl(PR_GET_SECUREBITS) | SECBIT_KEEP_CAPS) != (SECURE_ALL_BITS | SECURE_ALL_LOCKS))
		return got("securebits %#x", (unsigned)prctl(PR_GET_SECUREBITS));
	if (!file_has("/proc/self/status", "NoNewPrivs:\t1") ||
		!file_has("/proc/self/status", "Seccomp:\t2"))
		return got("no no_new_privs, or no seccomp");
	return NULL;
}

const struct attempt file_attempts[] = {
	{"the_hosts_secrets_cannot_be_read", read_secrets},
	{"another_slots_files_are_not_there", read_other_slot},
	{"another_slots_sockets_are_not_there", connect_to_other_slot},
	{"no_file_is_opened_by_a_group_of_the_daemons", read_by_group},
	{"links_lead_nowhere_else", follow_links},
	{"file_handles_cannot_be_used", open_by_handle},
	{"the_system_cannot_be_written", write_system},
	{"nothing_can_be_mounted", mount_something},
	{"nothing_can_be_unmounted", unmount_something},
	{"the_newer_mount_calls_are_refused_too", use_new_mount_calls},
	{"the_root_cannot_be_changed", change_root},
	{"devices_cannot_be_made", make_devices},
	{"the_hosts_devices_are_not_there", find_devices},
	{"files_cannot_be_given_capabilities_or_to_root", mark_files},
	{"there_is_no_way_to_root_or_capabilities", become_root},
	{NULL, NULL},
};
