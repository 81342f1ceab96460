/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placeholders in a request: finds them, checks whether each may be rendered where it is, and renders a copy
 * of the request with the secrets in their place. Pure.
 *
 * Invariants
 *  J1  A placeholder is rendered only on a TLS connection to a host, port and path that its grant is bound
 *      to, in the place (header, Basic, query, path, cookie, body) that the binding names, and where the
 *      policy names no other secret. A placeholder anywhere else in a head refuses the request.
 *  J2  The request that was judged and is logged is not modified: rendering makes a copy.
 *  J3  A secret cannot change the form of the request: in a path and query it is percent-encoded, in JSON
 *      escaped; a value that a header cannot carry is refused.
 */
#ifndef EGRESS_INJECT_H
#define EGRESS_INJECT_H

#include "egress/message/http_msg.h"
#include "vault/common/grants.h"

#define INJECT_MAX 8 /* secrets in one request */
#define INJECT_WHY_MAX 512

/* The destination of a request. */
struct inject_dest {
	const char *host; /* canonical */
	uint16_t port;
	bool tls;
	const char *rule_secret; /* the secret that the rule names; NULL: none */
	uint64_t by_line;	 /* bit i: grant i needs no rule that names it */
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
 * Finds all placeholders of the head, and of the body where one is given; in the body only those bound to be
 * sent there. 0, or -EACCES and *no is filled in.
 */
int inject_find(const struct vault_grants *g, const struct inject_dest *d, const struct http_req *q,
		struct slice body, struct inject_plan *ret, struct inject_refusal *no) MUST_CHECK;

/* Explains why this placeholder refuses a request that has it in such a place ("the body"). */
void inject_refuse(const struct vault_grant *g, const struct inject_dest *d, const struct http_req *q,
		   const char *where, struct inject_refusal *no);

/* May the body hold a placeholder that would be rendered there? */
bool inject_wants_body(const struct vault_grants *g, const struct inject_dest *d, const struct http_req *q);

/* Is any secret bound to this destination? */
bool inject_is_bound(const struct vault_grants *g, const char *host, uint16_t port);

/*
 * The request with value[i] in place of plan->grant[i]'s placeholder. -EINVAL: the value is not allowed
 * there; -E2BIG, -ENOMEM.
 */
struct inject_out {
	struct buf target;
	struct http_fields fields;
	struct buf body; /* when plan->in_body */
};
int inject_render(const struct vault_grants *g, const struct inject_dest *d, const struct http_req *q,
		  struct slice body, const struct inject_plan *plan, const struct slice *value,
		  struct inject_out *out) MUST_CHECK;
void inject_out_release(struct inject_out *out);

/*
 * Is the credential of a field, or of a query parameter, a placeholder and nothing else? For `credentials:
 * only`.
 */
bool inject_is_ours(const struct vault_grants *g, struct slice name, struct slice value);
bool inject_is_ours_param(const struct vault_grants *g, struct slice value);

#endif
