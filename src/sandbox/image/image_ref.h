/* SPDX-License-Identifier: Apache-2.0 */
/* References to images as users type them: NAME[:TAG][@sha256:…]. Pure. */
#ifndef SANDBOX_IMAGE_REF_H
#define SANDBOX_IMAGE_REF_H

#include "base/err.h"
#include "sandbox/image/oci.h"

#include <stdbool.h>

#define IMAGE_REPO_MAX 255
#define IMAGE_TAG_MAX 128

struct image_ref {
	char repo[IMAGE_REPO_MAX + 1];	 /* shortened as by docker: "docker.io/library/x" is "x" */
	char tag[IMAGE_TAG_MAX + 1];	 /* "latest" without tag and digest; may be empty with a digest */
	char digest[OCI_DIGEST_LEN + 1]; /* empty: not pinned */
};

int image_ref_parse(const char *text, struct image_ref *ret, struct err *e) MUST_CHECK;

#define IMAGE_NAME_MAX (IMAGE_REPO_MAX + IMAGE_TAG_MAX + OCI_DIGEST_LEN + 2)
/* The name under which an image is stored: "REPO:TAG", or "REPO@sha256:…" without a tag. */
char *image_ref_name(const struct image_ref *r, char out[IMAGE_NAME_MAX + 1]);

#endif
