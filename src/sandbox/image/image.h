/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The images of a state directory:
 *
 *   images/names/HEX     what a name stands for (HEX: the SHA-256 of the name): manifest, when, from where
 *   images/blobs/HEX     manifests and configurations, by their SHA-256
 *   images/layers/HEX/   a layer, by the SHA-256 of its archive as it came: tree/ the files, layer.json about them
 *   images/tmp/ID/       what somebody is working on, held by an exclusive lock
 *   images/lock          shared: something is being put into the store; exclusive: it is being cleaned
 *
 * Invariants
 *  I1  A layer is stored under the digest of the bytes that went into the unpacker, made by us and not by it: what a
 *      hostile archive makes of the unpacker never gets another archive's name.
 *  I2  Whatever has a name in layers/ or names/ is whole: made in tmp/, checked, written to the disk, renamed. A crash or
 *      a full disk leaves only what nobody refers to, and who comes next removes that.
 *  I3  A layer goes only while nobody holds a lock on its tree/: a run and an import hold a shared one.
 *  I4  A blob is read only together with a check of its digest.
 *  I5  Every tree/ is a stranger's: see unpack.h.
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

/* What a name stands for. */
struct image_record {
	char *name;
	char manifest[OCI_DIGEST_LEN + 1];
	char index[OCI_DIGEST_LEN + 1]; /* of the index that it was chosen from; empty: none */
	char *source;			/* what it was imported from */
	uint64_t imported;		/* CLOCK_REALTIME ns */
	uint64_t bytes;			/* of all its layers, unpacked */
};

void image_record_release(struct image_record *r);

struct image_records {
	struct image_record *v;
	size_t n;
};

void image_records_release(struct image_records *l);

/* All images, by name. */
int image_list(struct state *st, struct image_records *ret, struct err *e) MUST_CHECK;

/* The one that `ref` names; -ENOENT when there is none, -ESTALE when it is pinned to another digest. */
int image_find(struct state *st, const char *ref, struct image_record *ret, struct err *e) MUST_CHECK;

/* An image as a run takes it. */
struct image {
	struct image_record record;
	struct oci_config config;
	struct root_lower *lowers; /* topmost first, each with a shared lock */
	size_t n_lowers;
};

void image_release(struct image *im);
int image_open(struct state *st, const char *ref, struct image *ret, struct err *e) MUST_CHECK;

/* Its manifest and configuration as they are. */
int image_read(struct state *st, const struct image_record *r, struct buf *manifest, struct buf *config,
	       struct err *e) MUST_CHECK;

struct image_import {
	const char *path;   /* file or directory */
	const char *name;   /* as typed; NULL: what the image calls itself */
	const char *source; /* for the record; NULL: path */
	const char *index;  /* digest by which it was fetched, and which was checked then; NULL: none */
	uint64_t entries_max, bytes_max; /* of all layers together; 0: as the disk allows */
};

/* What was left out while unpacking. */
struct image_notes {
	uint64_t layers, reused;
	uint64_t devices, pipes, setids, xattrs, strangers;
};

int image_import(struct state *st, const struct image_import *o, struct image_record *ret,
		 struct image_notes *notes, struct err *e) MUST_CHECK;

/* The same from a registry, by skopeo(1). */
struct image_pull {
	const char *ref;
	bool insecure; /* without TLS */
};
int image_pull(struct state *st, const struct image_pull *o, struct image_record *ret,
	       struct image_notes *notes, struct err *e) MUST_CHECK;

/* Forgets a name, and what only it needed. -EBUSY when a sandbox uses that now. */
int image_remove(struct state *st, const char *ref, struct image_record *ret, struct err *e) MUST_CHECK;

#endif
