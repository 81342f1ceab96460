/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ext4 images on loop devices, for disk limits: mke2fs makes the image, LOOP_CONFIGURE attaches it, and a detached mount
 * is returned by descriptor. Must not attach an image to a second device (loopfs.L1) or leave a device attached on
 * failure.
 */
#include "sys/loopfs.h"

#include "base/cleanup.h"
#include "sys/spawn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* Formats the image, which is descriptor 3 of the child. */
static int run_mke2fs(int fd, uint64_t inodes)
{
	static const char *const programs[] = { "/usr/sbin/mke2fs", "/sbin/mke2fs" };
	const int fds[] = { SPAWN_NULL, SPAWN_NULL, SPAWN_NULL, fd };
	char n[24];
	const char *argv[] = { "mke2fs",
			       "-q",
			       "-F",
			       "-t",
			       "ext4",
			       "-O",
			       "^has_journal",
			       "-m",
			       "0",
			       "-N",
			       n,
			       "-E",
			       "nodiscard,lazy_itable_init=1",
			       "/proc/self/fd/3",
			       NULL };
	struct spawn s = {
		.argv = (char *const *)argv, .fds = fds, .n_fds = ARRAY_SIZE(fds), .flags = SPAWN_SAME_ID
	};
	struct spawned got = SPAWNED_INIT;
	int r = -ENOENT;

	snprintf(n, sizeof(n), "%llu", (unsigned long long)inodes);
	for (size_t i = 0; r == -ENOENT && i < ARRAY_SIZE(programs); i++) {
		s.path = programs[i];
		r = spawn_start(&s, &got, NULL);
	}
	if (r < 0)
		return r;
	return spawn_wait(&got) == 0 ? 0 : -EIO;
}

int loopfs_make(int dirfd, const char *name, uint64_t bytes, uint64_t inodes, struct err *e)
{
	autoclose int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "cannot make a disk image");
	if (ftruncate(fd, (off_t)bytes) < 0)
		return err_sys(e, -errno, "cannot make a disk image of %llu bytes",
			       (unsigned long long)bytes);
	r = run_mke2fs(fd, inodes);
	return r < 0 ? err_sys(e, r, "cannot make a file system in a disk image (mke2fs)") : 0;
}

/* Attaches the image to a free loop device; the kernel detaches it after the last user has closed it. */
static int attach_free_device(int image, char *path, size_t cap)
{
	struct loop_config c = { .fd = (uint32_t)image, .info.lo_flags = LO_FLAGS_AUTOCLEAR };
	autoclose int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	if (control < 0)
		return -errno;
	/* Another process may take the free device first: retry. */
	for (int tries = 0; tries < 64; tries++) {
		int n = ioctl(control, LOOP_CTL_GET_FREE), fd;

		if (n < 0)
			return -errno;
		snprintf(path, cap, "/dev/loop%d", n);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		if (ioctl(fd, LOOP_CONFIGURE, &c) == 0)
			return fd;
		fd_close(fd);
		if (errno != EBUSY)
			return -errno;
	}
	return -EBUSY;
}

/* Opens the loop device that has the image; -ENOENT when there is none. The open descriptor keeps it attached. */
static int find_attached_device(int image, char *path, size_t cap)
{
	autoclosedir DIR *d = opendir("/sys/block");
	struct loop_info64 info;
	struct dirent *ent;
	struct stat st;

	if (!d || fstat(image, &st) < 0)
		return -errno;
	while ((ent = readdir(d))) {
		autoclose int fd = -1;

		if (strncmp(ent->d_name, "loop", 4) != 0)
			continue;
		snprintf(path, cap, "/sys/block/%.16s/loop", ent->d_name);
		if (access(path, F_OK) < 0)
			continue;
		snprintf(path, cap, "/dev/%.16s", ent->d_name);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && ioctl(fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_inode == st.st_ino &&
		    info.lo_device == st.st_dev)
			return TAKE_FD(fd);
	}
	return -ENOENT;
}

/* loopfs.L1: looks for a device and attaches one under a lock. The lock is on a file description of its own, because the
 * device keeps the other one open. */
static int attach_or_reuse_device(int dirfd, const char *name, char *path, size_t cap)
{
	autoclose int image = openat(dirfd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	autoclose int lock = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	int r;

	if (image < 0 || lock < 0)
		return -errno;
	do {
		r = flock(lock, LOCK_EX) < 0 ? -errno : 0;
	} while (r == -EINTR);
	if (r == 0)
		r = find_attached_device(image, path, cap);
	return r == -ENOENT ? attach_free_device(image, path, cap) : r;
}

int loopfs_mount(int dirfd, const char *name, struct err *e)
{
	autoclose int loop = -1, fs = -1;
	char path[64];
	int fd;

	loop = attach_or_reuse_device(dirfd, name, path, sizeof(path));
	if (loop < 0)
		return err_sys(e, loop, "cannot attach a disk image to a loop device");
	fs = fsopen("ext4", FSOPEN_CLOEXEC);
	if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "source", path, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_sys(e, -errno, "cannot mount a disk image");
	fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	return fd < 0 ? err_sys(e, -errno, "cannot mount a disk image") : fd;
}
