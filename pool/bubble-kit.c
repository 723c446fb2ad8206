/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "config/settings.h"
#include "pool/bubble-private.h"
#include "pool/init/image.h"
#include "pool/net.h"
#include "pool/syscall-filter.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* Kernels before 6.3 do not know MFD_EXEC; on later ones the administrator may demand it
 * (vm.memfd_noexec). */
static int create_executable(void)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create("dressage-init", flags | MFD_EXEC);

	return fd < 0 && errno == EINVAL ? memfd_create("dressage-init", flags) : fd;
}

/* Readable for others: a program that its user cannot read starts non-dumpable and could not write
 * its own uid_map. */
static int open_image(int *ret_fd, struct error *err)
{
	CLEANUP(closep) int fd = create_executable();
	int high;

	if (fd < 0 || fchmod(fd, 0777) < 0 ||
		write_all(fd, init_image_begin, (size_t)(init_image_end - init_image_begin)) < 0)
		return error_errno(err, errno, "cannot lay out init");
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return error_errno(err, errno, "cannot seal init");
	high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_HIGH_FD);
	if (high < 0)
		return error_errno(err, errno, "cannot keep init open");
	*ret_fd = high;
	return 0;
}

static int open_null(int *ret_fd, struct error *err)
{
	CLEANUP(closep) int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_HIGH_FD);

	if (high < 0)
		return error_errno(err, errno, "cannot open /dev/null");
	*ret_fd = high;
	return 0;
}

/* The first executable file of that name along PATH; a name with a slash is taken as it is. */
static int find_program(const char *name, char **ret_path, struct error *err)
{
	const char *path = getenv("PATH");
	const char *end;

	if (strchr(name, '/')) {
		*ret_path = access(name, X_OK) == 0 ? realpath(name, NULL) : NULL;
		return *ret_path ? 0
				 : error_errno(err, errno, "slot.bwrap: cannot execute '%s'", name);
	}
	for (path = path ? path : "/usr/local/bin:/usr/bin:/bin";; path = end + 1) {
		CLEANUP(freep) char *full = NULL;

		end = strchrnul(path, ':');
		if (asprintf(&full, "%.*s/%s", (int)(end - path), path, name) < 0)
			return error_set(err, ENOMEM, "no memory");
		if (full[0] == '/' && access(full, X_OK) == 0) {
			*ret_path = take_ptr(&full);
			return 0;
		}
		if (*end == '\0')
			return error_set(err, ENOENT,
				"slot.bwrap: '%s' is not in PATH; on Debian: apt-get install bubblewrap",
				name);
	}
}

static void fill_setup(struct bubble_kit *kit)
{
	const struct config *config = kit->config;

	kit->setup = (struct init_setup){
		.version = INIT_PROTOCOL_VERSION,
		.kind = INIT_SETUP,
		.uid = config->slot.uid,
		.gid = config->slot.gid,
		.processes = config->slot.pids_max,
		.open_files = config->slot.nofile,
		.file_size = config->slot.file_size,
		.filter_count = (uint32_t)(kit->filter_size / 8),
		.target_count = kit->targets.inside_count,
		.network = (net_is_forwarded(config) ? INIT_NETWORK_LOW_PORTS : 0) |
			   (config->slot.network == NETWORK_NAT ? INIT_NETWORK_NAMESPACES : 0),
	};
	kit->setup.ranged = bubble_is_ranged(config);
	/* an overlay's layer is on it: the exec helper mounts it */
	if (config->slot.storage == STORAGE_TMPFS && !config->slot.overlay) {
		kit->setup.storage_size = config->slot.size;
		kit->setup.storage_inodes = config->slot.inodes;
	}
}

/* What init passes off as a socket of the slot's must not be one of ours. Linux 5.14. */
static uint64_t network_cookie(void)
{
	CLEANUP(closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t cookie = 0;
	socklen_t size = sizeof(cookie);

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) < 0)
		return 0;
	return cookie;
}

static int fill_kit(struct bubble_kit *kit, const char *etc_path, struct error *err)
{
	int r = open_image(&kit->image_fd, err);

	if (r == 0)
		r = open_null(&kit->null_fd, err);
	if (r == 0)
		r = find_program(kit->config->slot.bwrap, &kit->bwrap, err);
	if (r == 0)
		r = syscall_filter_create(&kit->filter, &kit->filter_size, err);
	if (r == 0)
		r = bubble_images_create(kit, etc_path, err);
	if (r == 0 && net_is_forwarded(kit->config))
		r = net_targets_parse(&kit->config->slot.reach, &kit->targets, err);
	if (r < 0)
		return r;
	kit->network_cookie = network_cookie();
	fill_setup(kit);
	return 0;
}

int bubble_kit_create(const struct config *config, const char *etc_path,
	struct bubble_kit **ret_kit, struct error *err)
{
	struct bubble_kit *kit;
	int r;

	kit = calloc(1, sizeof(*kit));
	if (!kit)
		return error_set(err, ENOMEM, "no memory for the slots' kit");
	kit->config = config;
	kit->image_fd = kit->null_fd = -1;
	r = fill_kit(kit, etc_path, err);
	if (r < 0) {
		bubble_kit_destroy(kit);
		return r;
	}
	*ret_kit = kit;
	return 0;
}

void bubble_kit_destroy(struct bubble_kit *kit)
{
	if (!kit)
		return;
	closep(&kit->image_fd);
	closep(&kit->null_fd);
	free(kit->bwrap);
	bubble_images_destroy(kit);
	free(kit->filter);
	net_targets_fini(&kit->targets);
	free(kit);
}
