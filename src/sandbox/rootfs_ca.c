/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A certificate authority of the sandbox's own, for programs inside: its certificate alone and behind those that the root
 * file system trusts already, at fixed places, and the latter over the root's own bundle. Only the certificate comes
 * here; the key never leaves coffer-egress.
 *
 * What a root trusts is read for a copy that only that root sees: an image that lies there lies to itself.
 */
#include "base/fd.h"
#include "sandbox/rootfs.h"
#include "sandbox/rootfs_int.h"
#include "sys/mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

/* Where systems keep the one file with all of them. */
static const char *const stores[] = {
	"etc/ssl/certs/ca-certificates.crt",		    /* Debian, Ubuntu, Arch, Gentoo */
	"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora, RHEL */
	"etc/pki/tls/certs/ca-bundle.crt",
	"etc/ssl/ca-bundle.pem", /* SUSE */
	"etc/ssl/cert.pem",	 /* Alpine */
};

static int fail(struct err *e, int code)
{
	return rootfs_fail(e, code, "certificates");
}

/* The root's own certificates; none is fine. */
static int read_store(struct buf *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(stores); i++) {
		autoclose int fd = fd_openat2(AT_FDCWD, stores[i], O_RDONLY | O_NONBLOCK | O_NOCTTY, 0,
					      RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
		struct stat st;

		if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > ROOTFS_STORE_MAX)
			continue;
		if (fd_read_all(fd, ROOTFS_STORE_MAX, b) < 0)
			return -EIO;
		if (b->len && b->data[b->len - 1] != '\n')
			buf_addc(b, '\n');
		return 0;
	}
	return 0;
}

static int write_files(int ca_fd)
{
	autobuf struct buf ca = BUF_INIT, bundle = BUF_INIT;
	int r = lseek(ca_fd, 0, SEEK_SET) < 0 ? -errno : fd_read_all(ca_fd, ROOTFS_CA_MAX, &ca);

	if (r == 0)
		r = read_store(&bundle);
	buf_add(&bundle, ca.data, ca.len);
	if (r < 0 || buf_error(&bundle))
		return r < 0 ? r : -ENOMEM;
	if (mkdir(".." GV_CA, 0755) < 0)
		return -errno;
	r = rootfs_write_text(".." GV_CA "/ca.pem", buf_cstr(&ca));
	return r < 0 ? r : rootfs_write_text(".." GV_CA "/ca-bundle.pem", buf_cstr(&bundle));
}

static int cover(const char *src, int target)
{
	autoclose int tree = mnt_tree(AT_FDCWD, src, false);
	int r = tree < 0 ? tree : mnt_set(tree, "", MNT_RO, false);

	return r < 0 ? r : mnt_attach(tree, target, "");
}

/* Over what is there; a link among them leads to one of the others. */
static int cover_stores(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(stores); i++) {
		autoclose int fd = fd_openat2(AT_FDCWD, stores[i], O_PATH | O_NOFOLLOW, 0,
					      RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
		struct stat st;
		int r;

		if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		r = cover(".." GV_CA "/ca-bundle.pem", fd);
		if (r < 0)
			return r;
	}
	return 0;
}

static int make_place(const struct spec *s, bool guest, struct err *e)
{
	int r;

	if (spec_has_root_layer(s)) {
		r = rootfs_image_place(s, &ROOTFS_CA_DIR[1], true, e);
		return r < 0 ? err_hint(
				       e, r,
				       "the policy looks into TLS, for which programs inside must find a certificate there")
			     : 0;
	}
	/* gVisor's /run is its own. */
	if (guest)
		return 0;
	return mkdir(&ROOTFS_CA_DIR[1], 0755) < 0 ? fail(e, -errno) : 0;
}

int rootfs_ca(const struct spec *s, int ca_fd, bool guest, struct err *e)
{
	autoclose int place = -1;
	int r = write_files(ca_fd);

	if (r == 0)
		r = cover_stores();
	if (r < 0)
		return fail(e, r);
	r = make_place(s, guest, e);
	if (r < 0 || guest)
		return r;
	place = fd_openat2(AT_FDCWD, &ROOTFS_CA_DIR[1], O_PATH | O_DIRECTORY, 0,
			   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	r = place < 0 ? place : cover(".." GV_CA, place);
	return r < 0 ? fail(e, r) : 0;
}
