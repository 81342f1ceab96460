/* SPDX-License-Identifier: Apache-2.0 */
/* What http_secret.c, http_secret_down.c and http_capture.c share. */
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

/* One for the process. What servers issue is added to `grants`; the place of one that is gone is empty (no placeholder, no
 * binding) until another takes it: exchanges name grants by their number. */
struct http_secrets {
	struct inspect *in;
	struct vault_grants grants;
	uint64_t by_line;
	struct secret_issuer *issuers;
	size_t n_issuers;
	unsigned n_issued;
	struct vaultc vault;
};

/* One for each exchange that has a placeholder, or whose answer is held. */
struct exch_secret {
	struct exch *e;
	struct inject_plan plan;
	bool is_old; /* the list that it was planned by is another one now (S5) */
	struct vaultc_request ask;
	struct defer use; /* S2 */
	unsigned n_values;
	struct buf value[INJECT_MAX];
	bool is_rendered;
	struct inject_out out;
	struct buf asked_body; /* as it came, while `up` has the rendered one */
	bool has_body;
	uint64_t length;
	bool scrubs;
	struct scrub_set set;
	struct scrub down;
	struct scrub_ws *ws; /* what comes is frames of a websocket; NULL: a body */
};

/* What answers are searched for: every form of a value, and in its place the placeholder's where that is as long. */
int secret_add_forms(struct scrub_set *set, struct slice value, struct slice placeholder) MUST_CHECK;
int secret_scrub_fields(const struct scrub_set *set, struct http_fields *f) MUST_CHECK;
bool secret_is_encoded(const struct http_fields *f);
void secret_forget_forms(struct exch_secret *x); /* S3 */
/* What was planned with grant `at` is not sent any more; with -1 all that was planned. */
void secret_forget_plans(struct inspect *in, long at);

/* http_capture.c, for the list of the process. */
int capture_read_issuers(struct http_secrets *s, struct err *e) MUST_CHECK;
void capture_drop_expired(struct http_secrets *s);

#endif
