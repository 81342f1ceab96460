/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads index, manifest and configuration of an image that is to be imported. The directory is untrusted: files are opened
 * beneath it, sizes are capped, and every blob is compared with the digest that names it.
 */
#include "sandbox/image/image_source.h"

#include "base/fd.h"
#include "base/json.h"
#include "crypto/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>

#define NESTED_MAX 4

void image_source_release(struct image_source *s)
{
	buf_release(&s->manifest);
	buf_release(&s->config);
	strv_release(&s->layers);
	strv_release(&s->digests);
	free(s->ref);
	oci_config_release(&s->about);
	*s = (struct image_source){ 0 };
}

int image_source_open(int dir, const char *path, struct err *e)
{
	autoclose int fd = fd_openat2(dir, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0,
				      RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	char shown[160];
	struct stat st;

	str_safe(path, shown, sizeof(shown));
	if (fd == -ENOENT)
		return err_set(e, -ENOENT, "the image is not complete: %s is missing", shown);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, fd < 0 ? fd : -errno, "cannot open %s of the image", shown);
	if (!S_ISREG(st.st_mode))
		return err_set(e, -EBADMSG, "%s of the image is not a file", shown);
	return TAKE_FD(fd);
}

static bool has_regular_file(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

enum image_kind image_source_kind(int dir)
{
	return has_regular_file(dir, "index.json") && has_regular_file(dir, "oci-layout") ? IMAGE_OCI
	       : has_regular_file(dir, "manifest.json")					  ? IMAGE_DOCKER
											  : IMAGE_ROOTFS;
}

static int read_source_file(int dir, const char *path, struct buf *b, struct err *e)
{
	autoclose int fd = image_source_open(dir, path, e);
	int r = fd < 0 ? fd : fd_read_all(fd, OCI_JSON_MAX, b);

	return r < 0 && fd >= 0 ? err_sys(e, r, "cannot read %.80s of the image", path) : r;
}

/* Reads a blob and compares it with its digest. */
static int read_checked_blob(int dir, const char *digest, struct buf *b, struct err *e)
{
	char path[96], hex[HASH_HEX_LEN + 1];
	int r;

	snprintf(path, sizeof(path), "blobs/sha256/%s", digest + 7);
	buf_clear(b);
	r = read_source_file(dir, path, b, e);
	if (r < 0)
		return r;
	hash_sha256_hex(buf_cstr(b), b->len, hex);
	return str_eq(hex, digest + 7)
		       ? 0
		       : err_set(e, -EBADMSG, "%s of the image does not match its digest", path);
}

/* Is `ref`, an entry's name or only its tag, the end of `name`? Whole parts are compared: tag "4" is not that of "x:14". */
static bool is_end_of_name(const char *ref, const char *name)
{
	size_t n = strlen(name), len = strlen(ref);

	return str_eq(ref, name) || (len && len < n && str_ends(name, ref) &&
				     (name[n - len - 1] == ':' || name[n - len - 1] == '/'));
}

/* The entry with the requested name or tag, else the one for this machine. */
static const struct oci_desc *choose_from_index(const struct oci_index *x, const char *name, struct err *e)
{
	for (size_t i = 0; name && i < x->n; i++) {
		if (x->v[i].ref && is_end_of_name(x->v[i].ref, name))
			return &x->v[i];
	}
	return oci_choose(x, e);
}

/* Follows index.json, and indexes nested in it, down to a manifest. */
static int find_manifest(int dir, const char *tag, struct image_source *s, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int r = read_source_file(dir, "index.json", &b, e);

	for (int depth = 0; r == 0; depth++) {
		CLEANUP(oci_index_release) struct oci_index x = { 0 };
		const struct oci_desc *d;

		r = oci_parse_index(buf_cstr(&b), b.len, &x, e);
		if (r < 0)
			return r;
		d = depth ? oci_choose(&x, e) : choose_from_index(&x, tag, e);
		if (!d)
			return e ? e->code : -ENOENT;
		if (depth == 0 && d->ref && !(s->ref = strdup(d->ref)))
			return err_set(e, -ENOMEM, "out of memory");
		if (!d->is_index)
			return read_checked_blob(dir, d->digest, &s->manifest, e);
		if (depth == NESTED_MAX)
			return err_set(e, -ELOOP, "the image's index is nested too deep");
		if (depth == 0)
			memcpy(s->index, d->digest, sizeof(s->index));
		r = read_checked_blob(dir, d->digest, &b, e);
	}
	return r;
}

static int read_oci_layout(int dir, const char *tag, struct image_source *s, struct err *e)
{
	CLEANUP(oci_manifest_release) struct oci_manifest m = { 0 };
	int r = find_manifest(dir, tag, s, e);

	if (r == 0)
		r = oci_parse_manifest(buf_cstr(&s->manifest), s->manifest.len, &m, e);
	if (r == 0)
		r = read_checked_blob(dir, m.config.digest, &s->config, e);
	for (size_t i = 0; r == 0 && i < m.layers.n; i++) {
		r = strv_addf(&s->layers, "blobs/sha256/%s", m.layers.v[i].digest + 7);
		if (r == 0)
			r = strv_add(&s->digests, m.layers.v[i].digest);
		if (r < 0)
			err_set(e, r, "out of memory");
	}
	return r;
}

static int read_docker_archive(int dir, const char *tag, struct image_source *s, struct err *e)
{
	CLEANUP(oci_docker_release) struct oci_docker d = { 0 };
	autobuf struct buf b = BUF_INIT;
	int r = read_source_file(dir, "manifest.json", &b, e);

	if (r == 0)
		r = oci_parse_docker(buf_cstr(&b), b.len, tag, &d, e);
	if (r == 0)
		r = read_source_file(dir, d.config, &s->config, e);
	if (r < 0)
		return r;
	if (d.tags.n && !(s->ref = strdup(d.tags.v[0])))
		return err_set(e, -ENOMEM, "out of memory");
	s->layers = d.layers;
	d.layers = STRV_INIT;
	return 0;
}

int image_source_read(int dir, enum image_kind kind, const char *tag, struct image_source *ret, struct err *e)
{
	CLEANUP(image_source_release) struct image_source s = { 0 };
	int r = kind == IMAGE_OCI ? read_oci_layout(dir, tag, &s, e) : read_docker_archive(dir, tag, &s, e);

	if (r == 0)
		r = oci_parse_config(buf_cstr(&s.config), s.config.len, &s.about, e);
	if (r < 0)
		return r;
	if (s.layers.n == 0 || s.layers.n != s.about.diff_ids.n)
		return err_set(e, -EBADMSG, "the image has %zu layers, but its configuration names %zu",
			       s.layers.n, s.about.diff_ids.n);
	if ((s.about.os[0] && !str_eq(s.about.os, "linux")) ||
	    (s.about.arch[0] && !str_eq(s.about.arch, oci_own_arch()))) {
		char os[80], arch[80];

		return err_set(e, -ENOEXEC, "the image is for %s/%s, and this machine is linux/%s",
			       str_safe(s.about.os, os, sizeof(os)),
			       str_safe(s.about.arch, arch, sizeof(arch)), oci_own_arch());
	}
	*ret = s;
	s = (struct image_source){ 0 };
	return 0;
}

void image_source_bare_config(const char *diff_id, struct buf *out)
{
	struct json j = JSON_INIT(out);

	json_obj(&j, NULL);
	json_str(&j, "architecture", oci_own_arch());
	json_str(&j, "os", "linux");
	json_obj(&j, "config");
	json_end_obj(&j);
	json_obj(&j, "rootfs");
	json_str(&j, "type", "layers");
	json_arr(&j, "diff_ids");
	json_str(&j, NULL, diff_id);
	json_end_arr(&j);
	json_end_obj(&j);
	json_end_obj(&j);
}

void image_source_manifest(const char *config_digest, size_t config_size, const struct strv *layers,
			   struct buf *out)
{
	struct json j = JSON_INIT(out);

	json_obj(&j, NULL);
	json_u64(&j, "schemaVersion", 2);
	json_str(&j, "mediaType", "application/vnd.oci.image.manifest.v1+json");
	json_obj(&j, "config");
	json_str(&j, "mediaType", "application/vnd.oci.image.config.v1+json");
	json_str(&j, "digest", config_digest);
	json_u64(&j, "size", config_size);
	json_end_obj(&j);
	json_arr(&j, "layers");
	for (size_t i = 0; i < layers->n; i++) {
		json_obj(&j, NULL);
		json_str(&j, "mediaType", "application/vnd.oci.image.layer.v1.tar");
		json_str(&j, "digest", layers->v[i]);
		json_u64(&j, "size", 0);
		json_end_obj(&j);
	}
	json_end_arr(&j);
	json_end_obj(&j);
}
