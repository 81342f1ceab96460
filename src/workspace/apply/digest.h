/* SPDX-License-Identifier: Apache-2.0 */
/* A digest of everything that would be written, to which an approval is bound. */
#ifndef WORKSPACE_DIGEST_H
#define WORKSPACE_DIGEST_H

#include "workspace/apply/apply.h"
#include "workspace/change/changes.h"

/* SHA-256 over every change that goes (go[i] is 1): how, where, mode, and of what the layer has there all bytes, a link's
 * target, a device's number, and the attributes that are copied. Reads all of it. */
int digest_changes(int upper_fd, const struct changes *all, const unsigned char *go,
		   unsigned char ret[APPLY_DIGEST_LEN], struct err *e) MUST_CHECK;

#endif
