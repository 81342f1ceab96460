/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds an image by its name and opens its layers for a run, each with a shared lock (image.I3). Reads the store, never
 * changes it; nothing in a layer is opened here but its top directory.
 */
#include "sandbox/image/image.h"

#include "base/fd.h"
#include "sandbox/image/image_store.h"

#include <errno.h>
#include <stdio.h>
#include <sys/xattr.h>

void image_record_release(struct image_record *r)
{
	free(r->name);
	free(r->source);
	*r = (struct image_record){ 0 };
}

void image_records_release(struct image_records *l)
{
	for (size_t i = 0; i < l->n; i++)
		image_record_release(&l->v[i]);
	free(l->v);
	free(l->unread);
	*l = (struct image_records){ 0 };
}

void image_release(struct image *im)
{
	for (size_t i = 0; i < im->n_lowers; i++) {
		fd_close(im->lowers[i].fd);
		free(im->lowers[i].path);
	}
	free(im->lowers);
	oci_config_release(&im->config);
	image_record_release(&im->record);
	*im = (struct image){ 0 };
}

static bool is_pinned_to(const struct image_record *r, const char *digest)
{
	return str_eq(r->manifest, digest) || (r->index[0] && str_eq(r->index, digest));
}

static int image_not_found(const char *name, struct err *e)
{
	err_set(e, -ENOENT, "there is no image %s", name);
	return err_hint(e, -ENOENT, "coffer image ls lists the images; coffer image import or pull adds one");
}

/* A reference with a digest and no tag means any image of that repository that has the digest. */
static int find_by_digest(struct state *st, const struct image_ref *ref, struct image_record *ret,
			  struct err *e)
{
	CLEANUP(image_records_release) struct image_records all = { 0 };
	char name[IMAGE_NAME_MAX + 1], other[OCI_DIGEST_LEN + 1] = "";
	int r = image_list(st, &all, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < all.n; i++) {
		struct image_record *rec = &all.v[i];
		size_t len = strlen(ref->repo);

		if (strncmp(rec->name, ref->repo, len) != 0 ||
		    (rec->name[len] != ':' && rec->name[len] != '@'))
			continue;
		if (is_pinned_to(rec, ref->digest)) {
			*ret = *rec;
			*rec = (struct image_record){ 0 };
			return 0;
		}
		memcpy(other, rec->manifest, sizeof(other));
	}
	image_ref_name(ref, name);
	/* The image may have one of the records that were not read. */
	if (all.n_unread) {
		err_set(e, all.unread[0].code, "%s", all.unread[0].msg);
		return err_hint(e, all.unread[0].code, "%s", all.unread[0].hint);
	}
	if (!other[0])
		return image_not_found(name, e);
	return err_set(e, -ESTALE, "image %s is pinned to %s, but here it is %s", ref->repo, ref->digest,
		       other);
}

int image_find(struct state *st, const char *text, struct image_record *ret, struct err *e)
{
	CLEANUP(image_store_release) struct image_store s = STORE_INIT;
	CLEANUP(image_record_release) struct image_record rec = { 0 };
	char name[IMAGE_NAME_MAX + 1], file[HASH_HEX_LEN + 1];
	struct image_ref ref;
	int r = image_ref_parse(text, &ref, e);

	if (r == 0)
		r = image_store_open(&s, st, e);
	if (r < 0)
		return r;
	if (!ref.tag[0])
		return find_by_digest(st, &ref, ret, e);
	image_store_name_file(image_ref_name(&ref, name), file);
	r = image_store_read_name(&s, file, &rec, e);
	if (r == -ENOENT)
		return image_not_found(name, e);
	if (r < 0)
		return r;
	if (ref.digest[0] && !is_pinned_to(&rec, ref.digest))
		return err_set(e, -ESTALE, "image %s is pinned to %s, but here it is %s", name, ref.digest,
			       rec.manifest);
	*ret = rec;
	rec = (struct image_record){ 0 };
	return 0;
}

int image_read(struct state *st, const struct image_record *rec, struct buf *manifest, struct buf *config,
	       struct err *e)
{
	CLEANUP(image_store_release) struct image_store s = STORE_INIT;
	CLEANUP(oci_manifest_release) struct oci_manifest m = { 0 };
	int r = image_store_open(&s, st, e);

	if (r == 0)
		r = image_store_read_blob(&s, rec->manifest, "manifest", manifest, e);
	if (r == 0)
		r = oci_parse_manifest(buf_cstr(manifest), manifest->len, &m, e);
	return r < 0 ? r : image_store_read_blob(&s, m.config.digest, "configuration", config, e);
}

bool image_dir_is_opaque(int dir)
{
	char c = 0;

	return fgetxattr(dir, "user.overlay.opaque", &c, 1) == 1 && c == 'y';
}

static int open_image_layers(struct image_store *s, struct image *im, const struct oci_manifest *m,
			     struct err *e)
{
	if (m->layers.n == 0 || m->layers.n != im->config.diff_ids.n)
		return err_set(e, -EBADMSG, "image %s has %zu layers, but its configuration names %zu",
			       im->record.name, m->layers.n, im->config.diff_ids.n);
	im->lowers = calloc(m->layers.n, sizeof(*im->lowers));
	if (!im->lowers)
		return err_set(e, -ENOMEM, "out of memory");
	for (size_t i = m->layers.n; i-- > 0;) {
		struct root_lower *l = &im->lowers[im->n_lowers];
		const char *digest = m->layers.v[i].digest;
		struct store_layer about = { 0 };
		int fd = image_store_open_layer(s, digest, &about, e);

		if (fd == -ENOENT) {
			err_set(e, -EBADMSG, "the image store is damaged: layer %.19s… of %s is missing",
				digest, im->record.name);
			return err_hint(e, -EBADMSG, "coffer image rm %s, then import or pull it again",
					im->record.name);
		}
		if (fd < 0)
			return fd;
		l->fd = fd;
		im->n_lowers++;
		if (asprintf(&l->path, "%s/layers/%s/tree", s->path, STORE_DIGEST_HEX(digest)) < 0) {
			l->path = NULL;
			return err_set(e, -ENOMEM, "out of memory");
		}
		if (!str_eq(about.diff_id, im->config.diff_ids.v[i]))
			return err_set(e, -EBADMSG,
				       "the image store is damaged: a layer of %s is not the one it names",
				       im->record.name);
		/* An overlay ignores the opaque mark on the root of a layer, so the layers below are left out here. */
		if (image_dir_is_opaque(fd))
			break;
	}
	return 0;
}

int image_open(struct state *st, const char *ref, struct image *ret, struct err *e)
{
	CLEANUP(image_store_release) struct image_store s = STORE_INIT;
	CLEANUP(image_release) struct image im = { 0 };
	CLEANUP(oci_manifest_release) struct oci_manifest m = { 0 };
	autobuf struct buf manifest = BUF_INIT, config = BUF_INIT;
	int r = image_find(st, ref, &im.record, e);

	if (r == 0)
		r = image_store_open(&s, st, e);
	if (r == 0)
		r = image_read(st, &im.record, &manifest, &config, e);
	if (r == 0)
		r = oci_parse_manifest(buf_cstr(&manifest), manifest.len, &m, e);
	if (r == 0)
		r = oci_parse_config(buf_cstr(&config), config.len, &im.config, e);
	if (r == 0)
		r = open_image_layers(&s, &im, &m, e);
	if (r < 0)
		return r;
	*ret = im;
	im = (struct image){ 0 };
	return 0;
}
