/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol between coffer-web, which speaks HTTP with strangers, and cofferd (doc/openapi.yaml,
 * doc/adr/0018). One table has all requests: coffer-web finds and checks a request by it, both sides pack and
 * unpack messages by it, and cofferd finds the required role in it. cofferd sees no HTTP and no JSON: only
 * numbers, enumerated words, and texts of a known kind and length.
 *
 * A message is one datagram of a SOCK_SEQPACKET pair, at most WEBP_MAX bytes: a head, then the parts of its
 * type.
 *
 *	coffer-web				cofferd
 *	WEBP_REQ  id, credential, op, values	one of: WEBP_REPLY | WEBP_ERROR; for WEB_EXEC WEBP_OUT, then WEBP_EXIT;
 *						for WEB_EVENTS WEBP_OPEN
 *	WEBP_CANCEL id				no response; its process is killed
 *	WEBP_STATS  counters			no response
 *						WEBP_CONN  a connection of the owner, and a key that identifies him
 *						WEBP_LISTEN  a listening socket
 *						WEBP_FEED  a pipe with events of the log (webfeed.c), while a stream is open
 *						WEBP_END id  end the stream: its token was revoked or has expired
 *
 * Invariants (cited elsewhere as webproto.P1 …)
 * P1  An id is used once and is greater than all before it. WEBP_CANCEL names a used id (its request may be
 *     over). Anything else, and anything that does not parse to its last byte, is fatal for coffer-web.
 *     coffer-web treats messages of cofferd the same way.
 * P2  Every request carries its credential and is judged by its current validity: after a revocation requests
 *     are refused.
 * P3  coffer-web never names a role. cofferd accepts and checks the owner's connections and passes them on
 *     with a key; a token or session is sent as its SHA-256. A compromised coffer-web can do what the
 *     connections and tokens that pass through it may do, and no more.
 * P4  One table (webp_legal) says which message is legal in which state.
 */
#ifndef WEB_WEBPROTO_H
#define WEB_WEBPROTO_H

#include "base/buf.h"
#include "base/err.h"
#include "crypto/hash.h"

#include <stdbool.h>
#include <stdint.h>

#define WEBP_MAX (96u << 10)
#define WEB_BODY_MAX (64u << 10) /* of a request */
#define WEBP_FIELDS 10
#define WEBP_ITEMS 320	   /* items of a list */
#define WEBP_OPEN_MAX 2048 /* requests and streams at a time */

enum web_role { WEB_NOBODY, WEB_OBSERVER, WEB_APPROVER, WEB_OPERATOR, WEB_ROLE_COUNT };
const char *web_role_name(enum web_role r);
int web_role_parse(const char *s) MUST_CHECK; /* -EINVAL */

/* --- requests ------------------------------------------------------------------------------------------- */

enum web_op {
	WEB_STATUS,
	WEB_SESSION_OPEN,
	WEB_SESSION_CLOSE,
	WEB_SANDBOXES,
	WEB_SANDBOX,
	WEB_REMOVE,
	WEB_STOP,
	WEB_EXEC,
	WEB_POLICY,
	WEB_EXPLAIN,
	WEB_CHECKPOINTS,
	WEB_CHECKPOINT,
	WEB_ROLLBACK,
	WEB_TIMELINE,
	WEB_ASKS,
	WEB_SUBMIT,
	WEB_ASK,
	WEB_ANSWER,
	WEB_REVOKE,
	WEB_EGRESS,
	WEB_SERIES,
	WEB_AUDIT,
	WEB_VERIFY,
	WEB_EVENTS,
	WEB_METRICS,
	WEB_SECRETS,
	WEB_GATEWAY,
	WEB_OPENAPI, /* answered by coffer-web itself */
	WEB_BACKLOG, /* no path: coffer-web's own request, for streams that resume */
	WEB_OP_COUNT
};

enum web_kind {
	WEB_FLAG,   /* n is 0 or 1 */
	WEB_NUM,    /* n from min to max */
	WEB_WORD,   /* one of `words`: n is its index */
	WEB_TEXT,   /* UTF-8 without NUL, min to max bytes */
	WEB_LINE,   /* the same without control characters */
	WEB_REF,    /* a sandbox's name or id: str_is_name() */
	WEB_ASKID,  /* hex digits, '-', digits */
	WEB_POINT,  /* a checkpoint: c, digits */
	WEB_HEX,    /* exactly max lower-case hex digits */
	WEB_TOKEN,  /* A-Z a-z 0-9 . _ : , + -, min to max bytes */
	WEB_ARGV,   /* a list of WEB_TEXT, min to WEBP_ITEMS of them; max bytes in all */
	WEB_ENV,    /* a list "NAME=VALUE"; in JSON an object */
	WEB_BYTES,  /* any bytes, at most max; in JSON the UTF-8 of a text; never in a command line */
	WEB_BASE64, /* the same; in JSON as base64 */
	WEB_KIND_COUNT
};

enum web_from { WEB_IN_PATH, WEB_IN_QUERY, WEB_IN_BODY, WEB_IN_HEADER };

struct web_field {
	const char *name;
	enum web_from from;
	enum web_kind kind;
	bool needed;
	uint64_t min, max;
	const char *const *words; /* NULL-terminated */
};

struct web_route {
	const char *name;   /* for the log: "sandbox.stop" */
	const char *method; /* NULL: not accepted from outside */
	const char *path;   /* "/v1/sandboxes/{}/stop": {} is the field that is WEB_IN_PATH */
	enum web_role role; /* WEB_NOBODY: no credential needed */
	unsigned status;    /* on success */
	bool changes;	    /* is logged before it is begun */
	struct web_field fields[WEBP_FIELDS];
};
const struct web_route *web_route(enum web_op op);
/* The number of its fields. */
unsigned web_route_fields(const struct web_route *r);

struct web_value {
	bool has;
	uint64_t n;
	const char *s; /* with its NUL; for a list all its strings, each with its NUL */
	size_t len;    /* without the NUL; for a list all bytes, and n is the number of strings */
};

/* Is the value valid for the field? `why` gets a phrase without the field's name. */
bool web_value_check(const struct web_field *f, const struct web_value *v, const char **why);

/* --- messages ------------------------------------------------------------------------------------------- */

enum webp_type {
	WEBP_REQ = 1,
	WEBP_CANCEL,
	WEBP_STATS,
	WEBP_CONN = 65,
	WEBP_LISTEN,
	WEBP_FEED,
	WEBP_REPLY, /* a memory file, unless the status is 204 */
	WEBP_ERROR, /* status, code, message, hint */
	WEBP_OUT,   /* two pipes */
	WEBP_EXIT,
	WEBP_OPEN,
	WEBP_END,
};

enum web_cred { WEB_CRED_NONE, WEB_CRED_OWNER, WEB_CRED_TOKEN, WEB_CRED_SESSION, WEB_CRED_COUNT };

struct webp_req {
	uint64_t id;
	enum web_cred cred;
	unsigned char key[HASH_LEN]; /* of WEBP_CONN, or SHA-256 of the token's or session's text */
	enum web_op op;
	struct web_value v[WEBP_FIELDS]; /* texts point into the message */
};

/* The value of a field by its name; NULL if absent. */
const struct web_value *webp_get(const struct webp_req *q, const char *name);
uint64_t webp_num(const struct webp_req *q, const char *name, uint64_t otherwise);
const char *webp_str(const struct webp_req *q, const char *name); /* NULL if absent */

/* Adds a message. -EMSGSIZE, -EINVAL (an invalid value). */
int webp_req_pack(const struct webp_req *q, struct buf *out) MUST_CHECK;

/* Counters since this coffer-web was started, for metrics. Numbers only, since coffer-web is not trusted. */
#define WEB_STATUSES                                                                                     \
	{                                                                                                \
		200, 201, 204, 304, 400, 401, 403, 404, 405, 409, 410, 413, 421, 422, 429, 431, 500, 503 \
	}
#define WEB_STATUS_COUNT 18
struct web_stats {
	uint64_t responses[WEB_STATUS_COUNT + 1]; /* the last entry: any other status */
	uint64_t streams, connections;		  /* current numbers */
	uint64_t dropped; /* clients that did not read, or were too slow to send a request */
};
int webp_stats_pack(const struct web_stats *s, struct buf *out) MUST_CHECK;

/* A message of coffer-web: hostile. -EPROTO if malformed. */
struct webp_msg {
	enum webp_type type; /* WEBP_REQ, WEBP_CANCEL, WEBP_STATS */
	struct webp_req req; /* WEBP_CANCEL: id only; WEBP_STATS: unused */
	struct web_stats stats;
};
int webp_parse(const void *data, size_t len, struct webp_msg *ret) MUST_CHECK;

#define WEB_CODE_LEN 24
#define WEB_MESSAGE_LEN 600

/* A message of cofferd. Texts end with NUL. */
struct webp_answer {
	uint32_t magic;
	uint32_t type;
	uint64_t id;
	uint32_t status; /* HTTP status; WEBP_EXIT: exit code; WEBP_LISTEN: port */
	uint32_t flags;	 /* WEBP_F_TEXT */
	uint64_t seq;	 /* WEBP_OPEN: number of the last event in the log */
	unsigned char key[HASH_LEN];
	char code[WEB_CODE_LEN];
	char message
		[WEB_MESSAGE_LEN]; /* WEBP_LISTEN: accepted values of Host beside addresses, comma-separated */
	char hint[WEB_MESSAGE_LEN];
};
#define WEBP_MAGIC 0x31424557u /* "WEB1" */
#define WEBP_F_TEXT 1u	       /* text/plain, not JSON */
int webp_answer_parse(const void *data, size_t len, size_t n_fds, struct webp_answer *ret) MUST_CHECK;

/* webproto.P1, webproto.P4: may this message come in this state of an id? cofferd keeps the states. */
enum webp_state { WEBP_ST_NEW, WEBP_ST_WORK, WEBP_ST_EXEC, WEBP_ST_STREAM, WEBP_ST_OVER, WEBP_ST_COUNT };
bool webp_legal(enum webp_state s, enum webp_type t);

/* Prefixes of the secrets. A secret is shown once, when it is made; cofferd has only its SHA-256. */
#define WEB_TOKEN_PREFIX "coffer_"
#define WEB_SESSION_PREFIX "session_" /* used by the page */
#define WEB_SECRET_LEN 43	      /* base64url of 32 random bytes */
/* Makes a new secret: its text, after `prefix`, and its hash for cofferd. */
int web_secret_new(const char *prefix, struct buf *ret, unsigned char ret_hash[HASH_LEN],
		   struct err *e) MUST_CHECK;
void web_secret_hash(const char *text, size_t len, unsigned char ret[HASH_LEN]);

#endif
