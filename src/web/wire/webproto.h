/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between coffer-web, which talks HTTP with strangers, and cofferd (doc/openapi.yaml, doc/adr/0018). One table has all that can
 * be asked: by it coffer-web finds what a request means and checks its parts, both pack and unpack messages, and cofferd
 * finds which role it needs. cofferd sees no HTTP and no JSON: numbers, words of a list, and texts of a known kind and length.
 *
 * A message is one datagram of a SOCK_SEQPACKET pair, at most WEBP_MAX bytes: a head, then what its type has.
 *
 *	coffer-web				cofferd
 *	WEBP_REQ  id, credential, op, values	one of: WEBP_REPLY | WEBP_ERROR; for OP_EXEC WEBP_OUT, then WEBP_EXIT;
 *						for OP_EVENTS WEBP_OPEN
 *	WEBP_CANCEL id				nothing; what ran for it is ended
 *	WEBP_STATS  what was counted		nothing
 *						WEBP_CONN  a connection of the owner's, and a key that stands for him
 *						WEBP_LISTEN  a listening socket
 *						WEBP_FEED  a pipe with events of the log (webfeed.h), while a stream is open
 *						WEBP_END id  the stream is to end: its token was revoked or has expired
 *
 * Invariants
 *  P1  An id is used once, greater than all before it. WEBP_CANCEL names one that was used (it may be over by then). Anything
 *      else, and anything that does not parse to its last byte, ends coffer-web. So is coffer-web's view of cofferd.
 *  P2  Every request carries its credential, and is judged by what that is worth now: who is revoked is refused from then on.
 *  P3  coffer-web never names a role. The owner's connections are accepted and checked by cofferd, which hands them
 *      over with a key; a token or session is shown as its SHA-256. A coffer-web that an attacker owns can do what those may
 *      whose connections or tokens pass through it, and no more.
 *  P4  Which message is legal in which state is one table (webp_legal).
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
#define WEBP_ITEMS 320	   /* of a list */
#define WEBP_OPEN_MAX 2048 /* requests and streams at once */

enum web_role { WEB_NOBODY, WEB_OBSERVER, WEB_APPROVER, WEB_OPERATOR, WEB_ROLE_COUNT };
const char *web_role_name(enum web_role r);
int web_role_parse(const char *s) MUST_CHECK; /* -EINVAL */

/* --- what can be asked ------------------------------------------------------------------------------------------------ */

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
	WEB_BACKLOG, /* no path: coffer-web's own, for streams that resume */
	WEB_OP_COUNT
};

enum web_kind {
	WEB_FLAG,  /* n is 0 or 1 */
	WEB_NUM,   /* n from min to max */
	WEB_WORD,  /* one of `words`: n is which */
	WEB_TEXT,  /* UTF-8 without NUL, min to max bytes */
	WEB_LINE,  /* the same without control characters */
	WEB_REF,   /* a sandbox as a person names it: str_is_name() */
	WEB_ASKID, /* hex digits, '-', digits */
	WEB_POINT, /* a checkpoint: c, digits */
	WEB_HEX,   /* exactly max lower-case hex digits */
	WEB_TOKEN, /* A-Z a-z 0-9 . _ : , + -, min to max bytes */
	WEB_ARGV,  /* a list of WEB_TEXT, min to WEB_ITEMS of them; max bytes in all */
	WEB_ENV,   /* a list "NAME=VALUE"; in JSON an object */
	WEB_BYTES, /* whatever bytes, max at most; in JSON a text, of which these are the UTF-8. Never a word of a command line */
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
	const char *method; /* NULL: not to be asked from outside */
	const char *path;   /* "/v1/sandboxes/{}/stop": {} is the field that is WEB_IN_PATH */
	enum web_role role; /* WEB_NOBODY: whoever */
	unsigned status;    /* when it went well */
	bool changes;	    /* is written to the log */
	struct web_field fields[WEBP_FIELDS];
};
const struct web_route *web_route(enum web_op op);
/* How many fields it has. */
unsigned web_route_fields(const struct web_route *r);

struct web_value {
	bool has;
	uint64_t n;
	const char *s; /* with its NUL; of a list: its strings one behind the other, each with its NUL */
	size_t len;    /* without the NUL; of a list: all bytes; n is how many strings */
};

/* Is it what the field may be? `why` gets a sentence without the field's name. */
bool web_value_check(const struct web_field *f, const struct web_value *v, const char **why);

/* --- messages --------------------------------------------------------------------------------------------------------- */

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
	struct web_value v[WEBP_FIELDS]; /* point into the message */
};

/* The value of a field by its name; NULL when it was not given. */
const struct web_value *webp_get(const struct webp_req *q, const char *name);
uint64_t webp_num(const struct webp_req *q, const char *name, uint64_t otherwise);
const char *webp_str(const struct webp_req *q, const char *name); /* NULL when it was not given */

/* Adds a message. -EMSGSIZE, -EINVAL (a value that is none). */
int webp_req_pack(const struct webp_req *q, struct buf *out) MUST_CHECK;

/* For metrics, since this coffer-web was started: its word, and numbers only. */
#define WEB_STATUSES                                                                                     \
	{                                                                                                \
		200, 201, 204, 304, 400, 401, 403, 404, 405, 409, 410, 413, 421, 422, 429, 431, 500, 503 \
	}
#define WEB_STATUS_COUNT 18
struct web_stats {
	uint64_t answers[WEB_STATUS_COUNT + 1]; /* the last: any other */
	uint64_t streams, connections;		/* now */
	uint64_t dropped; /* who did not take what was for him, or was too slow to ask */
};
int webp_stats_pack(const struct web_stats *s, struct buf *out) MUST_CHECK;

/* What coffer-web said: hostile. -EPROTO for what is none. */
struct webp_msg {
	enum webp_type type; /* WEBP_REQ, WEBP_CANCEL, WEBP_STATS */
	struct webp_req req; /* id only for WEBP_CANCEL; nothing for WEBP_STATS */
	struct web_stats stats;
};
int webp_parse(const void *data, size_t len, struct webp_msg *ret) MUST_CHECK;

#define WEB_CODE_LEN 24
#define WEB_MESSAGE_LEN 600

/* What cofferd says. Texts end with NUL. */
struct webp_answer {
	uint32_t magic;
	uint32_t type;
	uint64_t id;
	uint32_t status; /* HTTP's; of WEBP_EXIT the exit code; of WEBP_LISTEN the port */
	uint32_t flags;	 /* WEBP_F_TEXT */
	uint64_t seq;	 /* of WEBP_OPEN: the last event of the log */
	unsigned char key[HASH_LEN];
	char code[WEB_CODE_LEN];
	char message
		[WEB_MESSAGE_LEN]; /* of WEBP_LISTEN: names that Host may have beside addresses, comma-separated */
	char hint[WEB_MESSAGE_LEN];
};
#define WEBP_MAGIC 0x31424557u /* "WEB1" */
#define WEBP_F_TEXT 1u	       /* text/plain, not JSON */
int webp_answer_parse(const void *data, size_t len, size_t n_fds, struct webp_answer *ret) MUST_CHECK;

/* P1, P4. Which ids are open is kept by cofferd; this is what may come for one. */
enum webp_state { WEBP_ST_NEW, WEBP_ST_WORK, WEBP_ST_EXEC, WEBP_ST_STREAM, WEBP_ST_OVER, WEBP_ST_COUNT };
bool webp_legal(enum webp_state s, enum webp_type t);

/* Which errors of a token there are: whoever made it shows it once, and cofferd has only its SHA-256. */
#define WEB_TOKEN_PREFIX "coffer_"
#define WEB_SESSION_PREFIX "session_" /* what the page has instead */
#define WEB_SECRET_LEN 43	      /* base64url of 32 random bytes */
/* A new secret as text, and what cofferd keeps of it. `prefix` stands before it. */
int web_secret_new(const char *prefix, struct buf *ret, unsigned char ret_hash[HASH_LEN],
		   struct err *e) MUST_CHECK;
void web_secret_hash(const char *text, size_t len, unsigned char ret[HASH_LEN]);

#endif
