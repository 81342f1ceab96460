/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a git request over HTTP is about: which service, and of a push which refs. Pure.
 *
 * A push (POST …/git-receive-pack) begins with pkt-lines (4 hex digits of length, then as many bytes less 4):
 *	shallow OID*   OLD NEW REF[NUL CAPABILITIES]   …   flush   [push options … flush]   PACK…
 *
 * Invariants
 *  G1  Commands come before anything that is acted on: the caller holds the body back until GITPKT_END, and has seen
 *      all refs then. Nothing that the server would read as a further command can follow.
 *  G2  All object ids have one length, 40 or 64 hex digits, and it is that of the object-format that is named.
 *  G3  A ref is one that git itself would take (check-ref-format), begins with "refs/", and at most GITPKT_REF_MAX
 *      bytes long. At most GITPKT_COMMANDS_MAX commands, GITPKT_CAPS_MAX bytes of capabilities.
 *  G4  Signed pushes (push-cert) are refused: they carry commands in a second way.
 */
#ifndef CODEC_GITPKT_H
#define CODEC_GITPKT_H

#include "base/err.h"
#include "codec/slice.h"

#include <stdint.h>

#define GITPKT_MAX 65520u
#define GITPKT_REF_MAX 1024
#define GITPKT_CAPS_MAX 2048
#define GITPKT_COMMANDS_MAX 1000
#define GITPKT_SHALLOW_MAX 10000
#define GITPKT_OPTIONS_MAX 64

enum gitpkt_service {
	GITPKT_NONE,	   /* not git's smart protocol */
	GITPKT_REFS_FETCH, /* GET …/info/refs?service=git-upload-pack */
	GITPKT_REFS_PUSH,  /* GET …/info/refs?service=git-receive-pack */
	GITPKT_FETCH,	   /* POST …/git-upload-pack */
	GITPKT_PUSH,	   /* POST …/git-receive-pack */
	GITPKT_DUMB, /* …/info/refs with another or no service, …/HEAD, …/objects/…: a fetch of the old kind */
	GITPKT_SERVICE_COUNT
};

/* By canonical path and raw query; ret_repo (may be NULL) is the path in front: "/owner/name.git". */
enum gitpkt_service gitpkt_service(struct slice path, struct slice query, struct slice *ret_repo);

enum gitpkt_event {
	GITPKT_COMMAND = 1, /* *ret */
	GITPKT_END,	    /* all commands, and options, were seen; what follows is the pack or nothing */
};

struct gitpkt_command {
	struct slice ref;
	struct slice old_oid, new_oid;
	bool is_create, is_delete; /* the old, the new id is all zeros */
};

struct gitpkt_push {
	unsigned commands; /* so far; a push without any is git's probe for credentials */
	bool sha256, push_options, atomic;
	const char *why; /* static text */

	int state; /* its own */
	unsigned shallows, options;
	size_t oid_len;
};

#define GITPKT_PUSH_INIT ((struct gitpkt_push){ 0 })

/*
 * The next pkt-line at the start of data, which is to be given again with more behind it when 0 comes back. Shallow
 * lines and options are taken silently. An event with *ret_used bytes taken, 0 (more are needed; *ret_used may still be
 * over 0), or -EBADMSG.
 */
int gitpkt_push_next(struct gitpkt_push *g, const char *data, size_t len, size_t *ret_used,
		     struct gitpkt_command *ret) MUST_CHECK;

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
