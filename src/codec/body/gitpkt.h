/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service that a git request over HTTP is for and, of a push, the refs that it changes. Pure.
 *
 * A push (POST …/git-receive-pack) begins with pkt-lines (4 hex digits of length, then as many bytes less 4):
 *	shallow OID*   OLD NEW REF[NUL CAPABILITIES]   …   flush   [push options … flush]   PACK…
 *
 * Invariants
 *  G1  The list of commands is complete before the server gets a byte: the caller holds the body back until then, and
 *      judges all commands at once. No later part of the body is a command to the server.
 *  G2  All object ids have the same length, 40 or 64 hex digits, which is that of the object-format in the
 *      capabilities.
 *  G3  A ref is valid for git itself (check-ref-format), begins with "refs/", and has at most GITPKT_REF_MAX
 *      bytes. At most GITPKT_COMMANDS_MAX commands, GITPKT_CAPS_MAX bytes of capabilities.
 *  G4  Signed pushes (push-cert) are refused, because the certificate contains the commands a second time. So is
 *      every push option but "ci.skip": options are commands to some servers (GitLab opens and merges merge requests
 *      by them).
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
 * The service by canonical path and raw query, read as leniently as any server might read them: letters of either
 * case; a trailing slash, ";parameters" or dots after a segment; a percent-encoded query. A query that names both
 * services counts as a push. *ret_repo (ret_repo may be NULL) is the path before the service: "/owner/name.git".
 */
enum gitpkt_service gitpkt_service(struct slice path, struct slice query, struct slice *ret_repo);

struct gitpkt_command {
	struct slice ref;	   /* into gitpkt_push.text; set once the list is complete */
	bool is_create, is_delete; /* the old id is all zeros; the new id is */
	uint32_t at, len;	   /* private: where ref is in text */
};

struct gitpkt_push {
	struct gitpkt_command *commands; /* all of them, once gitpkt_push_feed() returned 1 */
	unsigned n_commands;		 /* 0 when git only tests whether it needs credentials */
	bool sha256, has_options, atomic;
	size_t size;	 /* bytes of the list; the pack, if there is one, follows it */
	const char *why; /* static text */

	/* Private to gitpkt.c. */
	int state;
	size_t seen;
	unsigned shallows, options, room;
	size_t oid_len;
	struct buf text;
};

#define GITPKT_PUSH_INIT ((struct gitpkt_push){ 0 })

void gitpkt_push_release(struct gitpkt_push *g);

/*
 * `data` is the decoded body from its first byte: all that was given before, and more. It may be at another address
 * than at the last call. Returns 1 when the list is complete, 0 when it needs more bytes, -EBADMSG (g->why) or
 * -ENOMEM. The caller must refuse a body that ends after a 0. The list has at most GITPKT_LIST_MAX bytes.
 */
int gitpkt_push_feed(struct gitpkt_push *g, const char *data, size_t len) MUST_CHECK;

enum gitpkt_fetch {
	GITPKT_FETCH_V0 = 1,  /* protocol version 0 or 1: "want" lines */
	GITPKT_FETCH_V2,      /* command=fetch */
	GITPKT_FETCH_V2_REFS, /* command=ls-refs */
	GITPKT_FETCH_V2_INFO, /* command=object-info, bundle-uri */
	GITPKT_FETCH_NOTHING, /* a flush: git only tests whether it needs credentials */
};

/* Classifies a body of git-upload-pack by its first line: enum gitpkt_fetch, 0 when it needs more bytes, -EBADMSG. */
int gitpkt_fetch_kind(const char *data, size_t len) MUST_CHECK;

#endif
