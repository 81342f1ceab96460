/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The images of a state directory:
 *
 *   images/names/HEX     the record of a name (HEX: the SHA-256 of the name): manifest, time, source
 *   images/blobs/HEX     manifests and configurations, by their SHA-256
 *   images/layers/HEX/   a layer, by the SHA-256 of its archive as it came: tree/ the files, layer.json about them
 *   images/tmp/ID/       work in progress, held by an exclusive lock
 *   images/lock          shared: an import is adding to the store; exclusive: it is being cleaned
 *
 * Invariants
 *  I1  A layer is stored under the digest of the bytes that were fed to the unpacker, computed by us and not by it: a
 *      hostile archive that takes the unpacker over cannot get another archive's name.
 *  I2  Everything in layers/ and names/ is complete: made in tmp/, checked, synced, renamed. A crash or a full disk leaves
 *      only unreferenced files, which the next sweep removes.
 *  I3  A layer is removed only while nothing holds a lock on its tree/: a run and an import hold a shared one.
 *  I4  A blob is read only together with a check of its digest.
 *  I5  The content of every tree/ is hostile: see unpack.K3.
 */
#ifndef SANDBOX_IMAGE_H
#define SANDBOX_IMAGE_H

#include "base/buf.h"
#include "base/err.h"
#include "sandbox/image/image_ref.h"
#include "sandbox/image/oci.h"
#include "sandbox/spec/spec.h"
#include "sandbox/state/state.h"

#include <stdint.h>

/* The record of a name. */
struct image_record {
	char *name;
	char manifest[OCI_DIGEST_LEN + 1];
	char index[OCI_DIGEST_LEN + 1]; /* of the index that listed it; empty: none */
	char *source;			/* path or reference that it was imported from */
	uint64_t imported;		/* CLOCK_REALTIME ns */
	uint64_t bytes;			/* of all its layers, unpacked */
};

void image_record_release(struct image_record *r);

struct image_records {
	struct image_record *v;
	size_t n;
	struct err *unread; /* one for each record that is damaged or cannot be read */
	size_t n_unread;
};

void image_records_release(struct image_records *l);

/* All images whose records can be read, by name. */
int image_list(struct state *st, struct image_records *ret, struct err *e) MUST_CHECK;

/* The image that `ref` names; -ENOENT when there is none, -ESTALE when the reference has another digest. */
int image_find(struct state *st, const char *ref, struct image_record *ret, struct err *e) MUST_CHECK;

/* An image, opened for a run. */
struct image {
	struct image_record record;
	struct oci_config config;
	struct root_lower *lowers; /* topmost first, each with a shared lock */
	size_t n_lowers;
};

void image_release(struct image *im);
int image_open(struct state *st, const char *ref, struct image *ret, struct err *e) MUST_CHECK;

/* Does a directory of a layer hide the same directory of the layers below (unpack_tree.E3)? */
bool image_dir_is_opaque(int dir);

/* The manifest and the configuration of an image, byte for byte. */
int image_read(struct state *st, const struct image_record *r, struct buf *manifest, struct buf *config,
	       struct err *e) MUST_CHECK;

struct image_import {
	const char *path;		 /* file or directory */
	const char *name;		 /* as typed; NULL: the name that the image states */
	const char *source;		 /* for the record; NULL: path */
	const char *index;		 /* digest by which it was fetched, checked then; NULL: none */
	uint64_t entries_max, bytes_max; /* of all layers together; 0: limited by the disk */
};

/* Counts of what was left out while unpacking. */
struct image_notes {
	uint64_t layers, reused;
	uint64_t devices, pipes, setids, xattrs, strangers;
};

int image_import(struct state *st, const struct image_import *o, struct image_record *ret,
		 struct image_notes *notes, struct err *e) MUST_CHECK;

/* Fetches an image from a registry by skopeo(1), then imports it. */
struct image_pull {
	const char *ref;
	bool insecure; /* without TLS */
};
int image_pull(struct state *st, const struct image_pull *o, struct image_record *ret,
	       struct image_notes *notes, struct err *e) MUST_CHECK;

/* Removes a name, and the content that only it needed. -EBUSY when a sandbox uses that content. */
int image_remove(struct state *st, const char *ref, struct image_record *ret, struct err *e) MUST_CHECK;

#endif
