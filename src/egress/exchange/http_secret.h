/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets in exchanges: from a placeholder in a request (inject.h) to the vault's answer (vaultc.h), the head that is sent,
 * and the answer without it (scrub.h).
 *
 *	decided ─▶ secret_check() ─▶ journal ─▶ a connection, verified ─▶ secret_ask() ─▶ journal ─▶ back->begin() ─▶
 *	answer, scrubbed
 *
 * Invariants
 *  S1  The vault is asked only when there is a connection for the request, over TLS, whose certificate was verified for the name
 *      and port that the secret is bound to; what comes is written to that connection and to no other. A second try on another
 *      connection asks again.
 *  S2  A use is in the journal when the request was rendered, and before anything of it is handed to the connection. What
 *      comes to nothing before that (no server, a certificate, a vault that refuses) is no use.
 *  S3  What was rendered is zeroed when the head (and body) is handed to the connection; the forms that answers are searched
 *      for, when the answer is whole or given up. What a connection's own buffers held of it is zeroed as it is sent
 *      and read (io.wipe, buf.wipe, h2_wiping_mem()).
 *  S4  An answer that could not be looked through (it is encoded all the same) is refused.
 *  S5  What was planned is sent by the policy and the list of secrets that it was planned by: when one of them changes, a request
 *      whose secret was not sent yet is refused, and one that was is not tried a second time.
 */
#ifndef EGRESS_HTTP_SECRET_H
#define EGRESS_HTTP_SECRET_H

#include "crypto/hash.h"
#include "egress/credential/inject.h"
#include "egress/exchange/inspect.h"
#include "egress/wire/vaultc.h"

struct http_secrets;

/* What the guard hands over (fds.h). Takes neither. vault_fd -1: the list has only marks. */
int http_secrets_open(struct inspect *in, int grants_fd, int vault_fd, struct err *e) MUST_CHECK;
void http_secrets_close(struct inspect *in);
bool http_secrets_want(const struct inspect *in, const struct host *h, uint16_t port); /* inspect it */
const struct vault_grants *http_secrets_grants(const struct inspect *in);	       /* NULL: none */

/* True: go on. False: it was refused, or its body is waited for. */
bool secret_check(struct exch *e);
/* Is a placeholder in its head that is not this sandbox's? Then it was refused. Before anybody is asked about it. */
bool secret_is_stale(struct exch *e);
void secret_body(struct exch *e); /* more of the body that secret_check() waits for, or its end */
bool secret_is_planned(const struct exch *e);
bool secret_has(const struct exch *e, const char *name);
/* May what was planned be sent to this path of the same host as well? */
bool secret_covers(const struct exch *e, struct slice path);
void secret_refuse(struct exch *e, const char *why); /* 403, and an alert */
void secret_cut(
	struct exch *e); /* the same once it may be on its way: its body has a placeholder (http_watch.h) */
/* Which secrets it will carry: the same for the same ones, all zero for none. */
void secret_digest(const struct exch *e, unsigned char out[HASH_LEN]);
void secret_names(const struct exch *e, struct buf *out); /* for the journal */
unsigned secret_count(const struct exch *e);
/* Of its use, or of its being issued, for the ledger. */
uint64_t secret_key(const struct exch *e, enum ledger_kind kind, const char *name);

/* For a back that has e: begin() is called later, or e is refused. */
void secret_ask(struct exch *e);
/* What is to be sent: rendered, or as it was decided. */
const struct buf *secret_target(const struct exch *e);
const struct http_fields *secret_fields(const struct exch *e);
uint64_t secret_length(const struct exch *e);
size_t secret_body_len(const struct exch *e); /* bytes of a body that are kept beside the rendered one */

/* The answer. */
bool secret_head(struct exch *e); /* false: it cannot be let through (e->over_why) */
int secret_put_down(struct exch *e, const void *data, size_t len) MUST_CHECK;
int secret_end_down(struct exch *e) MUST_CHECK;
size_t secret_held(const struct exch *e);
bool secret_scrubs(const struct exch *e);

void secret_wipe(struct exch *e); /* S3; what was planned stays, for another try */
void secret_free(struct exch *e);

#endif
