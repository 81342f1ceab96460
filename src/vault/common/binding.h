/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a secret may be used, and in what shape: one host, one port, everything below one path, and one place in the
 * request. Pure.
 *
 * Invariants
 *  B1  A host is exact and canonical (codec/net/host.h): no wildcard, no public suffix. An address is taken only where the
 *      caller says that it was meant (BINDING_ADDRESS).
 *  B2  A path is canonical (codec/http/urlpath.h), has no query, begins with "/" and ends with no "/" but "/" itself, which
 *      means every path. It covers itself and what is below it: "/v1" covers "/v1" and "/v1/x", never "/v10".
 *  B3  A path that a server may read in two ways is covered only when both readings are.
 *  B4  What two bindings have in common is never more than either gives.
 */
#ifndef VAULT_BINDING_H
#define VAULT_BINDING_H

#include "base/err.h"
#include "codec/net/host.h"
#include "codec/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define BINDING_PATH_MAX 255
#define BINDING_WORD_MAX 63 /* of a header's, query parameter's or cookie's name */
#define BINDING_USER_MAX 127
#define BINDING_PORT 443 /* when none is given */
#define BINDING_PORT_SSH 22

/* Where in a request the secret stands. */
enum binding_as {
	BINDING_AS_ANY,	   /* only in what asks for a grant: as the secret's own binding says */
	BINDING_AS_BEARER, /* Authorization: Bearer SECRET (or "token SECRET", as GitHub has it) */
	BINDING_AS_BASIC, /* Authorization: Basic base64(USER:SECRET); with `user` that one, else the client's */
	BINDING_AS_HEADER, /* anywhere in the value of the header `word` */
	BINDING_AS_QUERY,  /* the whole value of the query parameter `word` */
	BINDING_AS_PATH,   /* within one segment of the path: /botSECRET/send */
	BINDING_AS_BODY,   /* anywhere in the request's body, as it is */
	BINDING_AS_COOKIE, /* the whole value of the cookie `word`; of any cookie when that is empty */
	BINDING_AS_SSH, /* a key that signs for this host; never rendered. `word`: see binding_allows_sshsig() */
	BINDING_AS_PROXY, /* USER:PASSWORD, or with `user` the password, for an upstream proxy; for coffer-dial alone */
	BINDING_AS_COUNT
};

struct binding {
	char host[HOST_MAX + 1];
	uint16_t
		port; /* never 0 but in what asks for a grant: there, any port of the secret's own bindings */
	uint8_t as;   /* enum binding_as */
	char path[BINDING_PATH_MAX + 1];
	char word[BINDING_WORD_MAX +
		  1]; /* HEADER (lower case), QUERY, COOKIE, SSH (may begin with "ask"); else empty */
	char user[BINDING_USER_MAX +
		  1]; /* BASIC, SSH, PROXY; may be empty: the client's own, PROXY: the secret's */
};

enum binding_flags {
	BINDING_ADDRESS = 1, /* an address literal was meant */
	BINDING_ASKED = 2,   /* part of what asks for a grant: the port may be left open, and is then 0 */
};

/* "HOST[:PORT][/path]" into host, port and path; the rest is as it was. -EINVAL with what is wrong with it. */
int binding_parse_host(const char *text, size_t len, unsigned flags, struct binding *b,
		       struct err *e) MUST_CHECK;

/* "bearer", "basic", "header:X-Api-Key", "query:key", "path", "body", "cookie", "cookie:sid", "ssh", "ssh:sshsig",
 * "ssh:ask,sshsig", "proxy" into as and word. */
int binding_parse_as(const char *text, size_t len, struct binding *b, struct err *e) MUST_CHECK;

/* As that host usually wants it, where nobody said: api.anthropic.com has a header of its own. Sets as and word. */
void binding_usual_as(struct binding *b);
/* Some take it in two ways, and programs use both: true, and *b has the second one. */
bool binding_usual_other(struct binding *b);

/* Printable, no colon, no space at either end: what may stand before the colon of Basic. */
int binding_set_user(struct binding *b, const char *user, struct err *e) MUST_CHECK;

/* Is every field as B1 and B2 have it? For bindings that were read from somewhere. `flags` as above. */
bool binding_is_good(const struct binding *b, unsigned flags);

bool binding_eq(const struct binding *a, const struct binding *b);

/* May a secret bound so be sent there? host and path are canonical; path without query. */
bool binding_covers(const struct binding *b, const char *host, uint16_t port, struct slice path);

/* What both allow (B4). False when that is nothing. `ask` may leave port and as open. */
bool binding_meet(const struct binding *own, const struct binding *ask, struct binding *ret);

/* For people: "api.example.com:8443/v1 as header:x-api-key". */
void binding_describe(const struct binding *b, struct buf *out);
void binding_describe_as(const struct binding *b, struct buf *out);

/* What an SSH key may sign beside logins at its host that the client has proven (agent.h): `ssh:sshsig`, git's commits too;
 * `ssh:unbound`, logins of programs that do not tell where to. */
bool binding_allows_sshsig(const struct binding *b);
bool binding_allows_unbound(const struct binding *b);

/* Each use of it by the ssh-agent is asked of a person first: `ssh:ask`, alone or before the other word. */
bool binding_asks(const struct binding *b);
int binding_set_ask(struct binding *b,
		    struct err *e) MUST_CHECK; /* -EINVAL: only keys that sign can be asked for */

/* A value with line breaks or other control bytes can stand in a body or sign for SSH, nowhere else in a request. */
bool binding_takes_lines(const struct binding *b);

/* Can the head of a request carry this value there, encoded as it is to be? egress takes heads of 64 KiB, and servers less. */
#define BINDING_HEAD_MAX (48u << 10)
bool binding_fits(const struct binding *b, const void *value, size_t len);

#endif
