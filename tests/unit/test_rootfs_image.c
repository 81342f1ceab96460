/* SPDX-License-Identifier: Apache-2.0 */
/* Files of an image that are covered by the sandbox's own: an error on the way is that error, and never "may not be written". */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/engine/rootfs_int.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Opening a file to mount on fails from now on as when the process has too many open. */
static bool fail_opens(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EMFILE),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = { .len = sizeof(f) / sizeof(f[0]), .filter = f };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) == 0;
}

static int place_without_room(const char *name)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		const struct spec s = { 0 };
		struct err e = ERR_INIT;

		_exit(fail_opens() ? -rootfs_image_place(&s, name, false, &e) : 200);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void)
{
	char dir[] = "/tmp/test_rootfs_image-XXXXXX";
	const struct spec s = { 0 };
	struct err e = ERR_INIT;
	autoclose int fd = -1;

	CHECK(mkdtemp(dir) != NULL && chdir(dir) == 0);
	fd = open("resolv.conf", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECKF(fd >= 0 && rootfs_image_place(&s, "resolv.conf", false, &e) == 0,
	       "a file of the image can be covered %s", e.msg);
	CHECKF(place_without_room("resolv.conf") == EMFILE, "a lack of descriptors is reported as such: %d",
	       place_without_room("resolv.conf"));
	CHECK(chdir("/") == 0 && fd_rm_rf(AT_FDCWD, dir, &e) == 0);
	return tap_done();
}
