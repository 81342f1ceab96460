/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets in exchanges: from a placeholder in a request (inject.h) to the vault's reply (vaultc.h), the head
 * that is sent, and the response without the secret (scrub.h).
 *
 *	judged ─▶ secret_check() ─▶ journal ─▶ a verified connection ─▶ secret_fetch() ─▶ journal ─▶ back->begin() ─▶
 *	response, scrubbed
 *
 * Invariants
 *  S1  The vault is contacted only when there is a connection for the request, over TLS, whose certificate
 *      was verified for the name and port that the secret is bound to; the secret is written to that
 *      connection and to no other. A retry over another connection fetches it again.
 *  S2  A use is in the journal after the request was rendered and before anything of it is handed to the
 *      connection. A failure before that (no server, a bad certificate, a vault that refuses) is not a use.
 *  S3  Rendered bytes are zeroed when head and body are handed to the connection; the forms that responses
 *      are searched for, when the response is complete or given up. The connection's own buffers are zeroed
 *      as they are sent and read (io.wipe, buf.wipe, h2_session_new() with wipe).
 *  S4  A response that could not be searched (one that is encoded nevertheless) is refused.
 *  S5  A plan is valid under the policy and the list of secrets that it was made with: when one of them
 *      changes, a request whose secret was not sent yet is refused, and one whose secret was sent is not
 *      retried.
 */
#ifndef EGRESS_HTTP_SECRET_H
#define EGRESS_HTTP_SECRET_H

#include "crypto/hash.h"
#include "egress/credential/inject.h"
#include "egress/exchange/inspect.h"
#include "egress/wire/vaultc.h"

struct http_secrets;

/*
 * The list and channel from the guard (fds.h). Takes neither descriptor. vault_fd -1: the list has only
 * marks.
 */
int http_secrets_open(struct inspect *in, int grants_fd, int vault_fd, struct err *e) MUST_CHECK;
void http_secrets_close(struct inspect *in);
bool http_secrets_want(const struct inspect *in, const struct host *h, uint16_t port); /* must be inspected */
const struct vault_grants *http_secrets_grants(const struct inspect *in);	       /* NULL: none */

/* True: continue. False: it was refused, or waits for its body. */
bool secret_check(struct exch *e);
/*
 * Does its head have a placeholder of another sandbox? Then it was refused. Checked before a person is asked.
 */
bool secret_is_stale(struct exch *e);
void secret_body(struct exch *e); /* more of the body that secret_check() waits for, or its end */
bool secret_is_planned(const struct exch *e);
bool secret_has(const struct exch *e, const char *name);
/* May the planned secrets be sent to this path of the same host as well? */
bool secret_covers(const struct exch *e, struct slice path);
void secret_refuse(struct exch *e, const char *why); /* 403, and an alert */
void secret_cut(
	struct exch *
		e); /* the same for a request that is being sent: its body has a placeholder (http_watch.h) */
/* Identifies the set of secrets it will carry; all zero for none. */
void secret_digest(const struct exch *e, unsigned char out[HASH_LEN]);
void secret_names(const struct exch *e, struct buf *out); /* for the journal */
unsigned secret_count(const struct exch *e);
/* Key of a use, or of an issued credential, for the ledger. */
uint64_t secret_key(const struct exch *e, enum ledger_kind kind, const char *name);

/* For a back that has e: begin() is called later, or e is refused. */
void secret_fetch(struct exch *e);
/* The parts to send: rendered, or as judged. */
const struct buf *secret_target(const struct exch *e);
const struct http_fields *secret_fields(const struct exch *e);
uint64_t secret_length(const struct exch *e);
size_t
secret_body_len(const struct exch *e); /* bytes of the original body that are kept beside the rendered one */

/* The response. */
bool secret_head(struct exch *e); /* false: it must not be passed on (e->over_why) */
int secret_put_down(struct exch *e, const void *data, size_t len) MUST_CHECK;
int secret_end_down(struct exch *e) MUST_CHECK;
size_t secret_held(const struct exch *e);
bool secret_scrubs(const struct exch *e);

void secret_wipe(struct exch *e); /* S3; the plan stays, for a retry */
void secret_free(struct exch *e);

#endif
