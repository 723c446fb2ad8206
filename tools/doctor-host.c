/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The kernel, and what an administrator (or whoever made this container) has set. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mounts.h"
#include "base/user.h"
#include "config/settings.h"
#include "pool/cgroup.h"
#include "tools/doctor.h"

enum {
	SPACES_PER_SLOT = 4, /* bwrap's own, init's, and those of one that starts while it ends */
};

void check_kernel(struct doctor *doctor)
{
	CLEANUP(strbuf_fini) struct strbuf release = STRBUF_INIT;
	unsigned major = 0, minor = 0;

	if (!doctor_read(doctor, "/proc/sys/kernel/osrelease", &release) ||
		sscanf(release.data, "%u.%u", &major, &minor) != 2) {
		doctor_fail(
			doctor, "mount proc at /proc", "/proc does not tell the kernel's release");
		return;
	}
	strbuf_cut(&release, strcspn(release.data, "\n"));
	if (major < 6 || (major == 6 && minor < 1))
		doctor_warn(doctor, "run Linux 6.1 or newer",
			"Linux %s: nothing before 6.1 was tried", release.data);
	else
		doctor_ok(doctor, "Linux %s", release.data);
}

/* FUSE */

static bool is_along_path(const char *program, struct stat *ret_st)
{
	const char *path = getenv("PATH"); // NOLINT(concurrency-mt-unsafe)
	const char *end;

	for (path = path ? path : "/usr/local/bin:/usr/bin:/bin";; path = end + 1) {
		CLEANUP(strbuf_fini) struct strbuf whole = STRBUF_INIT;

		end = strchrnul(path, ':');
		strbuf_addf(&whole, "%.*s/%s", (int)(end - path), path, program);
		if (stat(whole.data, ret_st) == 0 && access(whole.data, X_OK) == 0)
			return true;
		if (!*end)
			return false;
	}
}

/* Root mounts by itself. */
static void check_fusermount(struct doctor *doctor)
{
	struct stat st;

	if (doctor->privileged)
		return;
	if (!is_along_path("fusermount3", &st))
		doctor_fail(doctor, "apt-get install fuse3", "fusermount3 is not in PATH");
	else if (st.st_uid != 0 || !(st.st_mode & S_ISUID))
		doctor_fail(doctor, "chmod u+s it as root, or install the package fuse3 anew",
			"fusermount3 is not setuid root: it cannot mount for a plain user");
	if (!user_has_name(getuid()))
		doctor_fail(doctor,
			"add a line for it to /etc/passwd, or run as a user who has one",
			"user %u has no name: fusermount3 refuses to mount for it",
			(unsigned)getuid());
}

void check_fuse(struct doctor *doctor)
{
	CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;
	CLEANUP(closep) int fd = -1;

	strbuf_addf(&path, "%s/dev/fuse", doctor->root);
	fd = open(path.data, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		doctor_ok(doctor, "/dev/fuse can be opened");
	else if (errno == ENOENT)
		doctor_fail(doctor,
			"modprobe fuse; a container must be given it (--device /dev/fuse)",
			"there is no /dev/fuse");
	else if (errno == EACCES || errno == EPERM)
		doctor_fail(doctor,
			"chmod 666 /dev/fuse as root; a container must be given it (--device /dev/fuse)",
			"/dev/fuse is closed to this user");
	else
		doctor_fail(doctor, "modprobe fuse", "/dev/fuse cannot be opened: %s",
			strerrordesc_np(errno));
	check_fusermount(doctor);
}

static bool has_line(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (const char *line = text; *line;) {
		line += strspn(line, " \t");
		if (!strncmp(line, word, len) &&
			strspn(line + len, " \t\r") == strcspn(line + len, "\n"))
			return true;
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return false;
}

void check_allow_other(struct doctor *doctor)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	if (!doctor->config->mount.allow_other)
		doctor_ok(doctor, "only the one who mounts gets in");
	else if (doctor->privileged)
		doctor_ok(doctor, "root may let others in");
	else if (doctor_read(doctor, "/etc/fuse.conf", &text) &&
		 has_line(text.data, "user_allow_other"))
		doctor_ok(doctor, "/etc/fuse.conf lets users share a mount");
	else
		doctor_fail(doctor,
			"put user_allow_other into /etc/fuse.conf, or set mount.allow_other = off",
			"mount.allow_other is on, and /etc/fuse.conf does not allow it");
}

/* A request that waits for a command would end the whole mount. */
void check_request_timeout(struct doctor *doctor)
{
	static const char *const names[] = {"max_request_timeout", "default_request_timeout"};
	bool bad = false;

	for (unsigned i = 0; i < 2; i++) {
		CLEANUP(strbuf_fini) struct strbuf path = STRBUF_INIT;
		CLEANUP(strbuf_fini) struct strbuf remedy = STRBUF_INIT;
		long long seconds;

		strbuf_addf(&path, "/proc/sys/fs/fuse/%s", names[i]);
		strbuf_addf(&remedy, "sysctl fs.fuse.%s=0", names[i]);
		seconds = doctor_number(doctor, path.data, 0);
		if (seconds <= 0)
			continue;
		bad = true;
		doctor_fail(doctor, remedy.data,
			"fs.fuse.%s is %lld s: a command that runs longer would end the whole mount",
			names[i], seconds);
	}
	if (!bad)
		doctor_ok(doctor, "a request may wait as long as it takes");
}

/* Namespaces */

static bool check_namespace_switches(struct doctor *doctor)
{
	if (doctor_number(doctor, "/proc/sys/kernel/unprivileged_userns_clone", 1) == 0) {
		doctor_fail(doctor, "sysctl kernel.unprivileged_userns_clone=1",
			"users may not make user namespaces (kernel.unprivileged_userns_clone is 0)");
		return false;
	}
	if (doctor_number(doctor, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) >
		0) {
		doctor_warn(doctor,
			"sysctl kernel.apparmor_restrict_unprivileged_userns=0, or give bwrap an AppArmor profile with 'userns,'",
			"AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)");
		return false;
	}
	return true;
}

void check_user_namespaces(struct doctor *doctor)
{
	long long most = doctor_number(doctor, "/proc/sys/user/max_user_namespaces", -1);
	long long wanted = (long long)doctor->config->pool.slots * SPACES_PER_SLOT;
	bool allowed = check_namespace_switches(doctor);

	if (most < 0)
		doctor_fail(doctor, "boot a kernel with CONFIG_USER_NS",
			"this kernel has no user namespaces");
	else if (most == 0)
		doctor_fail(doctor, "sysctl user.max_user_namespaces=15000",
			"no user namespaces may be made here (user.max_user_namespaces is 0)");
	else if (most < wanted)
		doctor_warn(doctor, "raise user.max_user_namespaces",
			"user.max_user_namespaces is %lld; %u slots may need %lld", most,
			doctor->config->pool.slots, wanted);
	else if (allowed)
		doctor_ok(doctor, "allowed, %lld at most", most);
}

/* Mount points that the kernel itself keeps empty hide nothing. */
static bool hides_nothing(const char *point)
{
	return !strcmp(point, "/proc/sys/fs/binfmt_misc") || !strcmp(point, "/proc/fs/nfsd");
}

/* Where something is mounted over a part of /proc, the kernel lets no user namespace have a proc of
 * its own. */
void check_proc(struct doctor *doctor)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	unsigned count = 0;
	char first[256] = "", point[256];
	struct mount_line mount;

	if (!doctor_read(doctor, "/proc/self/mountinfo", &text)) {
		doctor_fail(doctor, "mount proc at /proc", "/proc/self/mountinfo cannot be read");
		return;
	}
	for (const char *at = text.data; mount_next(&at, &mount);) {
		(void)snprintf(point, sizeof(point), "%.*s", (int)mount.point_len, mount.point);
		if (!strncmp(point, "/proc/", 6) && !hides_nothing(point) && count++ == 0)
			memcpy(first, point, sizeof(first));
	}
	if (count == 0)
		doctor_ok(doctor, "/proc is whole: slots can have their own");
	else
		doctor_fail(doctor,
			"docker run --security-opt systempaths=unconfined; podman run --security-opt unmask=ALL; Kubernetes: procMount: Unmasked",
			"%u parts of /proc are mounted over, '%s' first: the kernel refuses slots a /proc of their own",
			count, first);
}

void check_seccomp(struct doctor *doctor)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

	if (!doctor_read(doctor, "/proc/sys/kernel/seccomp/actions_avail", &text) ||
		!strstr(text.data, "errno"))
		doctor_fail(doctor, "boot a kernel with CONFIG_SECCOMP_FILTER",
			"this kernel has no system call filters: no slot starts");
	else
		doctor_ok(doctor, "system calls can be filtered");
}

/* cgroups */

static bool has_own_v2(struct doctor *doctor, const char *mountinfo, struct strbuf *ret_path)
{
	CLEANUP(strbuf_fini) struct strbuf own = STRBUF_INIT;

	strbuf_adds(ret_path, doctor->root);
	return doctor_read(doctor, "/proc/self/cgroup", &own) &&
	       cgroup_locate(mountinfo, own.data, ret_path, NULL) == 0 &&
	       access(ret_path->data, W_OK) == 0;
}

/* Whether its slots' limits are enforced, and by what, is told by the one that is tried. */
void check_cgroup(struct doctor *doctor)
{
	CLEANUP(strbuf_fini) struct strbuf mountinfo = STRBUF_INIT, path = STRBUF_INIT;

	(void)doctor_read(doctor, "/proc/self/mountinfo", &mountinfo);
	if (has_own_v2(doctor, mountinfo.data, &path))
		doctor_ok(
			doctor, "a cgroup v2 of its own: a command is killed with all it started");
	else
		doctor_warn(doctor,
			"start the daemon by systemd with Delegate=yes (systemd-run --user --scope -p Delegate=yes ...), or as root",
			"no cgroup v2 of its own: a command's tree is killed by other means, and maybe its slot with it");
}
