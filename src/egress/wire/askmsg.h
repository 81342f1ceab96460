/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message by which coffer-egress has the guard ask a person: the text of CTL_ASK (fds.h) as bytes. Pure.
 *
 * A fixed head, seven texts that each end with a NUL, then the preview to the end. The guard trusts none of
 * it: a text that is too long, a missing byte or an unknown kind is -EPROTO.
 */
#ifndef EGRESS_ASKMSG_H
#define EGRESS_ASKMSG_H

#include "base/buf.h"
#include "base/err.h"
#include "crypto/hash.h"

#include <stdbool.h>
#include <stdint.h>

#define ASKMSG_MAX (16u << 10)
#define ASKMSG_PREVIEW_MAX 2048
#define ASKMSG_PATH_MAX \
	4096 /* with the query: a longer one cannot be shown whole, so no person is asked about it */
#define ASKMSG_WHAT_MAX 1024

enum askmsg_kind {
	ASKMSG_CONNECT,
	ASKMSG_REQUEST,
	ASKMSG_GRAPHQL,
	ASKMSG_GIT,
	ASKMSG_SECRET,
	ASKMSG_WIDEN,
	ASKMSG_KIND_COUNT
};

struct askmsg {
	uint64_t ticket; /* the sender's; the answer names it */
	enum askmsg_kind kind;
	uint32_t generation;
	uint16_t port;
	bool tls, has_body;
	uint64_t body_len;
	unsigned char body[HASH_LEN];					/* SHA-256 */
	const char *host, *method, *path, *what, *type, *rule, *reason; /* never NULL once unpacked */
	const char *preview;
	size_t preview_len;
	uint32_t preview_bytes; /* number of body bytes that the preview shows; 0: none, or unknown */
};

/* -E2BIG when the message does not fit. */
int askmsg_pack(const struct askmsg *m, struct buf *out) MUST_CHECK;
/* Texts point into `data`. */
int askmsg_unpack(const void *data, size_t len, struct askmsg *ret) MUST_CHECK;

#endif
