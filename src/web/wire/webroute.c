/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of all HTTP requests: doc/openapi.yaml in another form; a test keeps the two in agreement. An
 * operation that is not in it does not exist.
 */
#include "base/cleanup.h"
#include "web/wire/webproto.h"

#include <assert.h>

#define SEQ_MAX 999999999999999999ULL

#define PATH_REF                                                  \
	{                                                         \
		"sandbox", WEB_IN_PATH, WEB_REF, true, 0, 0, NULL \
	}
#define PATH_ASK                                                \
	{                                                       \
		"ask", WEB_IN_PATH, WEB_ASKID, true, 0, 0, NULL \
	}
#define OF_REF                                                      \
	{                                                           \
		"sandbox", WEB_IN_QUERY, WEB_REF, false, 0, 0, NULL \
	}
#define LIMIT                                                        \
	{                                                            \
		"limit", WEB_IN_QUERY, WEB_NUM, false, 1, 1000, NULL \
	}
#define BEFORE                                                           \
	{                                                                \
		"before", WEB_IN_QUERY, WEB_NUM, false, 1, SEQ_MAX, NULL \
	}
#define AFTER                                                           \
	{                                                               \
		"after", WEB_IN_QUERY, WEB_NUM, false, 0, SEQ_MAX, NULL \
	}
#define SINCE                                                        \
	{                                                            \
		"since", WEB_IN_QUERY, WEB_TOKEN, false, 1, 40, NULL \
	}
#define FLAG_(name, from)                               \
	{                                               \
		name, from, WEB_FLAG, false, 0, 1, NULL \
	}

static const char *const ask_state_words[] = { "pending", "all", "granted", "parked", "in_force", NULL };
static const char *const order_words[] = { "oldest", "newest", NULL };
static const char *const decision_words[] = { "allow", "deny", "ask", NULL };
static const char *const verdict_words[] = { "allow", "deny", NULL };
static const char *const scope_words[] = { "once", "sandbox", "for", "uses", NULL };
static const char *const kind_words[] = { "question", "tool", NULL };

static const struct web_route web_routes[] = {
	[WEB_STATUS] = { "status", "GET", "/v1/status", WEB_OBSERVER, 200, false, { { NULL } } },
	[WEB_SESSION_OPEN] = { "session.open",
			       "POST",
			       "/v1/session",
			       WEB_NOBODY,
			       200,
			       true,
			       { { "code", WEB_IN_BODY, WEB_TOKEN, true, WEB_SECRET_LEN, WEB_SECRET_LEN,
				   NULL } } },
	[WEB_SESSION_CLOSE] = { "session.close",
				"DELETE",
				"/v1/session",
				WEB_OBSERVER,
				204,
				true,
				{ { NULL } } },
	[WEB_SANDBOXES] = { "sandboxes",
			    "GET",
			    "/v1/sandboxes",
			    WEB_OBSERVER,
			    200,
			    false,
			    { FLAG_("all", WEB_IN_QUERY),
			      LIMIT,
			      { "offset", WEB_IN_QUERY, WEB_NUM, false, 0, 1000000, NULL } } },
	[WEB_SANDBOX] = { "sandbox", "GET", "/v1/sandboxes/{}", WEB_OBSERVER, 200, false, { PATH_REF } },
	[WEB_REMOVE] = { "sandbox.remove",
			 "DELETE",
			 "/v1/sandboxes/{}",
			 WEB_OPERATOR,
			 204,
			 true,
			 { PATH_REF, FLAG_("force", WEB_IN_QUERY) } },
	[WEB_STOP] = { "sandbox.stop",
		       "POST",
		       "/v1/sandboxes/{}/stop",
		       WEB_OPERATOR,
		       204,
		       true,
		       { PATH_REF, { "grace_s", WEB_IN_BODY, WEB_NUM, false, 0, 600, NULL } } },
	[WEB_EXEC] = { "sandbox.exec",
		       "POST",
		       "/v1/sandboxes/{}/exec",
		       WEB_OPERATOR,
		       200,
		       true,
		       { PATH_REF,
			 { "command", WEB_IN_BODY, WEB_ARGV, true, 1, 48u << 10, NULL },
			 { "env", WEB_IN_BODY, WEB_ENV, false, 0, 16u << 10, NULL },
			 { "workdir", WEB_IN_BODY, WEB_TEXT, false, 1, 4095, NULL },
			 { "stdin", WEB_IN_BODY, WEB_BYTES, false, 0, WEB_BODY_MAX, NULL },
			 { "stdin_base64", WEB_IN_BODY, WEB_BASE64, false, 0, WEB_BODY_MAX, NULL } } },
	[WEB_POLICY] = { "policy", "GET", "/v1/sandboxes/{}/policy", WEB_OBSERVER, 200, false, { PATH_REF } },
	[WEB_EXPLAIN] = { "policy.explain",
			  "GET",
			  "/v1/sandboxes/{}/explain",
			  WEB_OBSERVER,
			  200,
			  false,
			  { PATH_REF,
			    { "url", WEB_IN_QUERY, WEB_LINE, false, 1, 4096, NULL },
			    { "method", WEB_IN_QUERY, WEB_TOKEN, false, 1, 32, NULL },
			    { "graphql", WEB_IN_QUERY, WEB_TEXT, false, 1, 4096, NULL },
			    { "push", WEB_IN_QUERY, WEB_LINE, false, 1, 1024, NULL },
			    { "tool", WEB_IN_QUERY, WEB_LINE, false, 1, 128, NULL },
			    { "args", WEB_IN_QUERY, WEB_TEXT, false, 1, 4096, NULL } } },
	[WEB_CHECKPOINTS] = { "checkpoints",
			      "GET",
			      "/v1/sandboxes/{}/checkpoints",
			      WEB_OBSERVER,
			      200,
			      false,
			      { PATH_REF } },
	[WEB_CHECKPOINT] = { "checkpoint.make",
			     "POST",
			     "/v1/sandboxes/{}/checkpoints",
			     WEB_OPERATOR,
			     201,
			     true,
			     { PATH_REF, { "label", WEB_IN_BODY, WEB_LINE, false, 1, 200, NULL } } },
	[WEB_ROLLBACK] = { "sandbox.rollback",
			   "POST",
			   "/v1/sandboxes/{}/rollback",
			   WEB_OPERATOR,
			   204,
			   true,
			   { PATH_REF,
			     { "checkpoint", WEB_IN_BODY, WEB_POINT, true, 0, 0, NULL },
			     FLAG_("start", WEB_IN_BODY) } },
	[WEB_TIMELINE] = { "timeline",
			   "GET",
			   "/v1/sandboxes/{}/timeline",
			   WEB_OBSERVER,
			   200,
			   false,
			   { PATH_REF, AFTER, LIMIT } },
	[WEB_ASKS] = { "asks",
		       "GET",
		       "/v1/asks",
		       WEB_OBSERVER,
		       200,
		       false,
		       { { "state", WEB_IN_QUERY, WEB_WORD, false, 0, 0, ask_state_words },
			 OF_REF,
			 { "after", WEB_IN_QUERY, WEB_ASKID, false, 0, 0, NULL },
			 { "order", WEB_IN_QUERY, WEB_WORD, false, 0, 0, order_words },
			 LIMIT } },
	[WEB_SUBMIT] = { "ask.submit",
			 "POST",
			 "/v1/asks",
			 WEB_OBSERVER,
			 201,
			 true,
			 { { "sandbox", WEB_IN_BODY, WEB_REF, true, 0, 0, NULL },
			   { "kind", WEB_IN_BODY, WEB_WORD, false, 0, 0, kind_words },
			   { "what", WEB_IN_BODY, WEB_TEXT, true, 1, 1024, NULL },
			   { "reason", WEB_IN_BODY, WEB_TEXT, false, 0, 1024, NULL },
			   { "preview", WEB_IN_BODY, WEB_TEXT, false, 0, 2048, NULL },
			   { "seconds", WEB_IN_BODY, WEB_NUM, false, 1, 86400, NULL } } },
	[WEB_ASK] = { "ask", "GET", "/v1/asks/{}", WEB_OBSERVER, 200, false, { PATH_ASK } },
	[WEB_ANSWER] = { "ask.answer",
			 "POST",
			 "/v1/asks/{}/answer",
			 WEB_APPROVER,
			 200,
			 true,
			 { PATH_ASK,
			   { "digest", WEB_IN_BODY, WEB_HEX, true, 0, HASH_HEX_LEN, NULL },
			   { "decision", WEB_IN_BODY, WEB_WORD, true, 0, 0, verdict_words },
			   { "scope", WEB_IN_BODY, WEB_WORD, false, 0, 0, scope_words },
			   { "seconds", WEB_IN_BODY, WEB_NUM, false, 1, 366ull * 86400, NULL },
			   { "uses", WEB_IN_BODY, WEB_NUM, false, 1, 1000000, NULL },
			   { "reason", WEB_IN_BODY, WEB_LINE, false, 0, 255, NULL } } },
	[WEB_REVOKE] = { "ask.revoke", "POST", "/v1/asks/{}/revoke", WEB_APPROVER, 200, true, { PATH_ASK } },
	[WEB_EGRESS] = { "egress",
			 "GET",
			 "/v1/egress",
			 WEB_OBSERVER,
			 200,
			 false,
			 { OF_REF,
			   { "decision", WEB_IN_QUERY, WEB_WORD, false, 0, 0, decision_words },
			   { "host", WEB_IN_QUERY, WEB_LINE, false, 1, 255, NULL },
			   SINCE,
			   BEFORE,
			   AFTER,
			   { "limit", WEB_IN_QUERY, WEB_NUM, false, 1, 10000, NULL } } },
	[WEB_SERIES] = { "series",
			 "GET",
			 "/v1/series",
			 WEB_OBSERVER,
			 200,
			 false,
			 { OF_REF, SINCE, { "buckets", WEB_IN_QUERY, WEB_NUM, false, 1, 500, NULL } } },
	[WEB_AUDIT] = { "audit",
			"GET",
			"/v1/audit",
			WEB_OBSERVER,
			200,
			false,
			{ OF_REF,
			  { "type", WEB_IN_QUERY, WEB_TOKEN, false, 1, 64, NULL },
			  SINCE,
			  BEFORE,
			  { "within", WEB_IN_QUERY, WEB_NUM, false, 1, 1000000, NULL },
			  AFTER,
			  LIMIT } },
	[WEB_VERIFY] = { "audit.verify", "GET", "/v1/audit/verify", WEB_OBSERVER, 200, false, { { NULL } } },
	[WEB_EVENTS] = { "events",
			 "GET",
			 "/v1/events",
			 WEB_OBSERVER,
			 200,
			 false,
			 { { "Last-Event-ID", WEB_IN_HEADER, WEB_NUM, false, 0, SEQ_MAX, NULL },
			   AFTER,
			   { "sandbox", WEB_IN_QUERY, WEB_HEX, false, 0, 12, NULL },
			   { "type", WEB_IN_QUERY, WEB_TOKEN, false, 1, 128, NULL } } },
	[WEB_METRICS] = { "metrics", "GET", "/v1/metrics", WEB_OBSERVER, 200, false, { { NULL } } },
	[WEB_SECRETS] = { "secrets", "GET", "/v1/secrets", WEB_OBSERVER, 200, false, { { NULL } } },
	[WEB_GATEWAY] = { "gateway", "GET", "/v1/gateway", WEB_OBSERVER, 200, false, { { NULL } } },
	[WEB_OPENAPI] = { "openapi", "GET", "/v1/openapi.yaml", WEB_NOBODY, 200, false, { { NULL } } },
	[WEB_BACKLOG] = { "backlog", NULL, "", WEB_OBSERVER, 200, false, { AFTER, LIMIT } },
};
static_assert(ARRAY_SIZE(web_routes) == WEB_OP_COUNT, "a row for each");

const struct web_route *web_route(enum web_op op)
{
	return &web_routes[op];
}

unsigned web_route_fields(const struct web_route *r)
{
	unsigned n = 0;

	while (n < WEBP_FIELDS && r->fields[n].name)
		n++;
	return n;
}
