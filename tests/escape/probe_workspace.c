/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The edge of the workspace. Inside, the current directory is the overlay over what the host gave; the
 * original must stay as it was, links in it lead nowhere, and what usually holds credentials is not shown.
 */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <time.h>

static enum verdict p_ws_link_abs(void)
{
	return read_secret("link-abs");
}

static enum verdict p_ws_link_rel(void)
{
	return read_secret("link-rel");
}

static enum verdict p_ws_link_write(void)
{
	if (write_small("link-write", "through a planted link\n") < 0)
		return held();
	return asks("file:host/link-target.txt");
}

/* A name in the workspace and one outside are the same inode. */
static enum verdict p_ws_hardlink(void)
{
	if (write_small("hard.txt", "through a hard link\n") < 0)
		return held();
	return asks("file:host/hard.txt");
}

static enum verdict p_ws_write(void)
{
	if (write_small("write.txt", "changed inside\n") < 0)
		return held();
	return asks("file:ws/write.txt");
}

static enum verdict p_ws_truncate(void)
{
	if (truncate("truncate.txt", 0) < 0)
		return held();
	return asks("file:ws/truncate.txt");
}

static enum verdict p_ws_unlink(void)
{
	if (unlink("unlink.txt") < 0)
		return held();
	return asks("file:ws/unlink.txt");
}

static enum verdict p_ws_chmod(void)
{
	if (chmod("chmod.txt", 0777) < 0)
		return held();
	return asks("file:ws/chmod.txt");
}

static enum verdict p_ws_rename(void)
{
	if (rename("write-me-not.txt", "rename.txt") < 0)
		return held();
	return asks("file:ws/rename.txt");
}

static enum verdict p_ws_xattr(void)
{
	if (setxattr("xattr.txt", "user.probe", "1", 1, 0) < 0)
		return in_control ? not_here("no extended attributes on this file system (%s)",
					     errno_name(errno))
				  : held();
	return asks("file:ws/xattr.txt");
}

static enum verdict p_ws_mmap(void)
{
	autoclose int fd = open("mmap.txt", O_RDWR | O_CLOEXEC);
	char *map;

	if (fd < 0)
		return held();
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return held();
	map[0] = 'X';
	msync(map, 4096, MS_SYNC);
	return asks("file:ws/mmap.txt");
}

/* A descriptor of the lower file, opened for reading before the copy, then opened again for writing. */
static enum verdict p_ws_reopen(void)
{
	autoclose int fd = open("reopen.txt", O_RDONLY | O_CLOEXEC);
	char path[4096];

	if (fd < 0 || write_small(path_f(path, "/proc/self/fd/%d", fd), "reopened\n") < 0)
		return held();
	return asks("file:ws/reopen.txt");
}

static enum verdict p_ws_flags(void)
{
	autoclose int fd = open("flags.txt", O_RDONLY | O_CLOEXEC);
	int flags = 0;

	if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return in_control ? not_here("no file flags here (%s)", errno_name(errno)) : held();
	flags |= FS_NODUMP_FL;
	if (ioctl(fd, FS_IOC_SETFLAGS, &flags) < 0)
		return in_control ? not_here("no file flags here (%s)", errno_name(errno)) : held();
	return asks("flags:ws/flags.txt");
}

static int connect_unix(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		fd_close(fd);
		return -1;
	}
	return fd;
}

static enum verdict p_ws_socket(void)
{
	if (connect_unix("daemon.sock") < 0)
		return held();
	return asks("ws_socket");
}

static enum verdict p_ws_fifo(void)
{
	if (write_small("fifo", "x") < 0)
		return held();
	return asks("fifo");
}

static enum verdict p_ws_device(void)
{
	if (!has_param("planted"))
		return not_here("only root can plant a device node");
	return judge(open("device", O_RDONLY | O_CLOEXEC), "opened a device node of the workspace");
}

static enum verdict exec_planted(const char *path)
{
	char text[8192], caps[32] = "0";
	const char *at;
	pid_t pid;
	int status;

	if (!has_param("planted"))
		return not_here("only root can plant such a program");
	if (!in_control && read_small("/proc/self/status", text, sizeof(text)) > 0 &&
	    (at = strstr(text, "CapPrm:")))
		snprintf(caps, sizeof(caps), "%.16s", at + 8);
	pid = fork();
	if (pid == 0) {
		/* root has nothing to gain: its control is an ordinary user */
		if (in_control && (setresgid(60002, 60002, 60002) < 0 || setresuid(60002, 60002, 60002) < 0))
			_exit(40);
		execl(path, path, "euid", caps, NULL);
		_exit(41);
	}
	status = wait_exit(pid);
	if (status == 42)
		return broken("%s ran with more than its caller has", path);
	return status == 0 ? held_for("ran, with no more than its caller has")
			   : held_for("status %d", status);
}

static enum verdict p_ws_suid_exec(void)
{
	return exec_planted("./suid");
}

static enum verdict p_ws_fcap_exec(void)
{
	return exec_planted("./fcap");
}

/* Reads `path` for a third of a second while another process exchanges the directory for a link. The control goes on until it
 * wins: on a busy machine the other process may not run at all for a while. */
static enum verdict read_while(void (*swap)(void), const char *path)
{
	const long limit_ms = in_control ? 20000 : 300;
	struct timespec begin, now;
	enum verdict v = V_HELD;
	pid_t pid = fork();

	if (pid == 0) {
		for (;;)
			swap();
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		v = read_secret(path);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (v != V_BROKEN &&
		 (now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < limit_ms);
	kill(pid, SIGKILL);
	wait_exit(pid);
	return v == V_BROKEN ? v : held_for("lost every race");
}

static void swap_link(void)
{
	renameat2(AT_FDCWD, "race/dir", AT_FDCWD, "race/link", RENAME_EXCHANGE);
}

static enum verdict p_ws_link_race(void)
{
	char path[4096];

	mkdir("race", 0755);
	mkdir("race/dir", 0755);
	close(open("race/dir/secret.txt", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
	if (symlink(param("host_dir"), "race/link") < 0 && errno != EEXIST)
		return probe_error("symlink: %s", errno_name(errno));
	if (strlen(param("secret_file")) > 4000)
		return probe_error("path too long");
	return read_while(swap_link, path_f(path, "race/dir/%s", strrchr(param("secret_file"), '/') + 1));
}

static void swap_depth(void)
{
	rename("race2/a/b/c", "race2/c");
	rename("race2/c", "race2/a/b/c");
}

/* ".." of a directory that moves while it is walked. */
static enum verdict p_ws_dotdot_race(void)
{
	char path[4096];

	mkdir("race2", 0755);
	mkdir("race2/a", 0755);
	mkdir("race2/a/b", 0755);
	mkdir("race2/a/b/c", 0755);
	return read_while(swap_depth, path_f(path, "race2/a/b/c/../../../../../../../../../../../../..%s",
					     param("secret_file")));
}

static enum verdict p_mask_env(void)
{
	return read_secret(".env");
}

static enum verdict p_mask_npmrc(void)
{
	return read_secret(".npmrc");
}

static enum verdict p_mask_pem(void)
{
	return read_secret("server.pem");
}

static enum verdict p_mask_git_remote(void)
{
	return read_secret(".git/config");
}

static enum verdict p_mask_deep(void)
{
	return read_secret("sub/dir/.env");
}

static enum verdict p_mask_linked(void)
{
	unlink("env-link");
	if (link(".env.local", "env-link") < 0)
		return held();
	return read_secret("env-link");
}

static enum verdict p_mask_renamed(void)
{
	if (rename(".env.production", "env-renamed") < 0)
		return held();
	return read_secret("env-renamed");
}

static enum verdict p_mask_parent_renamed(void)
{
	if (rename("sub2", "sub2-renamed") < 0)
		return held();
	return read_secret("sub2-renamed/.env");
}

const struct probe probes_workspace[] = {
	{ "ws_link_abs", p_ws_link_abs, CTL_SAME },
	{ "ws_link_rel", p_ws_link_rel, CTL_SAME },
	{ "ws_link_write", p_ws_link_write, CTL_SAME },
	{ "ws_hardlink", p_ws_hardlink, CTL_SAME },
	{ "ws_write", p_ws_write, CTL_SAME },
	{ "ws_truncate", p_ws_truncate, CTL_SAME },
	{ "ws_unlink", p_ws_unlink, CTL_SAME },
	{ "ws_chmod", p_ws_chmod, CTL_SAME },
	{ "ws_rename", p_ws_rename, CTL_SAME },
	{ "ws_xattr", p_ws_xattr, CTL_SAME },
	{ "ws_mmap", p_ws_mmap, CTL_SAME },
	{ "ws_reopen", p_ws_reopen, CTL_SAME },
	{ "ws_flags", p_ws_flags, CTL_SAME },
	{ "ws_socket", p_ws_socket, CTL_SAME },
	{ "ws_fifo", p_ws_fifo, CTL_SAME },
	{ "ws_device", p_ws_device, CTL_SAME },
	{ "ws_suid_exec", p_ws_suid_exec, CTL_ROOT },
	{ "ws_fcap_exec", p_ws_fcap_exec, CTL_ROOT },
	{ "ws_link_race", p_ws_link_race, CTL_SAME },
	{ "ws_dotdot_race", p_ws_dotdot_race, CTL_SAME },
	{ "mask_env", p_mask_env, CTL_SAME },
	{ "mask_npmrc", p_mask_npmrc, CTL_SAME },
	{ "mask_pem", p_mask_pem, CTL_SAME },
	{ "mask_git_remote", p_mask_git_remote, CTL_SAME },
	{ "mask_deep", p_mask_deep, CTL_SAME },
	{ "mask_linked", p_mask_linked, CTL_SAME },
	{ "mask_renamed", p_mask_renamed, CTL_SAME },
	{ "mask_parent_renamed", p_mask_parent_renamed, CTL_SAME },
	{ 0 },
};
