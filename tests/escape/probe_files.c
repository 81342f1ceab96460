/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the host: by name, by handle, by descriptor, by what other processes hold open, and /dev. */
#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#define UP "../../../../../../../../../../../../../../../../../../../.."

static enum verdict p_host_read(void)
{
	return read_secret(param("secret_file"));
}

static enum verdict p_host_write(void)
{
	return judge(write_small(param("write_file"), "written by a probe\n"), "wrote to a file of the host");
}

static enum verdict p_host_create(void)
{
	char path[4096];

	return judge(open(path_f(path, "%s/made-by-probe", param("host_dir")), O_CREAT | O_WRONLY | O_CLOEXEC,
			  0644),
		     "made a file in a directory of the host");
}

static enum verdict p_host_unlink(void)
{
	char path[4096];

	return judge(unlink(path_f(path, "%s/unlink-me", param("host_dir"))), "removed a file of the host");
}

static enum verdict p_host_list(void)
{
	autoclosedir DIR *d = opendir(param("host_dir"));

	return d ? broken("listed a directory of the host") : held();
}

static enum verdict p_dotdot_read(void)
{
	char path[4096];

	return read_secret(path_f(path, UP "%s", param("secret_file")));
}

static enum verdict p_symlink_made(void)
{
	unlink("link-made");
	if (symlink(param("secret_file"), "link-made") < 0)
		return held();
	return read_secret("link-made");
}

/* Shocker: a handle needs no path, only some open file on the same file system, and /usr is on it. */
static enum verdict p_handle_open(void)
{
	static const char *const mounts[] = { ".", "/usr", "/", "/etc", "/tmp", "/proc/self/cwd" };
	const char *hex = param("handle");
	struct {
		struct file_handle h;
		unsigned char bytes[MAX_HANDLE_SZ];
	} fh = { .h.handle_type = (int)param_num("handle_type") };
	int last = 0;

	for (; hex[0] && hex[1] && fh.h.handle_bytes < MAX_HANDLE_SZ; hex += 2) {
		char two[3] = { hex[0], hex[1], 0 };

		fh.bytes[fh.h.handle_bytes++] = (unsigned char)strtoul(two, NULL, 16);
	}
	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++) {
		autoclose int dir = open(mounts[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		autoclose int fd = open_by_handle_at(dir, &fh.h, O_RDONLY | O_CLOEXEC);
		char path[4096];

		if (fd >= 0)
			return read_secret(path_f(path, "/proc/self/fd/%d", fd));
		last = errno != ESTALE || !last ? errno : last;
	}
	errno = last;
	return held();
}

static enum verdict p_proc1_root(void)
{
	char path[4096];

	return read_secret(path_f(path, "/proc/1/root%s", param("secret_file")));
}

static enum verdict p_proc1_cwd(void)
{
	char path[4096];

	return read_secret(path_f(path, "/proc/1/cwd/" UP "%s", param("secret_file")));
}

/* Calls `each` for every numeric directory in /proc until it says BROKEN. */
static enum verdict for_each_process(enum verdict (*each)(const char *pid))
{
	autoclosedir DIR *d = opendir("/proc");
	enum verdict v = held_for("no process leads there");

	if (!d)
		return held();
	for (struct dirent *de = readdir(d); de; de = readdir(d)) {
		if (de->d_name[0] < '0' || de->d_name[0] > '9')
			continue;
		v = each(de->d_name);
		if (v == V_BROKEN)
			return v;
	}
	return v == V_HELD ? held_for("no process leads there") : v;
}

static enum verdict root_and_cwd(const char *pid)
{
	static const char *const links[] = { "root", "cwd" };

	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		char path[4096];
		enum verdict v = read_secret(
			path_f(path, "/proc/%s/%s/" UP "%s", pid, links[i], param("secret_file")));

		if (v == V_BROKEN)
			return v;
	}
	return V_HELD;
}

static enum verdict p_proc_root_walk(void)
{
	return for_each_process(root_and_cwd);
}

static enum verdict open_dirs(const char *pid)
{
	char path[4096];
	autoclosedir DIR *d = opendir(path_f(path, "/proc/%s/fd", pid));

	if (!d)
		return held();
	for (struct dirent *de = readdir(d); de; de = readdir(d)) {
		enum verdict v;

		if (de->d_name[0] == '.')
			continue;
		v = read_secret(
			path_f(path, "/proc/%s/fd/%s/" UP "%s", pid, de->d_name, param("secret_file")));
		if (v == V_BROKEN)
			return v;
	}
	return V_HELD;
}

static enum verdict p_proc_fd_walk(void)
{
	return for_each_process(open_dirs);
}

static enum verdict p_inherited_fds(void)
{
	for (int fd = 3; fd < (int)ARRAY_SIZE(inherited); fd++) {
		char path[64], target[256] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (inherited[fd]) {
			if (readlink(path, target, sizeof(target) - 1) < 0)
				target[0] = '\0';
			return broken("descriptor %d of the caller is open here: %s", fd, target);
		}
	}
	return held_for("none above 2");
}

static enum verdict p_inherited_dirfd(void)
{
	char path[4096];

	for (int fd = 3; fd < (int)ARRAY_SIZE(inherited); fd++) {
		enum verdict v = read_secret_at(fd, path_f(path, UP "%s", param("secret_file")));

		if (v == V_BROKEN)
			return v;
	}
	errno = EBADF;
	return held();
}

static enum verdict p_inherited_socket(void)
{
	int sent = 0;

	for (int fd = 3; fd < (int)ARRAY_SIZE(inherited); fd++)
		sent += inherited[fd] && send(fd, "from a probe", 12, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
	return sent ? asks("inherited_socket") : held_for("no socket to send on");
}

static enum verdict p_inherited_file(void)
{
	int wrote = 0;

	for (int fd = 3; fd < (int)ARRAY_SIZE(inherited); fd++)
		wrote += inherited[fd] && write(fd, "from a probe\n", 13) > 0;
	return wrote ? asks("file:host/inherited.txt") : held_for("nothing to write to");
}

/* stdin was opened for reading only; opening its /proc link again asks the file, not the descriptor. */
static enum verdict p_stdin_reopen(void)
{
	if (write_small("/proc/self/fd/0", "written through stdin\n") < 0)
		return held();
	return asks("file:host/stdin.txt");
}

/* Earlier output must not be changed by a later writer. */
static enum verdict p_stdout_rewrite(void)
{
	if (pwrite(STDOUT_FILENO, "REWRITTEN", 9, 0) < 0)
		return held();
	return asks("stdout");
}

static enum verdict p_stdout_reopen(void)
{
	autoclose int fd = open("/proc/self/fd/1", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || pwrite(fd, "REWRITTEN", 9, 0) < 0)
		return held();
	return asks("stdout");
}

static enum verdict p_usr_overwrite(void)
{
	return judge(open("/usr/bin/env", O_WRONLY | O_CLOEXEC), "opened a program of the host for writing");
}

static enum verdict p_usr_create(void)
{
	return judge(access("/usr", W_OK), "may write to /usr");
}

static enum verdict p_etc_write(void)
{
	static const char *const files[] = { "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/ld.so.cache" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		autoclose int fd = open(files[i], O_WRONLY | O_CLOEXEC);

		if (fd >= 0)
			return broken("opened %s for writing", files[i]);
	}
	return held();
}

/* The host's own file is known by its digest. */
static enum verdict same_as_host(const char *path)
{
	char key[256];
	const char *want;

	snprintf(key, sizeof(key), "fnv:%s", path);
	want = param(key);
	if (fnv_file(path) == strtoull(want, NULL, 16))
		return broken("%s is the host's", path);
	return access(path, R_OK) < 0 ? held() : held_for("another file");
}

#define SAME_AS_HOST(name, path)           \
	static enum verdict name(void)     \
	{                                  \
		return same_as_host(path); \
	}

SAME_AS_HOST(p_etc_passwd, "/etc/passwd")
SAME_AS_HOST(p_etc_group, "/etc/group")
SAME_AS_HOST(p_machine_id, "/etc/machine-id")
SAME_AS_HOST(p_etc_hostname, "/etc/hostname")
SAME_AS_HOST(p_resolv_conf, "/etc/resolv.conf")

static enum verdict p_etc_shadow(void)
{
	return judge(open("/etc/shadow", O_RDONLY | O_CLOEXEC), "read /etc/shadow");
}

static enum verdict p_etc_ssh(void)
{
	autoclosedir DIR *d = opendir("/etc/ssh");

	if (!d && in_control)
		return not_here("no /etc/ssh on this host");
	return d ? broken("listed /etc/ssh") : held();
}

static enum verdict in_home(const char *file)
{
	char path[4096];
	const char *home = getenv("HOME");
	enum verdict v = read_secret(path_f(path, "%s/%s", home ? home : "", file));

	return v == V_BROKEN ? v : read_secret(path_f(path, "%s/%s", param("home"), file));
}

static enum verdict p_home_ssh_key(void)
{
	return in_home(".ssh/id_ed25519");
}

static enum verdict p_home_history(void)
{
	return in_home(".bash_history");
}

static enum verdict p_home_cloud_key(void)
{
	return in_home(".aws/credentials");
}

static enum verdict p_home_list(void)
{
	autoclosedir DIR *d = opendir(param("home"));

	return d ? broken("listed the caller's home") : held();
}

static enum verdict p_state_dir(void)
{
	struct stat st;

	return judge(stat(param("state"), &st), "saw the state directory");
}

static bool harmless_device(const struct stat *st)
{
	unsigned ma = major(st->st_rdev), mi = minor(st->st_rdev);

	return (ma == 1 && (mi == 3 || mi == 5 || mi == 7 || mi == 8 || mi == 9)) ||
	       (ma == 5 && (mi == 0 || mi == 2)) || (ma >= 136 && ma <= 143);
}

static char stray_device[512];

static int look_at_node(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)type;
	(void)ftw;
	if ((!S_ISCHR(st->st_mode) && !S_ISBLK(st->st_mode)) || harmless_device(st))
		return FTW_CONTINUE;
	snprintf(stray_device, sizeof(stray_device), "%s is a device %u:%u", path, major(st->st_rdev),
		 minor(st->st_rdev));
	return FTW_STOP;
}

static enum verdict p_dev_sweep(void)
{
	/* A walk ends early when a directory goes meanwhile, as they do in /dev/shm of a busy host. */
	for (int i = 0; i < 50 && nftw("/dev", look_at_node, 16, FTW_PHYS | FTW_ACTIONRETVAL) < 0; i++)
		;
	return stray_device[0] ? broken("%s", stray_device)
			       : held_for("only null zero full random urandom tty ptmx pts");
}

static enum verdict open_device(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 && errno != ENOENT)
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 && in_control && (errno == ENOENT || errno == ENXIO || errno == ENODEV))
		return not_here("no %s on this host", path);
	return fd >= 0 ? broken("opened %s", path) : held();
}

#define OPEN_DEVICE(name, path)           \
	static enum verdict name(void)    \
	{                                 \
		return open_device(path); \
	}

OPEN_DEVICE(p_dev_mem, "/dev/mem")
OPEN_DEVICE(p_dev_kmsg, "/dev/kmsg")
OPEN_DEVICE(p_dev_fuse, "/dev/fuse")
OPEN_DEVICE(p_dev_tun, "/dev/net/tun")
OPEN_DEVICE(p_dev_kvm, "/dev/kvm")
OPEN_DEVICE(p_dev_loop, "/dev/loop-control")
OPEN_DEVICE(p_dev_console, "/dev/console")

static enum verdict p_dev_disk(void)
{
	enum verdict v = open_device(param("disk"));

	return v == V_HELD && in_control ? not_here("this host lets not even root open its disk") : v;
}

/* The node may be a bind of the host's own: its mode is then the host's. The mode set is the one it has. */
static enum verdict p_dev_null_chmod(void)
{
	return judge(chmod("/dev/null", 0666), "changed the mode of /dev/null");
}

static enum verdict make_node(mode_t type, dev_t dev)
{
	char path[4096];

	unlink("/tmp/probe-node");
	if (mknod(in_control ? path_f(path, "%s/node", param("host_dir")) : "/tmp/probe-node", type | 0666,
		  dev) < 0)
		return held();
	if (in_control)
		unlink(path);
	return broken("made a device node");
}

static enum verdict p_mknod_char(void)
{
	return make_node(S_IFCHR, makedev(1, 3));
}

static enum verdict p_mknod_block(void)
{
	return make_node(S_IFBLK, (dev_t)param_num("disk_dev"));
}

const struct probe probes_files[] = {
	{ "host_read", p_host_read, CTL_SAME },
	{ "host_write", p_host_write, CTL_SAME },
	{ "host_create", p_host_create, CTL_SAME },
	{ "host_unlink", p_host_unlink, CTL_SAME },
	{ "host_list", p_host_list, CTL_SAME },
	{ "dotdot_read", p_dotdot_read, CTL_SAME },
	{ "symlink_made", p_symlink_made, CTL_SAME },
	{ "handle_open", p_handle_open, CTL_ROOT },
	{ "proc1_root", p_proc1_root, CTL_USERNS },
	{ "proc1_cwd", p_proc1_cwd, CTL_USERNS },
	{ "proc_root_walk", p_proc_root_walk, CTL_SAME },
	{ "proc_fd_walk", p_proc_fd_walk, CTL_SAME },
	{ "inherited_fds", p_inherited_fds, CTL_SAME },
	{ "inherited_dirfd", p_inherited_dirfd, CTL_SAME },
	{ "inherited_socket", p_inherited_socket, CTL_SAME },
	{ "inherited_file", p_inherited_file, CTL_SAME },
	{ "stdin_reopen", p_stdin_reopen, CTL_SAME },
	{ "stdout_rewrite", p_stdout_rewrite, CTL_SAME },
	{ "stdout_reopen", p_stdout_reopen, CTL_SAME },
	{ "usr_overwrite", p_usr_overwrite, CTL_ROOT },
	{ "usr_create", p_usr_create, CTL_ROOT },
	{ "etc_write", p_etc_write, CTL_ROOT },
	{ "etc_passwd", p_etc_passwd, CTL_SAME },
	{ "etc_group", p_etc_group, CTL_SAME },
	{ "etc_shadow", p_etc_shadow, CTL_ROOT },
	{ "etc_ssh", p_etc_ssh, CTL_SAME },
	{ "etc_machine_id", p_machine_id, CTL_SAME },
	{ "etc_hostname", p_etc_hostname, CTL_SAME },
	{ "etc_resolv_conf", p_resolv_conf, CTL_SAME },
	{ "home_ssh_key", p_home_ssh_key, CTL_SAME },
	{ "home_history", p_home_history, CTL_SAME },
	{ "home_cloud_key", p_home_cloud_key, CTL_SAME },
	{ "home_list", p_home_list, CTL_SAME },
	{ "state_dir", p_state_dir, CTL_SAME },
	{ "dev_sweep", p_dev_sweep, CTL_SAME },
	{ "dev_mem", p_dev_mem, CTL_ROOT },
	{ "dev_kmsg", p_dev_kmsg, CTL_ROOT },
	{ "dev_fuse", p_dev_fuse, CTL_ROOT },
	{ "dev_tun", p_dev_tun, CTL_ROOT },
	{ "dev_kvm", p_dev_kvm, CTL_ROOT },
	{ "dev_loop", p_dev_loop, CTL_ROOT },
	{ "dev_console", p_dev_console, CTL_ROOT },
	{ "dev_disk", p_dev_disk, CTL_ROOT },
	{ "dev_null_chmod", p_dev_null_chmod, CTL_ROOT },
	{ "mknod_char", p_mknod_char, CTL_ROOT },
	{ "mknod_block", p_mknod_block, CTL_ROOT },
	{ 0 },
};
