/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/etc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "config/settings.h"
#include "pool/environment.h"

enum { DEPTH_MAX = 4 };

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

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static int remove_tree(const char *path)
{
	if (nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}

/* Modes are set, not asked for: the daemon's umask may be any. */
static int create_file(int dir, const char *name)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		return -errno;
	(void)fchmod(fd, 0644);
	return fd;
}

static int create_directory(int parent, const char *name)
{
	int fd;

	if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	(void)fchmod(fd, 0755);
	return fd;
}

static int copy_file(int from_dir, int to_dir, const char *name)
{
	CLEANUP(closep) int from = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	CLEANUP(closep) int to = -1;
	ssize_t n;

	if (from < 0)
		return -errno;
	to = create_file(to_dir, name);
	if (to < 0)
		return to;
	do
		n = sendfile(to, from, NULL, 1 << 20);
	while (n > 0);
	return n < 0 ? -errno : 0;
}

static int copy_link(int from_dir, int to_dir, const char *name)
{
	char target[4096];
	ssize_t n = readlinkat(from_dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	return symlinkat(target, to_dir, name) < 0 ? -errno : 0;
}

static int copy_entry(int from_dir, int to_dir, const char *name, int depth);

static int copy_directory(int from_dir, int to_dir, const char *name, int depth)
{
	CLEANUP(closep) int to = -1;
	CLEANUP(closedirp) DIR *entries = NULL;
	struct dirent *entry;
	int from = openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = 0;

	if (from < 0)
		return -errno;
	entries = fdopendir(from); /* owns `from` */
	if (!entries) {
		(void)close(from);
		return -ENOMEM;
	}
	to = create_directory(to_dir, name);
	if (to < 0)
		return to;
	while (r == 0 && (entry = readdir(entries))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = copy_entry(from, to, entry->d_name, depth + 1);
	}
	return r;
}

/* Passes over whatever "others" may not read on the host: a root daemon would open it for
 * everybody. */
static int copy_entry(int from_dir, int to_dir, const char *name, int depth)
{
	struct stat st;

	if (fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -errno;
	if (S_ISLNK(st.st_mode))
		return copy_link(from_dir, to_dir, name);
	if (S_ISREG(st.st_mode) && (st.st_mode & S_IROTH))
		return copy_file(from_dir, to_dir, name);
	if (S_ISDIR(st.st_mode) && (st.st_mode & (S_IROTH | S_IXOTH)) == (S_IROTH | S_IXOTH) &&
		depth < DEPTH_MAX)
		return copy_directory(from_dir, to_dir, name, depth);
	return 0;
}

/* A file that the host reaches by a link out of /etc, like systemd's resolv.conf, is copied as what
 * it says. */
static int copy_text(int from_dir, int to_dir, const char *name)
{
	CLEANUP(closep) int from = openat(from_dir, name, O_RDONLY | O_CLOEXEC);
	CLEANUP(closep) int to = -1;

	if (from < 0)
		return 0;
	to = create_file(to_dir, name);
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
		return copy_link(from_dir, to_dir, name);
	fd = S_ISDIR(st.st_mode) ? create_directory(to_dir, name) : 0;
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
		next_to = create_directory(to, part);
		if (next_to < 0)
			return next_to;
		closep(&to);
		to = next_to;
	}
	return make(from, to, path, 0);
}

static int write_text(int etc, const char *name, const struct strbuf *text)
{
	CLEANUP(closep) int fd = create_file(etc, name);

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
	strbuf_adds(text, "127.0.0.1\tlocalhost slot\n::1\tlocalhost slot\n");
}

static void resolv_text(const struct config *config, struct strbuf *text)
{
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
} written[] = {
	{"passwd", passwd_text},
	{"group", group_text},
	{"hosts", hosts_text}, /* unless it was copied */
	{"resolv.conf", resolv_text},
	{"hostname", hostname_text},
	{"nsswitch.conf", nsswitch_text},
};

static int write_own(const struct config *config, int etc)
{
	int r = 0;

	for (size_t i = 0; i < sizeof(written) / sizeof(*written) && r == 0; i++) {
		CLEANUP(strbuf_fini) struct strbuf text = STRBUF_INIT;

		written[i].text(config, &text);
		r = write_text(etc, written[i].name, &text);
		if (r == -EEXIST)
			r = 0;
	}
	return r;
}

static int fill(const struct config *config, int host, int etc, const char **ret_name)
{
	int r = 0;

	for (size_t i = 0; i < sizeof(copied) / sizeof(*copied) && r == 0; i++) {
		*ret_name = copied[i];
		r = make_path(host, etc, copied[i], copy_entry);
	}
	for (const char *const *name = etc_bound; *name && r == 0; name++) {
		*ret_name = *name;
		r = make_path(host, etc, *name, make_place);
	}
	for (size_t i = 0; i < 2 && r == 0 && config->slot.network == NETWORK_HOST; i++) {
		*ret_name = copied_with_network[i];
		r = copy_text(host, etc, copied_with_network[i]);
	}
	if (r < 0)
		return r;
	*ret_name = "passwd and others";
	r = write_own(config, etc);
	if (r == 0 && symlinkat("/proc/self/mounts", etc, "mtab") < 0)
		r = -errno;
	return r;
}

int etc_create(const struct config *config, const char *path, struct error *err)
{
	CLEANUP(closep) int host = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(closep) int etc = -1;
	const char *name = "";
	int r = remove_tree(path);

	if (r < 0)
		return error_errno(err, -r, "cannot remove the old '%s'", path);
	if (mkdir(path, 0755) < 0)
		return error_errno(err, errno, "cannot make '%s'", path);
	etc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (host < 0 || etc < 0 || fchmod(etc, 0755) < 0)
		return error_errno(err, errno, "cannot open '%s'", path);
	r = fill(config, host, etc, &name);
	if (r < 0)
		return error_errno(err, -r, "cannot make '%s/%s'", path, name);
	return 0;
}
