/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a git request over HTTP is about: which service, and of a push which refs. Pure.
 *
 * A push (POST …/git-receive-pack) begins with pkt-lines (4 hex digits of length, then as many bytes less 4):
 *	shallow OID*   OLD NEW REF[NUL CAPABILITIES]   …   flush   [push options … flush]   PACK…
 *
 * Invariants
 *  G1  Commands come before anything that is acted on: the caller holds the body back until the list is whole, and
 *      judges all of it at once. Nothing that the server would read as a further command can follow.
 *  G2  All object ids have one length, 40 or 64 hex digits, and it is that of the object-format that is named.
 *  G3  A ref is one that git itself would take (check-ref-format), begins with "refs/", and at most GITPKT_REF_MAX
 *      bytes long. At most GITPKT_COMMANDS_MAX commands, GITPKT_CAPS_MAX bytes of capabilities.
 *  G4  Signed pushes (push-cert) are refused: they carry commands in a second way. So are push options but "ci.skip": to
 *      some servers they are commands too (GitLab opens and merges a merge request by them).
 */
#ifndef CODEC_GITPKT_H
#define CODEC_GITPKT_H

#include "base/buf.h"
#include "base/err.h"
#include "codec/slice.h"

#include <stdint.h>

#define GITPKT_MAX 65520u
#define GITPKT_REF_MAX 1024
#define GITPKT_CAPS_MAX 2048
#define GITPKT_COMMANDS_MAX 1000
#define GITPKT_SHALLOW_MAX 10000
#define GITPKT_OPTIONS_MAX 64
#define GITPKT_LIST_MAX (1u << 20)

enum gitpkt_service {
	GITPKT_NONE,	   /* not git's smart protocol */
	GITPKT_REFS_FETCH, /* GET …/info/refs?service=git-upload-pack */
	GITPKT_REFS_PUSH,  /* GET …/info/refs?service=git-receive-pack */
	GITPKT_FETCH,	   /* POST …/git-upload-pack */
	GITPKT_PUSH,	   /* POST …/git-receive-pack */
	GITPKT_DUMB, /* …/info/refs with another or no service, …/objects/info/, …/objects/pack/: a fetch of the old kind */
	GITPKT_SERVICE_COUNT
};

/*
 * By canonical path and raw query, read as generously as any server might: letters of either case, a slash or
 * ";parameters" or dots behind, a query that is percent-encoded; of two services the one that pushes. ret_repo (may be NULL) is the path in front: "/owner/name.git".
 */
enum gitpkt_service gitpkt_service(struct slice path, struct slice query, struct slice *ret_repo);

struct gitpkt_command {
	struct slice ref;	   /* once the list is whole; into gitpkt_push.text */
	bool is_create, is_delete; /* the old, the new id is all zeros */
	uint32_t at, len;	   /* its own: where ref is in text */
};

struct gitpkt_push {
	struct gitpkt_command *commands; /* all of them, once gitpkt_push_feed() said 1 */
	unsigned n_commands;		 /* may be 0: git's probe for credentials */
	bool sha256, has_options, atomic;
	size_t size;	 /* of the list in bytes; behind it comes the pack or nothing */
	const char *why; /* static text */

	/* Its own. */
	int state;
	size_t seen;
	unsigned shallows, options, room;
	size_t oid_len;
	struct buf text;
};

#define GITPKT_PUSH_INIT ((struct gitpkt_push){ 0 })

void gitpkt_push_release(struct gitpkt_push *g);

/*
 * `data` is the body (after any Content-Encoding) from its first byte, with at least what was there at the last call in
 * front; it may have moved. 1: the list is whole; 0: more is needed; -EBADMSG (g->why), -ENOMEM. A body that ends
 * while 0 came back is to be refused. At most GITPKT_LIST_MAX bytes are ever waited for.
 */
int gitpkt_push_feed(struct gitpkt_push *g, const char *data, size_t len) MUST_CHECK;

enum gitpkt_fetch {
	GITPKT_FETCH_V0 = 1,  /* version 0 or 1: wants */
	GITPKT_FETCH_V2,      /* command=fetch */
	GITPKT_FETCH_V2_REFS, /* command=ls-refs */
	GITPKT_FETCH_V2_INFO, /* command=object-info, bundle-uri */
	GITPKT_FETCH_NOTHING, /* a flush: the probe for credentials */
};

/* What a body of git-upload-pack begins with: an enum gitpkt_fetch, 0 when more is needed, -EBADMSG. */
int gitpkt_fetch_kind(const char *data, size_t len) MUST_CHECK;

#endif
