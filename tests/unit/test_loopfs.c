/* SPDX-License-Identifier: Apache-2.0 */
/* A file system in a file, mounted by several at once and one after the other: all see the same (L1 of loopfs.h). */
#include "sys/loopfs.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 40
#define AT_ONCE 6

static char dir[] = "/tmp/test_loopfs.XXXXXX";
static int dirfd_;

static int mount_it(void)
{
	struct err e = ERR_INIT;
	int fd = loopfs_mount(dirfd_, "image", &e);

	if (fd < 0)
		printf("# %s\n", e.msg);
	return fd;
}

static bool make(int fs, const char *name)
{
	autoclose int fd = openat(fs, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd >= 0 && write(fd, name, strlen(name)) == (ssize_t)strlen(name);
}

static bool has(int fs, const char *name)
{
	autoclose int fd = openat(fs, name, O_RDONLY | O_CLOEXEC);
	char got[16] = "";

	return fd >= 0 && read(fd, got, sizeof(got) - 1) == (ssize_t)strlen(name) && strcmp(got, name) == 0;
}

static void together(void)
{
	int a = mount_it(), b;

	CHECK(make(a, "one"));
	b = mount_it();
	CHECKF(has(b, "one"), "a file of the first mount is visible in the second");
	CHECK(make(b, "two"));
	CHECKF(has(a, "two"), "a file of the second mount is visible in the first");
	struct stat sa, sb;
	CHECKF(fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev,
	       "two mounts of one image are one device");
	fd_close(a);
	CHECKF(has(b, "one") && make(b, "three"), "the file system stays while one mount holds it");
	fd_close(b);
}

/* The kernel's work behind a last close() goes on for a while. */
static void in_turn(void)
{
	int bad = 0;

	for (int i = 0; i < ROUNDS; i++) {
		char name[16];
		int fd = mount_it();

		snprintf(name, sizeof(name), "r%d", i);
		bad += !make(fd, name);
		if (i) {
			snprintf(name, sizeof(name), "r%d", i - 1);
			bad += !has(fd, name);
		}
		fd_close(fd);
	}
	CHECKF(bad == 0, "each of %d successive mounts shows the files of the one before", ROUNDS);
}

static void at_once(void)
{
	int bad = 0, fd;

	for (int i = 0; i < AT_ONCE; i++) {
		if (fork() == 0) {
			char name[16];

			snprintf(name, sizeof(name), "p%d", i);
			_exit(!make(mount_it(), name));
		}
	}
	for (int i = 0; i < AT_ONCE; i++) {
		int status = 1;

		bad += wait(&status) < 0 || status != 0;
	}
	CHECKF(bad == 0, "%d processes mount the image at once", AT_ONCE);
	fd = mount_it();
	for (int i = 0; i < AT_ONCE; i++) {
		char name[16];

		snprintf(name, sizeof(name), "p%d", i);
		bad += !has(fd, name);
	}
	CHECKF(bad == 0, "no file of a concurrent writer is lost");
	fd_close(fd);
}

int main(void)
{
	struct err e = ERR_INIT;

	if (geteuid() != 0 || access("/dev/loop-control", R_OK | W_OK) < 0) {
		tap_skip("a disk image can be mounted", "only the host's root has loop devices");
		return tap_done();
	}
	if (!mkdtemp(dir))
		return 1;
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(loopfs_make(dirfd_, "image", 8 << 20, 256, &e) == 0);
	together();
	in_turn();
	at_once();
	CHECK(unlinkat(dirfd_, "image", 0) == 0 && rmdir(dir) == 0);
	return tap_done();
}
