/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the JSON of images: index, manifest and configuration of an OCI layout, manifest.json of a docker archive.
 * Bytes in, structs out, no I/O. The input is hostile: sizes, counts and lengths are capped; a digest is "sha256:" and 64
 * digits, or it is refused.
 */
#ifndef SANDBOX_OCI_H
#define SANDBOX_OCI_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define OCI_JSON_MAX (4u << 20) /* the limit of registries */
#define OCI_DIGEST_LEN 71	/* "sha256:" and 64 digits */
#define OCI_LAYERS_MAX 127	/* the limit of docker */
#define OCI_LIST_MAX 1024

struct oci_desc {
	char digest[OCI_DIGEST_LEN + 1];
	uint64_t size;
	bool is_index; /* by its media type */
	char os[16];   /* of a manifest in an index; empty when it is not stated */
	char arch[16];
	char *ref; /* the name or tag that the index gives it; NULL: none */
};

struct oci_index {
	struct oci_desc *v;
	size_t n;
};

struct oci_manifest {
	struct oci_desc config;
	struct oci_index layers; /* lowest first */
};

struct oci_config {
	char os[16], arch[16];
	struct strv diff_ids; /* lowest first */
	struct strv env, entrypoint, cmd;
	char *user;    /* NULL: none */
	char *workdir; /* NULL: none */
};

/* One image of a docker archive. */
struct oci_docker {
	char *config; /* paths in the archive */
	struct strv layers;
	struct strv tags;
};

bool oci_is_digest(const char *s);

/* This machine's architecture by its name in images: "amd64", "arm64" …. */
const char *oci_own_arch(void);

int oci_parse_index(const char *data, size_t len, struct oci_index *ret, struct err *e) MUST_CHECK;
int oci_parse_manifest(const char *data, size_t len, struct oci_manifest *ret, struct err *e) MUST_CHECK;
int oci_parse_config(const char *data, size_t len, struct oci_config *ret, struct err *e) MUST_CHECK;
/* The first image of the archive, or the one that has `tag` (when not NULL). */
int oci_parse_docker(const char *data, size_t len, const char *tag, struct oci_docker *ret,
		     struct err *e) MUST_CHECK;

/*
 * The manifest for this machine: the first for linux and its architecture, else the first that states no architecture. NULL
 * with an error.
 */
const struct oci_desc *oci_choose(const struct oci_index *x, struct err *e);

void oci_index_release(struct oci_index *x);
void oci_manifest_release(struct oci_manifest *m);
void oci_config_release(struct oci_config *c);
void oci_docker_release(struct oci_docker *d);

#endif
