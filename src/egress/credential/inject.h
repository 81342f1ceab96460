/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placeholders in a request: which there are, whether each may be rendered where it stands, and the request with the
 * secrets in their place. Pure.
 *
 * Invariants
 *  J1  A placeholder is rendered only on a connection with TLS to a host, port and path that its grant is bound to, in the
 *      place (header, Basic, query, path, cookie, body) that the binding names, and where the policy names no other
 *      secret. One that stands anywhere else in a head refuses the request.
 *  J2  The request that was decided and is logged is not touched: what is rendered is a copy.
 *  J3  What is put in cannot change the form of the request: in a path and query it is percent-encoded, in JSON escaped;
 *      a value that a header cannot carry is refused.
 */
#ifndef EGRESS_INJECT_H
#define EGRESS_INJECT_H

#include "egress/message/http_msg.h"
#include "vault/common/grants.h"

#define INJECT_MAX 8 /* secrets in one request */
#define INJECT_WHY_MAX 512

/* Where a request goes. */
struct inject_dest {
	const char *host; /* canonical */
	uint16_t port;
	bool tls;
	const char *rule_secret; /* that the rule names; NULL: none */
	uint64_t by_line;	 /* bit i: grant i does not need a rule that names it */
};

struct inject_plan {
	unsigned n;
	unsigned grant[INJECT_MAX]; /* index */
	bool in_body;
};

struct inject_refusal {
	const struct vault_grant *grant;
	char why[INJECT_WHY_MAX];
};

/*
 * All placeholders of the head, and of the body where that is given (and bound so). 0, or -EACCES and *no is filled in.
 * What is not bound as `body` is not looked for there.
 */
int inject_find(const struct vault_grants *g, const struct inject_dest *d, const struct http_req *q,
		struct slice body, struct inject_plan *ret, struct inject_refusal *no) MUST_CHECK;

/* Why this one refuses a request that has it in such a place ("the body"). */
void inject_refuse(const struct vault_grant *g, const struct inject_dest *d, const struct http_req *q,
		   const char *where, struct inject_refusal *no);

/* May the body hold one that would be rendered there? */
bool inject_wants_body(const struct vault_grants *g, const struct inject_dest *d, const struct http_req *q);

/* Is any secret bound to this? */
bool inject_is_bound(const struct vault_grants *g, const char *host, uint16_t port);

/* The request with value[i] in the place of plan->grant[i]'s placeholder. -EINVAL: it cannot stand there; -E2BIG, -ENOMEM. */
struct inject_out {
	struct buf target;
	struct http_fields fields;
	struct buf body; /* when plan->in_body */
};
int inject_render(const struct vault_grants *g, const struct inject_dest *d, const struct http_req *q,
		  struct slice body, const struct inject_plan *plan, const struct slice *value,
		  struct inject_out *out) MUST_CHECK;
void inject_out_release(struct inject_out *out);

/* Is a field's, or a query parameter's, credential a placeholder and nothing else? For `credentials: only`. */
bool inject_is_ours(const struct vault_grants *g, struct slice name, struct slice value);
bool inject_is_ours_param(const struct vault_grants *g, struct slice value);

#endif
