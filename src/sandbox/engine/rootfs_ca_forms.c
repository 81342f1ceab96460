/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's certificate authority for programs that take no bundle in PEM by a variable of the environment. Java wants
 * all that it trusts in a store of its own format. apt reads a fixed file, which a root file system may not have for ours to
 * lie over; but there is a variable that names a file with settings.
 */
#include "base/fd.h"
#include "codec/file/p12.h"
#include "sandbox/engine/rootfs.h"
#include "sandbox/engine/rootfs_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* Where a file that is shown in ROOTFS_CA_DIR is now: beside the new root. */
static int open_beside(const char *shown, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), ".." GV_CA "%s", shown + strlen(ROOTFS_CA_DIR));
	fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0444);
	return fd < 0 ? -errno : fd;
}

static int add_file(const char *shown, struct buf *b)
{
	autoclose int fd = open_beside(shown, O_RDONLY);

	return fd < 0 ? fd : fd_read_all(fd, ROOTFS_STORE_MAX + 2 * ROOTFS_CA_MAX, b);
}

static int write_file(const char *shown, const void *data, size_t len)
{
	autoclose int fd = open_beside(shown, O_WRONLY | O_CREAT | O_EXCL);

	return fd < 0 ? fd : fd_write_all(fd, data, len);
}

/* Ours comes first, so it is never among those for which there is no more room; that it comes again does no harm. */
static int write_java(void)
{
	autobuf struct buf pem = BUF_INIT, p12 = BUF_INIT;
	int r = add_file(ROOTFS_CA, &pem);

	if (r == 0)
		r = add_file(ROOTFS_CA_BUNDLE, &pem);
	if (r == 0)
		r = p12_add_trusted(&p12, buf_cstr(&pem), pem.len, ROOTFS_STORE_MAX);
	return r < 0 ? r : write_file(ROOTFS_CA_JAVA, p12.data, p12.len);
}

int rootfs_ca_forms(bool has_ca)
{
	static const char apt[] = "Acquire::https::CAInfo \"" ROOTFS_CA_BUNDLE "\";\n";
	int r = has_ca ? write_java() : 0;

	return r < 0 ? r : write_file(ROOTFS_CA_APT, apt, strlen(apt));
}
