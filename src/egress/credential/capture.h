/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials in the JSON of a server's response: found by the names of their members; the response is
 * rewritten with placeholders in their place. Pure.
 *
 *	capture_read() ─▶ for each of v: capture_put() ─▶ capture_write()
 *
 * Invariants
 *  K1  A response is read in one way or not at all: strict JSON, an object, no duplicate name in one object,
 *      bounded in size, depth and members. A credential member that is not text is refused too; null and ""
 *      are no credentials, and stay.
 *  K2  The output is generated from the parsed values, never copied from the received bytes: whatever else
 *      the server wrote (escapes, spaces) is lost.
 *  K3  All memory of the parser is zeroed when it is freed (capture_begin()).
 */
#ifndef EGRESS_CAPTURE_H
#define EGRESS_CAPTURE_H

#include "base/buf.h"
#include "vault/common/issue.h"

#include <stdint.h>

#define CAPTURE_BODY_MAX (256u << 10)
#define CAPTURE_DEPTH_MAX 16
#define CAPTURE_MAX 8 /* in one response */

struct capture_hit {
	void *in;	 /* the JSON object that has it */
	const char *key; /* its name in that object */
	const char *member;
	struct slice value;  /* until it is replaced */
	uint64_t expires_in; /* s; 0: not given in the response */
};

struct capture {
	void *root;
	struct capture_hit v[CAPTURE_MAX];
	size_t n;
	const char *why; /* of a failure; static */
};

/* Call once, before any other use of the parser in this process. */
void capture_begin(void);

/* 0, or -EBADMSG with c->why. */
int capture_read(struct capture *c, const struct issue *s, struct slice body) MUST_CHECK;
int capture_put(struct capture *c, size_t i, struct slice placeholder) MUST_CHECK;
int capture_write(const struct capture *c, struct buf *out) MUST_CHECK;
void capture_release(struct capture *c);

#endif
