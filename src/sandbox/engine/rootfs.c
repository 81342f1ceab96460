/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building the root file system that shows the host, and the parts that all roots share.
 *
 * The order matters. First come the read-only entries of the host, while the new root is an ordinary directory tree on a
 * fresh tmpfs; then one call makes all of that read-only; then writable mounts and devices go on top. Every mount costs every
 * start some 20 microseconds, half of them when it is removed, so there are no more than needed.
 */
#include "sandbox/engine/rootfs.h"

#include "base/fd.h"
#include "sandbox/engine/rootfs_int.h"
#include "sys/mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define ROOT_BYTES (128ULL << 10) /* for the root's own few files */
#define RUNSC_BYTES (8ULL << 20)  /* for runsc's state and bundle */

const char *rootfs_user(uid_t uid)
{
	return uid == 0 ? "root" : "agent";
}

const char *rootfs_home(uid_t uid)
{
	return uid == 0 ? "/root" : "/home/agent";
}

/* Directories of a usual root, by mode. */
static const struct {
	const char *path;
	mode_t mode;
} root_dirs[] = {
	{ "usr", 0755 },       { "etc", 0755 },	     { "etc/ssl", 0755 }, { "dev", 0755 },
	{ "dev/pts", 0755 },   { "dev/shm", 01777 }, { "proc", 0555 },	  { "sys", 0555 },
	{ "tmp", 01777 },      { "run", 0755 },	     { "home", 0755 },	  { "root", 0700 },
	{ "var", 0755 },       { "var/tmp", 0755 },  { "opt", 0755 },	  { "mnt", 0755 },
	{ "workspace", 0755 },
};

/* Links into /usr on a merged system; directories on an old one. */
static const char *const usr_links[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

/*
 * The entries of the host's /etc that programs need, and nothing more: no accounts, no keys, no machine id, no resolver, no
 * configuration that may carry a token. Directories and files are shown read-only; links are copied as links.
 */
static const char *const etc_entries[] = {
	"ld.so.cache",	 /* where the shared libraries are */
	"alternatives",	 /* which of several programs has a name */
	"ssl/certs",	 /* trusted CAs for TLS (Debian, Ubuntu) */
	"pki/tls/certs", /* the same on Fedora */
	"pki/ca-trust/extracted",
	"localtime",	   /* the time zone */
	"services",	   /* names of ports */
	"fonts",	   /* browsers draw text */
	"java-17-openjdk", /* Java cannot start without its own */
	"java-21-openjdk",
};

int rootfs_fail(struct err *e, int code, const char *what)
{
	return err_sys(e, code, "cannot build the sandbox's file system (%s)", what);
}

int rootfs_make_parents(const char *path)
{
	const char *slash = strrchr(path, '/');
	char parent[PATH_MAX];

	if (!slash || slash == path || (slash - path == 3 && str_starts(path, "etc/")))
		return 0;
	if (slash - path >= (ptrdiff_t)sizeof(parent))
		return -ENAMETOOLONG;
	memcpy(parent, path, (size_t)(slash - path));
	parent[slash - path] = '\0';
	return fd_mkdir_p(AT_FDCWD, parent, 0755);
}

int rootfs_make_empty(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);

	if (fd < 0)
		return errno == EEXIST ? 0 : -errno;
	fd_close(fd);
	return 0;
}

/* Shows one entry of the host at the same place: a link as a link, a file or directory as a bind mount. */
static int show_host_entry(const char *host, const char *dst)
{
	char link[PATH_MAX];
	struct stat st;
	ssize_t n;
	int r;

	if (lstat(host, &st) < 0)
		return errno == ENOENT || errno == EACCES ? 0 : -errno;
	r = rootfs_make_parents(dst);
	if (r < 0)
		return r;
	if (S_ISLNK(st.st_mode)) {
		n = readlink(host, link, sizeof(link) - 1);
		if (n < 0)
			return -errno;
		link[n] = '\0';
		return symlink(link, dst) < 0 && errno != EEXIST ? -errno : 0;
	}
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return 0;
	if (S_ISDIR(st.st_mode) && mkdir(dst, 0755) < 0 && errno != EEXIST)
		return -errno;
	r = S_ISREG(st.st_mode) ? rootfs_make_empty(dst) : 0;
	return r < 0 ? r : mnt_bind(host, dst);
}

int rootfs_write_text(const char *path, const char *text)
{
	autoclose int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);

	return fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
}

int rootfs_write_names(const struct spec *s, const char *hosts, const char *hostname)
{
	autobuf struct buf b = BUF_INIT;
	int r;

	buf_addf(&b, "127.0.0.1 localhost %s\n::1 localhost\n", s->hostname);
	r = buf_error(&b) ? -ENOMEM : rootfs_write_text(hosts, buf_cstr(&b));
	if (r < 0)
		return r;
	buf_clear(&b);
	buf_addf(&b, "%s\n", s->hostname);
	return buf_error(&b) ? -ENOMEM : rootfs_write_text(hostname, buf_cstr(&b));
}

/* Files with made-up content: the host's own would disclose the host. */
static int write_etc_files(const struct spec *s)
{
	autobuf struct buf b = BUF_INIT;
	int r;

	buf_addf(&b, "root:x:0:0:root:/root:/bin/sh\n");
	if (s->uid != 0)
		buf_addf(&b, "agent:x:%u:%u:agent:/home/agent:/bin/sh\n", s->uid, s->gid);
	buf_addf(&b, "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
	r = buf_error(&b) ? -ENOMEM : rootfs_write_text("etc/passwd", buf_cstr(&b));
	if (r < 0)
		return r;
	buf_clear(&b);
	buf_addf(&b, "root:x:0:\n");
	if (s->gid != 0)
		buf_addf(&b, "agent:x:%u:\n", s->gid);
	buf_addf(&b, "nogroup:x:65534:\n");
	r = buf_error(&b) ? -ENOMEM : rootfs_write_text("etc/group", buf_cstr(&b));
	if (r < 0)
		return r;
	r = rootfs_write_names(s, "etc/hosts", "etc/hostname");
	if (r == 0 && s->net != NET_NONE)
		r = rootfs_write_text("etc/resolv.conf", ROOTFS_RESOLV);
	if (r < 0)
		return r;
	if (s->known_hosts) {
		r = mkdir("etc/ssh", 0755) < 0 ? -errno
					       : rootfs_write_text("etc/ssh/ssh_known_hosts", s->known_hosts);
		if (r < 0)
			return r;
	}
	return rootfs_write_text("etc/nsswitch.conf",
				 "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
				 "services: files\nprotocols: files\n");
}

static int write_spec_files(const struct spec *s, struct err *e)
{
	for (size_t i = 0; i < s->files.n; i++) {
		const struct spec_file *f = &s->files.v[i];
		autoclose int fd = -1;
		int r = rootfs_make_parents(f->path + 1);

		fd = r < 0 ? -1
			   : open(f->path + 1, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0555);
		if (r == 0)
			r = fd < 0 ? -errno : fd_write_all(fd, f->text, f->len);
		if (r < 0)
			return rootfs_fail(e, r, f->path);
	}
	return 0;
}

static int build_host_view(const struct spec *s, struct err *e)
{
	char host[PATH_MAX], dst[PATH_MAX];
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(root_dirs); i++) {
		if (mkdir(root_dirs[i].path, root_dirs[i].mode) < 0)
			return rootfs_fail(e, -errno, root_dirs[i].path);
	}
	r = mount("/usr", "usr", NULL, MS_BIND | MS_REC, NULL) < 0 ? -errno : 0;
	if (r < 0)
		return rootfs_fail(e, r, "/usr");
	for (size_t i = 0; i < ARRAY_SIZE(usr_links); i++) {
		snprintf(host, sizeof(host), "/%s", usr_links[i]);
		r = show_host_entry(host, usr_links[i]);
		if (r < 0)
			return rootfs_fail(e, r, host);
	}
	for (size_t i = 0; i < ARRAY_SIZE(etc_entries); i++) {
		snprintf(host, sizeof(host), "/etc/%s", etc_entries[i]);
		snprintf(dst, sizeof(dst), "etc/%s", etc_entries[i]);
		r = show_host_entry(host, dst);
		if (r < 0)
			return rootfs_fail(e, r, host);
	}
	r = write_etc_files(s);
	if (r < 0)
		return rootfs_fail(e, r, "/etc");
	if (symlink("/proc/mounts", "etc/mtab") < 0)
		return rootfs_fail(e, -errno, "/etc/mtab");
	/* For runsc, which wants the target of a mount here even when it is below another of its mounts. */
	if (spec_has_ca(s) && mkdir(&ROOTFS_CA_DIR[1], 0755) < 0)
		return rootfs_fail(e, -errno, ROOTFS_CA_DIR);
	if (s->uid != 0 && mkdir("home/agent", 0700) < 0)
		return rootfs_fail(e, -errno, "home");
	return write_spec_files(s, e);
}

static const char *const dev_nodes[] = { "null", "zero", "full", "random", "urandom", "tty" };

/* Makes the mount targets of device nodes. They are mounted once the root is read-only: a bind of a device must not be
 * nodev. */
int rootfs_prepare_dev(struct err *e)
{
	static const char *const links[][2] = {
		{ "/proc/self/fd", "dev/fd" },	     { "/proc/self/fd/0", "dev/stdin" },
		{ "/proc/self/fd/1", "dev/stdout" }, { "/proc/self/fd/2", "dev/stderr" },
		{ "pts/ptmx", "dev/ptmx" },
	};
	char dst[32];
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(dev_nodes); i++) {
		snprintf(dst, sizeof(dst), "dev/%s", dev_nodes[i]);
		r = rootfs_make_empty(dst);
		if (r < 0)
			return rootfs_fail(e, r, dst);
	}
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		if (symlink(links[i][0], links[i][1]) < 0)
			return rootfs_fail(e, -errno, links[i][1]);
	}
	return 0;
}

static int build_dev(const struct spec *s, struct err *e)
{
	char src[32];
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(dev_nodes); i++) {
		snprintf(src, sizeof(src), "/dev/%s", dev_nodes[i]);
		r = mnt_bind(src, src + 1);
		if (r < 0)
			return rootfs_fail(e, r, src);
	}
	if (mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		  "newinstance,ptmxmode=0666,mode=0620,max=64") < 0)
		return rootfs_fail(e, -errno, "/dev/pts");
	r = mnt_tmpfs("dev/shm", s->limits.l[LIMIT_SHM].value, 65536, 01777);
	return r < 0 ? rootfs_fail(e, r, "/dev/shm") : 0;
}

/*
 * /proc: entries that root of the sandbox's namespaces could write to are read-only, and entries that any user may read and
 * that disclose the host are empty. The rest is for the host's root alone, which no process inside ever is.
 */
static int build_proc(struct err *e)
{
	static const char *const read_only[] = { "proc/sys", "proc/sysrq-trigger" };
	static const char *const empty_files[] = {
		"proc/kcore",	"proc/keys",	  "proc/key-users", "proc/kallsyms",	"proc/interrupts",
		"proc/modules", "proc/config.gz", "proc/cmdline",   "proc/sched_debug",
	};
	static const char *const empty_dirs[] = { "proc/acpi", "proc/scsi", "proc/asound", "proc/driver",
						  "proc/pressure" };
	int r;

	if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
		r = rootfs_fail(e, -errno, "/proc");
		return err_hint(e, r,
				"inside another container, its masked /proc must be lifted for this (docker: "
				"--security-opt systempaths=unconfined)");
	}
	for (size_t i = 0; i < ARRAY_SIZE(read_only); i++) {
		r = mnt_bind(read_only[i], read_only[i]);
		if (r == 0)
			r = mnt_set(AT_FDCWD, read_only[i], MNT_RO | MOUNT_ATTR_NOEXEC, false);
		if (r < 0 && r != -ENOENT)
			return rootfs_fail(e, r, read_only[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(empty_files); i++) {
		r = mnt_bind("/dev/null", empty_files[i]);
		if (r < 0 && r != -ENOENT)
			return rootfs_fail(e, r, empty_files[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(empty_dirs); i++) {
		if (access(empty_dirs[i], F_OK) < 0)
			continue;
		r = mnt_bind("sys", empty_dirs[i]);
		if (r < 0)
			return rootfs_fail(e, r, empty_dirs[i]);
	}
	return 0;
}

/* Mounts the stage, with this many bytes for its writable directories. */
static int mount_stage(const struct spec *s, uint64_t bytes, struct err *e)
{
	static const struct {
		const char *path;
		mode_t mode;
	} dirs[] = { { STAGE "/tmp", 01777 }, { STAGE "/run", 0755 },	{ STAGE "/vartmp", 01777 },
		     { STAGE "/home", 0700 }, { STAGE "/lower", 0700 }, { STAGE "/layers", 0700 },
		     { STAGE_ROOT, 0755 } };
	/* The size counts whole pages of files. An empty file takes none, but memory all the same: so inodes are limited too. */
	const uint64_t root = ROOT_BYTES + s->files.bytes + s->files.n * 4096;
	int r;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return rootfs_fail(e, -errno, "private mounts");
	r = mnt_tmpfs(STAGE, bytes + root, bytes / 4096 + 1024 + UINT64_C(2) * SPEC_FILES_MAX, 0755);
	if (r < 0)
		return rootfs_fail(e, r, "/tmp");
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		if (mkdir(dirs[i].path, dirs[i].mode) < 0)
			return rootfs_fail(e, -errno, dirs[i].path);
		/* Where only one id is mapped they have it already. */
		if (s->ids.range && chown(dirs[i].path, s->uid, s->gid) < 0)
			return rootfs_fail(e, -errno, dirs[i].path);
	}
	return 0;
}

static int bind_scratch(struct err *e)
{
	static const char *const parts[][2] = { { "../tmp", "tmp" },
						{ "../run", "run" },
						{ "../vartmp", "var/tmp" } };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		int r = mnt_bind(parts[i][0], parts[i][1]);

		if (r < 0)
			return rootfs_fail(e, r, parts[i][1]);
	}
	return 0;
}

static int mount_home(const struct spec *s, int home_tree, struct err *e)
{
	const char *home = rootfs_home(s->uid) + 1;
	int r;

	if (home_tree >= 0) {
		r = mnt_set(home_tree, "", MNT_RW, true);
		if (r == 0)
			r = mnt_attach(home_tree, AT_FDCWD, home);
	} else {
		r = mnt_bind("../home", home);
	}
	return r < 0 ? rootfs_fail(e, r, home) : 0;
}

/* Mounts the directory of the layers on the stage. */
static int attach_layers_tree(const struct spec *s, struct trees *t, struct err *e)
{
	int r;

	if (!spec_needs_layers(s))
		return 0;
	r = s->ws_mode == WS_EPHEMERAL ? mnt_set(t->run, "", MNT_RW, true) : 0;
	if (r == 0)
		r = mnt_attach(t->run, AT_FDCWD, STAGE "/layers");
	return r < 0 ? rootfs_fail(e, r, "the layers") : 0;
}

/* Builds a read-only view of the host on the stage, and makes it the current directory. */
static int build_host_root(const struct spec *s, struct err *e)
{
	int r = mnt_bind(STAGE_ROOT, STAGE_ROOT);

	if (r < 0)
		return rootfs_fail(e, r, "a new root");
	if (chdir(STAGE_ROOT) < 0)
		return rootfs_fail(e, -errno, "a new root");
	r = build_host_view(s, e);
	if (r == 0)
		r = rootfs_prepare_dev(e);
	if (r == 0)
		r = rootfs_bind_places(s, PLACE_ROOT, e);
	if (r < 0)
		return r;
	r = mnt_set(AT_FDCWD, ".", MNT_RO, true);
	return r < 0 ? rootfs_fail(e, r, "a read-only root") : 0;
}

/* Mounts the root that the sandbox brings, and makes it the current directory. */
static int build_own_root(const struct spec *s, struct trees *t, struct err *e)
{
	int r = rootfs_image_root(s, t->lowers, e);

	return r < 0 ? r : rootfs_bind_places(s, PLACE_ROOT, e);
}

static int build_devices(const struct spec *s, struct err *e)
{
	int r = build_dev(s, e);

	return r < 0 ? r : build_proc(e);
}

int rootfs_begin(const struct spec *s, bool guest, struct err *e)
{
	int r;

	umask(0);
	r = mount_stage(s,
			(guest ? RUNSC_BYTES : s->limits.l[LIMIT_TMP].value) +
				(spec_has_ca(s) ? 2 * ROOTFS_STORE_MAX + 4 * ROOTFS_CA_MAX : 0),
			e);
	if (r < 0 || spec_has_root_layer(s))
		return r;
	r = build_host_root(s, e);
	if (r < 0 || guest)
		return r;
	r = bind_scratch(e);
	return r < 0 ? r : build_devices(s, e);
}

int rootfs_layers(const struct spec *s, struct trees *t, const char *bound_at, struct err *e)
{
	int r = attach_layers_tree(s, t, e);

	if (r == 0 && spec_has_root_layer(s))
		r = build_own_root(s, t, e);
	return r < 0 ? r : rootfs_workspace(s, t, bound_at, e);
}

int rootfs_finish(const struct spec *s, struct trees *t, struct err *e)
{
	int r = rootfs_layers(s, t, "workspace", e);

	if (r == 0)
		r = rootfs_mount_masks(s, "workspace", e);
	if (r == 0 && spec_has_root_layer(s)) {
		r = rootfs_image_scratch(s, t->home, e);
		if (r == 0)
			r = build_devices(s, e);
	} else if (r == 0) {
		r = mount_home(s, t->home, e);
	}
	if (r == 0 && spec_has_ca(s))
		r = rootfs_ca(s, t, false, e);
	if (r == 0)
		r = rootfs_bind_places(s, PLACE_SCRATCH, e);
	if (r == 0)
		r = rootfs_binds(s, t, e);
	if (r < 0)
		return r;
	umask(022);
	return mnt_pivot_here(e);
}
