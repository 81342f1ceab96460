/* SPDX-License-Identifier: Apache-2.0 */
/* What nobody needs any more goes: leftovers of who died, layers and blobs that no name leads to, removed images. */
#include "base/fd.h"
#include "sandbox/image/image_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

/* The names in a directory, but for dots. */
static int list_dir(int dirfd, struct strv *ret)
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

void store_sweep(struct store *s)
{
	autostrv struct strv names = STRV_INIT;

	if (list_dir(s->tmp, &names) < 0)
		return;
	for (size_t i = 0; i < names.n; i++) {
		autoclose int fd = openat(s->tmp, names.v[i], DIR_FLAGS);
		int r = 0;

		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			r = fd_rm_rf(s->tmp, names.v[i], NULL);
		(void)r; /* who comes next tries again */
	}
}

static bool is_listed(const struct strv *l, const char *s)
{
	for (size_t i = 0; i < l->n; i++) {
		if (str_eq(l->v[i], s))
			return true;
	}
	return false;
}

/* Digests (without "sha256:") that an image needs. A damaged one needs at least its manifest. */
static int needed_by(struct store *s, const struct image_record *rec, struct strv *blobs, struct strv *layers)
{
	CLEANUP(oci_manifest_release) struct oci_manifest m = { 0 };
	autobuf struct buf b = BUF_INIT;
	int r = strv_add(blobs, STORE_DIGEST_HEX(rec->manifest));

	if (r < 0 || store_read_blob(s, rec->manifest, "manifest", &b, NULL) < 0 ||
	    oci_parse_manifest(buf_cstr(&b), b.len, &m, NULL) < 0)
		return r;
	r = strv_add(blobs, STORE_DIGEST_HEX(m.config.digest));
	for (size_t i = 0; r == 0 && i < m.layers.n; i++)
		r = strv_add(layers, STORE_DIGEST_HEX(m.layers.v[i].digest));
	return r;
}

/* Of all names but one. */
static int needed_by_all(struct store *s, const char *but, struct strv *blobs, struct strv *layers)
{
	autostrv struct strv files = STRV_INIT;
	int r = list_dir(s->names, &files);

	for (size_t i = 0; r == 0 && i < files.n; i++) {
		CLEANUP(image_record_release) struct image_record rec = { 0 };

		if (files.v[i][0] == '.' || store_read_name(s, files.v[i], &rec, NULL) < 0)
			continue;
		if (!but || !str_eq(rec.name, but))
			r = needed_by(s, &rec, blobs, layers);
	}
	return r;
}

/* I3: out of sight first, then away. */
static void remove_layer(struct store *s, const char *hex)
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
	(void)r; /* the next sweep tries again */
}

void store_collect(struct store *s)
{
	autostrv struct strv blobs = STRV_INIT, layers = STRV_INIT, have = STRV_INIT, have_layers = STRV_INIT;
	autoclose int lock = store_lock(s, LOCK_EX | LOCK_NB, NULL);

	if (lock < 0 || needed_by_all(s, NULL, &blobs, &layers) < 0 || list_dir(s->blobs, &have) < 0 ||
	    list_dir(s->layers, &have_layers) < 0)
		return;
	for (size_t i = 0; i < have.n; i++) {
		if (!is_listed(&blobs, have.v[i]))
			unlinkat(s->blobs, have.v[i], 0);
	}
	for (size_t i = 0; i < have_layers.n; i++) {
		if (!is_listed(&layers, have_layers.v[i]))
			remove_layer(s, have_layers.v[i]);
	}
	store_sweep(s);
}

/* Who holds an image now. */
struct holders {
	char sandbox[128]; /* name or id of one that runs; empty: none */
	unsigned more;	   /* sandboxes beside that one */
	unsigned ahead;	   /* of the warm pool, which coffer ps does not show */
};

static void find_holders(struct state *st, const struct image_record *rec, struct holders *ret)
{
	autostrv struct strv ids = STRV_INIT;

	*ret = (struct holders){ 0 };
	if (state_run_list(st, &ids, NULL) < 0)
		return;
	for (size_t i = 0; i < ids.n; i++) {
		CLEANUP(run_meta_release) struct run_meta m = { 0 };
		bool alive = false;
		autoclose int fd = state_run_open(st, ids.v[i], &alive, NULL);
		bool known = fd >= 0 && alive && run_meta_read(fd, &m, NULL) == 0;

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

/* Names each holder and the command that makes it let go. */
static int refuse_held(struct state *st, const struct image_record *rec, struct err *e)
{
	char who[192] = "", more[32] = "";
	struct holders h;

	find_holders(st, rec, &h);
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

/* Does a sandbox use a layer that only this image needs? */
static int check_unused(struct store *s, struct state *st, const struct image_record *rec, struct err *e)
{
	autostrv struct strv blobs = STRV_INIT, others = STRV_INIT, own = STRV_INIT;
	int r = needed_by_all(s, rec->name, &blobs, &others);

	if (r == 0)
		r = needed_by(s, rec, &blobs, &own);
	if (r < 0)
		return err_sys(e, r, "cannot tell what %s needs", rec->name);
	for (size_t i = 0; i < own.n; i++) {
		autoclose int dir = openat(s->layers, own.v[i], DIR_FLAGS);
		autoclose int tree = dir < 0 ? -1 : openat(dir, "tree", DIR_FLAGS);

		if (tree < 0 || is_listed(&others, own.v[i]) || flock(tree, LOCK_EX | LOCK_NB) == 0)
			continue;
		return refuse_held(st, rec, e);
	}
	return 0;
}

int image_remove(struct state *st, const char *ref, struct image_record *ret, struct err *e)
{
	CLEANUP(store_release) struct store s = STORE_INIT;
	CLEANUP(image_record_release) struct image_record rec = { 0 };
	char file[HASH_HEX_LEN + 1];
	int r = store_open(&s, st, e);

	if (r == 0)
		r = image_find(st, ref, &rec, e);
	if (r == 0)
		r = check_unused(&s, st, &rec, e);
	if (r < 0)
		return r;
	store_name_file(rec.name, file);
	if (unlinkat(s.names, file, 0) < 0 && errno != ENOENT)
		return err_sys(e, -errno, "cannot remove %s", rec.name);
	store_collect(&s);
	*ret = rec;
	rec = (struct image_record){ 0 };
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct image_record *)a)->name, ((const struct image_record *)b)->name);
}

int image_list(struct state *st, struct image_records *ret, struct err *e)
{
	CLEANUP(store_release) struct store s = STORE_INIT;
	CLEANUP(image_records_release) struct image_records l = { 0 };
	autostrv struct strv files = STRV_INIT;
	int r;

	/* Whoever only looks makes no store. */
	if (faccessat(st->fd, "images", F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) {
		*ret = (struct image_records){ 0 };
		return 0;
	}
	r = store_open(&s, st, e);
	if (r == 0) {
		r = list_dir(s.names, &files);
		l.v = calloc(files.n ? files.n : 1, sizeof(*l.v));
		if (r < 0 || !l.v)
			return err_sys(e, r < 0 ? r : -ENOMEM, "cannot list the images");
	}
	for (size_t i = 0; r == 0 && i < files.n; i++) {
		if (files.v[i][0] == '.')
			continue;
		r = store_read_name(&s, files.v[i], &l.v[l.n], e);
		l.n += r == 0;
		r = r == -ENOENT ? 0 : r;
	}
	if (r < 0)
		return r;
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), by_name);
	*ret = l;
	l = (struct image_records){ 0 };
	return 0;
}
