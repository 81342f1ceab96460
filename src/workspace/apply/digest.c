/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the digest to which an approval of `coffer apply` is bound: over everything that would be written (digest.h).
 * Two different lists of changes must not give the same bytes.
 */
#include "workspace/apply/digest.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "crypto/hash.h"
#include "workspace/tree/layer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define XATTRS_MAX (64u << 10)

static_assert(APPLY_DIGEST_LEN == HASH_LEN, "a digest is one of ours");

/* Each part is preceded by its length, so that two different lists of changes never give the same bytes. */
static void digest_add_part(struct hash_stream *h, const void *data, size_t len)
{
	uint64_t n = len;

	hash_stream_add(h, &n, sizeof(n));
	hash_stream_add(h, data, len);
}

static void digest_add_number(struct hash_stream *h, uint64_t v)
{
	digest_add_part(h, &v, sizeof(v));
}

static int digest_add_content(struct hash_stream *h, int fd)
{
	static char block[64 << 10];
	uint64_t total = 0;

	for (;;) {
		ssize_t n = read(fd, block, sizeof(block));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		hash_stream_add(h, block, (size_t)n);
		total += (uint64_t)n;
	}
	digest_add_number(h, total);
	return 0;
}

static bool is_copied_xattr(const char *name)
{
	return (strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0) ||
	       strcmp(name, "security.capability") == 0;
}

static int digest_add_xattrs(struct hash_stream *h, int fd)
{
	autofree char *names = malloc(XATTRS_MAX), *value = malloc(XATTRS_MAX);
	ssize_t n = names && value ? flistxattr(fd, names, XATTRS_MAX) : -1;

	if (!names || !value)
		return -ENOMEM;
	if (n < 0)
		return errno == ENOTSUP ? 0 : -errno;
	for (const char *p = names; p < names + n; p += strlen(p) + 1) {
		ssize_t len;

		if (!is_copied_xattr(p))
			continue;
		len = fgetxattr(fd, p, value, XATTRS_MAX);
		if (len < 0)
			return -errno;
		digest_add_part(h, p, strlen(p));
		digest_add_part(h, value, (size_t)len);
	}
	return 0;
}

/* The entry as the layer has it now. */
static int digest_add_entry(struct hash_stream *h, int upper_fd, const char *path, enum change_kind kind)
{
	autobuf struct buf target = BUF_INIT;
	const char *name;
	autoclose int dir = layer_open_parent(upper_fd, path, &name);
	autoclose int fd = -1;
	struct stat st;
	int r = 0;

	if (dir < 0)
		return dir;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	digest_add_number(h, st.st_mode);
	digest_add_number(h, st.st_uid);
	digest_add_number(h, st.st_gid);
	digest_add_number(h, S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) ? st.st_rdev : 0);
	if (S_ISLNK(st.st_mode)) {
		r = layer_read_link(dir, name, &target);
		digest_add_part(h, buf_cstr(&target), target.len);
		return r < 0 ? r : buf_error(&target);
	}
	if (S_ISREG(st.st_mode)) {
		fd = layer_open_file(dir, name);
		r = fd < 0 ? fd : digest_add_content(h, fd);
		return r < 0 ? r : digest_add_xattrs(h, fd);
	}
	/* For a directory whose mode alone has changed, place.c copies no attribute. */
	if (S_ISDIR(st.st_mode) && kind != CHANGE_MODE) {
		fd = layer_open_directory(dir, name);
		return fd < 0 ? fd : digest_add_xattrs(h, fd);
	}
	return 0;
}

int digest_changes(int upper_fd, const struct changes *all, const unsigned char *go,
		   unsigned char ret[APPLY_DIGEST_LEN], struct err *e)
{
	struct hash_stream h;

	hash_stream_init(&h);
	for (size_t i = 0; i < all->n; i++) {
		const struct change *c = &all->v[i];
		char shown[128];
		int r;

		if (go[i] != 1)
			continue;
		digest_add_number(&h, c->kind);
		digest_add_part(&h, c->path, strlen(c->path));
		digest_add_number(&h, c->mode_before);
		digest_add_number(&h, c->mode_after);
		/* A deletion below a deleted directory has no entry in the layer. */
		r = c->kind == CHANGE_DELETED ? 0 : digest_add_entry(&h, upper_fd, c->path, c->kind);
		if (r < 0)
			return err_sys(e, r, "cannot read %s of the layer",
				       str_safe(c->path, shown, sizeof(shown)));
	}
	hash_stream_end(&h, ret);
	return 0;
}
