/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The host's network, seen from a slot without one. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <linux/vm_sockets.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/security/hostile.h"

static bool can_connect(int family, int type, const void *address, socklen_t size)
{
	int fd = socket(family, type | SOCK_CLOEXEC, 0);
	bool connected = fd >= 0 && connect(fd, address, size) == 0;

	(void)close(fd);
	return connected;
}

static struct sockaddr_in ipv4(const char *text, int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	(void)inet_pton(AF_INET, text, &address.sin_addr);
	return address;
}

/* By its own name for it, and by the one that slirp4netns has. */
static const char *connect_to_host(const struct decoys *decoys)
{
	static const char *const names[] = {"127.0.0.1", "10.0.2.2", "0.0.0.0", NULL};

	for (const char *const *name = names; *name; name++) {
		struct sockaddr_in address = ipv4(*name, decoys->port);

		if (can_connect(AF_INET, SOCK_STREAM, &address, sizeof(address)))
			return got("connected to the host's port at %s", *name);
	}
	return NULL;
}

/* A connected datagram socket sends nothing; it needs a route, though. */
static const char *find_route(const struct decoys *decoys)
{
	static const char *const targets[] = {
		"169.254.169.254", "8.8.8.8", "10.0.0.1", "192.168.0.1", NULL};

	for (const char *const *target = targets; *target; target++) {
		struct sockaddr_in address = ipv4(*target, 53);

		if (can_connect(AF_INET, SOCK_DGRAM, &address, sizeof(address)))
			return got("a route to %s", *target);
	}
	return NULL;
}

static const char *list_interfaces(const struct decoys *decoys)
{
	struct if_nameindex *names = if_nameindex();

	for (struct if_nameindex *name = names; name && name->if_index; name++) {
		if (strcmp(name->if_name, "lo") != 0)
			return got("interface %s", name->if_name);
	}
	if (names)
		if_freenameindex(names);
	return NULL;
}

static const char *connect_to_abstract(const struct decoys *decoys)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(decoys->abstract_name);

	memcpy(address.sun_path + 1, decoys->abstract_name, length);
	if (can_connect(AF_UNIX, SOCK_STREAM, &address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)))
		return got("connected to the host's abstract socket");
	return NULL;
}

static const char *list_abstract(const struct decoys *decoys)
{
	return file_has("/proc/net/unix", decoys->abstract_name) ? got("its name is listed") : NULL;
}

/* Not a socket of the host's: what Landlock must leave alone. */
static const char *use_own(const struct decoys *decoys)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0own"};
	socklen_t size = offsetof(struct sockaddr_un, sun_path) + 4;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		(void)setsid();
		for (;;)
			(void)pause();
	}
	if (pid < 0 || kill(pid, SIGTERM) < 0 || waitpid(pid, &status, 0) < 0)
		return NULL;
	if (bind(fd, (struct sockaddr *)&name, size) < 0 || listen(fd, 1) < 0 ||
		!can_connect(AF_UNIX, SOCK_STREAM, &name, size))
		return NULL;
	return got("its own processes and sockets can be reached");
}

const struct attempt landlock_control[] = {{"control_of_landlock", use_own}, {NULL, NULL}};

/* Not part of a network namespace: a socket of this family would reach the hypervisor. */
static const char *use_vsock(const struct decoys *decoys)
{
	struct sockaddr_vm address = {
		.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = 54321};
	int fd = socket(AF_VSOCK, SOCK_STREAM, 0);

	if (fd < 0)
		return NULL;
	return bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0
		       ? got("AF_VSOCK binds")
		       : got("AF_VSOCK sockets");
}

static const char *use_other_families(const struct decoys *decoys)
{
	for (int family = 0; family < 64; family++) {
		if (family == AF_UNIX || family == AF_INET || family == AF_INET6 ||
			family == AF_NETLINK)
			continue;
		for (int type = SOCK_STREAM; type <= SOCK_SEQPACKET; type++) {
			if (socket(family, type, 0) >= 0)
				return got("socket of family %d", family);
		}
	}
	if (socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) >= 0 ||
		socket(AF_INET6, SOCK_RAW, IPPROTO_TCP) >= 0)
		return got("raw socket");
	return NULL;
}

static const char *raise_interface(const struct decoys *decoys)
{
	struct {
		struct nlmsghdr head;
		struct ifaddrmsg body;
	} request = {
		.head = {.nlmsg_len = sizeof(request),
			.nlmsg_type = RTM_NEWADDR,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE},
		.body = {.ifa_family = AF_INET, .ifa_prefixlen = 8, .ifa_index = 1},
	};
	struct {
		struct nlmsghdr head;
		struct nlmsgerr body;
	} answer = {0};
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);

	if (fd < 0 || send(fd, &request, sizeof(request), 0) < 0 ||
		recv(fd, &answer, sizeof(answer), 0) < 0)
		return NULL;
	return answer.body.error == -EPERM ? NULL
					   : got("RTM_NEWADDR: %s", strerror(-answer.body.error));
}

const struct attempt network_attempts[] = {
	{"the_hosts_loopback_cannot_be_reached", connect_to_host},
	{"there_is_no_route_to_anywhere", find_route},
	{"there_is_no_interface_but_lo", list_interfaces},
	{"the_hosts_abstract_sockets_are_not_there", connect_to_abstract},
	{"the_hosts_abstract_names_are_not_listed", list_abstract},
	{"vsock_cannot_be_used", use_vsock},
	{"no_other_family_of_sockets_can_be_used", use_other_families},
	{"the_slots_own_network_cannot_be_changed", raise_interface},
	{NULL, NULL},
};
