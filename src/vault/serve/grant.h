/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vault's side of one sandbox: its grants, the credentials that servers issued to it, and the channel of its
 * coffer-egress. Everything that comes over the channel is hostile.
 *
 * Invariants
 *  R1  A secret leaves only for a handle of this very channel, to a host, port and path that both the grant and the
 *      secret's own bindings cover at that moment: one that was unbound, removed or has expired since is refused.
 *  R2  One message that breaks the protocol ends the channel, and with it all grants of the channel.
 *  R3  A client costs bounded memory and time: a limited rate of requests, a limited number of issued credentials, one pending
 *      response.
 *  R4  Issued credentials survive the normal end of the channel, for the next channel of the sandbox: a restarted egress
 *      finds them. They are dropped with the grant (VAULT_UNGRANT), with its holder, with a channel that broke the protocol, and
 *      with the process; those in the grant's file (keep.h) come back with the next grant that names the file.
 */
#ifndef VAULT_GRANT_H
#define VAULT_GRANT_H

#include "vault/serve/keep.h"
#include "vault/serve/store.h"

#define GRANT_CLIENTS_MAX 256
#define GRANT_RATE 2000	 /* requests per second */
#define GRANT_BURST 4000 /* at once */

struct client {
	int fd; /* -1: no client; kept for the issued credentials (R4) */
	char sandbox[VAULT_NAME_MAX + 1];
	struct vault_grants grants; /* secrets and issuers */
	bool unbound
		[GRANTS_MAX]; /* in the same order: the secret had no binding, so the grant's own decide */
	struct issued_list issued;
	struct keep *keep;     /* NULL: no file for them */
	struct secmem pending; /* a response that the socket did not accept yet */
	double tokens;
	uint64_t tokens_at; /* ns, monotonic */
};

/* Grants what `ask` requests. On success the client has its grants; the channel belongs to the caller. An
 * expired secret is granted, too, but not rendered: it may get a new date, and must not make the other grants
 * fail. */
int client_grant(struct client *c, const struct store *s, const struct vault_grants *ask, uint32_t *handles,
		 enum vault_fault *ret_fault, struct err *e) MUST_CHECK;
void client_release(struct client *c); /* saves pending changes of issued credentials first */

/* The channel has ended. False: nothing is worth keeping. */
bool client_park(struct client *c);
/* Moves the credentials issued to `old`, of the same sandbox, to c. Pending changes of old's file are saved
 * before, with the whole list; only then may c load the file, because it must know its newest save (keep.K1).
 * Returns how many were moved. */
size_t client_inherit(struct client *c, struct client *old, uint64_t now);
/* c is not to be used after all: `old` gets the n credentials that c inherited, and has all that it had. */
void client_give_back(struct client *c, struct client *old, size_t n);
/* All grants, issued credentials included; the caller releases them. */
int client_grants(const struct client *c, struct vault_grants *ret) MUST_CHECK;

/* Handles one message of the client and packs the response into *ret. -EPROTO: the channel must end. `now` in
 * seconds, for expiry; `mono` in nanoseconds. */
int client_handle_message(struct client *c, const struct store *s, const void *data, size_t len,
			  unsigned n_fds, uint32_t *handles, uint64_t now, uint64_t mono,
			  struct secmem *ret) MUST_CHECK;

#endif
