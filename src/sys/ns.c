/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces: a fork into new ones with a pidfd, id maps, and a time namespace whose clocks start at zero. It
 * must not decide which ids are mapped.
 */
#include "sys/ns.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

pid_t ns_fork(uint64_t flags, int cgroup_fd, int *ret_pidfd)
{
	int pidfd = -1;
	struct clone_args args = {
		.flags = flags | CLONE_PIDFD,
		.pidfd = (uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	long pid;

	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0)
		return -errno;
	if (pid > 0)
		*ret_pidfd = pidfd;
	return (pid_t)pid;
}

bool ns_is_initial_user(void)
{
	/* The inode of the first one is a fixed number of the kernel's interface (linux/nsfs.h). */
	static const char first[] = "user:[4026531837]";
	char text[32] = "";

	return readlink("/proc/self/ns/user", text, sizeof(text) - 1) == sizeof(first) - 1 &&
	       memcmp(text, first, sizeof(first)) == 0;
}

int ns_map_ids(const char *proc_dir, bool groups, const char *map, struct err *e)
{
	char path[64];
	int r;

	snprintf(path, sizeof(path), "%s/%s", proc_dir, groups ? "gid_map" : "uid_map");
	r = fd_write_file(AT_FDCWD, path, map);
	return r < 0 ? err_sys(e, r, "cannot map %s into the sandbox", groups ? "groups" : "users") : 0;
}

int ns_deny_setgroups(const char *proc_dir, struct err *e)
{
	char path[64];
	int r;

	snprintf(path, sizeof(path), "%s/setgroups", proc_dir);
	r = fd_write_file(AT_FDCWD, path, "deny");
	return r < 0 ? err_sys(e, r, "cannot disable setgroups") : 0;
}

int ns_new_time(const char *proc, struct err *e)
{
	char path[64], text[96];
	int r;

	if (unshare(CLONE_NEWTIME) < 0)
		return err_sys(e, -errno, "cannot make a time namespace");
	snprintf(path, sizeof(path), "%s/self/timens_offsets", proc);
	snprintf(text, sizeof(text), "monotonic -%llu 0\nboottime -%llu 0\n",
		 (unsigned long long)(clock_nsec(CLOCK_MONOTONIC) / NSEC_PER_SEC),
		 (unsigned long long)(clock_nsec(CLOCK_BOOTTIME) / NSEC_PER_SEC));
	r = fd_write_file(AT_FDCWD, path, text);
	return r < 0 ? err_sys(e, r, "cannot set the clocks of a time namespace") : 0;
}
