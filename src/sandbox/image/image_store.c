/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The image store on disk: its directories and locks, blobs, records of names, and layers. Each file is written beside its
 * place, synced and renamed (image.I2), and each blob is checked when it is read (image.I4). A blob whose bytes have
 * another digest is refused.
 */
#include "sandbox/image/image_store.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/jsonget.h"
#include "crypto/hash.h"
#include "sandbox/state/state_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
#define RECORD_MAX 65536
#define PUT_TRIES 100 /* while another process removes the layer of the same digest */
#define PUT_PAUSE_NS 10000000L

static int open_store_dir(const struct image_store *s, const char *name, struct err *e)
{
	int fd = openat(s->fd, name, DIR_FLAGS);

	if (fd < 0 && errno == ENOENT) {
		if (mkdirat(s->fd, name, 0700) < 0 && errno != EEXIST)
			return state_cannot(e, -errno, "make a directory in", s->path);
		fd = openat(s->fd, name, DIR_FLAGS);
	}
	return fd < 0 ? err_sys(e, -errno, "cannot open %s/%s", s->path, name) : fd;
}

int image_store_open(struct image_store *s, struct state *st, struct err *e)
{
	struct image_store x = STORE_INIT;
	int r = 0;

	if (asprintf(&x.path, "%s/images", st->path) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	x.host_root = state_is_host_root();
	x.fd = state_subdir(st, "images", e);
	if (x.fd < 0 || (x.names = open_store_dir(&x, "names", e)) < 0 ||
	    (x.blobs = open_store_dir(&x, "blobs", e)) < 0 ||
	    (x.layers = open_store_dir(&x, "layers", e)) < 0 || (x.tmp = open_store_dir(&x, "tmp", e)) < 0)
		r = e && e->code ? e->code : -EIO;
	if (r < 0)
		image_store_release(&x);
	else
		*s = x;
	return r;
}

void image_store_release(struct image_store *s)
{
	free(s->path);
	fd_close(s->fd);
	fd_close(s->names);
	fd_close(s->blobs);
	fd_close(s->layers);
	fd_close(s->tmp);
	*s = STORE_INIT;
}

int image_store_lock(struct image_store *s, int how, struct err *e)
{
	autoclose int fd = openat(s->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return state_cannot(e, -errno, "open the lock of", s->path);
	while (flock(fd, how) < 0) {
		if (errno != EINTR)
			return err_sys(e, -errno, "cannot lock %s", s->path);
	}
	return TAKE_FD(fd);
}

int image_store_tmp(struct image_store *s, char name[STORE_TMP_LEN + 1], struct err *e)
{
	for (int tries = 0; tries < 8; tries++) {
		autoclose int fd = -1;
		struct stat st;

		if (state_new_id(name, e) < 0)
			return e ? e->code : -EIO;
		if (mkdirat(s->tmp, name, 0700) < 0)
			return state_cannot(e, -errno, "make a directory in", s->path);
		fd = openat(s->tmp, name, DIR_FLAGS);
		/* A sweep may have removed it before we locked it: retry. */
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0)
			return TAKE_FD(fd);
	}
	return err_set(e, -EAGAIN, "cannot make a directory in %s/tmp", s->path);
}

/* --- blobs and records -------------------------------------------------------------------------------------- */

static int report_damaged_store(struct err *e, int code, const char *what, const char *path)
{
	err_set(e, code, "the image store is damaged: %s is missing or was changed (%s)", what, path);
	return err_hint(e, code, "coffer image rm, then import or pull it again");
}

int image_store_read_blob(struct image_store *s, const char *digest, const char *what, struct buf *b,
			  struct err *e)
{
	char hex[HASH_HEX_LEN + 1];
	int r = fd_read_file(s->blobs, STORE_DIGEST_HEX(digest), OCI_JSON_MAX, b);

	if (r < 0 && r != -ENOENT && r != -EFBIG)
		return err_sys(e, r, "cannot read the image's %s", what);
	hash_sha256_hex(buf_cstr(b), b->len, hex);
	return r < 0 || !str_eq(hex, STORE_DIGEST_HEX(digest))
		       ? report_damaged_store(e, -EBADMSG, what, s->path)
		       : 0;
}

/* Syncs the file before it gets its name. */
static int write_blob_durably(int dir, const char *file, const void *data, size_t len)
{
	char tmp[80];
	int r;

	snprintf(tmp, sizeof(tmp), ".new-%d", (int)getpid());
	autoclose int fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, data, len);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dir, tmp, dir, file) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dir, tmp, 0);
	return r;
}

int image_store_write_blob(struct image_store *s, const void *data, size_t len,
			   char digest[OCI_DIGEST_LEN + 1], struct err *e)
{
	int r;

	snprintf(digest, OCI_DIGEST_LEN + 1, "sha256:");
	hash_sha256_hex(data, len, digest + 7);
	r = write_blob_durably(s->blobs, STORE_DIGEST_HEX(digest), data, len);
	return r < 0 ? state_cannot(e, r, "write to", s->path) : 0;
}

void image_store_name_file(const char *name, char file[HASH_HEX_LEN + 1])
{
	hash_sha256_hex(name, strlen(name), file);
}

int image_store_write_name(struct image_store *s, const struct image_record *rec, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	char file[HASH_HEX_LEN + 1];
	int r;

	json_obj(&j, NULL);
	json_str(&j, "name", rec->name);
	json_str(&j, "manifest", rec->manifest);
	json_str(&j, "index", rec->index[0] ? rec->index : NULL);
	json_str(&j, "source", rec->source);
	json_u64(&j, "imported", rec->imported);
	json_u64(&j, "bytes", rec->bytes);
	json_end_obj(&j);
	if (buf_error(&b))
		return err_set(e, -ENOMEM, "out of memory");
	image_store_name_file(rec->name, file);
	/* image.I2: content whose entries a crash may lose would leave a name without an image. */
	r = fsync(s->blobs) < 0 || fsync(s->layers) < 0 ? -errno : 0;
	if (r == 0)
		r = write_blob_durably(s->names, file, b.data, b.len);
	if (r == 0 && fsync(s->names) < 0)
		r = -errno;
	return r < 0 ? state_cannot(e, r, "write to", s->path) : 0;
}

static const char *record_digest(const json_t *root, const char *key)
{
	const char *s = jsonget_text_or_null(root, key);

	return s && oci_is_digest(s) ? s : NULL;
}

int image_store_read_name(struct image_store *s, const char *file, struct image_record *ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	const char *name, *manifest, *index, *source;
	int r = fd_read_file(s->names, file, RECORD_MAX, &b);
	json_t *root = NULL;

	if (r == -ENOENT)
		return r;
	/* A record that is too large is damaged too. Any other error does not prove damage: its image may be whole. */
	if (r == 0)
		r = jsonget_load(buf_cstr(&b), b.len, &root, NULL);
	if (r < 0 && r != -EFBIG && r != -EBADMSG)
		return err_sys(e, r, "cannot read %s/names/%s", s->path, file);
	name = jsonget_text_or_null(root, "name");
	source = jsonget_text_or_null(root, "source");
	manifest = record_digest(root, "manifest");
	index = record_digest(root, "index");
	if (!name || !manifest) {
		/* Not `coffer image rm`: the name of the image is not known. */
		err_set(e, -EBADMSG, "the image store is damaged: %s/names/%s is not the record of an image",
			s->path, file);
		r = err_hint(e, -EBADMSG, "remove that file, then import or pull the image again");
	} else {
		*ret = (struct image_record){ .name = strdup(name),
					      .source = source ? strdup(source) : NULL };
		memcpy(ret->manifest, manifest, OCI_DIGEST_LEN + 1);
		if (index)
			memcpy(ret->index, index, OCI_DIGEST_LEN + 1);
		ret->imported = (uint64_t)json_integer_value(json_object_get(root, "imported"));
		ret->bytes = (uint64_t)json_integer_value(json_object_get(root, "bytes"));
		r = ret->name ? 0 : err_set(e, -ENOMEM, "out of memory");
	}
	json_decref(root);
	return r;
}

/* --- layers ------------------------------------------------------------------------------------------------- */

static int read_layer_json(int dir, struct store_layer *ret)
{
	autobuf struct buf b = BUF_INIT;
	const char *diff;
	int r = fd_read_file(dir, "layer.json", RECORD_MAX, &b);
	json_t *root;

	if (r < 0)
		return r;
	root = json_loadb(buf_cstr(&b), b.len, JSON_REJECT_DUPLICATES, NULL);
	diff = record_digest(root, "diff_id");
	if (diff) {
		memcpy(ret->diff_id, diff, OCI_DIGEST_LEN + 1);
		ret->bytes = (uint64_t)json_integer_value(json_object_get(root, "bytes"));
		ret->entries = (uint64_t)json_integer_value(json_object_get(root, "entries"));
	}
	json_decref(root);
	return diff ? 0 : -EBADMSG;
}

int image_store_open_layer(struct image_store *s, const char *digest, struct store_layer *ret, struct err *e)
{
	autoclose int dir = openat(s->layers, STORE_DIGEST_HEX(digest), DIR_FLAGS), tree = -1;
	struct stat st;
	int r;

	if (dir < 0)
		return errno == ENOENT ? -ENOENT : err_sys(e, -errno, "cannot open a layer in %s", s->path);
	tree = openat(dir, "tree", DIR_FLAGS);
	if (tree < 0)
		return errno == ENOENT ? -ENOENT : report_damaged_store(e, -EBADMSG, "a layer", s->path);
	/* image.I3: a lock that is taken means that the layer is being removed. */
	if (flock(tree, LOCK_SH | LOCK_NB) < 0 || fstat(tree, &st) < 0 || st.st_nlink == 0)
		return -ENOENT;
	r = read_layer_json(dir, ret);
	if (r < 0)
		return r == -ENOENT ? -ENOENT : report_damaged_store(e, -EBADMSG, "a layer", s->path);
	return TAKE_FD(tree);
}

static int write_layer_json(int dir, const struct store_layer *l)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_obj(&j, NULL);
	json_str(&j, "diff_id", l->diff_id);
	json_u64(&j, "bytes", l->bytes);
	json_u64(&j, "entries", l->entries);
	json_end_obj(&j);
	return buf_error(&b) ? buf_error(&b) : fd_replace_file(dir, "layer.json", b.data, b.len, 0600);
}

int image_store_put_layer(struct image_store *s, const char *tmp, const char *sub, const char *digest,
			  const struct store_layer *l, struct err *e)
{
	autoclose int at = openat(s->tmp, tmp, DIR_FLAGS), dir = -1, tree = -1;
	int r;

	dir = at < 0 ? -1 : openat(at, sub, DIR_FLAGS);
	tree = dir < 0 ? -1 : openat(dir, "tree", DIR_FLAGS);
	if (tree < 0)
		return err_sys(e, -errno, "cannot open the unpacked layer");
	r = write_layer_json(dir, l);
	/* After a crash that keeps the layer's name none of its files may be empty: one syncfs() instead of an fsync() for each. */
	if (r == 0 && (syncfs(dir) < 0 || flock(tree, LOCK_SH | LOCK_NB) < 0))
		r = -errno;
	for (int tries = 0; r == 0 && tries < PUT_TRIES; tries++) {
		struct store_layer existing = { 0 };
		int fd;

		if (renameat2(at, sub, s->layers, STORE_DIGEST_HEX(digest), RENAME_NOREPLACE) == 0)
			return TAKE_FD(tree);
		if (errno != EEXIST)
			return state_cannot(e, -errno, "write a layer to", s->path);
		/* Another import stored the same layer. It may be removed at any time, until it is locked here too. */
		fd = image_store_open_layer(s, digest, &existing, e);
		if (fd != -ENOENT)
			return fd;
		nanosleep(&(struct timespec){ .tv_nsec = PUT_PAUSE_NS }, NULL);
	}
	return state_cannot(e, r < 0 ? r : -EBUSY, "write a layer to", s->path);
}
