/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The slot's side of its network. Each target of `reach` gets its address on the loopback interface
 * here and a socket that listens there, which goes to the daemon: from then on init has no part in
 * it. The addresses are the targets' own, so what a program inside has been told to connect to is
 * what it connects to.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/init/init.h"

enum { LISTENER_BACKLOG = 256, V4_SIZE = 4, V6_SIZE = 16 };

struct new_address {
	struct nlmsghdr header;
	struct ifaddrmsg address;
	char attributes[2 * RTA_SPACE(V6_SIZE)];
};

static void add_attribute(
	struct new_address *message, unsigned short type, const void *value, size_t size)
{
	struct rtattr *at =
		(struct rtattr *)((char *)message + NLMSG_ALIGN(message->header.nlmsg_len));

	at->rta_type = type;
	at->rta_len = (unsigned short)RTA_LENGTH(size);
	memcpy(RTA_DATA(at), value, size);
	message->header.nlmsg_len =
		NLMSG_ALIGN(message->header.nlmsg_len) + (uint32_t)RTA_ALIGN(at->rta_len);
}

static int acknowledged(int netlink)
{
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
		char rest[256];
	} reply;
	ssize_t size = recv(netlink, &reply, sizeof(reply), 0);

	if (size < 0)
		return -errno;
	if (size < (ssize_t)(sizeof(reply.header) + sizeof(reply.error)) ||
		reply.header.nlmsg_type != NLMSG_ERROR)
		return -EPROTO;
	return reply.error.error;
}

/* Without a look for others who have it: there are none on this interface. */
static int add_address(int netlink, const struct init_target *target)
{
	size_t size = target->family == AF_INET ? V4_SIZE : V6_SIZE;
	struct new_address message = {
		.header =
			{
				.nlmsg_len = NLMSG_LENGTH(sizeof(message.address)),
				.nlmsg_type = RTM_NEWADDR,
				.nlmsg_flags =
					NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE,
			},
		.address =
			{
				.ifa_family = (unsigned char)target->family,
				.ifa_prefixlen = (unsigned char)(size * 8),
				.ifa_flags = IFA_F_NODAD,
				.ifa_scope = RT_SCOPE_UNIVERSE,
				.ifa_index = if_nametoindex("lo"),
			},
	};

	if (message.address.ifa_index == 0)
		return -ENODEV;
	add_attribute(&message, IFA_LOCAL, target->address, size);
	add_attribute(&message, IFA_ADDRESS, target->address, size);
	if (send(netlink, &message, message.header.nlmsg_len, 0) < 0)
		return -errno;
	return acknowledged(netlink);
}

/* These are there as soon as the interface is up. */
static bool is_loopback(const struct init_target *target)
{
	static const uint8_t v6[V6_SIZE] = {[V6_SIZE - 1] = 1};

	return target->family == AF_INET ? target->address[0] == 127
					 : memcmp(target->address, v6, sizeof(v6)) == 0;
}

static int bind_to(int fd, const struct init_target *target)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(target->port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(target->port)};
	int r;

	memcpy(&v4.sin_addr, target->address, sizeof(v4.sin_addr));
	memcpy(&v6.sin6_addr, target->address, sizeof(v6.sin6_addr));
	if (target->family == AF_INET)
		r = bind(fd, (struct sockaddr *)&v4, sizeof(v4));
	else
		r = bind(fd, (struct sockaddr *)&v6, sizeof(v6));
	return r < 0 ? -errno : 0;
}

int network_socket(bool v6)
{
	int fd = socket(
		v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);

	return fd < 0 ? -errno : fd;
}

static int send_fd(enum init_report_kind kind, uint32_t number, int fd)
{
	struct init_report report = {.version = INIT_PROTOCOL_VERSION, .kind = kind, .id = number};

	return report_send(&report, fd) ? 0 : -errno;
}

static int open_target(int netlink, const struct init_target *target, uint32_t number)
{
	int fd = network_socket(target->family == AF_INET6);
	int r = fd < 0 ? fd : 0;

	if (r == 0 && !is_loopback(target))
		r = add_address(netlink, target);
	if (r == 0)
		r = bind_to(fd, target);
	if (r == 0 && listen(fd, LISTENER_BACKLOG) < 0)
		r = -errno;
	if (r < 0 && target->optional)
		r = 0;
	else if (r == 0)
		r = send_fd(INIT_LISTENER, number, fd);
	if (fd >= 0)
		(void)close(fd);
	return r;
}

static int send_namespaces(void)
{
	static const char *const files[INIT_NAMESPACE_COUNT] = {
		[INIT_NAMESPACE_NETWORK] = "/proc/self/ns/net",
		[INIT_NAMESPACE_USER] = "/proc/self/ns/user",
	};
	int r = 0;

	for (uint32_t i = 0; i < INIT_NAMESPACE_COUNT && r == 0; i++) {
		int fd = open(files[i], O_RDONLY | O_CLOEXEC);

		r = fd < 0 ? -errno : send_fd(INIT_NAMESPACE, i, fd);
		if (fd >= 0)
			(void)close(fd);
	}
	return r;
}

int network_open(const struct init_setup *options, const struct init_target *targets)
{
	int netlink, r = 0;

	if (options->network & INIT_NETWORK_LOW_PORTS)
		r = write_file("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
	if (r == 0 && options->network & INIT_NETWORK_NAMESPACES)
		r = send_namespaces();
	if (r < 0 || options->target_count == 0)
		return r;
	netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (netlink < 0)
		return -errno;
	for (uint32_t i = 0; i < options->target_count && r == 0; i++)
		r = open_target(netlink, &targets[i], i);
	(void)close(netlink);
	return r;
}
