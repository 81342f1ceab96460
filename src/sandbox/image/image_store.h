/* SPDX-License-Identifier: Apache-2.0 */
/* The store on disk (image.h), for the files of this room. */
#ifndef SANDBOX_IMAGE_STORE_H
#define SANDBOX_IMAGE_STORE_H

#include "sandbox/image/image.h"
#include "sandbox/image/unpack.h"

#define STORE_DIGEST_HEX(digest) ((digest) + 7)

struct image_store {
	char *path; /* STATE/images */
	int fd, names, blobs, layers, tmp;
	bool host_root;
};

#define STORE_INIT ((struct image_store){ .fd = -1, .names = -1, .blobs = -1, .layers = -1, .tmp = -1 })

int image_store_open(struct image_store *s, struct state *st, struct err *e) MUST_CHECK;
void image_store_release(struct image_store *s);

/* A directory of our own in tmp/, locked; its name goes to `name`. */
#define STORE_TMP_LEN 16
int image_store_tmp(struct image_store *s, char name[STORE_TMP_LEN + 1], struct err *e) MUST_CHECK;

/* image_store_sweep() removes directories in tmp/ that nothing holds. image_store_collect() removes layers and blobs that no name
 * needs; it takes the lock exclusively, and does nothing while an import runs. */
void image_store_sweep(struct image_store *s);
void image_store_collect(struct image_store *s);

/* The store's lock. The fd holds it. */
int image_store_lock(struct image_store *s, int how, struct err *e) MUST_CHECK;

/* Blobs, read with a check of their digest (image.I4). `digest` with "sha256:". */
int image_store_read_blob(struct image_store *s, const char *digest, const char *what, struct buf *b,
			  struct err *e) MUST_CHECK;
int image_store_write_blob(struct image_store *s, const void *data, size_t len,
			   char digest[OCI_DIGEST_LEN + 1], struct err *e) MUST_CHECK;

/* The record of a name. */
/* -ENOENT: there is no such record; -EBADMSG: it is damaged. */
int image_store_read_name(struct image_store *s, const char *file, struct image_record *ret,
			  struct err *e) MUST_CHECK;
int image_store_write_name(struct image_store *s, const struct image_record *r, struct err *e) MUST_CHECK;
/* The file of a name in names/. */
void image_store_name_file(const char *name, char file[HASH_HEX_LEN + 1]);

/* Figures of a layer: layer.json. */
struct store_layer {
	char diff_id[OCI_DIGEST_LEN + 1];
	uint64_t bytes, entries;
};
/* -E2BIG or -EFBIG when the image is over the limits of this import. */
int image_check_limits(const struct image_import *o, const struct store_layer *used,
		       struct err *e) MUST_CHECK;
/* A layer's tree/ with a shared lock: fd, or -ENOENT when it does not exist or is being removed. */
int image_store_open_layer(struct image_store *s, const char *digest, struct store_layer *ret,
			   struct err *e) MUST_CHECK;
/*
 * Moves tmp/NAME/SUB (which holds tree/) to layers/ under its digest; a layer that exists there stays. Returns the tree of the
 * layer that is there then, with a shared lock (image.I3).
 */
int image_store_put_layer(struct image_store *s, const char *tmp, const char *sub, const char *digest,
			  const struct store_layer *l, struct err *e) MUST_CHECK;

/* image_unpack.c: the limits for the next layer, when `used` of the image is unpacked already. */
void image_unpack_caps(const struct image_store *s, const struct image_import *o,
		       const struct store_layer *used, struct unpack_opts *ret);

/* Runs coffer-unpack over all of src into dir. `ret_digest` is of the bytes of src, `ret_len` their number. */
int image_unpack(int src, int dir, const struct unpack_opts *caps, char ret_digest[OCI_DIGEST_LEN + 1],
		 uint64_t *ret_len, struct unpack_reply *reply, struct err *e) MUST_CHECK;

#endif
