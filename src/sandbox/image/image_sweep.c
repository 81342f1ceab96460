/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removal from the image store: leftovers of imports that died, layers and blobs that no name needs, and images that the
 * user removes. A layer that a run or an import holds is never removed (image.I3).
 */
#include "base/fd.h"
#include "base/vec.h"
#include "sandbox/image/image_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

/* All names in a directory except "." and "..". */
static int list_store_dir(int dirfd, struct strv *ret)
{
	int fd = openat(dirfd, ".", DIR_FLAGS);
	autoclosedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *de;

	if (!d) {
		fd_close(fd);
		return -errno;
	}
	while ((de = readdir(d))) {
		if (!str_eq(de->d_name, ".") && !str_eq(de->d_name, "..") && strv_add(ret, de->d_name) < 0)
			return -ENOMEM;
	}
	return 0;
}

void image_store_sweep(struct image_store *s)
{
	autostrv struct strv names = STRV_INIT;

	if (list_store_dir(s->tmp, &names) < 0)
		return;
	for (size_t i = 0; i < names.n; i++) {
		autoclose int fd = openat(s->tmp, names.v[i], DIR_FLAGS);
		int r = 0;

		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			r = fd_rm_rf(s->tmp, names.v[i], NULL);
		(void)r; /* the next sweep retries */
	}
}

static bool is_in_list(const struct strv *l, const char *s)
{
	for (size_t i = 0; i < l->n; i++) {
		if (str_eq(l->v[i], s))
			return true;
	}
	return false;
}

/*
 * Adds the digests (without "sha256:") that an image needs. Of an image whose manifest is damaged only the manifest is known
 * to be needed. Any other error is returned: what cannot be read now may be needed.
 */
static int add_needed_digests(struct image_store *s, const struct image_record *rec, struct strv *blobs,
			      struct strv *layers)
{
	CLEANUP(oci_manifest_release) struct oci_manifest m = { 0 };
	autobuf struct buf b = BUF_INIT;
	int r = strv_add(blobs, STORE_DIGEST_HEX(rec->manifest));

	if (r == 0)
		r = image_store_read_blob(s, rec->manifest, "manifest", &b, NULL);
	if (r == 0)
		r = oci_parse_manifest(buf_cstr(&b), b.len, &m, NULL);
	if (r < 0)
		return r == -EBADMSG || r == -E2BIG ? 0 : r;
	r = strv_add(blobs, STORE_DIGEST_HEX(m.config.digest));
	for (size_t i = 0; r == 0 && i < m.layers.n; i++)
		r = strv_add(layers, STORE_DIGEST_HEX(m.layers.v[i].digest));
	return r;
}

/*
 * Adds the digests that all images but one need. A record that is gone or damaged needs nothing; one that cannot be read for
 * another reason is an error, so that the content of its image is not removed.
 */
static int add_all_needed_digests(struct image_store *s, const char *but, struct strv *blobs,
				  struct strv *layers)
{
	autostrv struct strv files = STRV_INIT;
	int r = list_store_dir(s->names, &files);

	for (size_t i = 0; r == 0 && i < files.n; i++) {
		CLEANUP(image_record_release) struct image_record rec = { 0 };

		if (files.v[i][0] == '.')
			continue;
		r = image_store_read_name(s, files.v[i], &rec, NULL);
		if (r == -ENOENT || r == -EBADMSG)
			r = 0;
		else if (r == 0 && (!but || !str_eq(rec.name, but)))
			r = add_needed_digests(s, &rec, blobs, layers);
	}
	return r;
}

/*
 * image.I3: an exclusive lock on the tree excludes runs and imports. The layer is moved to tmp/ first, so that no process finds
 * a part of it; the lock on its directory keeps image_store_sweep() of another process away meanwhile.
 */
static void remove_layer_if_unused(struct image_store *s, const char *hex)
{
	autoclose int dir = openat(s->layers, hex, DIR_FLAGS);
	autoclose int tree = dir < 0 ? -1 : openat(dir, "tree", DIR_FLAGS);
	char to[HASH_HEX_LEN + 8];
	int r;

	if (dir < 0 || (tree >= 0 && flock(tree, LOCK_EX | LOCK_NB) < 0))
		return;
	snprintf(to, sizeof(to), "rm-%.64s", hex);
	r = fd_rm_rf(s->tmp, to, NULL);
	if (r < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0 || renameat(s->layers, hex, s->tmp, to) < 0)
		return;
	r = fd_rm_rf(s->tmp, to, NULL);
	(void)r; /* the next sweep retries */
}

void image_store_collect(struct image_store *s)
{
	autostrv struct strv blobs = STRV_INIT, layers = STRV_INIT, have = STRV_INIT, have_layers = STRV_INIT;
	autoclose int lock = image_store_lock(s, LOCK_EX | LOCK_NB, NULL);

	if (lock < 0 || add_all_needed_digests(s, NULL, &blobs, &layers) < 0 ||
	    list_store_dir(s->blobs, &have) < 0 || list_store_dir(s->layers, &have_layers) < 0)
		return;
	for (size_t i = 0; i < have.n; i++) {
		if (!is_in_list(&blobs, have.v[i]))
			unlinkat(s->blobs, have.v[i], 0);
	}
	for (size_t i = 0; i < have_layers.n; i++) {
		if (!is_in_list(&layers, have_layers.v[i]))
			remove_layer_if_unused(s, have_layers.v[i]);
	}
	image_store_sweep(s);
}

/* Sandboxes that use an image now. */
struct holders {
	char sandbox[128]; /* name or id of one that runs; empty: none */
	unsigned more;	   /* sandboxes beside that one */
	unsigned ahead;	   /* of the warm pool, which coffer ps does not show */
};

static void find_image_holders(struct state *st, const struct image_record *rec, struct holders *ret)
{
	autostrv struct strv ids = STRV_INIT;

	*ret = (struct holders){ 0 };
	if (state_run_list(st, &ids, NULL) < 0)
		return;
	for (size_t i = 0; i < ids.n; i++) {
		CLEANUP(state_meta_release) struct run_meta m = { 0 };
		bool alive = false;
		autoclose int fd = state_run_open(st, ids.v[i], &alive, NULL);
		bool known = fd >= 0 && alive && state_meta_read(fd, &m, NULL) == 0;

		if (fd < 0 || !alive || (known && !(m.image_digest && str_eq(m.image_digest, rec->manifest))))
			continue;
		if (!state_run_has_begun(fd))
			ret->ahead++;
		else if (known && ret->sandbox[0])
			ret->more++;
		else if (known)
			snprintf(ret->sandbox, sizeof(ret->sandbox), "%s", m.name ? m.name : ids.v[i]);
	}
}

/* The error names a sandbox that uses the image, and the command that ends it. */
static int refuse_held_image(struct state *st, const struct image_record *rec, struct err *e)
{
	char who[192] = "", more[32] = "";
	struct holders h;

	find_image_holders(st, rec, &h);
	if (!h.sandbox[0] && !h.ahead) {
		err_set(e, -EBUSY, "%s is being imported, or a sandbox that uses it is starting or ending",
			rec->name);
		return err_hint(e, -EBUSY, "wait a moment, then coffer image rm %s", rec->name);
	}
	if (h.more)
		snprintf(more, sizeof(more), " and %u more", h.more);
	if (h.sandbox[0])
		snprintf(who, sizeof(who), "used by sandbox %s%s", h.sandbox, more);
	err_set(e, -EBUSY, "%s is %s%s%s", rec->name, who, h.sandbox[0] && h.ahead ? ", and " : "",
		h.ahead ? "held by the warm pool (sandboxes made ahead for coffer call)" : "");
	return err_hint(e, -EBUSY, "%s%s%s%s", h.sandbox[0] ? "coffer stop " : "", h.sandbox,
			h.sandbox[0] && h.ahead ? "; " : "",
			h.ahead ? "coffer pool stop, which ends the sandboxes of the pool" : "");
}

/* -EBUSY when a sandbox or an import holds a layer that only this image needs. */
static int check_image_unused(struct image_store *s, struct state *st, const struct image_record *rec,
			      struct err *e)
{
	autostrv struct strv blobs = STRV_INIT, others = STRV_INIT, own = STRV_INIT;
	int r = add_all_needed_digests(s, rec->name, &blobs, &others);

	if (r == 0)
		r = add_needed_digests(s, rec, &blobs, &own);
	if (r < 0)
		return err_sys(e, r, "cannot determine which layers %s needs", rec->name);
	for (size_t i = 0; i < own.n; i++) {
		autoclose int dir = openat(s->layers, own.v[i], DIR_FLAGS);
		autoclose int tree = dir < 0 ? -1 : openat(dir, "tree", DIR_FLAGS);

		if (tree < 0 || is_in_list(&others, own.v[i]) || flock(tree, LOCK_EX | LOCK_NB) == 0)
			continue;
		return refuse_held_image(st, rec, e);
	}
	return 0;
}

int image_remove(struct state *st, const char *ref, struct image_record *ret, struct err *e)
{
	CLEANUP(image_store_release) struct image_store s = STORE_INIT;
	CLEANUP(image_record_release) struct image_record rec = { 0 };
	char file[HASH_HEX_LEN + 1];
	int r = image_store_open(&s, st, e);

	if (r == 0)
		r = image_find(st, ref, &rec, e);
	if (r == 0)
		r = check_image_unused(&s, st, &rec, e);
	if (r < 0)
		return r;
	image_store_name_file(rec.name, file);
	if (unlinkat(s.names, file, 0) < 0 && errno != ENOENT)
		return err_sys(e, -errno, "cannot remove %s", rec.name);
	image_store_collect(&s);
	*ret = rec;
	rec = (struct image_record){ 0 };
	return 0;
}

static int compare_record_names(const void *a, const void *b)
{
	return strcmp(((const struct image_record *)a)->name, ((const struct image_record *)b)->name);
}

/* Reads the records of these files; one that cannot be read is noted with its reason. */
static int read_records(struct image_store *s, const struct strv *files, struct image_records *l,
			struct err *e)
{
	struct err why = ERR_INIT;

	for (size_t i = 0; i < files->n; i++) {
		int r = files->v[i][0] == '.' ? -ENOENT
					      : image_store_read_name(s, files->v[i], &l->v[l->n], &why);

		l->n += r == 0;
		if (r == 0 || r == -ENOENT)
			continue;
		if (VEC_DOUBLE(l->unread, l->n_unread, VEC_NO_MAX) < 0)
			return err_set(e, -ENOMEM, "out of memory");
		l->unread[l->n_unread++] = why;
	}
	return 0;
}

int image_list(struct state *st, struct image_records *ret, struct err *e)
{
	CLEANUP(image_store_release) struct image_store s = STORE_INIT;
	CLEANUP(image_records_release) struct image_records l = { 0 };
	autostrv struct strv files = STRV_INIT;
	int r;

	/* Listing does not create the store. */
	if (faccessat(st->fd, "images", F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) {
		*ret = (struct image_records){ 0 };
		return 0;
	}
	r = image_store_open(&s, st, e);
	if (r == 0) {
		r = list_store_dir(s.names, &files);
		l.v = calloc(files.n ? files.n : 1, sizeof(*l.v));
		if (r < 0 || !l.v)
			return err_sys(e, r < 0 ? r : -ENOMEM, "cannot list the images");
	}
	if (r == 0)
		r = read_records(&s, &files, &l, e);
	if (r < 0)
		return r;
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), compare_record_names);
	*ret = l;
	l = (struct image_records){ 0 };
	return 0;
}
