/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificate of the sandbox's own authority, for programs inside: alone, and after those that the root file system
 * trusts already, at fixed paths; the latter file also covers the root's own bundle. Only the certificate comes here; the key
 * never leaves coffer-egress.
 *
 * Where a change of the policy may bring an authority later, the files are there from the start, without its certificate.
 * The guard then appends it through descriptors that were opened here: programs that start afterwards find it. No process
 * inside has write access to them.
 *
 * The root's own bundle is read for a copy that only that root sees: an image with a false one harms only itself.
 */
#include "base/fd.h"
#include "sandbox/engine/rootfs.h"
#include "sandbox/engine/rootfs_int.h"
#include "sys/mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

/* Where distributions keep the one file with all trusted certificates. */
static const char *const bundles[] = {
	"etc/ssl/certs/ca-certificates.crt",		    /* Debian, Ubuntu, Arch, Gentoo */
	"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora, RHEL */
	"etc/pki/tls/certs/ca-bundle.crt",
	"etc/ssl/ca-bundle.pem", /* SUSE */
	"etc/ssl/cert.pem",	 /* Alpine */
};

static int fail_ca(struct err *e, int code)
{
	return rootfs_fail(e, code, "certificates");
}

/* Reads the certificates that the root at `dir` trusts; none is no error. */
static int read_bundle(int dir, struct buf *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(bundles); i++) {
		autoclose int fd = fd_openat2(dir, bundles[i], O_RDONLY | O_NONBLOCK | O_NOCTTY, 0,
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

/*
 * Environment variables make programs use this bundle instead of their own. Until there is an authority it must not have
 * less than those, so a root without a bundle gets the host's.
 */
static int read_bundle_or_host(struct buf *b)
{
	autoclose int host = -1;
	int r = read_bundle(AT_FDCWD, b);

	if (r < 0 || b->len)
		return r;
	host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return host < 0 ? -errno : read_bundle(host, b);
}

/* Writes a file and returns it open for appending. Room for a certificate is reserved now: the sandbox may fill the tmpfs. */
static int write_appendable(const char *path, const struct buf *text)
{
	autoclose int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);
	int r = fd < 0 ? -errno : fd_write_all(fd, text->data, text->len);

	if (r == 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)text->len, ROOTFS_CA_MAX) < 0)
		r = -errno;
	return r < 0 ? r : TAKE_FD(fd);
}

static int write_ca_files(const struct spec *s, struct trees *t)
{
	static const char *const paths[ROOTFS_CA_FILES] = { ".." GV_CA "/ca.pem",
							    ".." GV_CA "/ca-bundle.pem" };
	autobuf struct buf ca = BUF_INIT, bundle = BUF_INIT;
	const struct buf *const texts[ROOTFS_CA_FILES] = { &ca, &bundle };
	int r = 0;

	if (s->ca)
		r = lseek(t->ca, 0, SEEK_SET) < 0 ? -errno : fd_read_all(t->ca, ROOTFS_CA_MAX, &ca);
	if (r == 0)
		r = s->ca ? read_bundle(AT_FDCWD, &bundle) : read_bundle_or_host(&bundle);
	buf_add(&bundle, ca.data, ca.len);
	if (r < 0 || buf_error(&bundle))
		return r < 0 ? r : -ENOMEM;
	if (mkdir(".." GV_CA, 0755) < 0)
		return -errno;
	for (size_t i = 0; i < ROOTFS_CA_FILES && r >= 0; i++) {
		if (s->ca)
			r = rootfs_write_text(paths[i], buf_cstr(texts[i]));
		else
			r = t->ca_later[i] = write_appendable(paths[i], texts[i]);
	}
	return r < 0 ? r : 0;
}

static int cover_read_only(const char *src, int target)
{
	autoclose int tree = mnt_tree(AT_FDCWD, src, false);
	int r = tree < 0 ? tree : mnt_set(tree, "", MNT_RO, false);

	return r < 0 ? r : mnt_attach(tree, target, "");
}

/* Covers each bundle that is a regular file; a link leads to one of the others. */
static int cover_bundles(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(bundles); i++) {
		autoclose int fd = fd_openat2(AT_FDCWD, bundles[i], O_PATH | O_NOFOLLOW, 0,
					      RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
		struct stat st;
		int r;

		if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		r = cover_read_only(".." GV_CA "/ca-bundle.pem", fd);
		if (r < 0)
			return r;
	}
	return 0;
}

static int make_ca_directory(const struct spec *s, bool guest, struct err *e)
{
	int r;

	if (spec_has_root_layer(s)) {
		r = rootfs_image_place(s, &ROOTFS_CA_DIR[1], true, e);
		return r < 0 ? err_hint(e, r,
					"the policy inspects TLS, so the image needs a "
					"certificate bundle there")
			     : 0;
	}
	/* gVisor's /run is its own. */
	if (guest)
		return 0;
	return mkdir(&ROOTFS_CA_DIR[1], 0755) < 0 ? fail_ca(e, -errno) : 0;
}

int rootfs_ca(const struct spec *s, struct trees *t, bool guest, struct err *e)
{
	autoclose int place = -1;
	int r = write_ca_files(s, t);

	if (r == 0)
		r = rootfs_ca_forms(s->ca);
	if (r == 0)
		r = cover_bundles();
	if (r < 0)
		return fail_ca(e, r);
	r = make_ca_directory(s, guest, e);
	if (r < 0 || guest)
		return r;
	place = fd_openat2(AT_FDCWD, &ROOTFS_CA_DIR[1], O_PATH | O_DIRECTORY, 0,
			   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	r = place < 0 ? place : cover_read_only(".." GV_CA, place);
	return r < 0 ? fail_ca(e, r) : 0;
}
