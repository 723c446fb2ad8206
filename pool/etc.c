/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/etc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/io.h"
#include "base/strbuf.h"
#include "config/settings.h"
#include "pool/environment.h"
#include "pool/etc-private.h"
#include "pool/net.h"

/* What the dynamic linker, resolvers and TLS libraries need. Absent ones are passed over. */
static const char *const copied[] = {
	"crypto-policies",
	"debian_version",
	"gai.conf",
	"host.conf",
	"ld.so.cache",
	"ld.so.conf",
	"ld.so.conf.d",
	"localtime",
	"mime.types",
	"os-release",
	"protocols",
	"services",
	"ssl/openssl.cnf",
	"timezone",
};

const char *const etc_bound[] = {
	"alternatives",
	"ca-certificates/extracted",
	"pki/ca-trust/extracted",
	"pki/tls/certs",
	"ssl/certs",
	NULL,
};

/* Only a slot in the host's network has use for its servers' addresses. */
static const char *const copied_with_network[] = {"hosts", "resolv.conf"};

/* A file that the host reaches by a link out of /etc, like systemd's resolv.conf, is copied as what
 * it says. */
static int copy_text(int from_dir, int to_dir, const char *name)
{
	CLEANUP(closep) int from = openat(from_dir, name, O_RDONLY | O_CLOEXEC);
	CLEANUP(closep) int to = -1;

	if (from < 0)
		return 0;
	to = etc_create_file(to_dir, name);
	if (to < 0)
		return to;
	return sendfile(to, from, NULL, 1 << 20) < 0 ? -errno : 0;
}

/* A place to bind to, or the link that stands there on the host. */
static int make_place(int from_dir, int to_dir, const char *name, int depth)
{
	struct stat st;
	int fd;

	if (fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISLNK(st.st_mode))
		return etc_copy_link(from_dir, to_dir, name);
	fd = S_ISDIR(st.st_mode) ? etc_create_directory(to_dir, name) : 0;
	if (fd > 0)
		(void)close(fd);
	return fd < 0 ? fd : 0;
}

typedef int make_fn(int from_dir, int to_dir, const char *name, int depth);

/* "ssl/certs": the directories above the last part are made, not copied. */
static int make_path(int host, int etc, const char *path, make_fn *make)
{
	CLEANUP(closep) int from = dup(host);
	CLEANUP(closep) int to = dup(etc);
	char part[256];

	for (const char *slash; (slash = strchr(path, '/')); path = slash + 1) {
		int next_from, next_to;

		(void)snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		next_from = openat(from, part, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (next_from < 0)
			return 0;
		closep(&from);
		from = next_from;
		next_to = etc_create_directory(to, part);
		if (next_to < 0)
			return next_to;
		closep(&to);
		to = next_to;
	}
	return make(from, to, path, 0);
}

static int write_text(int etc, const char *name, const struct strbuf *text)
{
	CLEANUP(closep) int fd = etc_create_file(etc, name);

	if (strbuf_failed(text))
		return -ENOMEM;
	if (fd < 0)
		return fd;
	return write(fd, text->data, text->size) == (ssize_t)text->size ? 0 : -EIO;
}

static void passwd_text(const struct config *config, struct strbuf *text)
{
	const char *home = INSIDE_HOME ":/bin/sh";

	if (config->slot.uid != 0)
		strbuf_addf(text, "root:x:0:0:root:/root:/usr/sbin/nologin\n");
	strbuf_addf(text, "%s:x:%u:%u:agent:%s\n", config->slot.uid == 0 ? "root" : "agent",
		config->slot.uid, config->slot.gid, home);
	strbuf_adds(text, "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
}

static void group_text(const struct config *config, struct strbuf *text)
{
	if (config->slot.gid != 0)
		strbuf_adds(text, "root:x:0:\n");
	strbuf_addf(text, "%s:x:%u:\n", config->slot.gid == 0 ? "root" : "agent", config->slot.gid);
	strbuf_adds(text, "nogroup:x:65534:\n");
}

static void hosts_text(const struct config *config, struct strbuf *text)
{
	net_add_hosts(config, text);
	strbuf_adds(text, "127.0.0.1\tlocalhost slot\n::1\tlocalhost slot\n");
}

static void resolv_text(const struct config *config, struct strbuf *text)
{
	if (config->slot.network == NETWORK_NAT)
		strbuf_adds(text, "nameserver " NET_NAT_RESOLVER "\n");
	else
		strbuf_adds(text, "# no network, no servers\n");
}

static void hostname_text(const struct config *config, struct strbuf *text)
{
	strbuf_adds(text, "slot\n");
}

static void nsswitch_text(const struct config *config, struct strbuf *text)
{
	strbuf_adds(text,
		"passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
		"protocols: files\nservices: files\n");
}

static const struct {
	const char *name;
	void (*text)(const struct config *config, struct strbuf *text);
	bool replaces; /* what a root file system has; the others are for want of one there */
} written[] = {
	{"passwd", passwd_text},
	{"group", group_text},
	{"hosts", hosts_text, true}, /* unless it was copied from the host */
	{"resolv.conf", resolv_text, true},
	{"hostname", hostname_text, true},
	{"nsswitch.conf", nsswitch_text},
};

/* What is there already stays. */
static int write_own(const struct config *config, int etc, bool only_replacing)
{
	int r = 0;

	for (size_t i = 0; i < sizeof(written) / sizeof(*written) && r == 0; i++) {
		CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

		if (only_replacing && !written[i].replaces)
			continue;
		written[i].text(config, &text);
		r = write_text(etc, written[i].name, &text);
		if (r == -EEXIST)
			r = 0;
	}
	return r;
}

static int copy_network(const struct config *config, int host, int etc)
{
	int r = 0;

	for (size_t i = 0; i < 2 && r == 0 && config->slot.network == NETWORK_HOST; i++)
		r = copy_text(host, etc, copied_with_network[i]);
	return r;
}

static int finish(const struct config *config, int etc)
{
	int r = write_own(config, etc, false);

	if (r == 0 && symlinkat("/proc/self/mounts", etc, "mtab") < 0 && errno != EEXIST)
		r = -errno;
	return r;
}

static int fill_from_host(const struct config *config, int host, int etc, const char **ret_name)
{
	int r = 0;

	for (size_t i = 0; i < sizeof(copied) / sizeof(*copied) && r == 0; i++) {
		*ret_name = copied[i];
		r = make_path(host, etc, copied[i], etc_copy_entry);
	}
	for (const char *const *name = etc_bound; *name && r == 0; name++) {
		*ret_name = *name;
		r = make_path(host, etc, *name, make_place);
	}
	if (r < 0)
		return r;
	*ret_name = "passwd and others";
	r = copy_network(config, host, etc);
	return r < 0 ? r : finish(config, etc);
}

/* ---- of a root file system ---- */

/* "agent:x:1000:..." and "agent:x:1000:" alike: the third field is the number. */
static bool has_id(const char *text, unsigned id)
{
	unsigned found;

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "%*[^:\n]:%*[^:\n]:%u", &found) == 1 && found == id)
			return true;
	}
	return false;
}

/* The image's users and, where it has none of that number, the one that commands run as. */
static int add_user(int image, int etc, const char *name, unsigned id, const char *line)
{
	CLEANUP(closep)
	int from = openat(image, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;
	int r = from < 0 ? 0 : read_all(from, &text);

	if (r < 0 || text.size == 0 || has_id(text.data, id))
		return r; /* copied as it is, or written */
	if (text.data[text.size - 1] != '\n')
		strbuf_addc(&text, '\n');
	strbuf_adds(&text, line);
	return write_text(etc, name, &text);
}

static int add_users(const struct config *config, int image, int etc)
{
	char line[128];
	int r;

	(void)snprintf(line, sizeof(line), "agent:x:%u:%u:agent:" INSIDE_HOME ":/bin/sh\n",
		config->slot.uid, config->slot.gid);
	r = add_user(image, etc, "passwd", config->slot.uid, line);
	if (r < 0)
		return r;
	(void)snprintf(line, sizeof(line), "agent:x:%u:\n", config->slot.gid);
	return add_user(image, etc, "group", config->slot.gid, line);
}

/* A login shell, which commands are run by, would set its own PATH over the caller's. */
static bool is_left_out(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, "profile");
}

/* Everything of the image that is not there yet. */
static int copy_rest(int image, int etc)
{
	CLEANUP(closedirp) DIR *entries = NULL;
	struct dirent *entry;
	int fd = openat(image, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = 0;

	entries = fd < 0 ? NULL : fdopendir(fd); /* owns `fd` */
	if (!entries) {
		closep(&fd);
		return -ENOMEM;
	}
	while (r == 0 && (entry = readdir(entries))) {
		if (!is_left_out(entry->d_name))
			r = etc_copy_entry(image, etc, entry->d_name, 0);
		if (r == -EEXIST)
			r = 0;
	}
	return r;
}

static int fill_from_image(const struct config *config, int host, int image, int etc)
{
	int r = copy_network(config, host, etc);

	if (r == 0)
		r = write_own(config, etc, true);
	if (r == 0 && image >= 0)
		r = add_users(config, image, etc);
	if (r == 0 && image >= 0)
		r = copy_rest(image, etc);
	return r < 0 ? r : finish(config, etc);
}

/* -1: it has none, or a link, which leads who knows where. */
static int open_image(const char *rootfs)
{
	CLEANUP(closep) int root = open(rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return root < 0 ? -1 : openat(root, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int etc_create(const struct config *config, const char *rootfs, const char *path, struct error *err)
{
	CLEANUP(closep) int host = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(closep) int image = rootfs ? open_image(rootfs) : -1;
	CLEANUP(closep) int etc = -1;
	const char *name = "";
	int r = etc_remove(path);

	if (r < 0)
		return error_errno(err, -r, "cannot remove the old '%s'", path);
	if (mkdir(path, 0755) < 0)
		return error_errno(err, errno, "cannot make '%s'", path);
	etc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (host < 0 || etc < 0 || fchmod(etc, 0755) < 0)
		return error_errno(err, errno, "cannot open '%s'", path);
	r = rootfs ? fill_from_image(config, host, image, etc)
		   : fill_from_host(config, host, etc, &name);
	if (r < 0)
		return error_errno(err, -r, "cannot make '%s/%s'", path, name);
	return 0;
}
