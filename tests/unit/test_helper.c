/* SPDX-License-Identifier: Apache-2.0 */
/* Copies itself into a directory of its own and asks from there: what helper_open() trusts depends on where it is. */
#include "sandbox/engine/helper.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int child(const char *name)
{
	struct err e = ERR_INIT;
	autoclose int fd = helper_open(name, &e);
	struct stat st;

	if (fd < 0)
		return fd == -ENOENT ? 10 : fd == -EPERM ? 11 : 12;
	if (!(fcntl(fd, F_GETFD) & FD_CLOEXEC) || !(fcntl(fd, F_GETFL) & O_PATH))
		return 13;
	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? 0 : 14;
}

static int ask(const char *exe, const char *name)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		execl(exe, exe, name, (char *)NULL);
		_exit(99);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static int copy_self(const char *to)
{
	autobuf struct buf b = BUF_INIT;
	autoclose int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	autoclose int out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC | O_EXCL, 0755);

	if (in < 0 || out < 0 || fd_read_all(in, 64u << 20, &b) < 0)
		return -1;
	return fd_write_all(out, b.data, b.len);
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/coffer-helper-XXXXXX", exe[64], helper[64], link[64];
	struct err e = ERR_INIT;

	if (argc > 1)
		return child(argv[1]);
	umask(022);
	if (!CHECK(mkdtemp(dir) != NULL))
		return tap_done();
	snprintf(exe, sizeof(exe), "%s/main", dir);
	snprintf(helper, sizeof(helper), "%s/helper", dir);
	snprintf(link, sizeof(link), "%s/link", dir);
	CHECK(copy_self(exe) == 0 && copy_self(helper) == 0 && symlink("helper", link) == 0);

	CHECKF(ask(exe, "helper") == 0, "a helper beside the program is found");
	CHECKF(ask(exe, "no-such-helper") == 10, "a helper that does not exist is not found");
	CHECKF(ask(exe, "link") == 11, "a helper that is a symlink is refused");
	CHECKF(chmod(dir, 0777) == 0 && ask(exe, "helper") == 11,
	       "a helper in a world-writable directory is refused");
	CHECKF(chmod(dir, 0755) == 0 && chmod(helper, 0757) == 0 && ask(exe, "helper") == 11,
	       "a world-writable helper is refused");
	CHECKF(chmod(helper, 0644) == 0 && ask(exe, "helper") == 11,
	       "a helper that is not executable is refused");
	CHECKF(chmod(helper, 0755) == 0 && ask(exe, "helper") == 0,
	       "a helper is found when its rights are as before");
	if (geteuid() == 0) {
		CHECKF(chown(helper, 12345, 0) == 0 && ask(exe, "helper") == 11,
		       "a helper of a third user is refused");
		CHECKF(chown(exe, 12345, 0) == 0 && ask(exe, "helper") == 0,
		       "a helper is found when the program belongs to its owner too");
		CHECKF(chown(helper, 0, 0) == 0 && chown(dir, 0, 12345) == 0 && chmod(dir, 0775) == 0 &&
			       ask(exe, "helper") == 11,
		       "a helper in a directory that a foreign group may write is refused");
	} else {
		tap_skip("helpers of other owners are refused", "needs root to change owners");
	}
	CHECK(fd_rm_rf(AT_FDCWD, dir, &e) == 0);
	return tap_done();
}
