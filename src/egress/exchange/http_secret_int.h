/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by http_secret.c, http_secret_list.c, http_secret_down.c, http_watch.c and http_capture.c. */
#ifndef EGRESS_HTTP_SECRET_INT_H
#define EGRESS_HTTP_SECRET_INT_H

#include "egress/credential/scrub.h"
#include "egress/credential/scrub_ws.h"
#include "egress/exchange/http_secret.h"

/* An endpoint that issues credentials, read from its grant. */
struct secret_issuer {
	unsigned at; /* in grants */
	struct issue spec;
};

/*
 * One for the process. Credentials that servers issue are added to `grants`; the place of a dropped one stays
 * empty (no placeholder, no binding) until it is reused: exchanges refer to grants by index.
 */
struct http_secrets {
	struct inspect *in;
	struct vault_grants grants;
	uint64_t by_line;
	struct secret_issuer *issuers;
	size_t n_issuers;
	unsigned n_issued;
	struct vaultc vault;
};

/* One for each exchange that has a placeholder, or whose response is held. */
struct exch_secret {
	struct exch *e;
	struct inject_plan plan;
	bool is_old; /* the list it was planned with has been replaced (http_secret.S5) */
	struct vaultc_request fetch;
	struct defer use; /* http_secret.S2 */
	unsigned n_values;
	struct buf value[INJECT_MAX];
	bool is_rendered;
	struct inject_out out;
	struct buf original_body; /* while `up` has the rendered one */
	bool has_body;
	uint64_t length;
	bool scrubs;
	struct scrub_set set;
	struct scrub down;
	struct scrub_ws *ws; /* the response is websocket frames; NULL: a body */
};

/*
 * Adds every form of a value to the search set; a hit is replaced by the placeholder in the same form where
 * that is as long.
 */
int secret_add_forms(struct scrub_set *set, struct slice value, struct slice placeholder) MUST_CHECK;
int secret_scrub_fields(const struct scrub_set *set, struct http_fields *f) MUST_CHECK;
bool secret_is_encoded(const struct http_fields *f);
void secret_forget_forms(struct exch_secret *x); /* http_secret.S3 */
/* Invalidates every plan that uses grant `at`; with -1 all plans. */
void secret_forget_plans(struct inspect *in, long at);

/* http_capture.c, for the list of the process. */
int capture_read_issuers(struct http_secrets *s, struct err *e) MUST_CHECK;
void capture_drop_expired(struct http_secrets *s);

#endif
