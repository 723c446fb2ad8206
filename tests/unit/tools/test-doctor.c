/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The doctor on hosts that are made of a few files. What it tries for real is shown by tests/fs. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "config/settings.h"
#include "pool/state-dir.h"
#include "tools/doctor.h"

struct host {
	char root[64];
	struct config config;
	struct doctor doctor;
	struct strbuf said; /* "LEVEL finding; remedy\n" of each */
};

static void note(void *data, enum doctor_level level, const char *name, const char *finding,
	const char *remedy)
{
	static const char *const words[] = {"ok", "warn", "fail"};
	struct host *host = data;

	strbuf_addf(&host->said, "%s %s; %s\n", words[level], finding, remedy);
}

static int look_dead(const char *path)
{
	if (strstr(path, "dead"))
		return -ENOTCONN;
	return strstr(path, "hung") ? -ETIMEDOUT : 0;
}

static int set_up(void **state)
{
	struct host *host = calloc(1, sizeof(*host));

	(void)snprintf(host->root, sizeof(host->root), "/tmp/dressage-host-XXXXXX");
	assert_non_null(mkdtemp(host->root));
	strbuf_init(&host->said);
	host->config.pool.slots = 4;
	host->config.slot.uid_base = 2000000;
	host->doctor = (struct doctor){.root = host->root,
		.config = &host->config,
		.mountpoint = "/mnt/dressage",
		.look = look_dead,
		.say = note,
		.data = host};
	*state = host;
	return 0;
}

static int tear_down(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf command = STRBUF_INIT;
	struct host *host = *state;

	strbuf_addf(&command, "rm -rf '%s'", host->root);
	assert_int_equal(system(command.data), 0);
	strbuf_fini(&host->said);
	free(host);
	return 0;
}

static void has(struct host *host, const char *path, const char *text)
{
	CLEANUP(strbuf_fini) struct strbuf whole = STRBUF_INIT;
	CLEANUP(fclosep) FILE *file = NULL;
	char *slash;

	strbuf_addf(&whole, "%s%s", host->root, path);
	slash = strrchr(whole.data, '/');
	*slash = '\0';
	assert_int_equal(make_directories(whole.data, NULL), 0);
	*slash = '/';
	file = fopen(whole.data, "we");
	assert_non_null(file);
	(void)fputs(text, file);
}

/* Runs the check: the worst that it says, and each of the parts is somewhere in it. */
static void says(struct host *host, const char *check, enum doctor_level level, const char *part)
{
	host->doctor.worst = DOCTOR_OK;
	strbuf_clear(&host->said);
	assert_true(doctor_run_one(&host->doctor, check));
	if (host->doctor.worst != level || !strstr(host->said.data, part))
		fail_msg("%s: wanted level %d and '%s', got %d:\n%s", check, level, part,
			host->doctor.worst, host->said.data);
}

static void a_kernel_before_6_1_is_worse_than_it_could_be(void **state)
{
	says(*state, "kernel", DOCTOR_FAIL, "mount proc");
	has(*state, "/proc/sys/kernel/osrelease", "5.15.0-91-generic\n");
	says(*state, "kernel", DOCTOR_WARN, "Linux 5.15.0-91-generic");
	has(*state, "/proc/sys/kernel/osrelease", "6.0.9\n");
	says(*state, "kernel", DOCTOR_WARN, "run Linux 6.1");
	has(*state, "/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
	says(*state, "kernel", DOCTOR_OK, "Linux 6.1.0-18-amd64");
	has(*state, "/proc/sys/kernel/osrelease", "7.0\n");
	says(*state, "kernel", DOCTOR_OK, "Linux 7.0");
}

static void a_host_without_dev_fuse_is_a_failure(void **state)
{
	struct host *host = *state;

	host->doctor.privileged = true;
	says(host, "fuse", DOCTOR_FAIL, "modprobe fuse");
	has(host, "/dev/fuse", "");
	says(host, "fuse", DOCTOR_OK, "can be opened");
}

static void allow_other_needs_a_line_of_fuse_conf_unless_root_mounts(void **state)
{
	struct host *host = *state;

	says(host, "allow_other", DOCTOR_OK, "only the one who mounts");
	host->config.mount.allow_other = true;
	says(host, "allow_other", DOCTOR_FAIL, "user_allow_other into /etc/fuse.conf");
	has(host, "/etc/fuse.conf", "# user_allow_other\nmount_max = 1000\nuser_allow_others\n");
	says(host, "allow_other", DOCTOR_FAIL, "does not allow it");
	has(host, "/etc/fuse.conf", "mount_max = 1000\n  user_allow_other \n");
	says(host, "allow_other", DOCTOR_OK, "lets users share");
	has(host, "/etc/fuse.conf", "");
	host->doctor.privileged = true;
	says(host, "allow_other", DOCTOR_OK, "root");
}

static void a_time_limit_for_requests_is_a_failure(void **state)
{
	says(*state, "request_timeout", DOCTOR_OK, "as long as it takes"); /* older kernels */
	has(*state, "/proc/sys/fs/fuse/max_request_timeout", "0\n");
	has(*state, "/proc/sys/fs/fuse/default_request_timeout", "0\n");
	says(*state, "request_timeout", DOCTOR_OK, "as long as it takes");
	has(*state, "/proc/sys/fs/fuse/max_request_timeout", "600\n");
	says(*state, "request_timeout", DOCTOR_FAIL, "sysctl fs.fuse.max_request_timeout=0");
	has(*state, "/proc/sys/fs/fuse/max_request_timeout", "0\n");
	has(*state, "/proc/sys/fs/fuse/default_request_timeout", "30\n");
	says(*state, "request_timeout", DOCTOR_FAIL, "sysctl fs.fuse.default_request_timeout=0");
}

static void each_switch_that_forbids_user_namespaces_is_named_with_its_remedy(void **state)
{
	says(*state, "user_namespaces", DOCTOR_FAIL, "CONFIG_USER_NS");
	has(*state, "/proc/sys/user/max_user_namespaces", "63000\n");
	says(*state, "user_namespaces", DOCTOR_OK, "63000");
	has(*state, "/proc/sys/kernel/unprivileged_userns_clone", "0\n");
	says(*state, "user_namespaces", DOCTOR_FAIL, "sysctl kernel.unprivileged_userns_clone=1");
	has(*state, "/proc/sys/kernel/unprivileged_userns_clone", "1\n");
	has(*state, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
	says(*state, "user_namespaces", DOCTOR_WARN, "AppArmor profile");
	has(*state, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "0\n");
	says(*state, "user_namespaces", DOCTOR_OK, "63000");
	has(*state, "/proc/sys/user/max_user_namespaces", "15\n");
	says(*state, "user_namespaces", DOCTOR_WARN, "4 slots may need 16");
	has(*state, "/proc/sys/user/max_user_namespaces", "0\n");
	says(*state, "user_namespaces", DOCTOR_FAIL, "user.max_user_namespaces is 0");
}

static void a_masked_proc_is_a_failure_and_what_hides_nothing_is_not(void **state)
{
	says(*state, "proc", DOCTOR_FAIL, "cannot be read");
	has(*state, "/proc/self/mountinfo",
		"22 1 0:20 / /proc rw,nosuid - proc proc rw\n"
		"30 22 0:30 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n"
		"31 1 0:31 / /process rw - tmpfs tmpfs rw\n");
	says(*state, "proc", DOCTOR_OK, "whole");
	has(*state, "/proc/self/mountinfo",
		"22 1 0:20 / /proc rw - proc proc rw\n"
		"30 22 0:5 /null /proc/kcore rw - devtmpfs udev rw\n"
		"31 22 0:31 / /proc/acpi ro - tmpfs tmpfs ro\n");
	says(*state, "proc", DOCTOR_FAIL, "2 parts of /proc are mounted over, '/proc/kcore' first");
	assert_non_null(strstr(((struct host *)*state)->said.data, "systempaths=unconfined"));
}

static void a_kernel_without_system_call_filters_is_a_failure(void **state)
{
	says(*state, "seccomp", DOCTOR_FAIL, "CONFIG_SECCOMP_FILTER");
	has(*state, "/proc/sys/kernel/seccomp/actions_avail",
		"kill_process kill_thread trap errno user_notif trace log allow\n");
	says(*state, "seccomp", DOCTOR_OK, "can be filtered");
}

static void a_cgroup_of_its_own_is_one_that_it_may_write_to(void **state)
{
	struct host *host = *state;

	says(host, "cgroup", DOCTOR_WARN, "no cgroup v2 of its own");
	has(host, "/proc/self/mountinfo", "40 30 0:25 / /cg rw - cgroup2 cgroup2 rw\n");
	has(host, "/proc/self/cgroup", "0::/user.slice/x\n");
	says(host, "cgroup", DOCTOR_WARN, "Delegate=yes");
	has(host, "/cg/user.slice/x/cgroup.controllers", "cpu memory pids\n");
	says(host, "cgroup", DOCTOR_OK, "killed with all it started");
	has(host, "/proc/self/cgroup", "5:pids:/user.slice/x\n");
	says(host, "cgroup", DOCTOR_WARN, "no cgroup v2 of its own");
}

static void host_uids_that_are_not_there_are_a_failure_and_others_ids_a_warning(void **state)
{
	struct host *host = *state;

	says(host, "uids", DOCTOR_OK, "as this user");
	host->doctor.privileged = true;
	has(host, "/proc/self/uid_map", "0 0 4294967295\n");
	has(host, "/proc/self/gid_map", "0 0 4294967295\n");
	has(host, "/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nbob:x:2262144:1::/:/bin/sh\n");
	has(host, "/etc/subuid", "bob:100000:65536\n");
	says(host, "uids", DOCTOR_OK, "2000000 to 2262143");
	has(host, "/etc/subuid", "bob:100000:65536\ncarol:2262143:65536\n");
	says(host, "uids", DOCTOR_WARN, "'carol'");
	has(host, "/etc/subuid", "");
	has(host, "/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nbob:x:2262143:1::/:/bin/sh\n");
	says(host, "uids", DOCTOR_WARN, "'bob'");
	has(host, "/proc/self/gid_map", "0 100000 65536\n");
	says(host, "uids", DOCTOR_FAIL, "/proc/self/gid_map");
	has(host, "/proc/self/uid_map", "0 1000 1\n1 100000 65535\n");
	says(host, "uids", DOCTOR_FAIL, "slot.uid_base");
}

static void quotas_of_a_plain_user_are_too_small_for_many_slots(void **state)
{
	struct host *host = *state;

	has(host, "/proc/sys/fs/inotify/max_user_instances", "1024\n");
	has(host, "/proc/sys/kernel/keys/maxkeys", "200\n");
	says(host, "user_quotas", DOCTOR_OK, "large enough");
	host->config.pool.slots = 137;
	says(host, "user_quotas", DOCTOR_WARN, "1024 inotify instances");
	has(host, "/proc/sys/fs/inotify/max_user_instances", "100000\n");
	says(host, "user_quotas", DOCTOR_WARN, "200 kernel keys");
	host->doctor.privileged = true;
	says(host, "user_quotas", DOCTOR_OK, "of its own");
}

static void dead_mounts_dead_binds_and_hung_ones_are_told_apart(void **state)
{
	struct host *host = *state;

	says(host, "mounts", DOCTOR_OK, "0 of dressagefs");
	has(host, "/proc/self/mountinfo",
		"22 1 0:20 / /proc rw - proc proc rw\n"
		"50 1 0:50 / /mnt/dressage rw - fuse.dressage dressagefs rw\n");
	says(host, "mounts", DOCTOR_OK, "1 of dressagefs, all of which answer");
	assert_true(host->doctor.mounted);
	host->doctor.mounted = false;
	has(host, "/proc/self/mountinfo",
		"50 1 0:50 / /mnt/dead\\040one rw - fuse.dressage dressagefs rw\n");
	says(host, "mounts", DOCTOR_WARN,
		"'/mnt/dead one' is a dead mount: its daemon has gone; fusermount3 -uz '/mnt/dead one'");
	has(host, "/proc/self/mountinfo",
		"51 1 0:50 /leases/t1/fs /srv/dead rw - fuse.dressage dressagefs rw\n");
	says(host, "mounts", DOCTOR_WARN, "bind mount");
	assert_non_null(strstr(host->said.data, "umount -l '/srv/dead'"));
	has(host, "/proc/self/mountinfo",
		"50 1 0:50 / /mnt/hung rw - fuse.dressage dressagefs rw\n");
	says(host, "mounts", DOCTOR_FAIL, "'/mnt/hung' does not answer");
	assert_false(host->doctor.mounted);
	says(host, "daemon", DOCTOR_OK, "none runs");
}

static void little_room_on_disk_is_said_of_the_nearest_directory(void **state)
{
	struct host *host = *state;
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/not/there", host->root);
	host->config.dressage.state_dir = host->config.pool.slot_dir = path;
	assert_true(doctor_run_one(&host->doctor, "disk"));
	assert_non_null(strstr(host->said.data, path));
	assert_non_null(strstr(host->said.data, "MiB free"));
	host->config.dressage.state_dir = host->config.pool.slot_dir = (char *)"/proc/x";
	says(host, "disk", DOCTOR_FAIL, "'/proc/x'");
}

static unsigned listening_port(int *ret_fd)
{
	struct sockaddr_in place = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(place);

	*ret_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(*ret_fd, (struct sockaddr *)&place, size), 0);
	assert_int_equal(listen(*ret_fd, 1), 0);
	assert_int_equal(getsockname(*ret_fd, (struct sockaddr *)&place, &size), 0);
	return ntohs(place.sin_port);
}

static void ports_are_looked_at_only_where_slots_have_them(void **state)
{
	struct host *host = *state;
	CLEANUP(closep) int listener = -1;

	says(host, "ports", DOCTOR_OK, "none are needed");
	host->config.slot.network = NETWORK_FORWARD;
	host->config.pool.bind_host = (char *)"127.0.0.1";
	host->config.pool.base_port = 65534;
	says(host, "ports", DOCTOR_FAIL, "end above 65535");
	host->config.pool.bind_host = (char *)"192.0.2.1";
	host->config.pool.base_port = 29000;
	says(host, "ports", DOCTOR_FAIL, "cannot be had at 192.0.2.1, 29000 first");
	host->config.pool.bind_host = (char *)"127.0.0.1";
	host->config.pool.slots = 1;
	host->config.pool.base_port = listening_port(&listener);
	says(host, "ports", DOCTOR_WARN, "are in use");
	host->config.pool.slots = 4;
	host->config.pool.base_port = 29000;
	host->config.pool.bind_host = (char *)"nowhere";
	says(host, "ports", DOCTOR_FAIL, "'nowhere' is no address");
	host->doctor.mounted = true;
	has(host, "/proc/sys/net/ipv4/ip_local_port_range", "29003\t60999\n");
	says(host, "ports", DOCTOR_WARN, "29003 to 60999");
	has(host, "/proc/sys/net/ipv4/ip_local_port_range", "29004\t60999\n");
	says(host, "ports", DOCTOR_OK, "has them");
}

static void a_bwrap_that_is_none_is_a_failure(void **state)
{
	struct host *host = *state;

	host->config.slot.bwrap = (char *)"no-such-program-here";
	says(host, "bwrap", DOCTOR_FAIL, "apt-get install bubblewrap");
	host->config.slot.bwrap = (char *)"echo";
	says(host, "bwrap", DOCTOR_FAIL, "is not bubblewrap");
	host->config.slot.bwrap = (char *)"false";
	says(host, "bwrap", DOCTOR_FAIL, "'false --version'");
}

static void a_program_that_takes_too_long_is_killed(void **state)
{
	CLEANUP(strbuf_fini) struct strbuf output = STRBUF_INIT;
	static const char *const slow[] = {"sh", "-c", "echo said; sleep 600", NULL};
	static const char *const quick[] = {"sh", "-c", "echo out; echo err >&2; exit 3", NULL};
	static const char *const dying[] = {"sh", "-c", "kill -9 $$", NULL};
	static const char *const absent[] = {"no-such-program-here", NULL};

	assert_int_equal(doctor_spawn(slow, 300, &output), -ETIMEDOUT);
	assert_string_equal(output.data, "said\n");
	strbuf_clear(&output);
	assert_int_equal(doctor_spawn(quick, 20000, &output), 3);
	assert_string_equal(output.data, "out\nerr\n");
	assert_int_equal(doctor_spawn(dying, 20000, &output), 128 + 9);
	assert_int_equal(doctor_spawn(absent, 20000, &output), -ENOENT);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_kernel_before_6_1_is_worse_than_it_could_be),
		CASE(a_host_without_dev_fuse_is_a_failure),
		CASE(allow_other_needs_a_line_of_fuse_conf_unless_root_mounts),
		CASE(a_time_limit_for_requests_is_a_failure),
		CASE(each_switch_that_forbids_user_namespaces_is_named_with_its_remedy),
		CASE(a_masked_proc_is_a_failure_and_what_hides_nothing_is_not),
		CASE(a_kernel_without_system_call_filters_is_a_failure),
		CASE(a_cgroup_of_its_own_is_one_that_it_may_write_to),
		CASE(host_uids_that_are_not_there_are_a_failure_and_others_ids_a_warning),
		CASE(quotas_of_a_plain_user_are_too_small_for_many_slots),
		CASE(dead_mounts_dead_binds_and_hung_ones_are_told_apart),
		CASE(little_room_on_disk_is_said_of_the_nearest_directory),
		CASE(ports_are_looked_at_only_where_slots_have_them),
		CASE(a_bwrap_that_is_none_is_a_failure),
		CASE(a_program_that_takes_too_long_is_killed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
