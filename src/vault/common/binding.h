/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a secret may be used and how: one host, one port, everything below one path, and one place in the request. Pure.
 *
 * Invariants
 *  B1  A host is exact and canonical (codec/net/host.h): no wildcard, no public suffix. An address is accepted only if the
 *      caller confirms it (BINDING_ADDRESS).
 *  B2  A path is canonical (codec/http/urlpath.h), has no query, begins with "/" and ends with no "/" except "/" itself, which
 *      means every path. It covers itself and everything below: "/v1" covers "/v1" and "/v1/x", never "/v10".
 *  B3  A path that servers may read in two ways is covered only when both readings are.
 *  B4  The intersection of two bindings never allows more than either.
 */
#ifndef VAULT_BINDING_H
#define VAULT_BINDING_H

#include "base/err.h"
#include "codec/net/host.h"
#include "codec/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define BINDING_PATH_MAX 255
#define BINDING_WORD_MAX 63 /* of the name of a header, query parameter or cookie */
#define BINDING_USER_MAX 127
#define BINDING_PORT 443 /* the default */
#define BINDING_PORT_SSH 22

/* Where in a request the secret is placed. */
enum binding_as {
	BINDING_AS_ANY,	   /* in grant requests only: whatever the secret's own binding has */
	BINDING_AS_BEARER, /* Authorization: Bearer SECRET (or "token SECRET", as GitHub accepts it) */
	BINDING_AS_BASIC, /* Authorization: Basic base64(USER:SECRET); USER is `user` if set, else the client's */
	BINDING_AS_HEADER, /* anywhere in the value of the header `word` */
	BINDING_AS_QUERY,  /* the whole value of the query parameter `word` */
	BINDING_AS_PATH,   /* within one path segment: /botSECRET/send */
	BINDING_AS_BODY,   /* anywhere in the request body, unencoded */
	BINDING_AS_COOKIE, /* the whole value of the cookie `word`; of any cookie if `word` is empty */
	/* a key that signs logins at this host; never rendered. For `word` see binding_allows_sshsig() */
	BINDING_AS_SSH,
	/* USER:PASSWORD (only the password if `user` is set) for an upstream proxy; for coffer-dial only */
	BINDING_AS_PROXY,
	BINDING_AS_COUNT
};

struct binding {
	char host[HOST_MAX + 1];
	uint16_t port; /* 0 in grant requests only: any port of the secret's own bindings */
	uint8_t as;    /* enum binding_as */
	char path[BINDING_PATH_MAX + 1];
	/* HEADER (lower case), QUERY, COOKIE, SSH (may begin with "ask"); otherwise empty */
	char word[BINDING_WORD_MAX + 1];
	/* BASIC, SSH, PROXY; if empty, the client's own (PROXY: the secret's) */
	char user[BINDING_USER_MAX + 1];
};

enum binding_flags {
	BINDING_ADDRESS = 1, /* an address literal is intended */
	BINDING_ASKED = 2,   /* part of a grant request: the port may be omitted, and is then 0 */
};

/* Parses "HOST[:PORT][/path]" into host, port and path; leaves the other fields alone. -EINVAL with the
 * reason. */
int binding_parse_host(const char *text, size_t len, unsigned flags, struct binding *b,
		       struct err *e) MUST_CHECK;

/* Parses "bearer", "basic", "header:X-Api-Key", "query:key", "path", "body", "cookie", "cookie:sid", "ssh",
 * "ssh:sshsig", "ssh:ask,sshsig" or "proxy" into as and word. */
int binding_parse_as(const char *text, size_t len, struct binding *b, struct err *e) MUST_CHECK;

/* Sets as and word to the usual way of this host, for when the user named none: api.anthropic.com has its own
 * header. */
void binding_usual_as(struct binding *b);
/* Some hosts accept a second way that programs use, too. True: *b has it. */
bool binding_usual_other(struct binding *b);

/* Printable, without colon, no space at either end: a user that HTTP Basic can carry. */
int binding_set_user(struct binding *b, const char *user, struct err *e) MUST_CHECK;

/* Does every field satisfy B1 and B2? For bindings from files and messages. `flags` as above. */
bool binding_is_good(const struct binding *b, unsigned flags);

bool binding_eq(const struct binding *a, const struct binding *b);

/* May a secret with this binding be sent there? host and path are canonical; the path has no query. */
bool binding_covers(const struct binding *b, const char *host, uint16_t port, struct slice path);

/* The intersection of both (B4); false if it is empty. `ask` may leave port and as open. */
bool binding_meet(const struct binding *own, const struct binding *ask, struct binding *ret);

/* For people: "api.example.com:8443/v1 as header:x-api-key". */
void binding_describe(const struct binding *b, struct buf *out);
void binding_describe_as(const struct binding *b, struct buf *out);

/* May an SSH key sign more than logins at a host that the client has proven (agent.h)? With `ssh:sshsig` also git commits;
 * with `ssh:unbound` also logins of programs that do not name the server. */
bool binding_allows_sshsig(const struct binding *b);
bool binding_allows_unbound(const struct binding *b);

/* A person must approve each use by the ssh-agent: `ssh:ask`, alone or before the other word. */
bool binding_asks(const struct binding *b);
int binding_set_ask(struct binding *b,
		    struct err *e) MUST_CHECK; /* -EINVAL: only keys that sign can require approval */

/* A value with line breaks or other control bytes can be sent in a body or used as an SSH key, nowhere else
 * in a request. */
bool binding_takes_lines(const struct binding *b);

/* Does the value, encoded as required, fit into the head of a request? egress accepts heads of 64 KiB,
 * servers less. */
#define BINDING_HEAD_MAX (48u << 10)
bool binding_fits(const struct binding *b, const void *value, size_t len);

#endif
