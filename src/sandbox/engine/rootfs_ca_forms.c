/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificate of the sandbox's authority for programs to which no environment variable can name a PEM bundle. Java reads
 * trusted certificates from a store of its own format. apt reads a fixed file, which a root file system may not have to be
 * covered; but a variable can name a file with settings for it.
 */
#include "base/fd.h"
#include "codec/file/p12.h"
#include "sandbox/engine/rootfs.h"
#include "sandbox/engine/rootfs_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* Opens a file of ROOTFS_CA_DIR where it is now: beside the new root. */
static int open_ca_file(const char *shown, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), ".." GV_CA "%s", shown + strlen(ROOTFS_CA_DIR));
	fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0444);
	return fd < 0 ? -errno : fd;
}

static int read_ca_file(const char *shown, struct buf *b)
{
	autoclose int fd = open_ca_file(shown, O_RDONLY);

	return fd < 0 ? fd : fd_read_all(fd, ROOTFS_STORE_MAX + 2 * ROOTFS_CA_MAX, b);
}

static int write_ca_form(const char *shown, const void *data, size_t len)
{
	autoclose int fd = open_ca_file(shown, O_WRONLY | O_CREAT | O_EXCL);

	return fd < 0 ? fd : fd_write_all(fd, data, len);
}

/* Our certificate is first, so it is never one that does not fit any more; its second copy from the bundle does no harm. */
static int write_java_store(void)
{
	autobuf struct buf pem = BUF_INIT, p12 = BUF_INIT;
	int r = read_ca_file(ROOTFS_CA, &pem);

	if (r == 0)
		r = read_ca_file(ROOTFS_CA_BUNDLE, &pem);
	if (r == 0)
		r = p12_add_trusted(&p12, buf_cstr(&pem), pem.len, ROOTFS_STORE_MAX);
	return r < 0 ? r : write_ca_form(ROOTFS_CA_JAVA, p12.data, p12.len);
}

int rootfs_ca_forms(bool has_ca)
{
	static const char apt[] = "Acquire::https::CAInfo \"" ROOTFS_CA_BUNDLE "\";\n";
	int r = has_ca ? write_java_store() : 0;

	return r < 0 ? r : write_ca_form(ROOTFS_CA_APT, apt, strlen(apt));
}
