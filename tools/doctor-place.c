/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the daemon needs room in: the disk, descriptors, ports. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/settings.h"
#include "tools/doctor.h"

enum {
	DISK_LITTLE_MIB = 1024,
	DISK_NONE_MIB = 64,
	FILES_LITTLE = 20000,
	FDS_OF_DAEMON = 128,
	FDS_PER_SLOT = 12,
};

/* The nearest directory above that is there. */
static int space_at(const char *path, struct statvfs *ret_space)
{
	CLEANUP(strbuf_fini) struct strbuf at = STRBUF_INIT;

	strbuf_adds(&at, path);
	while (statvfs(at.data, ret_space) < 0) {
		const char *slash = strrchr(at.data, '/');

		if (errno != ENOENT || !slash || at.size <= 1)
			return -errno;
		strbuf_cut(&at, slash == at.data ? 1 : (size_t)(slash - at.data));
	}
	return 0;
}

static void check_space(struct doctor *doctor, const char *what, const char *path)
{
	struct statvfs space;
	unsigned long long mib;
	int r = space_at(path, &space);

	if (r < 0) {
		doctor_fail(doctor, "choose another place", "%s '%s': %s", what, path,
			strerrordesc_np(-r));
		return;
	}
	mib = (unsigned long long)space.f_bavail * space.f_frsize >> 20;
	if (space.f_flag & ST_RDONLY)
		doctor_fail(doctor, "choose another place", "%s '%s' is on a read-only file system",
			what, path);
	else if (mib < DISK_NONE_MIB)
		doctor_fail(doctor, "make room, or choose another place",
			"%s '%s' has %llu MiB free", what, path, mib);
	else if (mib < DISK_LITTLE_MIB)
		doctor_warn(doctor, "make room, or choose another place",
			"%s '%s' has %llu MiB free", what, path, mib);
	else if (space.f_files > 0 && space.f_favail < FILES_LITTLE)
		doctor_warn(doctor, "remove small files, or choose another place",
			"%s '%s' has room for %llu files only", what, path,
			(unsigned long long)space.f_favail);
	else
		doctor_ok(doctor, "%s '%s' has %llu MiB free", what, path, mib);
}

void check_disk(struct doctor *doctor)
{
	const struct config *config = doctor->config;

	check_space(doctor, "state_dir", config->dressage.state_dir);
	if (strncmp(config->pool.slot_dir, config->dressage.state_dir,
		    strlen(config->dressage.state_dir)) != 0)
		check_space(doctor, "slot_dir", config->pool.slot_dir);
}

void check_descriptors(struct doctor *doctor)
{
	unsigned long long wanted =
		FDS_OF_DAEMON + (unsigned long long)FDS_PER_SLOT * doctor->config->pool.slots;
	struct rlimit limit;

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_max < wanted)
		doctor_warn(doctor,
			"raise it (ulimit -Hn; systemd: LimitNOFILE=), or take fewer slots",
			"the hard limit of open files is %llu; %u slots want %llu",
			(unsigned long long)limit.rlim_max, doctor->config->pool.slots, wanted);
	else
		doctor_ok(doctor, "the hard limit of open files is %llu, %u slots want %llu",
			(unsigned long long)limit.rlim_max, doctor->config->pool.slots, wanted);
}

/* Ports */

/* 0: it is free; else the errno of the attempt. */
static int try_port(const struct addrinfo *address, unsigned port)
{
	CLEANUP(closep)
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	struct sockaddr_storage place = {0};
	const int on = 1;

	memcpy(&place, address->ai_addr, address->ai_addrlen);
	if (address->ai_family == AF_INET6)
		((struct sockaddr_in6 *)&place)->sin6_port = htons((uint16_t)port);
	else
		((struct sockaddr_in *)&place)->sin_port = htons((uint16_t)port);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return errno;
	return bind(fd, (struct sockaddr *)&place, address->ai_addrlen) < 0 ? errno : 0;
}

static void try_ports(struct doctor *doctor, const struct addrinfo *address)
{
	const struct config *config = doctor->config;
	unsigned first = config->pool.base_port, taken = 0, example = 0;
	int why = 0;

	for (unsigned port = first; port < first + config->pool.slots && port <= 65535; port++) {
		int r = try_port(address, port);

		if (r != 0 && taken++ == 0) {
			example = port;
			why = r;
		}
	}
	if (taken > 0 && why == EADDRINUSE)
		doctor_warn(doctor, "set pool.base_port to where so many ports are free",
			"%u of the slots' ports at %s are in use, %u first: those slots will have others",
			taken, config->pool.bind_host, example);
	else if (taken > 0)
		doctor_fail(doctor, "set pool.bind_host and base_port to what this user may have",
			"%u of the slots' ports cannot be had at %s, %u first: %s", taken,
			config->pool.bind_host, example, strerrordesc_np(why));
	else
		doctor_ok(doctor, "ports %u to %u are free at %s", first,
			first + config->pool.slots - 1, config->pool.bind_host);
}

static void check_outgoing_range(struct doctor *doctor)
{
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	unsigned from, to, first = doctor->config->pool.base_port;

	if (!doctor_read(doctor, "/proc/sys/net/ipv4/ip_local_port_range", &text) ||
		sscanf(text.data, "%u %u", &from, &to) != 2)
		return;
	if (first <= to && from < first + doctor->config->pool.slots)
		doctor_warn(doctor,
			"put them into net.ipv4.ip_local_reserved_ports, or set another pool.base_port",
			"some of the slots' ports are among those that outgoing connections take (%u to %u)",
			from, to);
}

void check_ports(struct doctor *doctor)
{
	const struct config *config = doctor->config;
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
	struct addrinfo *address;

	if (config->slot.network == NETWORK_NONE) {
		doctor_ok(doctor, "network = none: none are needed");
		return;
	}
	if (config->pool.base_port + config->pool.slots - 1 > 65535)
		doctor_fail(doctor, "lower pool.base_port or pool.slots",
			"%u slots from port %u on end above 65535", config->pool.slots,
			config->pool.base_port);
	check_outgoing_range(doctor);
	if (doctor->mounted) {
		doctor_ok(doctor, "the daemon that runs has them");
		return;
	}
	if (getaddrinfo(
		    strcmp(config->pool.bind_host, "*") == 0 ? "0.0.0.0" : config->pool.bind_host,
		    NULL, &hints, &address) != 0) {
		doctor_fail(doctor, "set pool.bind_host to an address of this host",
			"'%s' is no address", config->pool.bind_host);
		return;
	}
	try_ports(doctor, address);
	freeaddrinfo(address);
}
