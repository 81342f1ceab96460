/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vault's side of one sandbox: what it was granted, what servers issued to it, and the channel over which its
 * coffer-egress asks. Everything that comes over it is hostile.
 *
 * Invariants
 *  R1  A secret leaves only for a handle of this very channel, to a host, port and path that both the grant and the
 *      secret's own bindings cover, at that moment: what was unbound, removed or has expired since is refused.
 *  R2  One message that breaks the protocol ends the channel, and with it all that was granted over it.
 *  R3  A client costs bounded memory and time: so many requests in a second, so many issued credentials, one answer that waits.
 *  R4  What servers issued stays when the channel ends by itself, for the sandbox's next one: an egress that was started again
 *      finds it. It goes with the grant (VAULT_UNGRANT), with its holder, with a channel that broke the protocol, and with the process;
 *      what is in a file of the grant's (keep.h) comes back with the next grant that has it.
 */
#ifndef VAULT_GRANT_H
#define VAULT_GRANT_H

#include "vault/serve/keep.h"
#include "vault/serve/store.h"

#define GRANT_CLIENTS_MAX 256
#define GRANT_RATE 2000	 /* requests in a second */
#define GRANT_BURST 4000 /* at once */

struct client {
	int fd; /* -1: nobody asks; kept for what was issued (R4) */
	char sandbox[VAULT_NAME_MAX + 1];
	struct vault_grants grants; /* secrets and issuers */
	bool unbound[GRANTS_MAX]; /* the same order: its secret was bound nowhere, and the grant says where */
	struct issued_list issued;
	struct keep *keep;     /* NULL: there is no file for them */
	struct secmem pending; /* an answer that the kernel would not take yet */
	double tokens;
	uint64_t tokens_at; /* ns, monotonic */
};

/* What is asked for against what there is. On success the client has its grants; the channel is the caller's. One that has
 * expired is granted all the same and not rendered: it may get a new date, and must not take the others with it. */
int client_grant(struct client *c, const struct store *s, const struct vault_grants *ask, uint32_t *handles,
		 enum vault_fault *ret_fault, struct err *e) MUST_CHECK;
void client_release(struct client *c); /* what waits to be kept is saved first */

/* Its channel has ended. False: there is nothing that is worth keeping. */
bool client_park(struct client *c);
/* What was issued to `old`, the same sandbox's, is c's from now on. */
void client_inherit(struct client *c, struct client *old, uint64_t now);
/* All that is granted, what was issued too; the caller releases it. */
int client_grants(const struct client *c, struct vault_grants *ret) MUST_CHECK;

/* One message of its, with its answer packed into *ret. -EPROTO: the channel must end. `now` in seconds, for expiry; `mono` in
 * nanoseconds. */
int client_take(struct client *c, const struct store *s, const void *data, size_t len, unsigned n_fds,
		uint32_t *handles, uint64_t now, uint64_t mono, struct secmem *ret) MUST_CHECK;

#endif
