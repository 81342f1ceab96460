/* SPDX-License-Identifier: Apache-2.0 */
/* The source of an import: a directory with an OCI layout or an unpacked docker archive. Untrusted: files are opened
 * beneath it, and digests are checked. */
#ifndef SANDBOX_IMAGE_SOURCE_H
#define SANDBOX_IMAGE_SOURCE_H

#include "base/buf.h"
#include "sandbox/image/image.h"

struct image_source {
	struct buf manifest; /* byte for byte from an OCI layout; empty: a docker archive has none */
	struct buf config;
	struct strv layers;		/* paths in the directory, lowest first */
	struct strv digests;		/* of the same, where the source names them; empty otherwise */
	char index[OCI_DIGEST_LEN + 1]; /* of the nested index that lists the manifest; empty: none */
	char *ref;			/* the name that it states, or only a tag; NULL: none */
	struct oci_config about;	/* config, parsed */
};

void image_source_release(struct image_source *s);

enum image_kind { IMAGE_OCI, IMAGE_DOCKER, IMAGE_ROOTFS };

/* Decided by the files in the directory. */
enum image_kind image_source_kind(int dir);

/* Reads and checks everything but the layers. `tag` (may be NULL) selects one of several images. */
int image_source_read(int dir, enum image_kind kind, const char *tag, struct image_source *ret,
		      struct err *e) MUST_CHECK;

/* A regular file beneath dir. */
int image_source_open(int dir, const char *path, struct err *e) MUST_CHECK;

/* The configuration of a bare root file system with this one layer; and a manifest over any configuration. */
void image_source_bare_config(const char *diff_id, struct buf *out);
void image_source_manifest(const char *config_digest, size_t config_size, const struct strv *layers,
			   struct buf *out);

#endif
