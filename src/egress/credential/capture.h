/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials in the JSON of a server's answer: found by the members' names, and the answer written anew with something else in
 * their place. Pure.
 *
 *	capture_read() ─▶ for each of v: capture_put() ─▶ capture_write()
 *
 * Invariants
 *  K1  An answer is read in one way or not at all: strict JSON, an object, no name twice in one object, bounded in size, depth
 *      and members. What has a member's name and is no text is refused too; null and "" are nothing, and stay.
 *  K2  What is written is made from what was read, never from the bytes that came: whatever the server wrote beside it is gone
 *      (escapes, spaces).
 *  K3  All memory that the parser had is zeroed when it is given back (capture_begin()).
 */
#ifndef EGRESS_CAPTURE_H
#define EGRESS_CAPTURE_H

#include "base/buf.h"
#include "vault/common/issue.h"

#include <stdint.h>

#define CAPTURE_BODY_MAX (256u << 10)
#define CAPTURE_DEPTH_MAX 16
#define CAPTURE_MAX 8 /* in one answer */

struct capture_hit {
	void *in;	 /* the JSON object that has it */
	const char *key; /* in it */
	const char *member;
	struct slice value;  /* until it is replaced */
	uint64_t expires_in; /* s; 0: the answer does not say */
};

struct capture {
	void *root;
	struct capture_hit v[CAPTURE_MAX];
	size_t n;
	const char *why; /* of a failure; static */
};

/* Once, before any other use of the parser in this process. */
void capture_begin(void);

/* 0, or -EBADMSG with c->why. */
int capture_read(struct capture *c, const struct issue *s, struct slice body) MUST_CHECK;
int capture_put(struct capture *c, size_t i, struct slice placeholder) MUST_CHECK;
int capture_write(const struct capture *c, struct buf *out) MUST_CHECK;
void capture_release(struct capture *c);

#endif
